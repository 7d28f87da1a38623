import logging
import subprocess
import sys

import pytest

import nearkin as nk

TEXTS = ["one two three four", "one two three four", "five six seven eight"]


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_the_library_logs_stages_and_their_durations(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nearkin"):
        nk.dedup(TEXTS)
    messages = [record.getMessage() for record in caplog.records if record.name == "nearkin.run"]
    begun = [text.split()[1] for text in messages if "begins" in text]
    ended = [text.split()[1] for text in messages if "ended after" in text]
    assert begun == ended
    assert "sketch" in begun


def test_progress_of_the_caller_replaces_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Stages:
        def __init__(self) -> None:
            self.names: list[str] = []
            self.closed = 0

        def stage(self, name: str, total: int | None = None) -> None:
            self.names.append(name)

        def advance(self, count: int) -> None:
            pass

        def close(self) -> None:
            self.closed += 1

    stages = Stages()
    with caplog.at_level(logging.INFO, "nearkin"):
        nk.dedup(TEXTS, progress=stages)
    assert "sketch" in stages.names
    assert stages.closed == 1
    assert not [record for record in caplog.records if record.name == "nearkin.run"]


def test_nothing_is_printed_unless_the_program_configures_logging() -> None:
    done = run(
        "import logging, nearkin as nk\n"
        "nk.dedup([' '.join(map(str, range(100)))] * 2)\n"
        "logging.getLogger('nearkin').warning('a record')\n"
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_warnings_of_a_run_are_never_silent() -> None:
    program = "nk.dedup([f'title {n}' for n in range(10)])\n"
    plain = run(f"import nearkin as nk\n{program}")
    assert "UserWarning" in plain.stderr
    assert "shingle" in plain.stderr
    logged = run(f"import logging, nearkin as nk\nlogging.basicConfig()\n{program}")
    assert "WARNING:nearkin:" in logged.stderr
    assert "UserWarning" not in logged.stderr
