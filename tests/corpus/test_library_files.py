"""Files of libraries beside data, and folders that the library datasets saved."""

import json
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.ipc
import pytest

from nearkin.corpus.inputs import Selection, find_inputs
from nearkin.corpus.library_files import LIBRARY_FILES, describe_library_file
from nearkin.errors import UsageError
from tests.corpus.samples import lines_of, names_of, run_dedup_on, words_of

FOREIGN = [
    "_SUCCESS",
    ".part-0.jsonl.crc",
    "part-0.jsonl.crc",
    "_committed_123",
    "_started_123",
    "_metadata",
    "_checkpoints/offsets/0",
    "shard.idx",
    "root_cache_json_default-1b2c_0.0.0_3d4e.lock",
    "downloads/1b2c.lock",
    "a.csv.dvc",
    "cache-1b2c.arrow",
    "dataset_info.json",
    ".ipynb_checkpoints/a-checkpoint.jsonl",
    "metadata/snap-1-2.avro",
    "_versions/notes.txt",
    "_delta_index/a.json",
    ".git/config",
    "__MACOSX/a.jsonl",
]


def write(path: Path, content: str = "{}\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.mark.parametrize("hidden", [False, True])
def test_files_of_libraries_are_not_data(hidden: bool, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", lines_of(1))
    for name in FOREIGN:
        write(tmp_path / "in" / name)
    for given in (tmp_path / "in", tmp_path / "in" / "**"):
        assert names_of(given, hidden=hidden) == ["a.jsonl"]
    skipped = find_inputs([str(tmp_path / "in")], Selection(hidden=hidden)).skipped
    assert len(skipped) == len(FOREIGN)
    assert all("it belongs to " in entry.reason for entry in skipped)


@pytest.mark.parametrize("name", FOREIGN)
def test_named_file_of_a_library_is_read(name: str, tmp_path: Path) -> None:
    write(tmp_path / name)
    assert len(find_inputs([str(tmp_path / name)]).files) == 1


def test_pattern_that_matches_nothing_else_means_files_of_a_library(tmp_path: Path) -> None:
    write(tmp_path / "a.idx")
    assert names_of(tmp_path / "*.idx") == ["a.idx"]
    write(tmp_path / "a.jsonl", lines_of(1))
    assert names_of(tmp_path / "a.*") == ["a.jsonl"]


def test_names_that_resemble_those_of_libraries_are_data(tmp_path: Path) -> None:
    names = ["cached-1.arrow", "state.json", "dataset_info.jsonl", "metadata/a.json", "x.crc.txt"]
    for name in names:
        write(tmp_path / name)
    assert sorted(names_of(tmp_path)) == sorted(names)


@pytest.mark.parametrize("library", LIBRARY_FILES)
def test_reason_names_the_library(library: str) -> None:
    name = LIBRARY_FILES[library][0].replace("*", "x")
    assert str(describe_library_file(f"in/{name}")).startswith(f"it belongs to {library}")


def test_summary_names_skipped_files_once_for_each_library(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", lines_of(1, 2))
    for name in FOREIGN[:6]:
        write(tmp_path / "in" / name)
    warnings = run_dedup_on([str(tmp_path / "in")], tmp_path / "out")["warnings"]
    assert [warning for warning in warnings if "Hadoop" in warning] == [
        f"skipped '{tmp_path}/in/.part-0.jsonl.crc' and 5 more among the inputs: it belongs to "
        "Hadoop or Spark and holds no documents; name it to read it"
    ]


def save_dataset(folder: Path, files: dict[str, list[int]], **state: object) -> Path:
    """Writes what `Dataset.save_to_disk` writes, and a cache of `map`."""
    for name, numbers in {**files, "cache-97eeb50443c558fd.arrow": [*range(50)]}.items():
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.table({"text": [words_of(number) for number in numbers]})
        with pa.ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table)
    facts = {"_data_files": [{"filename": name} for name in files], "_fingerprint": "ab", **state}
    write(folder / "state.json", json.dumps(facts))
    write(folder / "dataset_info.json", '{"features": {"text": {"dtype": "string"}}}')
    return folder


def test_saved_dataset_has_the_files_that_it_names(tmp_path: Path) -> None:
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    folder = save_dataset(tmp_path / "in", {name: [1, 2] for name in names})
    write(folder / "data-00002-of-00003.arrow")
    for given in (folder, folder / "*", folder / "*.arrow", folder / "**"):
        assert names_of(given) == names
    record = run_dedup_on([str(folder)], tmp_path / "out")
    assert (record["counts"]["read"], record["counts"]["kept"]) == (4, 2)
    with pa.ipc.open_stream(tmp_path / "out" / "kept" / names[0]) as kept:
        assert len(kept.read_all()) == 2
    reasons = {Path(entry["path"]).name: entry["reason"] for entry in record["skipped"]["first"]}
    assert "state.json of its saved dataset names" in reasons["data-00002-of-00003.arrow"]
    assert "Hugging Face datasets" in reasons["cache-97eeb50443c558fd.arrow"]
    assert reasons["state.json"] == reasons["dataset_info.json"]


def test_library_datasets_saves_such_folders(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"text": [words_of(number) for number in range(6)]})
    splits = datasets.DatasetDict({"train": rows, "test": rows.select([0])})
    splits.save_to_disk(tmp_path / "in")
    loaded = datasets.load_from_disk(tmp_path / "in")["train"]
    loaded.map(lambda row: {"text": row["text"].upper()})
    save_dataset(tmp_path / "in" / "old", {"data.arrow": [1]})
    files = "data-00000-of-00001.arrow"
    assert names_of(tmp_path / "in") == [f"test/{files}", f"train/{files}"]
    record = run_dedup_on([str(tmp_path / "in")], tmp_path / "out")
    assert (record["counts"]["read"], record["counts"]["kept"]) == (7, 6)


def test_dataset_that_is_a_selection_of_its_files_is_refused(tmp_path: Path) -> None:
    indices = [{"filename": "indices-00000-of-00001.arrow"}]
    folder = save_dataset(tmp_path / "in", {"data.arrow": [1]}, _indices_data_files=indices)
    with pytest.raises(UsageError, match=r"selection of the rows .*flatten_indices\(\)\.save"):
        find_inputs([str(folder)])
    assert names_of(folder / "data.arrow") == ["data.arrow"]


def test_saved_dataset_without_a_file_is_refused(tmp_path: Path) -> None:
    folder = save_dataset(tmp_path / "in", {"data.arrow": [1], "more.arrow": [2]})
    (folder / "more.arrow").unlink()
    with pytest.raises(UsageError, match=r"more\.arrow is missing"):
        find_inputs([str(folder)])


def test_saved_dataset_in_object_storage(tmp_path: Path) -> None:
    folder = save_dataset(tmp_path / "in", {"data.arrow": [1]})
    storage = fsspec.filesystem("memory")
    storage.put(str(folder), "/saved", recursive=True)
    try:
        for given in ("memory://saved", "memory://saved/*.arrow"):
            found = find_inputs([given])
            assert [file.name for file in found.files] == ["data.arrow"]
        assert len(find_inputs(["memory://saved"]).skipped) == 3
        assert len(find_inputs(["memory://saved/state.json"]).files) == 1
    finally:
        storage.rm("/saved", recursive=True)
