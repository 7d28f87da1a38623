from pathlib import Path

import numpy as np
import pyarrow as pa

from nearkin.engine.local.reference_matches import ReferenceMatches
from nearkin.engine.local.work_folder import WorkFolder


def make_matches(rows: list[tuple[int, float, bool, str]]) -> ReferenceMatches:
    documents, similarity, is_exact, ids = zip(*rows, strict=True) if rows else ((), (), (), ())
    return ReferenceMatches(
        np.array(documents, np.int64),
        np.array(similarity, np.float64),
        np.array(is_exact, bool),
        pa.array(ids, pa.large_string()),
    )


def test_best_match_is_exact_then_similar_then_of_the_smallest_id() -> None:
    rows = [
        (5, 0.9, False, "z"),
        (5, 1.0, False, "a"),
        (5, 1.0, True, "y"),
        (2, 0.8, False, "é"),
        (2, 0.8, False, "z"),
        (2, 0.7, False, "a"),
    ]
    random = np.random.default_rng(1)
    for _ in range(10):
        best = make_matches([rows[i] for i in random.permutation(len(rows))]).best()
        assert best.documents.tolist() == [2, 5]
        assert best.ids.to_pylist() == ["z", "y"]
        assert best.is_exact.tolist() == [False, True]


def test_saved_matches_are_equal(tmp_path: Path) -> None:
    work = WorkFolder.create(tmp_path / "work", {}, durable=False)
    for rows in ([], [(0, 0.5, False, ""), (3, 1.0, True, "a\nb")]):
        matches = make_matches(rows)
        matches.save(work)
        loaded = ReferenceMatches.load(work)
        assert loaded.documents.tolist() == matches.documents.tolist()
        assert loaded.similarity.tolist() == matches.similarity.tolist()
        assert loaded.is_exact.tolist() == matches.is_exact.tolist()
        assert loaded.ids.to_pylist() == matches.ids.to_pylist()


def test_matches_of_no_reference_are_empty() -> None:
    assert len(ReferenceMatches.concatenate([]).best()) == 0
