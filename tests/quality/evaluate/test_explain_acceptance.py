"""Tests of explanations of documents of a run that removes them under a condition."""

import json
from pathlib import Path

import pytest

from nearkin.cli.app import run

AMOUNT = "please pay the amount of 120 for the delivery of may to the account below in ten days"
DOCUMENTS = {
    "base": AMOUNT,
    "copy": AMOUNT.capitalize() + ".",
    "other": AMOUNT.replace("120", "950"),
    "longer": AMOUNT + " or call our office",
    "north": "the ferries stay in the harbour until friday",
    "south": "The ferries stay in the harbour until friday",
    "dollars": "the fare rises to $5 for all guests",
    "euros": "the fare rises to €5 for all guests",
}
SAFE = "containment >= 0.9 and says_all"


def deduplicate(folder: Path, *options: str) -> Path:
    path = folder / "documents.jsonl"
    rows = ({"id": id, "side": id, "text": text} for id, text in DOCUMENTS.items())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = folder / "out"
    words = ["dedup", str(path), "--id", "id", "--text", "text", "--shingle", "words:1", *options]
    assert run([*words, "--out", str(out), "--quiet"]) == 0
    return out


@pytest.mark.parametrize(
    ("a", "b", "verdict", "why"),
    [
        (
            "base",
            "longer",
            "match",
            f"base could be removed in favour of longer, because {SAFE} holds; longer could not be "
            "removed in favour of base: containment >= 0.9 and says_all do not hold; "
            "both are in the cluster of longer",
        ),
        (
            "other",
            "longer",
            "not accepted",
            "other could not be removed in favour of longer: says_all does not hold; longer could "
            "not be removed in favour of other: containment >= 0.9 and says_all do not hold; both "
            "are kept",
        ),
        (
            "north",
            "south",
            "exact",
            "exact duplicates: both have the same words and symbols in the same order; either "
            f"could be removed in favour of the other, because {SAFE} holds; both are in the "
            "cluster of north",
        ),
        (
            "north",
            "longer",
            "not accepted",
            "neither could be removed in favour of the other: containment >= 0.9 and says_all do "
            "not hold; both are kept",
        ),
        (
            "dollars",
            "euros",
            "not accepted",
            "neither could be removed in favour of the other: says_all does not hold; both are "
            "kept",
        ),
    ],
)
def test_a_condition_is_evaluated_in_both_directions(
    accepted: Path, a: str, b: str, verdict: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", a, b, "--run", str(accepted), "--json"]) == 0
    explained = json.loads(capfd.readouterr().out)
    assert (explained["verdict"], explained["why"], explained["condition"]) == (verdict, why, SAFE)


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a run with the condition SAFE."""
    return deduplicate(tmp_path_factory.mktemp("accepted"), "--accept", "safe")


def test_the_terminal_shows_the_condition_in_place_of_a_threshold(
    accepted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "base", "other", "--run", str(accepted)]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert f"(jaccard), condition {SAFE}" in said
    assert "threshold" not in said


def test_runs_of_words_and_values_of_columns_are_compared(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    condition = "jaccard >= 0.5 and witness >= 15 and same(side)"
    out = deduplicate(tmp_path, "--accept", condition)
    assert run(["explain", "base", "other", "--run", str(out)]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert (
        "neither could be removed in favour of the other: witness >= 15 and same(side) do" in said
    )
    assert run(["explain", "base", "copy", "--run", str(out)]) == 0
    assert ": same(side) does not hold" in " ".join(capfd.readouterr().out.split())


def test_documents_of_a_reference_are_named_as_such(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reference = tmp_path / "reference.jsonl"
    reference.write_text(json.dumps({"id": "old", "text": AMOUNT}) + "\n")
    out = deduplicate(tmp_path, "--accept", "safe", "--against", str(reference))
    assert run(["explain", "copy", "old", "--run", str(out)]) == 2
    assert "'old' is a document of the reference" in capfd.readouterr().err
