"""Tests of Delta tables in object storage, whose logs are copied."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, cloud_storage
from nearkin.corpus.delta_logs import copy_log, list_log
from nearkin.corpus.inputs import InputListing, Selection, find_inputs
from nearkin.corpus.remote_tables import find_enclosing_table
from nearkin.errors import MissingExtraError, UsageError
from tests.corpus.object_storage import serve_objects
from tests.corpus.samples import run_dedup_on, words_of
from tests.corpus.test_table_folders import edit_log, make_deletion_vector

deltalake = pytest.importorskip("deltalake")

ROWS = pa.table({"text": [words_of(1), words_of(2)], "day": ["mon/é", "tue day"]})
SECRET = "a-very-secret-key"


class Lake:
    """A Delta table in a folder, whose files are objects of a server.

    Attributes:
        objects: The objects of the server.
        options: Its faults.
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.objects: dict[str, bytes] = {}
        self.options: dict[str, Any] = {}
        self.folder = folder

    def write(self, rows: pa.Table = ROWS, **options: Any) -> None:
        """Writes rows as a new version, and uploads it."""
        deltalake.write_deltalake(self.folder, rows, **options)
        self.upload()

    def upload(self) -> None:
        """Puts all files of the folder to `s3://lake/my tables/t`."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                name = f"lake/my tables/t/{path.relative_to(self.folder)}"
                self.objects[name] = path.read_bytes()


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    served = Lake(tmp_path / "table")
    with serve_objects(served.objects, served.options) as address:
        cloud_storage._connect_s3.cache_clear()
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield served
    cloud_storage._connect_s3.cache_clear()


def names_of(listing: InputListing) -> list[str]:
    return [file.path for file in listing.files]


@pytest.mark.parametrize("partitions", [None, ["day"]])
def test_only_rows_of_the_newest_version_are_read(
    partitions: list[str] | None, lake: Lake, tmp_path: Path
) -> None:
    lake.write(partition_by=partitions)
    deltalake.DeltaTable(lake.folder).delete("day = 'mon/é'")
    lake.upload()
    lake.objects["lake/other.jsonl"] = json.dumps({"text": words_of(3)}).encode()
    assert sum(name.endswith(".parquet") for name in lake.objects) == 2
    (current,) = names_of(find_inputs(["s3://lake/my tables/t"]))
    for given in ("s3://lake/my tables/t/**/*.parquet", "s3://lake/my tables/t/"):
        assert names_of(find_inputs([given])) == [current]
    record = run_dedup_on(["s3://lake/my tables/t"], tmp_path / "out")
    assert record["counts"]["read"] == 1
    assert record["tables"] == [{"path": "s3://lake/my tables/t", "format": "Delta", "version": 1}]
    assert SECRET not in (tmp_path / "out" / "run.json").read_text()
    kept = pq.read_table(tmp_path / "out" / "kept", columns=["text"])
    assert kept["text"].to_pylist() == [words_of(2)]
    assert len(find_inputs(["s3://lake"]).files) == 2
    assert names_of(find_inputs(["s3://lake"], Selection(exclude=("t",)))) == [
        "s3://lake/other.jsonl"
    ]


def test_partition_folder_has_its_current_files(lake: Lake) -> None:
    lake.write(partition_by=["day"])
    deltalake.DeltaTable(lake.folder).delete("day = 'mon/é'")
    lake.upload()
    removed, current = sorted(path.name for path in lake.folder.glob("day=*"))
    (file,) = find_inputs([f"s3://lake/my tables/t/{current}"]).files
    assert file.path.startswith(f"s3://lake/my tables/t/{current}/")
    with pytest.raises(UsageError, match="no files match"):
        find_inputs([f"s3://lake/my tables/t/{removed}"])
    with pytest.raises(UsageError, match="not in the newest version"):
        find_inputs([f"s3://lake/my tables/t/{removed}/*.parquet"])


def test_log_is_read_from_the_newest_checkpoint_on(lake: Lake) -> None:
    lake.write()
    for _ in range(2):
        lake.write(mode="append")
    deltalake.DeltaTable(lake.folder).create_checkpoint()
    lake.write(mode="append")
    url = "s3://lake/my tables/t"
    with copy_log(url) as folder:
        names = sorted(path.name for path in Path(folder, "_delta_log").iterdir())
        assert deltalake.DeltaTable(folder).version() == 3
    assert names == [
        f"{2:020d}.checkpoint.parquet",
        f"{2:020d}.json",
        f"{3:020d}.json",
        "_last_checkpoint",
    ]
    assert len(find_inputs([url]).files) == 4
    # A pointer that is damaged, or is not there, costs the reading of older files.
    for pointer in (b"[[[", b'{"version": 1e999}'):
        lake.objects["lake/my tables/t/_delta_log/_last_checkpoint"] = pointer
        assert len(find_inputs([url]).files) == 4


def test_names_of_a_log_cannot_lead_out_of_the_copy(lake: Lake, tmp_path: Path) -> None:
    lake.write()
    for name in ("../../evil.json", "_sidecars/../../../evil.parquet", f"{1:020d}.x/evil"):
        lake.objects[f"lake/my tables/t/_delta_log/{name}"] = b"{}"
    with copy_log("s3://lake/my tables/t") as folder:
        copied = [path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file()]
    assert copied == [Path("_delta_log", f"{0:020d}.json")]


def test_table_with_deletion_vectors_is_refused(lake: Lake) -> None:
    lake.write()
    feature = ["deletionVectors"]
    features = {"readerFeatures": feature, "writerFeatures": feature}
    edit_log(lake.folder, "protocol", minReaderVersion=3, minWriterVersion=7, **features)
    lake.upload()
    assert len(find_inputs(["s3://lake/my tables/t"]).files) == 1
    in_log = make_deletion_vector(1)
    in_file = in_log | {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    for vector in (in_log, in_file):
        edit_log(lake.folder, "add", deletionVector=vector)
        lake.upload()
        with pytest.raises(UsageError, match=r"deletion vectors.*DeltaTable\('s3://lake/my tables"):
            find_inputs(["s3://lake/my tables/t"])


def test_version_is_read_after_the_table_has_a_newer_one(lake: Lake) -> None:
    lake.write()
    corpus = FileCorpus.open(["s3://lake/my tables/t"])
    rows = [len(batch.rows) for batch in corpus.batches(Columns())]
    lake.write(mode="append")
    assert [len(batch.rows) for batch in corpus.batches(Columns())] == rows
    corpus.require_all_unchanged()


def test_table_that_cannot_be_read_is_one_sentence(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write()
    [data] = [name for name in lake.objects if name.endswith(".parquet")]
    content = lake.objects.pop(data)
    with pytest.raises(UsageError, match=r"s3://.*\.parquet is missing, which is a data file"):
        find_inputs(["s3://lake/my tables/t"])
    lake.objects[data] = content
    [commit] = list_log("s3://lake/my tables/t")
    lake.objects[f"lake/my tables/t/_delta_log/{commit}"] = b"{"
    with pytest.raises(UsageError, match=r"cannot read the Delta table s3://lake/my tables/t: "):
        find_inputs(["s3://lake/my tables/t"])
    lake.options["status"] = 403
    with pytest.raises(UsageError, match="no permission to list s3://lake/my tables/t") as caught:
        find_inputs(["s3://lake/my tables/t"])
    assert SECRET not in str(caught.value)
    del lake.options["status"]
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingExtraError, match=r"\[delta\]"):
        find_inputs(["s3://lake/my tables/t"])


class _Storage:
    """A file system whose folders above `lake/my tables` fail with an error."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    def isdir(self, path: str) -> bool:
        if path.startswith("lake/my tables/"):
            return False
        raise self.error


def test_folders_above_that_may_not_be_listed_have_no_table() -> None:
    given = "s3://lake/my tables/t"
    for denial in (PermissionError(), OSError("AWS Error ACCESS_DENIED during HeadObject")):
        assert find_enclosing_table(given, _Storage(denial), "lake/my tables/t") is None
    with pytest.raises(TimeoutError):
        find_enclosing_table(given, _Storage(TimeoutError()), "lake/my tables/t")
