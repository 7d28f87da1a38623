"""Tests of the recorded inputs, by which a run detects changes."""

import os
from pathlib import Path

import pytest

from nearkin.corpus import Columns, FileCorpus, describe_inputs
from nearkin.errors import RunError
from tests.corpus.samples import lines_of


def test_replacement_of_the_same_size_and_time_is_an_error(
    tmp_path: Path,
) -> None:
    source, other = tmp_path / "a.jsonl", tmp_path / "other"
    source.write_text(lines_of(1, 2))
    other.write_text(lines_of(3, 4))
    times = source.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    corpus = FileCorpus.open([str(source)])
    describe_inputs(corpus)
    other.replace(source)
    with pytest.raises(RunError, match="has changed"):
        list(corpus.batches(Columns()))
