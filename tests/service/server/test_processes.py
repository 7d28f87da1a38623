"""`nearkin serve` as a process."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import httpx2
import pytest

from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.service.server.processes import bind_sockets
from nearkin.service.server.settings import ServerSettings
from nearkin.settings.keys import HashKey
from nearkin.stages.sketch.resources import SpecResources
from tests.service.server.serving import LINE, server
from tests.services import free_port, wait_until


def text(i: int) -> str:
    return (
        f"document {i} has a text of its own with the number {i * 7919} in it and some words more"
    )


def test_shutdown_waits_for_accepted_documents(tmp_path: Path) -> None:
    """All answered documents are stored after SIGTERM under load."""
    answered: list[str] = []
    with server(tmp_path) as (url, process):

        def send_documents(part: int) -> None:
            with httpx2.Client(timeout=300) as client:
                for i in range(part, 100_000, 8):
                    try:
                        answer = client.post(
                            f"{url}/v1/scopes/a/documents", json={"id": str(i), "text": text(i)}
                        )
                    except httpx2.TransportError:
                        return
                    if answer.status_code == 200:
                        answered.append(str(i))
                    else:
                        assert answer.status_code == 503

        threads = [threading.Thread(target=send_documents, args=(part,)) for part in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(answered) >= 100, "100 documents are answered")
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(300)
        assert process.wait(300) in (0, -signal.SIGTERM)
    with Index.open(
        f"sqlite:///{tmp_path}/nearkin.db",
        resources=SpecResources(HashKey.read(str(tmp_path / "nearkin.key"))),
    ) as index:
        assert [name for name in answered if index.get("a", name) is None] == []
        assert check_index(index).sound


def test_workers_share_a_store_and_their_metrics(tmp_path: Path) -> None:
    # each request has a connection of its own, which either worker may accept
    limits = httpx2.Limits(max_keepalive_connections=0)
    with (
        server(tmp_path, "--workers", "2") as (url, _),
        httpx2.Client(base_url=url, limits=limits, timeout=300) as client,
    ):
        for i in range(60):
            # the other worker may not be ready yet
            while (
                answer := client.post(
                    "/v1/scopes/a/documents", json={"id": str(i), "text": text(i)}
                )
            ).status_code == 503:
                time.sleep(0.1)
            assert answer.status_code == 200, answer.text
        counted: list[str] = []

        def all_are_counted() -> bool:
            lines = client.get("/metrics").text.splitlines()
            counted[:] = [line for line in lines if line.startswith("nearkin_upserts_total{")]
            return sum(float(line.rsplit(" ", 1)[1]) for line in counted) == 60

        wait_until(all_are_counted, "the metrics of both workers count 60 documents")
        assert all('worker="' in line for line in counted)
        assert {client.get(f"/v1/scopes/a/documents/{i}").status_code for i in range(60)} == {200}


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    """They would keep the port, and answer in place of the next server."""
    with server(tmp_path, "--workers", "2") as (url, process):
        process.kill()
        process.wait(300)
        port = int(url.rpartition(":")[2])

        def is_free() -> bool:
            with socket.socket() as free:
                free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                return free.connect_ex(("127.0.0.1", port)) != 0

        wait_until(is_free, "no worker answers")


@pytest.mark.usefixtures("restored_process")
def test_key_file_is_private_and_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with server(tmp_path) as (url, _):
        httpx2.post(f"{url}/v1/scopes/a/documents", json={"text": text(1)}, timeout=300)
    key = tmp_path / "nearkin.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().strip() not in (tmp_path / "log").read_text()
    key.chmod(0o644)
    monkeypatch.chdir(tmp_path)
    assert run(["serve"]) == 2
    errors = capsys.readouterr().err
    assert "chmod 600" in errors
    assert "Traceback" not in errors


@pytest.mark.usefixtures("restored_process")
@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--port", "x"], 2, "port"),
        (["--host", "0.0.0.0"], 2, "--allow-anonymous"),
        (["--store", "mysql://x"], 2, "mysql"),
        (["--index", "threshold"], 2, "threshold=0.7"),
        (["--index", "thresold=1"], 2, "THRESOLD"),
        (["--config", "none.toml"], 2, "does not exist"),
        (["--golden", "none.jsonl"], 2, "none.jsonl"),
        (["--store", "redis://127.0.0.1:1"], 1, "redis"),
        (["--no-such-flag"], 2, "no-such-flag"),
    ],
)
def test_usage_errors_have_no_traceback(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["serve", *flags]) == code
    errors = capsys.readouterr().err
    assert words in errors
    assert "Traceback" not in errors


def test_help_lists_every_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    assert run(["serve", "--help-all"]) == 0
    words = capsys.readouterr().out.split()
    flags = [name.replace("_", "-") for name in ServerSettings.model_fields]
    assert [flag for flag in flags if not {f"--{flag}", f"--[no-]{flag}"} & set(words)] == []


def test_tokens_are_created_listed_and_revoked_by_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def run_token(*words: str) -> tuple[int, str, str]:
        code = run(["server", "token", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    created = run_token(
        "create", "crawler", "--scopes", "web,team-*", "--rights", "write", "--rate", "10/second"
    )[1]
    assert created.startswith("nk_crawler_")
    assert run_token("list")[1] == "crawler  web,team-*  write  10/second  does not expire\n"
    assert json.loads(run_token("list", "--json")[1])["tokens"][0]["rights"] == ["write"]
    code, _, printed = run_token("create", "crawler")
    assert (code, "revoke" in printed) == (2, True)
    assert run_token("create", "short", "--days", "2")[0] == 0
    assert re.search(r"short .* expires \d{4}-\d\d-\d\d \d\d:\d\d UTC", run_token("list")[1])
    assert run_token("create", "never", "--days", "nan")[0] == 2
    assert [run_token("revoke", "crawler")[0] for _ in range(2)] == [0, 2]


def test_taken_port_is_one_sentence_and_nothing_is_created(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [*LINE, "--port", str(port)], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert f"port {port} of 127.0.0.1 is used by another program" in line
    assert list(tmp_path.iterdir()) == []


def test_host_of_another_machine_is_refused_in_one_sentence() -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(UsageError, match="cannot listen on"):
            bind_sockets(host, 0)


def test_sockets_are_bound_to_all_addresses_of_a_host_with_one_port() -> None:
    sockets = bind_sockets("localhost", 0)
    try:
        assert len({listener.getsockname()[1] for listener in sockets}) == 1
        assert {listener.getsockname()[0] for listener in sockets} <= {"127.0.0.1", "::1"}
    finally:
        for listener in sockets:
            listener.close()


def test_server_on_a_terminal_prints_where_it_is(tmp_path: Path) -> None:
    port = free_port()
    main_end, terminal = os.openpty()
    process = subprocess.Popen(
        [*LINE, "--port", str(port), "--store", "memory://", "--no-console"],
        cwd=tmp_path,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
    )
    try:
        os.close(terminal)
        printed = b""
        while b"access" not in printed:
            printed += os.read(main_end, 4096)
    finally:
        process.terminate()
        process.wait(60)
        os.close(main_end)
    shown = printed.decode()
    assert f"address   http://127.0.0.1:{port}" in shown
    assert f"API docs  http://127.0.0.1:{port}/docs" in shown
    assert "console   not served" in shown
