"""Tests of related documents online: outcomes over every store, against brute force."""

import json
import random
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import IncompatibleError, UsageError
from nearkin.index.opening import RELATED_FORMAT
from nearkin.index.search import MOST_RELATED
from tests.index.conftest import Opener, assert_integrity
from tests.index.oracle import resolve

WORDS = nk.Spec(n=1)
VECTORS = nk.Spec(measure="cosine", unit="vector", n=4)
RELATED = {"spec": WORDS, "threshold": 0.8, "related": 0.4}
EVERY_PAIR = {"bands": 128, "rows": 1}
"""A banding by which documents with a common word are candidates, with near certainty."""
VERSIONS = (0, 2, 3, 5, 8, 12)
"""The number of words that each version of a text exchanges."""


def make_documents(seed: int, groups: int = 5) -> dict[str, str]:
    """Returns texts of 40 words in versions of many similarities, in random order."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(300)]
    texts = []
    for _ in range(groups):
        base = rng.sample(words, 40)
        for swaps in VERSIONS:
            version = list(base)
            for place in rng.sample(range(40), swaps):
                version[place] = rng.choice(words)
            texts.append(" ".join(version))
    rng.shuffle(texts)
    return {f"id '{number}'": text for number, text in enumerate(texts)}


def similarity_of(a: str, b: str) -> float:
    """Returns the Jaccard similarity of the words of two texts."""
    first, second = set(a.split()), set(b.split())
    return len(first & second) / len(first | second)


def resolve_by_oracle(
    documents: dict[str, str], threshold: float, related: float
) -> list[tuple[str, str, list[tuple[str, float]]]]:
    """Returns the kind, the representative and the related ones of documents, one after another."""
    leaders: dict[str, str] = {}
    outcomes = []
    for name, text in documents.items():
        resolution = resolve(
            name, text, leaders, similarity_of, threshold=threshold, related=related
        )
        outcomes.append((resolution.kind, resolution.leader, resolution.related))
        if resolution.leader == name:
            leaders[name] = text
    return outcomes


def read_outcome(outcome: nk.index_types.Outcome) -> tuple[str, str, list[tuple[str, float]]]:
    assert outcome.related is not None
    others = [(document.id, document.similarity) for document in outcome.related]
    return str(outcome.kind), outcome.representative, others


@pytest.mark.parametrize("batch", [1, 100])
def test_upserts_name_the_related_representatives_of_brute_force(
    opened: Opener, batch: int
) -> None:
    index = opened(**RELATED, **EVERY_PAIR)
    documents = make_documents(1)
    expected = resolve_by_oracle(documents, 0.8, 0.4)
    outcomes: list[nk.index_types.Outcome] = []
    names = list(documents)
    for start in range(0, len(names), batch):
        part = names[start : start + batch]
        outcomes += index.upsert_many("a", [documents[name] for name in part], part)
    assert [read_outcome(outcome) for outcome in outcomes] == expected
    assert {kind for kind, _, _ in expected} == {"new", "related", "match"}
    for outcome in outcomes:
        for document in outcome.related or ():
            entry = index.get("a", document.id)
            assert entry is not None
            assert entry.is_leader
            assert entry.cluster == document.cluster
    assert_integrity(index)


def test_scopes_have_related_documents_of_their_own(opened: Opener) -> None:
    index = opened(**RELATED)
    text = "one two three four five six seven eight nine ten"
    index.upsert("a", text, id="x")
    assert index.upsert("b", f"{text} more and more words", id="y").related == ()
    assert index.related_many("b", [f"{text} and then other things"])[0][0].id == "y"
    assert index.related_many("c", [text]) == [[]]


def test_known_documents_are_not_searched_for_again(opened: Opener) -> None:
    index = opened(**RELATED)
    text = "one two three four five six seven eight nine ten"
    index.upsert("a", text, id="x")
    first = index.upsert("a", f"{text} more and more words", id="y")
    assert (first.kind, first.duplicate) == ("related", False)
    again = index.upsert("a", f"{text} more and more words", id="y")
    assert (again.kind, again.related, again.candidates) == ("exact", (), 0)
    updated = index.upsert("a", f"{text} more words", id="y")
    assert updated.kind == "updated"
    assert updated.representative == "x"


def test_related_many_finds_what_an_upsert_would_name() -> None:
    index = nk.Index.open("memory://", **RELATED, **EVERY_PAIR)
    documents = make_documents(2)
    names = list(documents)
    index.upsert_many("a", [documents[name] for name in names[:20]], names[:20])
    rest = [documents[name] for name in names[20:]]
    found = index.related_many("a", rest)
    for text, matches in zip(rest, found, strict=True):
        with nk.Index.open("memory://", **RELATED, **EVERY_PAIR) as copy:
            copy.upsert_many("a", [documents[name] for name in names[:20]], names[:20])
            outcome = copy.upsert("a", text, id="new")
        assert [(match.id, match.similarity) for match in matches] == read_outcome(outcome)[2]
    assert any(found)


def test_no_document_has_more_than_ten_related_ones() -> None:
    index = nk.Index.open("memory://", WORDS, 0.9, related=0.5, **EVERY_PAIR)
    common = " ".join(f"common{number}" for number in range(20))
    texts = [f"{common} {' '.join(f'{name}{k}' for k in range(5))}" for name in "abcdefghijklmno"]
    outcomes = index.upsert_many("s", texts)
    sizes = [len(outcome.related or ()) for outcome in outcomes]
    assert sizes == [min(number, MOST_RELATED) for number in range(len(texts))]
    # of equally similar ones, the older ones are named
    assert [document.id for document in outcomes[-1].related or ()] == [
        outcome.id for outcome in outcomes[:MOST_RELATED]
    ]


def test_bands_of_an_index_are_planned_for_the_lower_threshold() -> None:
    both = nk.Index.open("memory://", threshold=0.8, related=0.5)
    lower = nk.Index.open("memory://", threshold=0.5)
    assert both.banding == lower.banding
    assert both.banding != nk.Index.open("memory://", threshold=0.8).banding


def test_the_setting_is_fixed_when_an_index_is_created(opened: Opener) -> None:
    index = opened(**RELATED)
    index.upsert("a", "one two three four", id="x")
    assert index.header()["format"] == RELATED_FORMAT
    if index.url.startswith("memory:"):
        return
    assert opened(spec=WORDS, threshold=None).settings.related == 0.4
    assert opened(**RELATED).stats()["related"] == 0.4
    with pytest.raises(IncompatibleError, match=r"created with related=0\.4.*the request has 0\.5"):
        opened(**{**RELATED, "related": 0.5})


def test_an_index_without_the_setting_is_as_before(opened: Opener) -> None:
    index = opened(spec=WORDS, threshold=0.8)
    index.upsert("a", "one two three four five six", id="x")
    outcome = index.upsert("a", "one two three four five six seven eight", id="y")
    assert (outcome.kind, outcome.related) == ("new", None)
    assert "related" not in outcome.to_dict()
    assert "related" not in index.header()
    assert index.header()["format"] == 1
    with pytest.raises(UsageError, match="created without `related`"):
        index.related_many("a", ["one two"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"related": 0.8}, "related=0.8 is out of range; it must be above 0 and below"),
        ({"related": 0.0}, "related=0.0 is out of range"),
        ({"related": 0.5, "threshold": 0.4}, "below the threshold 0.4"),
        ({"related": 0.5, "distance": 3}, "related=0.5 and `distance` exclude each other"),
        (
            {"related": 0.5, "vector": nk.index_types.VectorEvidence(VECTORS)},
            "related=0.5 and `vector` exclude each other",
        ),
    ],
)
def test_contradictory_settings_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        nk.Index.open("memory://", **fields)  # type: ignore[arg-type]
    assert message in str(raised.value)


def test_removed_representatives_are_not_named() -> None:
    index = nk.Index.open("memory://", **RELATED)
    text = "one two three four five six seven eight nine ten"
    index.upsert("a", text, id="x")
    index.upsert("a", f"{text} eleven", id="member")
    index.remove("a", "x")
    outcome = index.upsert("a", f"{text} more and more words", id="y")
    assert [document.id for document in outcome.related or ()] == ["member"]
    assert [document.cluster for document in outcome.related or ()] == ["x"]


def test_index_build_makes_an_index_with_related_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "one two three four five six seven eight nine ten"
    rows = ["id,text", f"x,{text}", f"y,{text} more and more words", "z,other things"]
    (tmp_path / "in.csv").write_text("\n".join(rows) + "\n")
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    command = ["index", "build", str(tmp_path / "in.csv"), "--id", "id", "--shingle", "words:1"]
    assert run([*command, "--store", url, "--related", "0.9"]) == 2
    assert "--related 0.9 is out of range" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "kin.db").exists()
    assert run([*command, "--store", url, "--related", "0.5", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["new"], counts["related"]) == (2, 1)
    with nk.Index.open(url) as index:
        assert index.settings.related == 0.5
