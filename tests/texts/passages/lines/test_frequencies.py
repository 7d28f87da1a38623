"""Document frequencies of lines."""

from pathlib import Path

import numpy as np

from nearkin.texts.passages.lines.frequencies import LINES, find_repeated_lines
from nearkin.texts.passages.lines.request import Counted
from nearkin.texts.passages.partitions import PartitionWriter


def test_lines_with_one_equal_hash_are_different_lines(tmp_path: Path) -> None:
    writer = PartitionWriter(tmp_path, LINES)
    documents = np.arange(4, dtype=np.uint64) << np.uint64(32)
    hashes = np.full(4, 5, np.uint64)
    checks = np.array([1, 2, 1, 2], np.uint64)
    writer.add(np.stack([hashes, checks, documents, hashes], axis=1))
    writer.flush()
    ranks = np.array([3, 2, 1, 0], np.uint32)
    (part,) = find_repeated_lines(tmp_path, ranks, 2, 1 << 28)
    assert part.frequencies.tolist() == [2, 2]
    assert part.lines.tolist() == [0, 0, 1, 1]
    assert part.documents.tolist() == [2, 0, 3, 1]


def test_places_in_one_document_count_once(tmp_path: Path) -> None:
    writer = PartitionWriter(tmp_path, LINES)
    rows = [[7, 7, 0, 1], [7, 7, 4, 5], [7, 7, 1 << 32, 1]]
    writer.add(np.array(rows, np.uint64))
    writer.flush()
    ranks = np.arange(2, dtype=np.uint32)
    (part,) = find_repeated_lines(tmp_path, ranks, 2, 1 << 28)
    assert part.frequencies.tolist() == [2]
    assert part.starts.tolist() == [0, 4, 0]
    (none,) = find_repeated_lines(tmp_path, ranks, 3, 1 << 28)
    assert len(none.lines) == len(none.frequencies) == 0
    (often,) = find_repeated_lines(tmp_path, ranks, 3, 1 << 28, Counted.PLACES)
    assert often.frequencies.tolist() == [2]
    (never,) = find_repeated_lines(tmp_path, ranks, 4, 1 << 28, Counted.PLACES)
    assert len(never.lines) == 0
