"""A server whose disk is full.

It answers with problems, loses no acknowledged document, and serves again when there is room.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.streams.spool import MAX_IN_MEMORY, Segment
from tests.disks import enlarge, fill, small_disk
from tests.services import free_port, start_serving, wait_until

NDJSON = {"Content-Type": "application/x-ndjson"}
MOST = 3000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "4m") as folder:
        yield folder


def text(number: int) -> str:
    return f"document {number} " + " ".join(str(number * 7919 + word) for word in range(150))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_full_disk_keeps_acknowledged_documents(
    disk: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setenv("TMPDIR", str(disk))
    port = free_port()
    process = start_serving(
        disk, port, "--source-rate", "1000000/second", "--workers", str(workers)
    )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            acknowledged = []
            refused: httpx2.Response | None = None
            for number in range(MOST):
                answer = client.post(
                    "/v1/scopes/a/documents", json={"id": str(number), "text": text(number)}
                )
                if answer.status_code == 200:
                    acknowledged.append(number)
                elif answer.json()["code"] != "not-ready":
                    # the second worker may be ready later than the first one
                    refused = answer
                    break
            assert refused is not None
            assert acknowledged, refused.text
            assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
            filling = fill(disk)
            lines = "".join(
                json.dumps({"id": f"line {number}", "text": text(MOST + number)}) + "\n"
                for number in range(300)
            )
            streamed = client.post("/v1/scopes/a/documents", content=lines, headers=NDJSON)
            answers = [json.loads(line) for line in streamed.text.splitlines()]
            acknowledged_lines = [answer["id"] for answer in answers if "problem" not in answer]
            codes = {answer["problem"]["code"] for answer in answers if "problem" in answer}
            assert codes <= {"store-unavailable", "busy"}
            assert codes
            first = f"/v1/scopes/a/documents/{acknowledged[0]}"
            assert client.delete(first).json()["code"] == "store-unavailable"
            assert client.get("/healthz").status_code == 200
            assert client.get("/metrics").status_code == 200
            assert client.get(first).status_code == 200
            filling.unlink()
            enlarge(disk, "40m")

            def is_served() -> bool:
                answer = client.post(
                    "/v1/scopes/a/documents", json={"id": "later", "text": text(2 * MOST)}
                )
                return answer.status_code == 200

            wait_until(is_served, "documents are taken again when there is room")
            for name in (*map(str, acknowledged), *acknowledged_lines):
                assert client.get(f"/v1/scopes/a/documents/{name}").status_code == 200, name
            assert client.delete(first).status_code == 204
    finally:
        process.terminate()
        process.wait(60)
    log = (disk / "log").read_text()
    assert "Traceback" not in log
    assert "internal error" not in log


def test_answers_before_a_full_disk_can_be_read(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    segment = Segment()
    written = b""

    def write_until_full() -> None:
        nonlocal written
        for number in range(MOST):
            part = number.to_bytes(4, "little") * 25_000
            segment.write(part)
            written += part

    with pytest.raises(ProblemError, match="no disk space"):
        write_until_full()
    assert len(written) > MAX_IN_MEMORY
    read = b""
    while part := segment.read(65_536):
        read += part
    assert read == written
    segment.close()


def test_segment_keeps_memory_if_disk_is_full(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    fill(disk)
    segment = Segment()
    segment.write(b"first")
    with pytest.raises(ProblemError, match="no disk space"):
        segment.write(b"x" * (MAX_IN_MEMORY + 1))
    assert segment.read(100) == b"first"
    segment.close()
