"""The file of the texts of candidates."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearkin.texts.decontamination.candidate_texts import CandidateTextWriter, read_candidate_texts


def write(path: Path, limit: int) -> None:
    """Writes the candidates of three batches, of which the second one has none."""
    with CandidateTextWriter(path, limit) as writer:
        writer.add(pa.array(["zero", "one", "two"], pa.large_string()), 0, np.array([0, 1, 2]))
        writer.add(pa.array(["three"], pa.large_string()), 3, np.array([], np.int64))
        writer.add(pa.array(["four", "five", "six"], pa.large_string()), 4, np.array([4, 6]))


def read(path: Path, numbers: list[int]) -> list[str]:
    batches = read_candidate_texts(path, np.array(numbers, np.int64))
    return [text for batch in batches for text in batch.to_pylist()]


def test_texts_are_read_by_the_numbers_of_their_documents(tmp_path: Path) -> None:
    write(tmp_path / "texts", 1 << 20)
    assert read(tmp_path / "texts", [0, 1, 2, 4, 6]) == ["zero", "one", "two", "four", "six"]
    assert read(tmp_path / "texts", [1, 6]) == ["one", "six"]
    assert read(tmp_path / "texts", []) == []


@pytest.mark.parametrize(("limit", "kept"), [(0, []), (50, ["zero", "one", "two"])])
def test_texts_after_those_that_fit_are_left_out(
    limit: int, kept: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "texts", limit)
    assert read(tmp_path / "texts", [0, 1, 2, 4, 6]) == kept
