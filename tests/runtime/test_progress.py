import logging
import subprocess
import sys
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run as run_command
from tests.counted_stages import CountedStages

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


def write_texts(folder: Path, count: int) -> Path:
    """Writes texts of which every fourth is a near-duplicate of the previous one."""
    lines = ["id,text"]
    for number in range(count):
        source = number - (number % 4 == 3)
        words = " ".join(f"word{source * 7 + place}" for place in range(30))
        lines.append(f"{number},{words} ending{number}")
    path = folder / "texts.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["--bands", "30", "--rows", "3"],
        ["--bands", "30", "--rows", "3", "--verify", "estimate"],
        ["--bands", "30", "--rows", "3", "--cluster", "components", "--max-df", "0.5"],
        ["--bands", "30", "--rows", "1", "--hot-bucket-size", "20", "--shingle", "words:1"],
    ],
    ids=["brute force", "exact", "estimate", "components", "hot buckets"],
)
def test_every_stage_has_a_total_and_counts_it(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = CountedStages.replace_displays(monkeypatch)
    texts = write_texts(tmp_path, 400)
    out = tmp_path / "out"
    assert run_command(["dedup", str(texts), "--id", "id", "-o", str(out), *settings]) == 0
    assert {"sketch", "collapse", "verify", "cluster", "write"} <= set(stages.totals)
    assert None not in stages.totals.values()
    assert stages.counted == stages.totals


def test_every_stage_of_pairs_has_a_total_and_counts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = CountedStages.replace_displays(monkeypatch)
    texts = write_texts(tmp_path, 400)
    out = tmp_path / "pairs.csv"
    assert run_command(["pairs", str(texts), "--id", "id", "-o", str(out)]) == 0
    assert stages.totals["write"] == 100
    assert stages.counted == stages.totals
