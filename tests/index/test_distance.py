"""Tests of indexes of Hamming distances: every store finds what comparison of all pairs finds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import IncompatibleError, UsageError
from nearkin.index.maintenance import check_index
from nearkin.index.migration.cutover import rebuild
from tests.index.conftest import Opener, assert_integrity, corpus, near, preparer_of, words

SPEC = nk.Spec(measure="simhash")


def simhash_corpus(documents: int) -> list[str]:
    """Returns long texts, of which half are copies with up to three changed words."""
    rng = np.random.Generator(np.random.PCG64(11))
    texts: list[list[str]] = []
    for number in range(documents):
        if number % 2:
            texts.append(near(texts[rng.integers(0, len(texts))], rng, int(rng.integers(0, 4))))
        else:
            texts.append(words(rng, 300))
    return [" ".join(text) for text in texts]


def fingerprints(index: nk.Index, texts: list[str]) -> list[int]:
    """Returns the signatures of texts as integers."""
    prepared = preparer_of(index).prepare("a", texts, [b""] * len(texts))
    return [int(word) for word in prepared.signatures[:, 0]]


@pytest.mark.parametrize("store_text", [True, False])
def test_query_finds_every_document_within_the_distance(opened: Opener, store_text: bool) -> None:
    index = opened(threshold=None, distance=5, postings="all", store_text=store_text)
    texts = simhash_corpus(60)
    index.upsert_many("a", texts, [f"d{number}" for number in range(len(texts))])
    signatures = fingerprints(index, texts)
    pairs = 0
    for number in range(0, len(texts), 3):
        distances = {
            f"d{other}": (signatures[number] ^ signature).bit_count()
            for other, signature in enumerate(signatures)
        }
        expected = {id: 1 - d / 64 for id, d in distances.items() if d <= 5}
        pairs += len(expected) - 1
        matches = index.query("a", texts[number], top=100)
        assert {match.id: match.similarity for match in matches} == expected
    assert pairs > 5
    assert_integrity(index)


def test_documents_within_the_distance_are_resolved(opened: Opener) -> None:
    index = opened(threshold=None, distance=4)
    texts = simhash_corpus(60)
    ids = [f"d{number:02d}" for number in range(len(texts))]
    outcomes = index.upsert_many("a", texts, ids)
    signatures = dict(zip(ids, fingerprints(index, texts), strict=True))
    leaders: list[str] = []
    for outcome in outcomes:
        distances = [
            (signatures[outcome.id] ^ signatures[leader]).bit_count() for leader in leaders
        ]
        if min(distances, default=64) > 4:
            assert outcome.kind == "new"
            leaders.append(outcome.id)
        else:
            # of equally similar representatives, the oldest
            assert outcome.representative == leaders[distances.index(min(distances))]
            assert outcome.similarity == 1 - min(distances) / 64
    assert 30 <= len(leaders) < len(texts)
    assert_integrity(index)
    assert check_index(index).sound


@pytest.mark.parametrize("store_text", [True, False])
def test_removal_of_a_representative_elects_by_distance(opened: Opener, store_text: bool) -> None:
    index = opened(threshold=None, distance=8, store_text=store_text)
    rng = np.random.Generator(np.random.PCG64(3))
    base = words(rng, 200)
    index.upsert("a", " ".join(base), "base")
    others = [f"m{number}" for number in range(4)]
    for id in others:
        index.upsert("a", " ".join(near(base, rng)), id)
    cluster = index.cluster("a", "base")
    assert cluster is not None
    members = [id for id, _ in cluster.members[1:]]
    assert members
    assert index.remove("a", "base")
    assert_integrity(index)
    after = index.cluster("a", members[0])
    assert after is not None
    assert after.id == "base"
    assert after.representative in members


def test_distance_is_kept_and_another_one_is_refused(
    opened: Opener, url: "str | list[str]"
) -> None:
    if url == "memory://":
        pytest.skip("a store in memory is not opened again")
    opened(threshold=None, distance=3)
    again = opened(threshold=None)
    assert (again.settings.distance, again.threshold) == (3, 61 / 64)
    assert again.spec.measure == "simhash"
    opened(threshold=None, distance=3)
    with pytest.raises(IncompatibleError, match=r"distance=3, and the request has 4"):
        opened(threshold=None, distance=4)
    with pytest.raises(IncompatibleError, match=r"threshold=0\.953125"):
        opened(threshold=0.5)


def test_older_versions_refuse_an_index_of_distances(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url, distance=3) as index:
        assert (index.header()["format"], index.header()["distance"]) == (2, 3)
    with nk.Index.open(f"sqlite:///{tmp_path}/other.db") as index:
        assert index.header()["format"] == 1
        assert "distance" not in index.header()


@pytest.mark.parametrize(
    ("spec", "fields", "message"),
    [
        (nk.Spec(), {}, "for measure simhash"),
        (nk.Spec(measure="cosine", unit="vector", n=8), {}, "for measure simhash"),
        (SPEC, {"threshold": 0.9}, "contradict"),
        (SPEC, {"bands": 4, "rows": 8}, "its own bands"),
        (SPEC, {"probes": 1}, "its own bands"),
        (SPEC, {"distance": 32}, "it must be from 0 to 31"),
        (SPEC, {"distance": -1}, "it must be from 0 to 31"),
        (SPEC, {"distance": 9, "documents": 10}, None),
    ],
)
def test_invalid_distances_are_refused_before_anything_is_written(
    tmp_path: Path, spec: nk.Spec, fields: dict[str, Any], message: str | None
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    if message is None:
        nk.Index.open(url, spec, **fields).close()
        return
    with pytest.raises(UsageError, match=message):
        nk.Index.open(url, spec, **{"distance": 3, **fields})
    assert list(tmp_path.iterdir()) == []
    # an index of another kind can still be created there
    nk.Index.open(url, threshold=0.5).close()


def test_environment_defines_an_index_of_distances() -> None:
    variables = {"T_DISTANCE": "3", "T_SHINGLE": "chars:5"}
    settings = nk.index_types.IndexSettings.from_env("T_", variables)
    assert settings.spec is not None
    assert (settings.distance, settings.spec.measure) == (3, "simhash")


def test_explanation_states_the_verdict_by_distance(opened: Opener) -> None:
    index = opened(threshold=None, distance=3)
    texts = corpus(2)
    index.upsert("a", texts[0], "one")
    index.upsert("a", texts[1], "two")
    explained = index.explain("a", "one", "two")
    first, second = fingerprints(index, texts)
    distance = (first ^ second).bit_count()
    assert explained.similarity == 1 - distance / 64
    assert (explained.bands, explained.margin) == (index.banding.bands, 61)
    assert (explained.verdict == "match") == (distance <= 3)


def test_a_rebuild_keeps_the_distance_unless_a_threshold_is_given(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/kin.db"
    texts = simhash_corpus(4)
    with nk.Index.open(source, distance=3) as index:
        index.upsert_many("a", texts)
    for name, changes, threshold, expected in (
        ("same", {}, None, (3, 61 / 64)),
        ("longer", {"k": 128}, None, (3, 125 / 128)),
        ("exact", {}, 0.95, (None, 0.95)),
    ):
        target = f"sqlite:///{tmp_path}/{name}.db"
        rebuild(source, target, changes, threshold, None, None, cuts_over=False)
        with nk.Index.open(target) as index:
            assert (index.settings.distance, index.threshold) == expected
            assert index.stats()["records"] == len(set(texts))


def test_command_builds_an_index_of_distances(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "documents.jsonl"
    texts = simhash_corpus(20)
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    source.write_text("\n".join(lines) + "\n")
    url = f"sqlite:///{tmp_path}/kin.db"
    command = ["index", "build", str(source), "--id", "id", "--store", url]
    assert run([*command, "--distance", "3", "--measure", "jaccard"]) == 2
    message = capsys.readouterr().err
    assert "--distance 3 is for measure simhash" in message
    assert "make the Spec with --measure simhash, or give a --threshold" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["documents.jsonl"]
    assert run([*command, "--distance", "3", "--threshold", "0.9"]) == 2
    capsys.readouterr()
    assert run([*command, "--distance", "3", "--json"]) == 0
    by_command = json.loads(capsys.readouterr().out)
    spec = nk.Spec(measure="simhash")
    with nk.Index.open("memory://", spec, distance=3) as index:
        kinds = [outcome.kind for outcome in index.upsert_many("default", texts)]
    with nk.Index.open(url) as built:
        assert built.header()["distance"] == 3
    assert by_command["new"] == kinds.count("new")
    assert by_command["documents"] == len(texts)
