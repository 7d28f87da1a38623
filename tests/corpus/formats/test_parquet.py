"""Tests of copying parquet files."""

from pathlib import Path

import pytest

from nearkin.engine.options import RunOptions
from nearkin.errors import RunError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent
from tests.corpus.samples import SMALL, write_parquet


def test_damage_in_a_copied_column_is_an_error_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, write_page_checksum=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(b" 52 tnemucod"[::1], b" 99 tnemucod"))
    with pytest.raises(
        RunError, match=r"cannot copy rows 20 to 29 of .*a\.parquet: .*drop that column"
    ):
        run_dedup(Job((str(path),), tmp_path / "out", SMALL, RunOptions()), Silent())
