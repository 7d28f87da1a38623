"""The ranges of options that are numbers, for each such option of each command."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearkin.cli import app
from nearkin.quality.lab.experiment import SIZES
from nearkin.quality.lab.synth import MOST_COPIES
from nearkin.quality.plan.workload import Workload
from nearkin.runtime.number_range import NumberRange
from nearkin.settings.spec import FORMAT_VERSIONS, MAX_DIMENSIONS
from tests.cli.conftest import run
from tests.cli.test_contradictions import COMMANDS, FACTS, line_of

NUMBERS = [
    (name, parameter.name)
    for name, options in COMMANDS.items()
    for parameter in options.values()
    if parameter.param_type_name == "option"
    and parameter.type_descriptor.annotation in (int, float)
    and not parameter.count
]
VALUES = ("0", "-1", "nan", "1e99", "")
TEXTS = [
    ("dedup", "--memory"),
    ("lab sketch", "--memory"),
    ("index build", "--memory"),
    ("plan", "--memory"),
    ("plan", "--disk"),
    ("plan", "--signature-ram"),
    ("plan", "--input-bytes"),
    ("plan", "--docs"),
    ("plan", "--time"),
    ("plan", "--ingest"),
    ("audit", "--budget"),
    ("tune", "--tables"),
    ("tune", "--probes"),
    ("tune", "--at-most"),
    ("index expire", "--record-ttl"),
    ("index expire", "--bucket-ttl"),
    ("stream", "--idle"),
    ("server token create", "--rate"),
    ("lab synth", "--length"),
    ("lab synth", "--similarity"),
    ("lab synth", "--edits"),
    ("dedup", "--second-measure"),
]
"""Options that are numbers with a unit, or several numbers."""


def range_of(name: str, number: str) -> NumberRange:
    """Returns the range of an option of a command, which every number has."""
    limits = FACTS[name]["settings"][number].range
    assert isinstance(limits, NumberRange), f"--{number} of nearkin {name} has no range"
    return limits


def test_ranges_are_those_of_the_library() -> None:
    assert range_of("plan", "dimensions").most == MAX_DIMENSIONS
    assert range_of("lab synth", "copies").most == MOST_COPIES
    assert range_of("lab bands", "largest").least == SIZES[0]
    versions = range_of("dedup", "spec_version")
    assert (versions.least, versions.most) == (FORMAT_VERSIONS[0], FORMAT_VERSIONS[-1])


@pytest.mark.parametrize(("name", "number"), NUMBERS)
def test_number_out_of_range_is_refused_before_anything_is_read_or_written(
    name: str,
    number: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    parameter: Any = COMMANDS[name][number]
    kind = parameter.type_descriptor.annotation
    flag = max(parameter.opts, key=len)
    limits = range_of(name, number)
    for text in VALUES:
        try:
            value = kind(text)
        except ValueError:
            expected = f"{flag} {text!r} is not a"
        else:
            if limits.contains(value):
                continue
            expected = f"{flag} {value} is out of range; it must be {limits}"
        assert run(*line_of(name), f"{flag}={text}") == app.USAGE
        message = capsys.readouterr().err
        assert expected in message
        assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["nan", "-1", "1e99", ""])
@pytest.mark.parametrize(("name", "flag"), TEXTS)
def test_number_with_a_unit_that_cannot_be_read_is_named(
    name: str,
    flag: str,
    text: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    assert run(*LINES[name], f"{flag}={text}") == app.USAGE
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert text in message.replace("1e+99", "1e99")
    assert text in message.replace("1e+99", "1e99")
    assert any(advice in message for advice in ("like", "form", "it must be", "write it", "give"))
    assert sorted(files.iterdir()) == before


LINES = {
    "dedup": ["dedup", "in.jsonl", "--out", "out"],
    "lab sketch": ["lab", "sketch", "in.jsonl", "--out", "out.arrow"],
    "index build": ["index", "build", "in.jsonl", "--store", "memory://"],
    "plan": ["plan", "--docs", "1M"],
    "audit": ["audit", "run"],
    "tune": ["tune"],
    "index expire": ["index", "expire", "--store", "memory://"],
    "stream": ["stream", "redis://127.0.0.1:1/0?stream=x", "--store", "memory://"],
    "server token create": ["server", "token", "create", "me"],
    "lab synth": ["lab", "synth", "--documents", "4", "--out", "out"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of one document."""
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "in.jsonl").write_text(json.dumps({"text": "one short text"}) + "\n")
    return folder


def test_threshold_of_a_workload_is_a_share() -> None:
    for threshold in (0.0, -1.0, 1e99):
        with pytest.raises(app.UsageError, match=r"threshold=.* is out of range; it must be above"):
            Workload(1000, threshold)
