"""Tests of the tables that a local run writes."""

from pathlib import Path

import pyarrow as pa
import pytest

from nearkin.corpus import Columns, TableCorpus
from nearkin.engine.options import RunOptions
from nearkin.engine.result_tables import expanded_pair_batches
from nearkin.engine.run import Run
from nearkin.engine.work_folder import WorkFolder
from nearkin.runtime.progress import Silent


def test_expanded_pairs_of_long_ids_come_in_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs inside of exact groups and across them.

    The batches together are all pairs of the documents.
    """
    monkeypatch.setattr("nearkin.engine.result_tables.LEAST_ROWS", 10)
    monkeypatch.setattr("nearkin.engine.result_tables.BATCH_BYTES", 30_000)
    first = "some words of a text that is there many times over and over again"
    table = pa.table(
        {
            "text": [first, f"{first} more"] * 30,
            "id": [f"{at:02d}" + "i" * 1_000 for at in range(60)],
        }
    )
    run = Run(
        TableCorpus(table),
        Columns(id="id"),
        RunOptions(),
        WorkFolder.create(tmp_path / "work", {}),
        Silent(),
    )
    run.to_pairs()
    batches = list(expanded_pair_batches(run))
    pairs = {(row["id_a"][:2], row["id_b"][:2]) for batch in batches for row in batch.to_pylist()}
    assert len(pairs) == sum(map(len, batches)) == 60 * 59 // 2
    assert max(map(len, batches)) <= 30
