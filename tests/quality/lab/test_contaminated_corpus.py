"""Generated corpora with planted items: their truth, and that runs find it."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import nearkin
from nearkin.errors import UsageError
from nearkin.quality.lab.contaminated_corpus import TEMPLATE, write_contaminated_corpus


def test_every_planted_item_is_found_and_no_document_of_the_template(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    facts = write_contaminated_corpus(out, 1000, 300)
    assert (facts["documents"], facts["items"]) == (1000, 300)
    assert facts["planted"] >= 15
    assert facts["template"] == 67
    truth = pq.read_table(out / "truth.parquet").to_pylist()
    assert len({row["form"] for row in truth}) == 6
    planted = {(row["id"], row["item"]) for row in truth if row["form"] != TEMPLATE}
    for point in ("exact", "longest"):
        found = nearkin.decontaminate(
            out / "documents.parquet",
            out / "suite.parquet",
            id="id",
            suite_id="id",
            operating_point=point,
        )
        assert {(hit["id"], hit["item"]) for hit in found.hits.to_pylist()} == planted


def test_corpora_depend_on_the_seed_alone(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_contaminated_corpus(tmp_path / name, 50, 5, seed)
    contents = [pq.read_table(tmp_path / name / "documents.parquet") for name in "abc"]
    assert contents[0].equals(contents[1])
    assert not contents[0].equals(contents[2])


def test_existing_folders_and_empty_corpora_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists"):
        write_contaminated_corpus(tmp_path, 10, 10)
    with pytest.raises(UsageError, match="items"):
        write_contaminated_corpus(tmp_path / "new", 10, 0)
