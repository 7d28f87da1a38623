"""Tests of the removal of stored documents that are like given ones."""

import json
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.runs.index_purge import purge_index
from tests.engine.reference_oracle import make_texts, share_texts


def list_of(texts: list[str], spec: nk.Spec | None = None) -> nk.Blocklist:
    """The given documents, named by their positions."""
    blocklist = nk.Blocklist(spec)
    blocklist.add(texts, [str(number) for number in range(len(texts))])
    return blocklist


def words_of(text: str) -> set[tuple[str, ...]]:
    """The shingles of three words of a text, as an independent computation."""
    words = text.split()
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))} if words else set()


@pytest.mark.parametrize("store_text", [True, False])
def test_purge_removes_what_brute_force_finds_and_nothing_else(store_text: bool) -> None:
    given = make_texts(31, 40)
    texts = dict(enumerate(share_texts(31, given, 60)))
    fields = {"threshold": 0.6, "store_text": store_text, "member_content": True}
    with nk.Index.open("memory://", **fields) as index:  # type: ignore[arg-type]
        for number, text in texts.items():
            index.upsert("a", text, id=str(number))
            index.upsert("b", text, id=str(number))
        sets = [words_of(text) for text in given]
        is_like = {
            str(number)
            for number, text in texts.items()
            if any(
                len(words_of(text) & other) / len(words_of(text) | other) >= 0.6
                for other in sets
                if words_of(text) | other
            )
        }
        assert 5 < len(is_like) < len(texts) - 5
        trial = purge_index(index, "a", list_of(given), removes=False)
        assert {document.id for document in trial.purged} == is_like
        assert (trial.removed, trial.compared, trial.unknown) == (0, len(texts), 0)
        result = purge_index(index, "a", list_of(given), removes=True)
        assert result.removed == len(is_like)
        kept = {str(number) for number in texts} - is_like
        assert {entry.id for entry in index.scan("a")} == kept
        assert {entry.id for entry in index.scan("b")} == {str(number) for number in texts}
        again = purge_index(index, "a", list_of(given), removes=True)
        assert (again.purged, again.removed) == ((), 0)


def test_documents_without_content_are_counted_and_stay() -> None:
    text = "the minutes of the meeting that was never held in the house at the lake"
    with nk.Index.open("memory://", threshold=0.6, store_text=False) as index:
        index.upsert_many("a", [text, f"{text} now"], ["x", "y"])
        result = purge_index(index, "a", list_of([f"{text} now"]), removes=False)
        assert (result.compared, result.unknown) == (1, 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an index and a file of given documents, which is the current one."""
    monkeypatch.chdir(tmp_path)
    text = "the minutes of the meeting that was never held in the house at the lake"
    with nk.Index.open("sqlite:///kin.db") as index:
        index.upsert_many("web", [text, "something else with several words"], ["x", "y"])
    Path("like.jsonl").write_text(json.dumps({"id": "req-7", "text": text.upper()}) + "\n")
    return tmp_path


COMMAND = ["purge", "sqlite:///kin.db", "--like", "like.jsonl", "--id", "id"]


@pytest.mark.usefixtures("folder")
def test_the_command_shows_first_and_removes_then(capsys: pytest.CaptureFixture[str]) -> None:
    for option, removed in (("--dry-run", 0), ("--yes", 1)):
        assert app.run([*COMMAND, "--scope", "web", option, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        row = {"id": "x", "cluster": "x", "like": "req-7", "similarity": 1.0}
        assert (facts["purged"], facts["removed"]) == ([row], removed)
    assert app.run([*COMMAND, "--scope", "web", "--yes"]) == 0
    assert "removed 0 of 1 documents" in capsys.readouterr().out
    assert app.run([*COMMAND, "--scope", "wed", "--dry-run"]) == 0
    assert "has no documents" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*COMMAND, "--scope", "web"], "exactly one of --dry-run"),
        ([*COMMAND, "--scope", "web", "--dry-run", "--yes"], "exactly one of --dry-run"),
        ([*COMMAND, "--dry-run"], "--scope"),
        (["purge", "kin.db", "--like", "like.jsonl", "--scope", "web", "--yes"], "neither the URL"),
        (
            ["purge", "sqlite:///no.db", "--like", "like.jsonl", "--scope", "web", "--yes"],
            "there is no index",
        ),
        ([*COMMAND, "--scope", "web", "--yes", "--text", "body"], "body"),
    ],
)
def test_requests_that_are_not_valid_remove_nothing(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(arguments) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "no.db").exists()
    with nk.Index.open("sqlite:///kin.db") as index:
        assert {entry.id for entry in index.scan("web")} == {"x", "y"}
