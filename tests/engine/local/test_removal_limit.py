from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import RunError, UsageError

COPIED = "a text of some words that is copied often"
TABLE = {
    "text": [COPIED] * 4 + ["another text of one source", "quite different words again here"],
    "source": ["web", "web", "web", None, "web", "book"],
}


def test_a_run_that_removes_too_much_of_one_value_is_refused_with_the_cluster() -> None:
    with pytest.raises(RunError) as caught:
        nk.dedup(TABLE, max_removed="source:0.4")
    message = str(caught.value)
    assert "would remove 1 of 1 documents (100%) with source (none)" in message
    assert "'0000000000' removes 1" in message


def test_a_run_that_removes_as_much_as_it_may_is_complete() -> None:
    web_only = {name: [*values[:3], *values[4:]] for name, values in TABLE.items()}
    assert nk.dedup(web_only, max_removed="source:0.5").kept.sum() == 3
    with pytest.raises(
        RunError, match=r"would remove 2 of 4 documents \(50.0%\) with source 'web'"
    ):
        nk.dedup(web_only, max_removed="source:0.49")


def test_empty_inputs_are_within_every_limit() -> None:
    assert nk.dedup({"text": [], "source": []}, max_removed="source:0").kept.tolist() == []


@pytest.mark.parametrize(
    "text", ["source", ":0.5", "source:", "source:1.5", "source:x", "source:nan"]
)
def test_a_limit_that_is_not_valid_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as COLUMN:SHARE"):
        nk.dedup(TABLE, max_removed=text)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UsageError, match="sorce"):
        nk.dedup(TABLE, max_removed="sorce:0.5")


def test_a_refused_command_writes_nothing_and_is_resumed_with_a_higher_limit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "documents.csv"
    rows = [
        f"{text},{source or ''}"
        for text, source in zip(TABLE["text"], TABLE["source"], strict=True)
    ]
    path.write_text("text,source\n" + "\n".join(rows) + "\n")
    out = tmp_path / "out"
    command = ["dedup", str(path), "--out", str(out), "--max-removed"]
    assert run([*command, "source:0.4"]) == 1
    message = capfd.readouterr().err
    assert "allows; nothing was written" in message
    assert message.endswith("or repeat the command with a higher limit and --resume\n")
    assert not out.exists()
    assert run([*command, "source:1", "--resume"]) == 0
    assert out.is_dir()
