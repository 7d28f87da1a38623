"""Tests of golden pairs, which measure the recall of a server."""

import json
from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.index.index import Index
from nearkin.service.server.golden_probe import query_golden_pairs, read_golden_pairs
from tests.service.server.grouped_texts import text


def test_golden_pairs_are_queried(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"a": text(0), "b": text(1)},
        {"a": text(2), "b": text(3), "similar": True},
        {"a": text(4), "b": text(40)},
        {"a": text(8), "b": text(9), "similar": False},
        {"a": text(12), "b": text(44), "similar": False},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Index.open("memory://") as index:
        for _ in range(2):
            counts = query_golden_pairs(index, read_golden_pairs(path))
            assert (counts.similar, counts.found, counts.distinct, counts.mistaken) == (3, 2, 2, 1)
        assert counts.recall == pytest.approx(2 / 3)


@pytest.mark.parametrize("content", ["", "{", '{"a": "x"}', '{"a": 1, "b": 2}'])
def test_invalid_golden_pairs_are_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / "p.jsonl").write_text(content)
    with pytest.raises(UsageError, match=r"p\.jsonl"):
        read_golden_pairs(tmp_path / "p.jsonl")
