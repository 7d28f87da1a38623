"""Tests of the choice of the documents of a fit."""

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus import Columns, TableCorpus
from nearkin.quality.fit import documents
from nearkin.quality.fit.documents import FitDocuments, read_documents
from nearkin.runtime.progress import Silent

TEXTS = {f"d{number}": "x" * (10 + 7 * number % 50) for number in range(60)}


def read(batch_rows: int, labelled: list[str], others: int = 0, compared: int = 60) -> FitDocuments:
    table = pa.table({"id": list(TEXTS), "text": list(TEXTS.values())})
    batches = table.to_batches(max_chunksize=batch_rows)
    corpus = TableCorpus(pa.Table.from_batches(batches))
    columns = Columns(id="id")
    return read_documents(corpus, columns, labelled, others, 1, Silent(), compared=compared)


@pytest.mark.parametrize("batch_rows", [1, 7, 60])
def test_documents_that_are_left_out_do_not_depend_on_batches(
    batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "COMPARED_BYTES", 500)
    monkeypatch.setattr(documents, "FREQUENCY_BYTES", 300)
    labelled = [f"d{number}" for number in (50, 3, 17, 20, 41)]
    expected = read(60, labelled, others=40)
    read_again = read(batch_rows, labelled, others=40)
    assert read_again.ids == expected.ids
    assert read_again.background.to_pylist() == expected.background.to_pylist()
    assert set(labelled) <= set(expected.ids)
    assert expected.too_large == 0
    assert sum(len(TEXTS[id]) for id in expected.ids) <= 500
    assert len(expected.ids) > 8


def test_first_documents_of_the_draw_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = [f"d{number}" for number in range(59, 0, -1)]
    monkeypatch.setattr(documents, "COMPARED_BYTES", 400)
    chosen = read(9, labelled)
    count = len(chosen)
    assert set(chosen.ids) == set(labelled[:count])
    assert sum(len(TEXTS[id]) for id in labelled[:count]) <= 400
    assert sum(len(TEXTS[id]) for id in labelled[: count + 1]) > 400
    assert chosen.too_large == len(labelled) - count
    assert chosen.missing == 0


def test_fewer_large_documents_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = [f"d{number}" for number in range(60)]
    # 60 documents of 2 bytes are as much work as about 15 of 34 bytes.
    monkeypatch.setattr(documents, "BYTES_PER_DOCUMENT", 2)
    assert 12 <= len(read(60, labelled)) <= 18


def test_samples_do_not_depend_on_the_order_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "FREQUENCY_DOCUMENTS", 15)
    drawn = set()
    for order in (list(TEXTS), list(TEXTS)[::-1]):
        table = pa.table({"id": order, "text": [TEXTS[id] for id in order]})
        for seed in (1, 2):
            chosen = read_documents(
                TableCorpus(table), Columns(id="id"), ["d3"], 20, seed, Silent(), compared=60
            )
            background = tuple(sorted(chosen.background.to_pylist()))
            drawn.add((seed, chosen.ids, background))
    assert len(drawn) == 2, "one sample for each seed"


def test_ranks_of_ids_are_uniform() -> None:
    ids = pa.array([f"document-{number:05d}" for number in range(10_000)], pa.large_string())
    ranks = documents.rank_by_id(ids, 7) / 2.0**64
    counts, _ = np.histogram(ranks, 20, (0, 1))
    # 500 expected in each bin, with a standard deviation of 21.8
    assert abs(counts - 500).max() < 5 * 21.8
    others = documents.rank_by_id(ids, 8) / 2.0**64
    assert abs(np.corrcoef(ranks, others)[0, 1]) < 5 / np.sqrt(len(ids))
