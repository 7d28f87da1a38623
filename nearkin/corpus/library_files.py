"""Files beside data that belong to a library: markers, logs, checksums, caches and indices."""

import json
import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from typing import NamedTuple

from nearkin.corpus.file_names import format_path
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.errors import UsageError

DATASETS = "Hugging Face datasets"
LIBRARY_FILES = {
    DATASETS: (
        *("dataset_info.json", "dataset_infos.json", "dataset_dict.json"),
        *("cache-*.arrow", "indices-*.arrow", "*.arrow.incomplete"),
    ),
    "Hadoop or Spark": (
        *("_SUCCESS", "_committed_*", "_started_*", "_temporary", "_spark_metadata"),
        *("_metadata", "_common_metadata", "*.crc", "_checkpoint", "_checkpoints"),
    ),
    "Delta Lake": ("_delta_log", "_delta_index", "_change_data", "deletion_vector_*.bin"),
    "Iceberg": (
        *("metadata/*.avro", "metadata/version-hint.text", "metadata/*.stats"),
        *("metadata/v[0-9]*.metadata.json", "metadata/[0-9]*-*.metadata.json"),
    ),
    "Lance": (
        *("_versions", "_transactions", "_deletions", "_indices", "_refs", "_latest.manifest"),
        "_latest_version_hint.json",
    ),
    "Hudi": (".hoodie", ".hoodie_partition_metadata*"),
    "Jupyter": (".ipynb_checkpoints",),
    "Git": (".git", ".gitattributes", ".gitignore"),
    "DVC": (".dvc", "*.dvc", "dvc.lock"),
    "the system": (".DS_Store", "__MACOSX", "Thumbs.db"),
    "another file, as its index": ("*.idx",),
    "another file or folder, as its lock": ("*.lock",),
}
"""The names of files and folders, by the library that they belong to. A name with a slash begins
with that of the folder."""
STATE = "state.json"
"""The file of a saved dataset that names its data files."""
SPLITS = "dataset_dict.json"
"""The file of several saved datasets that names their folders."""
MAX_STATE = 1 << 20
"""The maximum size of such a file, in bytes."""
UNNAMED = "it is not one of the files that {} of its saved dataset names"
"""Why a file or folder beside a saved dataset is not read."""


def _compile(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


NAMES = {
    library: (
        _compile(pattern for pattern in patterns if "/" not in pattern),
        _compile(pattern for pattern in patterns if "/" in pattern),
    )
    for library, patterns in LIBRARY_FILES.items()
}


def describe_library_file(path: str) -> str | None:
    """Returns why a file or folder is not read because it belongs to a library, or None.

    Examples:
        >>> describe_library_file("out/_SUCCESS")
        'it belongs to Hadoop or Spark and holds no documents; name it to read it'
        >>> describe_library_file("out/part-0.parquet")
    """
    above, _, name = path.rpartition("/")
    in_folder = f"{above.rpartition('/')[2]}/{name}"
    for library, (names, paths) in NAMES.items():
        if name and (names.fullmatch(name) or paths.fullmatch(in_folder)):
            return f"it belongs to {library} and holds no documents; name it to read it"
    return None


def describe_library_path(relative: str) -> str | None:
    """Returns why a file is not read because it, or a folder above it, belongs to a library.

    Examples:
        >>> describe_library_path("a/.ipynb_checkpoints/b.csv")
        'it belongs to Jupyter and holds no documents; name it to read it'
    """
    parts = relative.split("/")
    paths = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
    return next(filter(None, map(describe_library_file, paths)), None)


class SavedDataset(NamedTuple):
    """A folder that the library datasets saved, or one with several of them."""

    folder: str
    """The path of the folder, or its URL."""
    files: frozenset[str]
    """The names of the data files in it."""
    splits: frozenset[str] | None = None
    """The names of the folders in it that are saved datasets, or None if it is one itself."""

    def describe_skipped(self, name: str) -> str | None:
        """Returns why a file or folder is not read, or None if it is."""
        if name in self.files or (self.splits is not None and name in self.splits):
            return None
        described = describe_library_file(f"{self.folder}/{name}")
        if name == STATE:
            described = describe_library_file(SPLITS)
        return described or UNNAMED.format(STATE if self.splits is None else SPLITS)


def find_saved_dataset(
    folder: str, names: Iterable[str], read: Callable[[str], bytes]
) -> SavedDataset | None:
    """Returns the saved dataset that a folder is, or None."""
    present = set(names)
    shown = format_path(folder)
    if SPLITS in present:
        splits = _read_names(read, SPLITS, "splits")
        if splits is not None:
            return SavedDataset(folder, frozenset(), frozenset(splits))
    if STATE not in present:
        return None
    files = _read_names(read, STATE, "_data_files")
    if files is None:
        return None
    if _read_names(read, STATE, "_indices_data_files"):
        raise UsageError(
            f"cannot read the saved dataset {shown}: it is a selection of the rows of its files; "
            f"save these rows with datasets.load_from_disk({shown!r}).flatten_indices()"
            ".save_to_disk(FOLDER), and read that folder"
        )
    missing = sorted(set(files) - present)
    if missing:
        raise UsageError(
            f"{shown}/{format_path(missing[0])} is missing, which is a data file of the saved "
            "dataset; save it again, or name the files that are there"
        )
    return SavedDataset(folder, frozenset(files))


def _read_names(read: Callable[[str], bytes], file: str, key: str) -> list[str] | None:
    try:
        with decoding():
            entries = json.loads(read(file))[key]
            return [
                entry if isinstance(entry, str) else str(entry["filename"])
                for entry in entries or ()
            ]
    except DamageError:
        return None
