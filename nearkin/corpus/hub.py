"""Repositories of the Hugging Face Hub as inputs: the commit that is read, and its data files.

It needs the extra `hub`.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nearkin.corpus.file_names import COMPRESSION_SUFFIXES
from nearkin.corpus.foreign_errors import describe_error, translate_foreign_errors
from nearkin.corpus.library_files import describe_library_file
from nearkin.corpus.remote_errors import HUB, translate_listing_errors
from nearkin.corpus.table_folders import TableFolder, TableFormat, find_remote_tables
from nearkin.errors import MissingExtraError, UsageError

try:
    from huggingface_hub import HfApi, HfFileSystem, RepoCard
except ImportError as error:
    message = "hf:// requires huggingface_hub"
    raise MissingExtraError.for_extra(message, "hub") from error

DATA_SUFFIXES = (
    (".parquet",),
    (".jsonl", ".ndjson"),
    (".json",),
    (".csv", ".tsv"),
    (".arrow",),
    (".avro",),
    (".orc",),
    (".tar",),
    (".warc", ".wet"),
)
"""The suffixes of data files. A dataset that does not say which files it consists of consists of
those of the first kind that it has: a hub converts some datasets and keeps the originals."""
CARD = "README.md"
MAX_CARD_BYTES = 4 << 20
"""The largest dataset card that is read, in bytes."""
MAX_PATTERNS = 1000
"""The largest number of patterns of a configuration."""
MAX_STARS = 8
"""The largest number of `*` in a pattern of a card. Matching many of them can take very long."""
WILDCARDS = frozenset("*?[")


class HubInput(NamedTuple):
    """An input of the hub at one commit."""

    url: str
    """The URL with the commit in place of a branch or a tag."""
    path: str
    """The path of the input in the file system, or that of the dataset."""
    names: list[str] | None
    """The paths of the data files of a dataset, or None if the input names a file, a folder or a
    pattern."""


def endpoint() -> str | None:
    """Returns the address of the hub that HF_ENDPOINT names, or None for the usual one."""
    return (os.environ.get("HF_ENDPOINT") or "").rstrip("/") or None


def open_hub(url: str) -> tuple[HfFileSystem, str]:
    """Returns the file system of the hub, and the path of a URL in it."""
    return HfFileSystem(endpoint=endpoint()), url.partition("://")[2].strip("/")


def resolve_hub_input(filesystem: HfFileSystem, url: str) -> HubInput:
    """Returns the commit and the files that a URL names now.

    A dataset without a path consists of the data files that its card lists, or of all data files.
    A path that does not exist may be the name of a configuration, with or without a split.
    """
    with translate_listing_errors(url):
        path = url.partition("://")[2].strip("/")
        # The file system remembers repositories that did not exist or could not be read.
        filesystem.invalidate_cache()
        resolved = filesystem.resolve_path(path)
        if not hasattr(resolved, "repo_id"):
            # A bucket has no commits.
            return HubInput(url, path, None)
        api = HfApi(endpoint=endpoint())
        commit = api.repo_info(
            resolved.repo_id, repo_type=resolved.repo_type, revision=resolved.revision
        ).sha
        prefix = "" if resolved.repo_type == "model" else f"{resolved.repo_type}s/"
        root = f"{prefix}{resolved.repo_id}@{commit}"
        inside = resolved.path_in_repo.strip("/")
        path = f"{root}/{inside}".rstrip("/")
        pinned = f"{HUB}://{path}"
        names_files = WILDCARDS & set(inside) or (inside and filesystem.exists(path))
        if resolved.repo_type != "dataset" or names_files:
            return HubInput(pinned, path, None)
        return HubInput(pinned, root, _find_data_files(filesystem, root, inside))


def _find_data_files(filesystem: HfFileSystem, root: str, subset: str) -> list[str]:
    name, _, split = subset.partition("/")
    configurations = _read_configurations(filesystem, root)
    if name and name not in configurations:
        known = ", ".join(configurations) or "none"
        raise UsageError(
            f"{HUB}://{root} has neither a path nor a configuration {subset!r}; the "
            f"configurations of its card: {known}"
        )
    if not name and not configurations:
        return _find_all_data_files(filesystem, root)
    patterns = _patterns_of(_choose_configuration(configurations, name, root), split)
    _require_usable_patterns(patterns, root)
    names = sorted(
        {
            found
            for pattern in patterns
            for found in _expand_pattern(filesystem, f"{root}/{pattern.strip('/')}")
        }
    )
    if not names:
        searched = ", ".join(patterns[:5]) or "its split"
        raise UsageError(
            f"{HUB}://{root} has no files of {name or 'the default configuration'}: none match "
            f"{searched}"
        )
    return names


def _require_usable_patterns(patterns: Sequence[str], root: str) -> None:
    reason = ""
    if len(patterns) > MAX_PATTERNS:
        reason = f"{len(patterns):,} patterns, and {MAX_PATTERNS:,} are the most"
    for pattern in patterns:
        if "://" in pattern or ".." in pattern.split("/"):
            reason = f"files outside of the repository ({pattern[:80]})"
        if pattern.count("*") > MAX_STARS:
            reason = f"a pattern with more than {MAX_STARS} stars ({pattern[:80]})"
    if reason:
        raise UsageError(f"the card of {HUB}://{root} lists {reason}; give the URLs of the files")


def _expand_pattern(filesystem: HfFileSystem, pattern: str) -> list[str]:
    if not WILDCARDS & set(pattern):
        return list(filesystem.find(pattern))
    return [path for path in filesystem.glob(pattern) if not filesystem.isdir(path)]


def _find_all_data_files(filesystem: HfFileSystem, root: str) -> list[str]:
    """Returns the data files of the first kind that a dataset without configurations has."""
    listed = filesystem.find(root)
    for table in find_remote_tables(root, listed):
        if table.format is TableFormat.DELTA and table.path != root:
            raise UsageError(
                f"{HUB}://{root} has the Delta table {HUB}://{table.path}; give the folder of the "
                "table, or that of other files"
            )
        raise TableFolder(f"{HUB}://{table.path}", table.format).make_error()
    paths = [
        path
        for path in listed
        if not any(part.startswith((".", "_")) for part in path[len(root) + 1 :].split("/"))
        and describe_library_file(path) is None
    ]
    for suffixes in DATA_SUFFIXES:
        names = [path for path in paths if _data_suffix(path) in suffixes]
        if names:
            return names
    raise UsageError(
        f"{HUB}://{root} has no data files ({len(paths)} other files); give the URL of a file or a "
        "folder"
    )


def _data_suffix(path: str) -> str:
    """Returns the suffix of a path without that of a compression, in lower case."""
    stem, dot, suffix = path.lower().rpartition(".")
    if f"{dot}{suffix}" in COMPRESSION_SUFFIXES:
        _, dot, suffix = stem.rpartition(".")
    return f"{dot}{suffix}"


def _read_configurations(filesystem: HfFileSystem, root: str) -> dict[str, Mapping[str, Any]]:
    path = f"{root}/{CARD}"
    if not filesystem.exists(path):
        return {}
    with filesystem.open(path, "rb") as file:
        content = file.read(MAX_CARD_BYTES).decode("utf-8", "replace")
    if not re.match(r"\s*---\s", content):
        return {}
    with translate_foreign_errors(
        lambda error: UsageError(
            f"the metadata of {HUB}://{path} cannot be read ({describe_error(error)}); give the "
            "URLs of the files"
        )
    ):
        entries = RepoCard(content).data.get("configs") or []
        return {_require_text(entry["config_name"]): entry for entry in entries}


def _choose_configuration(
    configurations: Mapping[str, Mapping[str, Any]], name: str, root: str
) -> Mapping[str, Any]:
    if name:
        return configurations[name]
    chosen = [entry for entry in configurations.values() if entry.get("default")]
    if not chosen and "default" in configurations:
        return configurations["default"]
    chosen = chosen or list(configurations.values())
    if len(chosen) > 1:
        names = ", ".join(configurations)
        raise UsageError(
            f"{HUB}://{root} has several configurations ({names}); name one, for example "
            f"{HUB}://{root}/{next(iter(configurations))}"
        )
    return chosen[0]


def _patterns_of(configuration: Mapping[str, Any], split: str) -> list[str]:
    data_files = configuration.get("data_files")
    folder = _require_text(configuration.get("data_dir") or "").strip("/")
    if data_files is None:
        return [folder or "**"] if split in ("", "train") else []
    if isinstance(data_files, Mapping):
        data_files = [{"split": key, "path": value} for key, value in data_files.items()]
    entries = _as_list(data_files)
    patterns: list[str] = []
    for entry in entries:
        by_split = isinstance(entry, Mapping)
        of_split = entry.get("split", "train") if by_split else "train"
        if split in ("", of_split):
            paths = _as_list(entry.get("path", []) if by_split else entry)
            patterns.extend(map(_require_text, paths))
    return [f"{folder}/{pattern}" if folder else pattern for pattern in patterns]


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(
            f"the metadata of {CARD} has a value of type {type(value).__name__} where a text is "
            "expected; give the URLs of the files"
        )
    return value


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]
