"""Options that several commands share, and the values that are parsed from them."""

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli.given_options import GivenOptions
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.setting import OUTPUT, Setting
from nearkin.settings.table import (
    ClusterSettings,
    ColumnSettings,
    CutSettings,
    FieldColumnSettings,
    ReadSettings,
    ResourceSettings,
    RunColumnSettings,
    RunReadSettings,
    SearchSettings,
    SelectionSettings,
    SignatureSettings,
    varied,
)

if TYPE_CHECKING:
    from nearkin.corpus import Columns
    from nearkin.corpus.input_manifest import HashedPart
    from nearkin.corpus.inputs import Selection
    from nearkin.engine.fields import FieldRule
    from nearkin.engine.options import RunOptions
    from nearkin.runs.loading import BothColumns
    from nearkin.runs.spec_request import SpecRequest
    from nearkin.runtime.progress import Progress
    from nearkin.settings.keys import HashKey
    from nearkin.settings.spec import Spec
    from nearkin.stages.cluster.keep import KeepPolicy
    from nearkin.texts.passages.cutting.request import PassageRequest
    from nearkin.texts.passages.lines.request import LinesRequest


Inputs = Annotated[
    list[str],
    typer.Argument(
        help="Files, globs, folders, URLs (s3://, gs://, abfs://, hf://, file://), or the folder "
        "of a saved run."
    ),
]
StandardInputs = Annotated[
    list[str],
    typer.Argument(
        help="Files, globs, folders, URLs (s3://, gs://, abfs://, hf://), a saved run, or - for "
        "standard input.",
        metavar="INPUTS",
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


TEXT_FIELD_OPTIONS = (
    *("shingle", "normalise", "stem", "k", "slot_bits", "scheme", "seed", "base_hash"),
    *("spec_version", "key_file"),
)
"""The options of a Spec of texts, which several fields share."""
NOTHING_READ = 3
"""The exit code of a complete run whose inputs have rows but no document."""
DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|m|h|d)?")
SECONDS_OF_UNIT = {None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class ColumnOptions(ColumnSettings):
    """The options that name the columns of the inputs."""

    @property
    def text_columns(self) -> list[str]:
        """The columns of texts that --text names."""
        from nearkin.errors import UsageError

        if self.text is None:
            return []
        names = [name.strip() for name in self.text.split(",")] if "," in self.text else [self.text]
        if not all(names) or len(set(names)) < len(names):
            raise UsageError(
                f"--text {self.text!r} is not a list of different columns; write it as title,body"
            )
        return names

    def to_both_columns(self, memory: str = AUTOMATIC) -> "BothColumns | None":
        """Returns the columns of texts and of vectors if both are named, otherwise None."""
        if self.text is None or self.vector is None:
            return None
        from nearkin.runs.loading import BothColumns

        texts = replace(self, vector=None)
        vectors = replace(self, text=None)
        return BothColumns(texts.to_columns(memory=memory), vectors.to_columns(memory=memory))

    def to_columns(self, carried: tuple[str, ...] = (), memory: str = AUTOMATIC) -> "Columns":
        """Returns the columns that are read."""
        from nearkin.corpus import Columns
        from nearkin.corpus.dialect import parse_delimiter, parse_encoding
        from nearkin.errors import UsageError
        from nearkin.runtime.sizes import parse_memory, require_memory

        options = {"--text": self.text, "--tokens": self.tokens, "--vector": self.vector}
        content_options = [
            f"{option} {value}" for option, value in options.items() if value is not None
        ]
        if len(content_options) > 1:
            raise UsageError(
                f"{' and '.join(content_options)} exclude each other; give one of them"
            )
        texts = self.text_columns
        if not content_options:
            texts = ["text"]
        memory_bound = parse_memory(memory)
        require_memory(memory_bound)
        return Columns(
            text=texts[0] if texts else None,
            joined=tuple(texts[1:]),
            tokens=self.tokens,
            vector=self.vector,
            id=self.id_column,
            carried_columns=carried,
            delimiter=parse_delimiter(self.delimiter),
            encoding=parse_encoding(self.encoding),
            main_text=self.main_text,
            lines=self.lines,
        ).with_memory(memory_bound)


@dataclass(frozen=True)
class RunColumnOptions(RunColumnSettings, ColumnOptions):
    """The options that name the columns of commands which also compare given fingerprints."""

    @property
    def fingerprint_sizes(self) -> "Collection[int]":
        """The numbers of bits of the fingerprints that are compared."""
        from nearkin.corpus.columns import DEFAULT_BITS

        return () if self.fingerprint is None else (self.bits or DEFAULT_BITS,)

    def to_columns(self, carried: tuple[str, ...] = (), memory: str = AUTOMATIC) -> "Columns":
        """Returns the columns that are read, as `ColumnOptions.to_columns` does."""
        from nearkin.corpus.columns import DEFAULT_BITS
        from nearkin.corpus.fingerprints import parse_ignored
        from nearkin.engine.parameters import require_fingerprint_for_bits

        require_fingerprint_for_bits(self.bits, self.fingerprint)
        ignored = parse_ignored(self.ignore_fingerprint, self.fingerprint_sizes)
        columns = replace(super().to_columns(carried, memory), ignored_fingerprints=ignored)
        if self.fingerprint is None:
            return columns
        bits = DEFAULT_BITS if self.bits is None else self.bits
        return replace(columns, text=None, fingerprint=self.fingerprint, bits=bits)


@dataclass(frozen=True)
class FieldColumnOptions(FieldColumnSettings, RunColumnOptions):
    """The options that name the columns of commands which also compare several fields."""

    @property
    def rules(self) -> "tuple[FieldRule, ...]":
        """The fields that are compared, or none for documents of one column."""
        from nearkin.engine.fields import parse_fields

        return parse_fields(self.fields or ())

    @property
    def fingerprint_sizes(self) -> "Collection[int]":
        """The numbers of bits of the fingerprints that are compared."""
        from nearkin.engine.fields import fingerprint_sizes

        return fingerprint_sizes(self.rules) if self.rules else super().fingerprint_sizes

    def name_contents(self, found: "Columns") -> tuple[str, ...]:
        """Returns the fields, with the kinds and the sizes that the inputs have."""
        from nearkin.engine.fields import name_contents

        return name_contents(self.fields or (), found.fields)

    def require_used(self, given: GivenOptions) -> None:
        """Requires that options of texts were not given if no field is a text."""
        if self.rules and not any(rule.has_shingles for rule in self.rules):
            given.require_unused(TEXT_FIELD_OPTIONS, "on fields without a text")

    def to_columns(self, carried: tuple[str, ...] = (), memory: str = AUTOMATIC) -> "Columns":
        """Returns the columns that are read, as `RunColumnOptions.to_columns` does."""
        columns = super().to_columns(carried, memory)
        if not self.fields:
            return columns
        return replace(columns, text=None, fields=tuple(rule.content for rule in self.rules))


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
class PassageCutOptions(CutSettings):
    """The options that cut repeated passages or lines of the kept documents."""

    def to_lines_request(self) -> "LinesRequest | None":
        """Returns the request to cut repeated lines, or None if they are not cut."""
        from nearkin.texts.passages.lines.request import LinesRequest

        request = LinesRequest.parse_options(
            self.repeated_lines, self.repeated_paragraphs, self.lines_action, None
        )
        if request is not None:
            request.require_alone(
                passages=self.passages, cut_unit=self.cut_unit, min_left=self.min_left
            )
        return request

    def to_request(self) -> "PassageRequest | None":
        """Returns the request to cut passages, or None if they are not cut."""
        from nearkin.texts.passages.cutting.request import PassageRequest

        return PassageRequest.parse(self.passages, self.cut_unit, self.min_left)


@dataclass(frozen=True)
class SpecOptions(SignatureSettings):
    """The options that make a Spec."""

    def to_request(
        self, rules: "tuple[FieldRule, ...]" = (), accept: str = "similar"
    ) -> "SpecRequest":
        """Returns the request from which the Spec is made."""
        from nearkin.errors import UsageError
        from nearkin.runs.spec_request import SpecRequest
        from nearkin.settings.spec import parse_shingle

        unit, n = parse_shingle(self.shingle)
        fields: dict[str, object] = {
            "unit": unit,
            "n": n,
            "normalise": parse_steps(self.normalise),
            "stem": self.stem,
            "scheme": self.scheme,
            "k": self.k,
            "seed": self.seed,
            "slot_bits": self.slot_bits,
            "base_hash": self.base_hash,
            "version": self.spec_version,
        }
        if self.key_file is not None and self.base_hash is not None:
            raise UsageError(
                f"--base-hash {self.base_hash} and --key-file exclude each other: keyed hashing "
                "is siphash"
            )
        if rules and not any(rule.has_shingles for rule in rules):
            # No field has shingles, so that these options were not given.
            fields = {}
        return SpecRequest(
            measure=self.measure,
            fields={name: value for name, value in fields.items() if value is not None},
            weights=self.weights,
            frequencies=self.frequencies,
            max_df=self.max_df,
            cut_list=self.cut_list,
            secret=read_key(self.key_file),
            compared_fields=rules,
            accept=accept,
        )


def parse_steps(text: str) -> tuple[str, ...]:
    """Returns the normalization steps of an option, for example of `nfkc,lower`."""
    return tuple(step.strip() for step in text.split(",") if step.strip())


@dataclass(frozen=True)
class MatchOptions(SearchSettings, ResourceSettings):
    """The options that decide which documents are near-duplicates, and how they are found."""

    def carried_columns(self, policy: "KeepPolicy", *others: str | None) -> tuple[str, ...]:
        """Returns the columns that a run reads beside documents and ids."""
        from nearkin.engine.options import carried_columns, split_column_names

        values = (*split_column_names(self.same), self.url)
        return carried_columns(policy, self.block_by, self.across, *values, *others)

    def to_run_options(
        self,
        spec: "Spec",
        clustering: ClusterSettings | None = None,
        fields: Sequence[str] | None = None,
    ) -> "RunOptions":
        """Returns the options of a run."""
        from nearkin.engine.options import RunOptions
        from nearkin.runtime.sizes import parse_memory

        values: dict[str, Any] = {**vars(self), **vars(clustering or ClusterSettings())}
        values |= {
            "fields": fields or (),
            "memory": parse_memory(self.memory),
            "workers": workers_or_cores(self.workers),
        }
        return RunOptions(spec=spec, **values)


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
    out: Path, spec: SpecOptions, plan: Path | None = None, settings: Path | None = None
) -> None:
    """Requires that an output does not replace a file that an option names."""
    from nearkin.runtime.outputs import require_apart
    from nearkin.settings.keys import ENVIRONMENT

    named_files = [plan, settings, spec.key_file, spec.frequencies, spec.cut_list]
    paths = [str(path) for path in named_files if path is not None]
    require_apart(out, [path for path in paths if not path.startswith(ENVIRONMENT)])


def open_progress(*, quiet: bool) -> "Progress":
    """Returns a display of progress on standard error: bars on a terminal, else plain lines."""
    from nearkin.cli.progress_lines import PlainProgress
    from nearkin.runtime.compilation import COMPILATION, CompilationLogger
    from nearkin.runtime.progress import Silent

    if quiet:
        COMPILATION.listener = CompilationLogger()
        return Silent()
    if not sys.stderr.isatty():
        return PlainProgress(sys.stderr)
    from nearkin.reports.progress import TerminalProgress

    return TerminalProgress()
