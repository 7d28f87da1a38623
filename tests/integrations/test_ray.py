"""Tests of the functions of batches, with Arrow tables, and with Ray at full size."""

from pathlib import Path

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.integrations.ray import AddSignatures, DropNearDuplicates

TEXT = "the council approved the new budget on tuesday evening after a long debate about schools"
TEXTS = [TEXT, f"{TEXT} and roads", None, "a dog ran over the hill"]
BATCH = pa.table({"id": [1, 2, 3, 4], "text": TEXTS})


def test_signatures_are_those_of_the_library() -> None:
    signed = AddSignatures()(BATCH)
    assert signed["signature"][0].as_py() == nk.sketch([TEXT])[0].tolist()
    assert signed["signature"][2].as_py() is None
    assert signed.schema.field("band_keys").type.value_type == pa.uint64()


def test_batches_of_several_actors_share_an_index(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    assert DropNearDuplicates(url)(BATCH)["id"].to_pylist() == [1, 3, 4]
    later = BATCH.set_column(0, "id", pa.array([5, 6, 7, 8]))
    assert DropNearDuplicates(url)(later)["id"].to_pylist() == [7]
    assert DropNearDuplicates(url)(BATCH)["id"].to_pylist() == [1, 3, 4], "a task can be repeated"


def test_columns_that_are_missing_are_named(tmp_path: Path) -> None:
    dropping = DropNearDuplicates(f"sqlite:///{tmp_path / 'kin.db'}", id="url")
    with pytest.raises(UsageError, match=r"there is no column 'url'; it has 'id'"):
        dropping(BATCH)
    with pytest.raises(UsageError, match="1 rows have no 'url'"):
        dropping(pa.table({"url": ["a", None], "text": ["one", "two"]}))
    for function in (dropping, AddSignatures()):
        with pytest.raises(UsageError, match=r'type dict and not .*batch_format="pyarrow"'):
            function({"id": [1], "text": ["one"]})  # type: ignore[arg-type]


def test_encoded_columns_are_texts_and_numbers_are_not(tmp_path: Path) -> None:
    encoded = BATCH.set_column(1, "text", BATCH["text"].dictionary_encode())
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    assert DropNearDuplicates(url)(encoded)["id"].to_pylist() == [1, 3, 4]
    assert AddSignatures()(encoded)["signature"] == AddSignatures()(BATCH)["signature"]
    for function in (DropNearDuplicates(url, text="id"), AddSignatures(text="id")):
        with pytest.raises(UsageError, match="int64"):
            function(BATCH)


@pytest.mark.full
def test_ray_runs_both(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="make test-full installs ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        options = {"fn_constructor_kwargs": {"store": f"sqlite:///{tmp_path / 'kin.db'}"}}
        dataset = ray.data.from_arrow([BATCH.slice(0, 2), BATCH.slice(2)])
        signed = dataset.map_batches(AddSignatures, batch_format="pyarrow", concurrency=1)
        kept = signed.map_batches(
            DropNearDuplicates, batch_format="pyarrow", concurrency=2, **options
        )
        rows = kept.take_all()
    finally:
        ray.shutdown()
    assert len(rows) == 3
    assert {row["id"] for row in rows} in ({1, 3, 4}, {2, 3, 4})
