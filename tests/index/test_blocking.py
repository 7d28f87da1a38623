"""Tests of an index with a blocklist, over every store."""

import asyncio
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.cli.stream import open_sink
from nearkin.runs.index_purge import purge_index
from nearkin.settings.table import IndexKeySettings
from tests.engine.reference_oracle import make_texts, share_texts

BLOCKED = "the minutes of the meeting that was never held in the house at the lake in may"
OTHER = "a timetable of the boats on the lake which stop at the house in summer months only"
LONG = {"threshold": 0.6}


def list_of(texts: list[str], spec: nk.Spec | None = None) -> nk.Blocklist:
    """A blocklist whose entries are named by their positions."""
    blocklist = nk.Blocklist(spec)
    blocklist.add(texts, [f"entry-{number}" for number in range(len(texts))])
    return blocklist


def test_documents_like_a_blocked_one_are_not_stored(url: str | list[str]) -> None:
    with nk.Index.open(url, blocklist=list_of([BLOCKED]), **LONG) as index:
        texts = [OTHER, f"{BLOCKED} now", f"{OTHER} now", BLOCKED.upper()]
        outcomes = index.upsert_many("a", texts, ["w", "x", "y", "z"])
        assert [outcome.kind for outcome in outcomes] == ["new", "blocked", "match", "blocked"]
        blocked = outcomes[1]
        assert blocked.blocked_by == "entry-0"
        assert blocked.similarity == pytest.approx(15 / 16, abs=0.02)
        assert (blocked.layer, blocked.cluster, blocked.representative) == ("blocklist", "", "")
        assert blocked.duplicate
        assert blocked.to_dict()["blocked_by"] == "entry-0"
        assert "blocked_by" not in outcomes[0].to_dict()
        assert outcomes[3].similarity == 1
        # again, in another scope, and alone
        assert index.upsert("b", BLOCKED).kind == "blocked"
        assert index.upsert("a", f"{BLOCKED} now", id="x").kind == "blocked"
        assert [index.get("a", id) is not None for id in "wxyz"] == [True, False, True, False]
        assert list(index.iterate_scopes()) == ["a"]
        # an update with blocked content leaves the stored content
        assert index.upsert("a", BLOCKED, id="w").kind == "blocked"
        entry = index.get("a", "w")
        assert entry is not None
        assert entry.text == OTHER


def test_documents_in_parts_are_blocked_when_they_are_finished(url: str | list[str]) -> None:
    with nk.Index.open(url, blocklist=list_of([BLOCKED]), **LONG) as index:
        index.add_part("a", "x", BLOCKED)
        index.add_part("a", "x", "and one more part")
        outcome = index.finish("a", "x")
        assert outcome is not None
        assert (outcome.kind, outcome.blocked_by) == ("blocked", "entry-0")
        assert index.finish("a", "x") is None
        assert list(index.iterate_scopes()) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"threshold": 0.6},
        {"spec": nk.Spec(measure="weighted-jaccard"), "threshold": 0.6},
        {"spec": nk.Spec(measure="simhash"), "distance": 12},
        {"spec": nk.Spec(slot_bits=8), "threshold": 0.6, "store_text": False},
    ],
    ids=str,
)
def test_every_blocked_document_is_found(fields: dict[str, object]) -> None:
    blocked_texts = make_texts(5, 50)
    texts = [text for text in dict.fromkeys(share_texts(5, blocked_texts, 80)) if text]
    spec = fields.get("spec")
    assert spec is None or isinstance(spec, nk.Spec)
    blocklist = list_of(blocked_texts, spec)
    with nk.Index.open("memory://", blocklist=blocklist, **fields) as index:  # type: ignore[arg-type]
        outcomes = index.upsert_many("a", [*texts, ""])
        asked = {name: value for name, value in fields.items() if name in ("threshold", "distance")}
        matches = blocklist.match([*texts, ""], **asked)  # type: ignore[arg-type]
        assert 5 < sum(match is not None for match in matches) < len(texts) - 5
        for outcome, match in zip(outcomes, matches, strict=True):
            assert outcome.blocked_by == (None if match is None else match.entry)
            assert (outcome.kind == "blocked") == (match is not None)


def test_texts_with_vectors_are_blocked_by_their_texts() -> None:
    vector = nk.index_types.VectorEvidence(nk.Spec(measure="cosine", unit="vector", n=3))
    with nk.Index.open("memory://", blocklist=list_of([BLOCKED]), vector=vector, **LONG) as index:
        documents = [
            nk.TextAndVector(BLOCKED, [1.0, 0.0, 0.0]),
            nk.TextAndVector(None, [0.0, 1.0, 0.0]),
            nk.TextAndVector(OTHER, [0.0, 0.0, 1.0]),
        ]
        kinds = [outcome.kind for outcome in index.upsert_many("a", documents)]
        assert kinds == ["blocked", "new", "new"]


def test_a_list_of_another_spec_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with nk.Index.open(url, nk.Spec(n=5)):
        pass
    with pytest.raises(
        nk.errors.IncompatibleError, match=r"whose n is 3.*create a list with the Spec"
    ):
        nk.Index.open(url, blocklist=list_of([BLOCKED]))
    vectors = nk.Spec(measure="cosine", unit="vector", n=3)
    with pytest.raises(nk.errors.IncompatibleError, match="blocklist has the Spec"):
        nk.Index.open("memory://", vectors, blocklist=list_of([BLOCKED]))


def test_an_index_that_moves_to_another_spec_refuses_upserts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no other process has to notice the cutover
    monkeypatch.setattr("nearkin.index.migration.cutover.REFRESH_SECONDS", 0.0)
    url = f"sqlite:///{tmp_path}/index.db"
    with nk.Index.open(url, blocklist=list_of([BLOCKED])) as index:
        assert index.upsert("a", OTHER).kind == "new"
        target = f"sqlite:///{tmp_path}/target.db"
        assert (
            run(
                [
                    "index",
                    "rebuild",
                    "--store",
                    url,
                    "--to",
                    target,
                    "--shingle",
                    "words:5",
                    "--cut-over",
                ]
            )
            == 0
        )
        index.refresh()
        with pytest.raises(nk.errors.IncompatibleError, match="blocklist"):
            index.upsert("a", BLOCKED)


def test_an_index_in_threads_of_a_loop_blocks_too() -> None:
    async def upsert() -> str:
        index = await nk.AsyncIndex.open("memory://", blocklist=list_of([BLOCKED]))
        async with index:
            return str((await index.upsert("a", BLOCKED)).kind)

    assert asyncio.run(upsert()) == "blocked"


def test_an_empty_list_blocks_nothing_and_another_list_counts_at_once() -> None:
    with nk.Index.open("memory://", blocklist=nk.Blocklist()) as index:
        assert index.upsert("a", BLOCKED, id="x").kind == "new"
        index.use_blocklist(list_of([BLOCKED]))
        assert index.upsert("a", BLOCKED, id="y").kind == "blocked"
        # what is stored stays, and is blocked when it comes again
        assert index.get("a", "x") is not None
        assert index.upsert("a", BLOCKED, id="x").kind == "blocked"
        index.use_blocklist(None)
        assert index.blocklist is None
        assert index.upsert("a", BLOCKED, id="x").kind == "exact"


def test_purge_works_over_every_store(url: str | list[str]) -> None:
    text = "the minutes of the meeting that was never held in the house at the lake"
    with nk.Index.open(url, threshold=0.6) as index:
        texts = [text, f"{text} now", "something else altogether with several words", ""]
        index.upsert_many("a", texts, ["w", "x", "y", "z"])
        result = purge_index(index, "a", list_of([text]), removes=True)
        assert sorted(document.id for document in result.purged) == ["w", "x"]
        assert [index.get("a", id) is None for id in "wxyz"] == [True, True, False, False]


def test_a_stream_has_a_blocklist_for_an_index_and_not_for_a_server(tmp_path: Path) -> None:
    path = tmp_path / "blocked.list"
    list_of([BLOCKED]).save(path)
    url = f"sqlite:///{tmp_path}/index.db"
    resources = IndexKeySettings()
    with open_sink(url, None, resources, path) as sink:
        outcomes = sink.upsert("s", [BLOCKED, OTHER], ["a", "b"])
        assert [outcome.kind for outcome in outcomes] == ["blocked", "new"]  # type: ignore[union-attr]
    with (
        pytest.raises(nk.UsageError, match="a server has its own blocklist"),
        open_sink(None, "http://localhost:1", resources, path),
    ):
        pass
