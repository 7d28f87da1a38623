"""Tests of the profiles of workloads."""

import sys
import threading
from pathlib import Path

import pytest

from benchmarks.profiles import (
    WORKLOADS,
    StageProfile,
    WorkloadProfile,
    name_of_function,
    profile_in_new_process,
    write_inputs,
)


def test_profile_has_the_stages_of_a_run_and_their_functions() -> None:
    profile = profile_in_new_process("100 documents", documents=200)
    stages = {stage.name: stage for stage in profile.stages}
    assert list(stages) == ["start", "sketch", "collapse", "verify", "write"]
    assert 0 < profile.cpu == sum(stage.cpu for stage in profile.stages)
    # The kernels take far longer to load than 100 documents take.
    assert stages["start"].cpu > stages["write"].cpu
    assert stages["start"].samples
    assert 0.05 < profile.megabytes < 0.5


def test_table_states_milliseconds_per_megabyte_and_shares() -> None:
    stages = [
        StageProfile("sketch", cpu=0.5, samples={"a.b": 3, "c.d": 1}),
        StageProfile("english", cpu=0.1, megabytes=20.0),
    ]
    lines = WorkloadProfile("pairs", 100.0, stages).to_markdown().splitlines()
    assert lines[0] == "## pairs: 0.60 CPU s, 100.0 MB"
    assert lines[-2:] == [
        "| sketch | 0.500 | 5.00 | a.b 75%, c.d 25% |",
        "| english | 0.100 | 5.00 |  |",
    ]


def test_functions_of_nearkin_are_named_and_waiting_threads_are_not() -> None:
    assert name_of_function(sys._getframe()) == ""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    assert thread.ident is not None
    assert name_of_function(sys._current_frames()[thread.ident]) == ""
    ended.set()
    thread.join()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder, 100)
    return folder


def test_inputs_of_every_workload_are_written(inputs: Path) -> None:
    for workload in WORKLOADS.values():
        assert (inputs / workload.texts).exists()
    assert (inputs / "docs.jsonl.zst").stat().st_size > 1000
