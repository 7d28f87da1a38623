"""The search for input files by path, pattern, folder or URL, and the list of what is skipped."""

import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from nearkin.corpus.file_names import (
    format_path,
    hide_password,
    list_partition_folders,
    make_distinct_names,
    make_safe_name,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.library_files import (
    MAX_STATE,
    STATE,
    SavedDataset,
    describe_library_file,
    describe_library_path,
    find_saved_dataset,
)
from nearkin.corpus.remote import EXTRAS, make_url, open_filesystem
from nearkin.corpus.remote_errors import HUB, parse_protocol, translate_listing_errors
from nearkin.corpus.remote_tables import RemoteTables, find_enclosing_table
from nearkin.corpus.table_folders import (
    TableFolder,
    TableFormat,
    detect_table,
    find_remote_tables,
    find_table,
    list_names,
)
from nearkin.corpus.table_opening import open_named_version, open_newest_version
from nearkin.corpus.table_versions import TableVersion
from nearkin.errors import UsageError
from nearkin.runtime.outputs import LOCK, MARKER, UPLOAD_RECORD
from nearkin.runtime.setting_names import name_flag, name_setting

MAGIC = frozenset("*?[")
LOCAL = ("file://", "local://")
FILE_PARAMETER = re.compile(r"[?&][^=&]*=[^=&]*\.[A-Za-z][A-Za-z0-9]{1,8}$")
"""The last parameter of a URL if it is the name of a file."""
REPEATED_FOLDER = "it is a link to a folder that is read already"
BROKEN_LINK = "it is a symbolic link to nothing"
SPECIAL = "it is not a regular file"
OUTPUT = "it is the output of a nearkin run"
MATCHED_FOLDER = "it is a folder; name it without a pattern, or end the pattern with /**"
UNREADABLE = "it cannot be read"


def describe_hidden() -> str:
    """Returns why a file or folder whose name says that it is hidden is not read."""
    return f"its name starts with . or _; read it with {name_flag('hidden')}"


@dataclass(frozen=True)
class Selection:
    """The rules that decide which files of a folder are inputs.

    Attributes:
        hidden: Whether names that start with `.` or `_` are included.
        follow_links: Whether symbolic links to folders are followed. Each folder is read once,
            so loops end.
        include: Patterns of which a file must match at least one, as `matches_pattern` defines it.
            Every file is included if there are none.
        exclude: Patterns of which a file must match none.
    """

    hidden: bool = False
    follow_links: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, patterns in (("include", self.include), ("exclude", self.exclude)):
            if not all(isinstance(pattern, str) and pattern for pattern in patterns):
                raise UsageError(
                    f"{name_setting(name)} has a pattern that is empty or not a text: "
                    f"{list(patterns)!r}; give patterns such as '*.csv'"
                )

    def excludes(self, relative: str) -> bool:
        """Returns whether a file or folder, or a folder above it, matches an `exclude` pattern."""
        return any(matches_pattern(relative, pattern) for pattern in self.exclude)

    def find_refusal(self, relative: str) -> str | None:
        """Returns the reason why the patterns leave a file out, or None."""
        if self.excludes(relative):
            return f"it matches {name_setting('exclude')}"
        if self.include and not any(matches_pattern(relative, one) for one in self.include):
            return f"it matches no {name_setting('include')}"
        return None


def matches_pattern(relative: str, pattern: str) -> bool:
    """Returns whether a file, or a folder above it, matches a pattern.

    A pattern without `/` is compared with each name of the path. Any other pattern is compared with
    the path from its beginning; `*` and `**` match across `/` then.

    Examples:
        >>> matches_pattern("texts/README.md", "*.md"), matches_pattern("a/b.csv", "a/")
        (True, True)
        >>> matches_pattern("old/a.csv", "**/old/*"), matches_pattern("a.csv", "*.md")
        (True, False)
    """
    parts = relative.split("/")
    plain = pattern.rstrip("/").removeprefix("./")
    if "/" not in plain:
        return any(fnmatchcase(part, plain) for part in parts)
    paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    forms = {plain, plain.removeprefix("**/")}
    return any(fnmatchcase(path, form) for path in paths for form in forms)


class SkippedPath(NamedTuple):
    """A file or folder among the inputs that is not read, with all that is below it."""

    path: str
    reason: str


class InputListing(NamedTuple):
    """The input files, and the paths that were skipped."""

    files: tuple[InputFile, ...]
    skipped: tuple[SkippedPath, ...]
    searched: frozenset[str]
    """The paths of the files that a folder or a pattern contributed, and that nobody named."""
    tables: tuple[TableVersion, ...] = ()
    """The versions of the tables that the files belong to, sorted by path."""


def find_inputs(inputs: Sequence[str], selection: Selection | None = None) -> InputListing:
    """Finds every file that the inputs name, each path once, sorted by relative name (bytes).

    Two paths are the same input if they are equal without `.`, `..` and repeated slashes. Links
    keep their own names, so a file with two names is two inputs.
    """
    if not all(map(os.fspath, inputs)):
        raise UsageError("an input is the empty text ''; give a file, a folder, a pattern or a URL")
    search = _InputSearch(selection or Selection())
    partition_counts: dict[str, int] = {}
    for given in map(os.fspath, inputs):
        for path in search.expand(given):
            count = _count_partitions(given, path, is_file=path in search.named)
            partition_counts[path] = max(count, partition_counts.get(path, 0))
    paths = sorted(partition_counts, key=os.fsencode)
    if not paths:
        left_out = f": {search.skipped[0].path}: {search.skipped[0].reason}"
        raise UsageError(f"no inputs are left{left_out}" if search.skipped else "no inputs given")
    versions = tuple(sorted(search.versions, key=lambda version: os.fsencode(version.table.path)))
    places = _name_lance_tables(versions)
    shown = [hide_password(places.get(path, path)) for path in paths]
    without_parameters = [_remove_parameters(path) for path in shown]
    counts = [partition_counts[path] for path in paths]
    names = [make_safe_name(path) for path in _relative_paths(without_parameters, counts)]
    files = map(InputFile, paths, make_distinct_names(names))
    return InputListing(
        tuple(sorted(files, key=lambda file: file.name.encode())),
        tuple(sorted({entry for entry in search.skipped if entry.path not in set(shown)})),
        frozenset(paths) - search.named,
        versions,
    )


def _name_lance_tables(versions: Sequence[TableVersion]) -> dict[str, str]:
    """Returns the path of the table for each manifest, with the suffix that decides the format."""
    return {
        version.files[0]: f"{version.table.path.removesuffix('.lance')}.lance"
        for version in versions
        if version.table.format is TableFormat.LANCE
    }


def normalize_path(given: str) -> str:
    """Returns an absolute path without `.` and `..`.

    A `..` after a link has the meaning that it has for the system.
    """
    path = "/"
    for part in os.path.join(os.getcwd(), given).split("/"):  # noqa: PTH109, PTH118 (bytes that are not UTF-8 stay as they are)
        if part == "..":
            path = os.path.dirname(os.path.realpath(path))  # noqa: PTH120
        elif part not in ("", "."):
            path = f"{path.rstrip('/')}/{part}"
    return path


def describe_skipped(skipped: Sequence[SkippedPath]) -> list[str]:
    """Returns a sentence for each reason why paths were skipped.

    It has the first path and the number of the others.
    """
    first: dict[str, str] = {}
    for path, reason in skipped:
        first.setdefault(reason, path)
    counted = Counter(entry.reason for entry in skipped)
    sentences = []
    for reason, path in first.items():
        more_files = f" and {counted[reason] - 1:,} more" if counted[reason] > 1 else ""
        sentences.append(f"skipped {path!r}{more_files} among the inputs: {reason}")
    return sentences


def is_hidden(parts: Sequence[str]) -> bool:
    """Returns True if a part of a path starts with `.` or `_`, like `.git` or `_SUCCESS`."""
    return any(part.startswith((".", "_")) for part in parts)


def is_output(folder: str) -> bool:
    """Returns True if a folder is the output or the work folder of a nearkin run."""
    return any(os.path.exists(f"{folder}/{mark}") for mark in (MARKER, LOCK))  # noqa: PTH110


def _remove_parameters(path: str) -> str:
    """Returns a URL of HTTP without its parameters, for example those of a signature.

    They stay if the last one is the name of a file, whose suffix decides the format. Other paths
    are returned unchanged.

    Examples:
        >>> _remove_parameters("https://host/a.csv?sign=x.y/z"), _remove_parameters("/a.csv?b")
        ('https://host/a.csv', '/a.csv?b')
        >>> _remove_parameters("https://host/get?file=a.csv")
        'https://host/get?file=a.csv'
    """
    if parse_protocol(path) not in EXTRAS or FILE_PARAMETER.search(path):
        return path
    return path.partition("?")[0]


def _count_partitions(given: str, path: str, *, is_file: bool) -> int:
    """Returns the number of partition folders above a file that its input does not name."""
    folder = _fixed_folder(given if "://" in given else normalize_path(given), is_file=is_file)
    named = list_partition_folders(f"{folder.rstrip('/')}/")
    return max(0, len(list_partition_folders(path)) - len(named))


def _relative_paths(paths: Sequence[str], partition_counts: Sequence[int]) -> list[str]:
    folders = [
        path.split("/")[: -1 - count] for path, count in zip(paths, partition_counts, strict=True)
    ]
    shared = takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    common = "".join(f"{names[0]}/" for names in shared)
    return [path[len(common) :] for path in paths]


@dataclass
class _InputSearch:
    """One search for inputs, which collects the paths that it skips."""

    selection: Selection
    skipped: list[SkippedPath] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    tables: dict[str, TableFolder | None] = field(default_factory=dict)
    """The table that each folder belongs to in which a pattern matched files."""
    newest: dict[TableFolder, TableVersion] = field(default_factory=dict)
    """The newest version of each table that was met."""
    versions: list[TableVersion] = field(default_factory=list)
    """The versions of which files were found."""
    saved: dict[str, SavedDataset | None] = field(default_factory=dict)
    """The saved dataset that each folder is."""

    def expand(self, given: str) -> list[str]:
        for prefix in LOCAL:
            given = given.removeprefix(prefix)
        if "\0" in given:
            raise UsageError(f"{given!r} is not a path: it holds a null character")
        return self._expand_url(given) if "://" in given else self._expand_local(given)

    def skip(self, path: str, reason: str) -> None:
        self.skipped.append(SkippedPath(hide_password(format_path(path)), reason))

    def _expand_local(self, given: str) -> list[str]:
        path = normalize_path(given)
        if os.path.isdir(path):  # noqa: PTH112
            before = len(self.skipped)
            paths = list(self._walk_folder(path))
            self._require(paths, given, f"no files in the folder {format_path(given)}", before)
        elif os.path.exists(path):  # noqa: PTH110
            if not os.path.isfile(path):  # noqa: PTH113
                raise UsageError(
                    f"{format_path(given)} is not a regular file or a folder; "
                    "write its content to a file, and name that file"
                )
            self.named.add(path)
            version = open_named_version(path)
            if version is not None:
                return self._find_version_files(version, given)
            paths = [path] if self._selects_file(path, path.rpartition("/")[2]) else []
        elif MAGIC & set(given):
            before = len(self.skipped)
            paths = self._match_pattern(path)
            self._require(paths, given, f"no files match {format_path(given)}", before)
        elif given == "-":
            raise UsageError(
                "no such file or folder: -; standard input is read by nearkin dedup, pairs and "
                "sketch as their only input, so write it to a file"
            )
        else:
            raise UsageError(f"no such file or folder: {format_path(given)}")
        return paths

    def _find_version_files(self, version: TableVersion, given: str) -> list[str]:
        self._add_version(version)
        before = len(self.skipped)
        start = len(version.table.path) + 1
        paths = [file for file in version.files if self._selects_file(file, file[start:])]
        self._require(paths, given, f"no data files in {version.table.description}", before)
        return paths

    def _require(self, found: list[str], given: str, message: str, before: int) -> None:
        if not found:
            skipped = self.skipped[before:]
            if skipped:
                message += f" ({len(skipped)} skipped; {skipped[0].path}: {skipped[0].reason})"
            raise UsageError(message)

    def _match_pattern(self, pattern: str) -> list[str]:
        """Returns the files that match a pattern.

        A folder that a recursive pattern reaches by several links counts once.
        """
        recursive = "**" in pattern
        top = len(_fixed_folder(pattern, is_file=False))
        files: list[str] = []
        of_libraries: dict[str, str] = {}
        real: set[str] = set()
        matches = glob.glob(pattern, recursive=True, include_hidden=self.selection.hidden)  # noqa: PTH207 (absolute patterns)
        for match in sorted(matches, key=lambda path: (path.count("/"), os.fsencode(path))):
            if os.path.isdir(match):  # noqa: PTH112
                if not recursive:
                    self.skip(match, MATCHED_FOLDER)
                continue
            folder = os.path.realpath(os.path.dirname(match))  # noqa: PTH120
            target = f"{folder}/{os.path.basename(match)}"  # noqa: PTH119
            if not self._is_regular_file(match) or not self._selects_file(match, match[top:]):
                continue
            saved = self._find_saved_dataset(folder)
            if not self._is_current(match, target) or not self._is_in_dataset(saved, match):
                continue
            if recursive and target in real:
                continue
            real.add(target)
            reason = describe_library_path(match[top:])
            if reason is None:
                files.append(match)
            else:
                of_libraries[match] = reason
        if not files:
            # A pattern that matches nothing else is meant for them.
            return list(of_libraries)
        for match, reason in of_libraries.items():
            self.skip(match, reason)
        return files

    def _is_current(self, path: str, target: str) -> bool:
        """Returns False if a file is in the folder of a table, and not in its newest version."""
        folder = os.path.dirname(target)  # noqa: PTH120
        if folder not in self.tables:
            self.tables[folder] = find_table(folder)
        table = self.tables[folder]
        if table is None:
            return True
        if table.format is TableFormat.LANCE:
            raise UsageError(
                f"the pattern matches {format_path(path)}, which is a part of "
                f"{table.description}; give the folder of the table, or leave it out"
            )
        version = self._open_newest(table)
        if target in version.files:
            self._add_version(version)
            return True
        self.skip(path, f"it is not in the newest version of {table.description}")
        return False

    def _walk_folder(self, folder: str) -> Iterator[str]:
        if is_output(folder):
            raise _make_output_error(folder)
        followed = self.selection.follow_links
        seen: set[tuple[int, int]] = set()
        for parent, folders, files in os.walk(
            folder, onerror=partial(self._skip_unlisted, folder), followlinks=followed
        ):
            status = os.stat(parent)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in seen:
                self.skip(parent, REPEATED_FOLDER)
                folders.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            is_top = parent == folder or os.path.islink(parent)  # noqa: PTH114
            real = os.path.realpath(parent)
            table = find_table(real) if is_top else detect_table(real)
            if table is not None:
                folders.clear()
                yield from self._find_table_files(table, parent, folder)
                continue
            saved = self._find_saved_dataset(parent)
            folders[:] = sorted(
                name
                for name in folders
                if self._is_in_dataset(saved, f"{parent.rstrip('/')}/{name}")
                and self._enters_folder(f"{parent.rstrip('/')}/{name}", name)
            )
            for name in files:
                path = f"{parent.rstrip('/')}/{name}"
                relative = path[len(folder.rstrip("/")) + 1 :]
                if (
                    self._is_in_dataset(saved, path)
                    and self._is_visible(path, name)
                    and self._is_regular_file(path)
                    and self._selects_file(path, relative)
                ):
                    yield path

    def _find_table_files(self, table: TableFolder, folder: str, top: str) -> Iterator[str]:
        start = len(top.rstrip("/")) + 1
        if folder != top and self.selection.excludes(folder[start:]):
            self.skip(folder, f"it matches {name_setting('exclude')}")
            return
        real = os.path.realpath(folder)
        if table.format is TableFormat.LANCE:
            yield from self._find_lance_manifest(table, folder, folder[start:])
            return
        version = self._open_newest(table)
        for target in version.files:
            if not target.startswith(f"{real}/"):
                continue
            path = f"{folder.rstrip('/')}{target[len(real) :]}"
            if self._selects_file(path, path[start:]):
                self._add_version(version)
                yield path

    def _find_lance_manifest(self, table: TableFolder, folder: str, relative: str) -> Iterator[str]:
        if os.path.realpath(folder) != table.path:
            raise UsageError(
                f"{format_path(folder)} is a part of {table.description}; give the folder of the "
                "table"
            )
        if self._selects_file(folder, relative or os.path.basename(folder)):  # noqa: PTH119
            version = self._open_newest(table)
            self._add_version(version)
            yield from version.files

    def _open_newest(self, table: TableFolder) -> TableVersion:
        if table not in self.newest:
            self.newest[table] = open_newest_version(table)
        return self.newest[table]

    def _add_version(self, version: TableVersion) -> None:
        """Records that files of a version are read."""
        if version in self.versions:
            return
        if any(other.table == version.table for other in self.versions):
            raise UsageError(
                f"the inputs have two versions of {version.table.description}; give one of them"
            )
        self.versions.append(version)

    def _skip_unlisted(self, top: str, error: OSError) -> None:
        """Skips a folder that cannot be listed. The input itself is an error."""
        path = os.fsdecode(error.filename or top)
        if path == top:
            raise UsageError(
                f"cannot list {format_path(path)}: {error.strerror}; fix its permissions"
            ) from error
        self.skip(path, f"{UNREADABLE}: {error.strerror}")

    def _enters_folder(self, path: str, name: str) -> bool:
        if not self._is_visible(path, name):
            return False
        if os.path.islink(path) and not self.selection.follow_links:  # noqa: PTH114
            self.skip(
                path,
                f"it is a symbolic link to a folder; read it with {name_flag('follow_links')}",
            )
            return False
        if is_output(path):
            self.skip(path, OUTPUT)
            return False
        return True

    def _is_visible(self, path: str, name: str) -> bool:
        reason = describe_library_file(path)
        if reason is None and not self.selection.hidden and is_hidden([name]):
            reason = describe_hidden()
        if reason is not None:
            self.skip(path, reason)
        return reason is None

    def _find_saved_dataset(self, folder: str) -> SavedDataset | None:
        if folder not in self.saved:
            self.saved[folder] = find_saved_dataset(
                folder, list_names(folder), lambda name: _read_beginning(f"{folder}/{name}")
            )
        return self.saved[folder]

    def _is_in_dataset(self, saved: SavedDataset | None, path: str) -> bool:
        """Returns False if the folder of a file or folder is a saved dataset without it."""
        reason = None if saved is None else saved.describe_skipped(path.rpartition("/")[2])
        if reason is not None:
            self.skip(path, reason)
        return reason is None

    def _selects_file(self, path: str, relative: str) -> bool:
        reason = self.selection.find_refusal(relative)
        if reason is not None:
            self.skip(path, reason)
        return reason is None

    def _is_regular_file(self, path: str) -> bool:
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116
        except FileNotFoundError:
            self.skip(path, BROKEN_LINK)
            return False
        except OSError as error:
            self.skip(path, f"{UNREADABLE}: {error.strerror}")
            return False
        if not stat.S_ISREG(mode):
            self.skip(path, SPECIAL)
        return stat.S_ISREG(mode)

    def _expand_url(self, given: str) -> list[str]:
        filesystem, path = open_filesystem(given)
        names = None
        if parse_protocol(given) == HUB and "::" not in given:
            from nearkin.corpus.hub import resolve_hub_input

            given, path, names = resolve_hub_input(filesystem, given)
        tables = RemoteTables(given)
        before = len(self.skipped)
        if names is None:
            names, tables = self._list_url(given, filesystem, path)
        top = len(_fixed_folder(path, is_file=names == [path]))
        selected = [
            name
            for name in names
            if self._selects_file(make_url(given, name), name[top:].lstrip("/"))
        ]
        self._require(selected, given, f"no files match {given}", before)
        for name in selected:
            version = tables.find_version(name)
            if version is not None:
                self._add_version(version)
        return [make_url(given, name) for name in selected]

    def _list_url(self, given: str, filesystem: Any, path: str) -> tuple[list[str], RemoteTables]:
        """Returns the paths of the files that a URL names, and the tables that they belong to."""
        tables = RemoteTables(given)
        with translate_listing_errors(given):
            if MAGIC & set(path):
                matched = [name for name in filesystem.glob(path) if not filesystem.isdir(name)]
                folder = _fixed_folder(path, is_file=False)
                # The matches of a pattern need not have the log of the folder.
                enclosing = find_enclosing_table(given, filesystem, folder)
                tables = self._open_remote_tables(given, folder, matched, enclosing)
                names = [name for name in matched if self._is_in_version(name, given, tables)]
                names = self._select_of_saved_datasets(given, filesystem, names)
            elif filesystem.isdir(path):
                listed = self._leave_out_outputs(given, path, filesystem.find(path))
                above = path.rstrip("/").rpartition("/")[0]
                enclosing = find_enclosing_table(given, filesystem, above)
                tables = self._open_remote_tables(given, path, listed, enclosing)
                tables.require_files(path, listed)
                names = [
                    name
                    for name in listed
                    if not tables.is_left_out(name)
                    and (tables.find_version(name) or self._visible_in(path, name, given))
                ]
                names = self._select_of_saved_datasets(given, filesystem, names)
            else:
                names = [path] if filesystem.exists(path) else []
                self.named.update(make_url(given, name) for name in names)
        return names, tables

    def _leave_out_outputs(self, given: str, folder: str, names: Sequence[str]) -> list[str]:
        """Returns the files that are outside of outputs of nearkin. The others are skipped."""
        marked = (name.rpartition("/") for name in names)
        outputs = tuple({above for above, _, last in marked if last in (MARKER, UPLOAD_RECORD)})
        if folder.rstrip("/") in outputs:
            raise _make_output_error(given)
        starts = tuple(f"{output}/" for output in outputs)
        left_out = [name for name in names if name.startswith(starts)]
        for output in outputs:
            # A run that has just begun has written the record alone.
            own = {f"{output}/{UPLOAD_RECORD}"}
            if any(name.startswith(f"{output}/") for name in left_out if name not in own):
                self.skip(make_url(given, output), OUTPUT)
        return [name for name in names if not name.startswith(starts)]

    def _open_remote_tables(
        self, given: str, path: str, names: Sequence[str], enclosing: TableFolder | None
    ) -> RemoteTables:
        read = [name for name in names if not self.selection.excludes(name[len(path) :].strip("/"))]
        tables = [
            TableFolder(make_url(given, table.path), table.format)
            for table in find_remote_tables(path, read)
        ]
        if enclosing is not None:
            tables = [enclosing]
        return RemoteTables(given, [self._open_newest(table) for table in tables])

    def _is_in_version(self, name: str, given: str, tables: RemoteTables) -> bool:
        if tables.is_left_out(name):
            self.skip(make_url(given, name), "it is not in the newest version of its Delta table")
            return False
        return True

    def _visible_in(self, folder: str, name: str, given: str) -> bool:
        relative = name[len(folder) :].strip("/")
        reason = describe_library_path(relative)
        if reason is None and not self.selection.hidden and is_hidden(relative.split("/")):
            reason = describe_hidden()
        if reason is not None:
            self.skip(make_url(given, name), reason)
        return reason is None

    def _select_of_saved_datasets(
        self, given: str, filesystem: Any, names: Sequence[str]
    ) -> list[str]:
        folders: dict[str, list[str]] = {}
        for name in names:
            above, _, last = name.rpartition("/")
            folders.setdefault(above, []).append(last)
        selected = []
        for above, files in folders.items():
            if any(file.endswith(".arrow") for file in files) and STATE not in files:
                # A pattern need not match the file that names the others.
                listed = filesystem.ls(above, detail=False)
                present = [name.rstrip("/").rpartition("/")[2] for name in listed]
            else:
                present = files
            read = partial(_read_remote_beginning, filesystem, above)
            saved = find_saved_dataset(make_url(given, above), present, read)
            selected += [
                f"{above}/{file}"
                for file in files
                if self._is_in_dataset(saved, make_url(given, f"{above}/{file}"))
            ]
        return selected


def _make_output_error(folder: str) -> UsageError:
    return UsageError(
        f"{format_path(folder)} is the output of a nearkin run; name its folder kept to read its "
        "documents"
    )


def _read_beginning(path: str) -> bytes:
    """Returns the first bytes of a local file that names others."""
    with open(path, "rb") as file:  # noqa: PTH123 (bytes that are not UTF-8 stay as they are)
        return file.read(MAX_STATE)


def _read_remote_beginning(filesystem: Any, folder: str, name: str) -> bytes:
    """Returns the first bytes of a remote file that names others."""
    content: bytes = filesystem.cat_file(f"{folder}/{name}", 0, MAX_STATE)
    return content


def _fixed_folder(path: str, *, is_file: bool) -> str:
    """Returns the folder to which the paths of found files are relative.

    It is the folder of a file, a folder itself, or the part of a pattern before its first wildcard.
    """
    wildcards = [path.index(mark) for mark in MAGIC if mark in path]
    if wildcards:
        return path[: path.rfind("/", 0, min(wildcards)) + 1]
    return path[: path.rfind("/") + 1] if is_file else path
