from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearkin.engine.reference_matches import ReferenceMatches
from nearkin.engine.result_schema import EXACT, NEAR, SAME
from nearkin.engine.work_folder import WorkFolder


def make_matches(rows: list[tuple[int, float, int, str]]) -> ReferenceMatches:
    matches = ReferenceMatches.without_shingles(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.float64),
        NEAR,
        pa.array([row[3] for row in rows], pa.large_string()),
    )
    return replace(matches, kind=np.array([row[2] for row in rows], np.uint8))


def test_best_match_is_exact_then_of_an_equal_value_then_similar_then_of_the_smallest_id() -> None:
    rows = [
        (5, 0.9, NEAR, "z"),
        (5, 1.0, NEAR, "a"),
        (5, 1.0, EXACT, "y"),
        (5, np.nan, SAME, "b"),
        (2, 0.8, NEAR, "é"),
        (2, 0.8, NEAR, "z"),
        (2, 0.7, NEAR, "a"),
    ]
    random = np.random.default_rng(1)
    for _ in range(10):
        best = make_matches([rows[i] for i in random.permutation(len(rows))]).best()
        assert best.documents.tolist() == [2, 5]
        assert best.ids.to_pylist() == ["z", "y"]
        assert best.kind.tolist() == [NEAR, EXACT]
        others = make_matches([row for row in rows if row[2] != EXACT]).best()
        assert others.kind.tolist() == [NEAR, SAME]


def test_saved_matches_are_equal(tmp_path: Path) -> None:
    work = WorkFolder.create(tmp_path / "work", {}, durable=False)
    for rows in ([], [(0, 0.5, NEAR, ""), (3, 1.0, EXACT, "a\nb")]):
        matches = make_matches(rows)
        matches.save(work)
        loaded = ReferenceMatches.load(work)
        assert loaded.documents.tolist() == matches.documents.tolist()
        assert loaded.similarity.tolist() == matches.similarity.tolist()
        assert loaded.kind.tolist() == matches.kind.tolist()
        assert loaded.ids.to_pylist() == matches.ids.to_pylist()


def test_matches_of_no_reference_are_empty() -> None:
    assert len(ReferenceMatches.concatenate([]).best()) == 0
