"""Tests of a standalone cluster of Spark with two workers, whose processes are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pyspark
import pytest

from tests.engine.test_executors import documents, read_output, write_parquet
from tests.services import free_port

SECONDS = 120
"""The time that a cluster has to start."""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Starts a master and two workers with a core each, and returns the URL of the master."""
    folder = Path(pyspark.__path__[0])
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    environment = {**os.environ, "SPARK_HOME": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    deploy = "org.apache.spark.deploy"
    lines = [[f"{deploy}.master.Master", "--port", str(port), "--webui-port", "0"]]
    for number in range(2):
        resources = ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
        own = ["--work-dir", str(tmp_path / f"worker-{number}")]
        lines.append([f"{deploy}.worker.Worker", *resources, *own, url])
    log = tmp_path / "cluster.log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        for line in lines:
            command = [str(folder / "bin" / "spark-class"), line[0], "--host", "127.0.0.1"]
            process = subprocess.Popen(
                [*command, *line[1:]], env=environment, stdout=output, stderr=output
            )
            stack.callback(process.kill)
        deadline = time.monotonic() + SECONDS
        while log.read_text().count("Successfully registered with master") < 2:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield url


@pytest.mark.full
def test_killed_workers_of_a_cluster_change_nothing(master: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", documents())
    command = [sys.executable, "-m", "nearkin", "dedup", str(tmp_path / "in"), "--id", "id", "-q"]
    subprocess.run([*command, "--out", str(tmp_path / "threads")], check=True)
    conf = ["--conf", "spark.executor.memory=512m", "--conf", "spark.speculation=true"]
    spark = ["--executor", "spark", "--master", master, *conf]
    line = [*command, *spark, "--out", str(tmp_path / "spark")]
    running = subprocess.Popen(line, env={**os.environ, "PYSPARK_PYTHON": sys.executable})
    killed: set[int] = set()
    while running.poll() is None:
        for process in psutil.process_iter(["cmdline"]):
            is_worker = "pyspark.daemon" in (process.info["cmdline"] or ())
            if is_worker and process.pid not in killed and len(killed) < 4:
                killed.add(process.pid)
                time.sleep(0.5)
                if process.is_running():
                    process.send_signal(signal.SIGKILL)
        time.sleep(0.05)
    assert running.returncode == 0
    assert killed
    assert read_output(tmp_path / "spark") == read_output(tmp_path / "threads")
