"""Options that several commands share, and the values that are parsed from them."""

import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.setting import OUTPUT, Setting
from nearkin.settings.table import (
    DEFAULT_STEPS,
    SETTINGS,
    ColumnSettings,
    FieldColumnSettings,
    ReadSettings,
    ResourceSettings,
    RunColumnSettings,
    RunReadSettings,
    SearchSettings,
    SelectionSettings,
    varied,
)

if TYPE_CHECKING:
    from nearkin.corpus import Columns
    from nearkin.corpus.input_manifest import HashedPart
    from nearkin.corpus.inputs import Selection
    from nearkin.engine.keywords import RunParameters
    from nearkin.runs.loading import BothColumns
    from nearkin.runtime.progress import Progress
    from nearkin.settings.keys import HashKey


Inputs = Annotated[
    list[str],
    typer.Argument(
        help="Files, globs, folders, URLs, or a saved run. URLs are s3://, gs://, abfs://, hf:// "
        "and file://; a saved run is its folder."
    ),
]
StandardInputs = Annotated[
    list[str],
    typer.Argument(
        help="Files, globs, folders, URLs, a saved run, or -. URLs are s3://, gs://, abfs:// and "
        "hf://; - is standard input.",
        metavar="INPUTS",
    ),
]
StandardInputsOrNone = Annotated[
    list[str],
    typer.Argument(
        help="Files, globs, folders, URLs, a saved run, or -. URLs are s3://, gs://, abfs:// and "
        "hf://; - is standard input. None are needed with --extend and --removed.",
        metavar="INPUTS",
        default_factory=list,
    ),
]
InputFiles = Annotated[
    list[str],
    typer.Argument(help="Files, globs, folders or URLs (s3://, gs://, abfs://, hf://, file://)."),
]
ReadMemory = Annotated[
    str,
    varied(
        "memory",
        "Memory for reading. A document may take up to 1/32 of it, and at most 1 GiB; with auto, "
        "125 MB. Larger ones are rejected.",
    ),
]
IndexBlocklist = Annotated[
    Path | None,
    varied(
        "blocklist",
        "Blocklist of nearkin block. Documents that are like one of its entries are not stored.",
    ),
]
LeakRecall = Annotated[
    float,
    varied(
        "recall",
        "Minimum share of the pairs at the threshold that are found, in (0, 1). More similar pairs "
        "are found with a larger probability.",
    ),
]


def picture_of(subject: str) -> Setting:
    """Returns the setting for a file into which curves are drawn."""
    return Setting(f"Draw {subject} into an .svg or .png file.", OUTPUT, metavar="FILE")


NOTHING_READ = 3
"""The exit code of a complete run whose inputs have rows but no document."""
DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|m|h|d)?")
SECONDS_OF_UNIT = {None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parameters_of(*groups: object, given: Collection[str] = ()) -> "RunParameters":
    """Returns options as parameters of the library, except those that have their defaults.

    An option that was given counts whatever its value is. Files are given by their paths.
    """
    values: dict[str, Any] = {}
    for group in groups:
        for name, value in vars(group).items():
            is_default = name in SETTINGS and value == SETTINGS[name].default
            if value is not None and (name in given or not is_default):
                values[name] = value
    values.pop("id_column", None)
    if "," in values.get("text", ""):
        values["text"] = [name.strip() for name in values["text"].split(",")]
    if "key_file" in values:
        values["key"] = read_key(values.pop("key_file"))
    if "cut_list" in values:
        values["cut"] = values.pop("cut_list")
    return cast("RunParameters", values)


class NamedColumns:
    """The columns that the options of a command name. Its groups of options derive from it."""

    def to_columns(self, memory: str = AUTOMATIC, without: str = "") -> "Columns":
        """Returns the columns that are read, if need be without one of them."""
        from nearkin.engine.parameters import columns_of
        from nearkin.runtime.sizes import parse_memory, require_memory

        memory_bound = parse_memory(memory)
        require_memory(memory_bound)
        parameters = cast("RunParameters", {**parameters_of(self), without: None})
        return columns_of(parameters, vars(self).get("id_column")).with_memory(memory_bound)

    def to_both_columns(self, memory: str = AUTOMATIC) -> "BothColumns | None":
        """Returns the columns of texts and of vectors if both are named, otherwise None."""
        from nearkin.runs.loading import BothColumns

        if not {"text", "vector"} <= parameters_of(self).keys():
            return None
        return BothColumns(self.to_columns(memory, "vector"), self.to_columns(memory, "text"))


@dataclass(frozen=True)
class ColumnOptions(ColumnSettings, NamedColumns):
    """The options that name the columns of the inputs."""


@dataclass(frozen=True)
class DocumentColumnOptions(NamedColumns):
    """The options that name the columns of documents of an index."""

    text: str | None = None
    vector: str | None = None
    id_column: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    lines: bool = False


@dataclass(frozen=True)
class RunColumnOptions(RunColumnSettings, ColumnOptions):
    """The options that name the columns of commands which also compare given fingerprints."""


@dataclass(frozen=True)
class FieldColumnOptions(FieldColumnSettings, RunColumnOptions):
    """The options that name the columns of commands which also compare several fields."""


@dataclass(frozen=True)
class SelectionOptions(SelectionSettings):
    """The options that decide which files of input folders are read."""

    @property
    def selection(self) -> "Selection":
        """The rules that decide which files of input folders are read."""
        from nearkin.corpus.inputs import Selection

        return Selection(
            self.hidden, self.follow_links, tuple(self.include or ()), tuple(self.exclude or ())
        )


@dataclass(frozen=True)
class ReadOptions(ReadSettings, SelectionOptions):
    """The options that decide which files are read, and what happens to those that cannot be."""


@dataclass(frozen=True)
class RunReadOptions(RunReadSettings, ReadOptions):
    """The options for the reading of inputs that a run records."""

    def parse_hash_inputs(self) -> "HashedPart":
        """Returns the part of the inputs that is hashed."""
        from nearkin.corpus.input_manifest import HashedPart

        return HashedPart.parse(self.hash_inputs)


@dataclass(frozen=True)
class UncountedSpecOptions:
    """The options that make a Spec for which nothing is counted."""

    measure: str | None = None
    shingle: str = "words:3"
    normalise: str = DEFAULT_STEPS
    stem: str | None = None
    scheme: str | None = None
    k: int | None = None
    slot_bits: int | None = None
    seed: int = 1
    base_hash: str | None = None
    spec_version: int | None = None
    key_file: str | None = None


@dataclass(frozen=True)
class MatchOptions(SearchSettings, ResourceSettings):
    """The options that decide which documents are near-duplicates, and how they are found."""


def read_key(key_file: str | None) -> "HashKey | None":
    """Reads the hash key that --key-file names, if it was given."""
    from nearkin.settings.keys import HashKey

    if key_file is None:
        return None
    return HashKey.read(key_file)


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """Parses whole numbers that are separated by commas."""
    from nearkin.errors import UsageError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"{option} {text!r} is not of the form 1,2,4")
    return tuple(map(int, parts))


def parse_seconds(text: str | None, option: str) -> float | None:
    """Parses a duration such as `60s`, `5m` or `1h`."""
    from nearkin.errors import UsageError

    if text is None:
        return None
    duration = DURATION.fullmatch(text.strip())
    if duration is None:
        raise UsageError(f"{option} {text!r} is not a time like 60s or 5m")
    return float(duration["number"]) * SECONDS_OF_UNIT[duration["unit"]]


def require_apart_from_files(
    out: Path, spec: object, plan: Path | None = None, settings: Path | None = None
) -> None:
    """Requires that an output does not replace a file that an option names."""
    from nearkin.runtime.outputs import require_apart
    from nearkin.settings.keys import ENVIRONMENT

    of_spec = [vars(spec).get(name) for name in ("key_file", "frequencies", "cut_list")]
    named_files = [plan, settings, *of_spec]
    paths = [str(path) for path in named_files if path is not None]
    require_apart(out, [path for path in paths if not path.startswith(ENVIRONMENT)])


def open_progress(*, quiet: bool) -> "Progress":
    """Returns a display of progress on standard error: bars on a terminal, else plain lines."""
    from nearkin.cli.command_line import VERBOSITY
    from nearkin.cli.progress_lines import PlainProgress
    from nearkin.cli.verbosity import StageTimes
    from nearkin.runtime.compilation import COMPILATION, CompilationLogger
    from nearkin.runtime.progress import Silent

    if quiet:
        COMPILATION.listener = CompilationLogger()
        return Silent()
    if sys.stderr.isatty():
        from nearkin.reports.progress import TerminalProgress

        display: Progress = TerminalProgress()
    else:
        display = PlainProgress(sys.stderr)
    return StageTimes(display) if VERBOSITY.get() > 0 else display
