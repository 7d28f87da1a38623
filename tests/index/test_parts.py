"""Tests of documents that arrive in parts."""

from pathlib import Path

import numpy as np
import pytest

from nearkin.errors import UsageError
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.index.migration.cutover import fill_copy
from nearkin.index.parts import parts_scope
from nearkin.sketch.builder import MinHashBuilder
from nearkin.spec import Spec
from tests.index.conftest import Opener

PIECES = [
    "the cat sat on the mat and looked",
    "a dog lay on a rug all day long",
    "birds sang in the old tree",
]


def test_parts_make_one_document(opened: Opener) -> None:
    with opened(threshold=0.5) as index:
        for piece in PIECES:
            size = index.add_part("a", "one", piece)
        assert index.add_part("a", "one", PIECES[0]) == size, (
            "a piece that comes twice changes nothing"
        )
        assert index.get("a", "one") is None, "it is not resolved yet"
        sealed = index.finish("a", "one")
        assert sealed is not None
        assert sealed.kind == "new"
        entry = index.get("a", "one")
        assert entry is not None
        assert entry.size == size
        running = MinHashBuilder(index.spec).update(*PIECES).snapshot()
        assert np.array_equal(np.frombuffer(entry.signature, np.uint32), running)
        assert index.finish("a", "one") is None
        assert index.add_part("a", "two", PIECES[2]) < size
        for piece in PIECES[:2]:
            index.add_part("a", "two", piece)
        again = index.finish("a", "two")
        assert again is not None
        assert (again.kind, again.representative, again.similarity) == ("match", "one", 1.0)
        assert index.add_part("b", "one", "another scope") == 1
        assert check_index(index).sound


def test_parts_of_single_tokens_equal_the_whole_document() -> None:
    spec = Spec(unit="words", n=1)
    with Index.open("memory://", spec=spec, threshold=0.5) as index:
        words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
        index.add_part("a", "pieces", words[:3])
        index.add_part("a", "pieces", words[3:])
        whole = index.upsert("a", " ".join(words), "whole")
        sealed = index.finish("a", "pieces")
        assert whole.kind == "new"
        assert sealed is not None
        assert (sealed.representative, sealed.similarity) == ("whole", 1.0)


@pytest.mark.parametrize("spec", [Spec(measure="simhash"), Spec(measure="weighted-jaccard")])
def test_measures_without_mergeable_documents_refuse_parts(spec: Spec) -> None:
    with (
        Index.open("memory://", spec=spec, threshold=0.98) as index,
        pytest.raises(UsageError, match=spec.measure),
    ):
        index.add_part("a", "one", "some text")


def test_truncated_slots_and_probes_support_parts() -> None:
    for fields in ({"spec": Spec(slot_bits=8)}, {"bands": 13, "rows": 7, "probes": 2}):
        with Index.open("memory://", threshold=0.6, **fields) as index:
            for name in ("one", "two"):
                for piece in PIECES:
                    index.add_part("a", name, piece)
            first, second = index.finish("a", "one"), index.finish("a", "two")
            assert first is not None
            assert second is not None
            assert second.representative == "one"


def test_parts_are_limited_in_size_and_expire() -> None:
    now = [0.0]
    with Index.open("memory://", max_document=400, record_ttl=10.0, clock=lambda: now[0]) as index:
        for i in range(5):
            index.add_part("a", "one", " ".join(f"w{i}x{j}" for j in range(12)))
        with pytest.raises(UsageError, match="max_document"):
            index.add_part("a", "one", "and one more")
        assert index.get(parts_scope("a"), "one") is not None
        now[0] = 11.0
        index.expire()
        assert index.finish("a", "one") is None


def test_an_index_without_texts_is_rebuilt_if_shingles_are_equal(tmp_path: Path) -> None:
    with Index.open(f"sqlite:///{tmp_path}/a.db", threshold=0.8, store_text=False) as live:
        live.upsert_many("a", PIECES, ["1", "2", "3"])
        live.add_part("a", "open", PIECES[0])
        with Index.open(
            f"sqlite:///{tmp_path}/b.db",
            threshold=0.6,
            store_text=False,
            spec=Spec(k=64),
            follow=False,
        ) as anew:
            fill_copy(live, anew)
            assert check_index(anew).sound
            assert anew.upsert("a", PIECES[1], "2").kind == "exact"
            assert anew.finish("a", "open") is not None
        with (
            Index.open(
                f"sqlite:///{tmp_path}/c.db", store_text=False, spec=Spec(n=2), follow=False
            ) as other,
            pytest.raises(UsageError, match="other shingles"),
        ):
            fill_copy(live, other)


def test_a_copy_keeps_unfinished_documents(tmp_path: Path) -> None:
    """Two unfinished documents that are similar are not resolved to each other in a copy."""
    with Index.open(f"sqlite:///{tmp_path}/a.db", threshold=0.8) as live:
        texts = [f"document {i} of its own with number {i * 7919}" for i in range(120)]
        live.upsert_many("a", texts, [str(i) for i in range(120)])
        for name in ("one", "two"):
            for piece in PIECES:
                live.add_part("a", name, f"{piece} {name}")
        with Index.open(
            f"sqlite:///{tmp_path}/b.db", threshold=0.4, follow=False, max_batch=50
        ) as anew:
            fill_copy(live, anew)
            assert check_index(anew).sound
            parts = anew.get_many(parts_scope("a"), ["one", "two"])
            assert [(entry.leader, entry.posted) for entry in parts if entry is not None] == [
                ("one", False),
                ("two", False),
            ]
            assert anew.add_part("a", "one", "and one more piece") > 0
            first, second = anew.finish("a", "one"), anew.finish("a", "two")
            assert first is not None
            assert second is not None
            assert (first.kind, second.kind, second.representative) == ("new", "match", "one")
            assert check_index(anew).sound
