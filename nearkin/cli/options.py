"""Options that several commands share, and the values that are parsed from them."""

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli.given_options import (
    ADVANCED,
    CANDIDATES,
    CLUSTERING,
    INPUT,
    OUTPUT,
    RUN,
    SIMILARITY,
    VERIFICATION,
    GivenOptions,
)
from nearkin.cli.standard_streams import require_open_stdout
from nearkin.runtime.files import READABLE_BY, restrict_new_files

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


def column_option(flag: str, help: str, *, panel: str = INPUT) -> Any:
    """Returns the declaration of an option that names a column of the inputs."""
    return typer.Option(flag, help=help, metavar="COL", rich_help_panel=panel)


def picture_option(subject: str) -> Any:
    """Returns the declaration of the option for a file into which curves are drawn."""
    return typer.Option(
        "--plot",
        help=f"Draw {subject} into an .svg or .png file.",
        metavar="FILE",
        rich_help_panel=OUTPUT,
    )


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
Text = Annotated[
    str | None,
    column_option(
        "--text",
        "Column of texts, or several that are joined, for example title,body.  [default: text]",
    ),
]
Tokens = Annotated[
    str | None, column_option("--tokens", "Column of token lists, instead of texts.")
]
Id = Annotated[
    str | None, column_option("--id", "Column of ids.  [default: ids of the form PATH:ROW]")
]
Fingerprint = Annotated[
    str | None,
    column_option(
        "--fingerprint",
        "Column of fingerprints, instead of texts: hexadecimal texts, bytes, or 64-bit integers. "
        "Requires --distance.",
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        help="Column that is compared on its own, with its measure and limit: "
        "'title:jaccard>=0.9', 'image:hamming/64<=4' or 'vector:cosine>=0.95'. May be repeated; "
        "all fields must be similar.",
        metavar="FIELD",
        rich_help_panel=INPUT,
    ),
]
Bits = Annotated[
    int | None,
    typer.Option(
        "--bits",
        help="Number of bits of a fingerprint: 64, 128, 192 or 256.  [default: 64]",
        show_default=False,
        metavar="BITS",
        rich_help_panel=INPUT,
    ),
]
IgnoreFingerprint = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore-fingerprint",
        help="Fingerprint in hexadecimal digits. Documents with it are compared with no other, for "
        "example because it is that of a blank picture. May be repeated.",
        metavar="HEX",
        rich_help_panel=INPUT,
    ),
]
Vector = Annotated[str | None, column_option("--vector", "Column of vectors, instead of texts.")]
OnError = Annotated[
    str,
    typer.Option(
        "--on-error",
        metavar="ACTION",
        help="Treatment of rows and files that cannot be read: quarantine or fail.",
        rich_help_panel=INPUT,
    ),
]
HashInputs = Annotated[
    str,
    typer.Option(
        "--hash-inputs",
        metavar="PART",
        help="Part of the inputs that is hashed, so that changes are detected: sampled or full.",
        rich_help_panel=INPUT,
    ),
]
Hidden = Annotated[
    bool,
    typer.Option(
        "--hidden",
        help="Also read files and folders below an input folder whose names start with . or _.",
        rich_help_panel=INPUT,
    ),
]
FollowLinks = Annotated[
    bool,
    typer.Option(
        "--follow-links",
        help="Follow symbolic links to folders below an input folder. Each folder is read once.",
        rich_help_panel=INPUT,
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        help="Pattern of the names of the files that are read, for example '*.csv'. May be "
        "repeated.",
        metavar="GLOB",
        rich_help_panel=INPUT,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        help="Pattern of the names of files that are left out, for example '*.md'. May be "
        "repeated.",
        metavar="GLOB",
        rich_help_panel=INPUT,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        help="Character between the values of CSV files: comma, semicolon, tab, pipe or any other. "
        " [default: detected]",
        metavar="CHAR",
        rich_help_panel=INPUT,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="Encoding of CSV files, for example utf-8, utf-16 or windows-1252. utf-8,windows-1252 "
        "reads rows that are not UTF-8 as Windows-1252, in JSON and texts too.  "
        "[default: detected]",
        rich_help_panel=INPUT,
    ),
]
Lines = Annotated[
    bool,
    typer.Option(
        "--lines/--no-lines",
        help="Read each line of a text file as a document, for example of .txt and .log, and not "
        "the whole file as one. Blank lines are left out. --preset logs does so.",
        rich_help_panel=INPUT,
    ),
]
MainText = Annotated[
    bool,
    typer.Option(
        "--main-text",
        help="Read the main text of HTML pages, in files and in WARC files, without navigation, "
        "headers and footers (requires the extra `html`).",
        rich_help_panel=INPUT,
    ),
]
Measure = Annotated[
    str | None,
    typer.Option(
        "--measure",
        help="Measure of similarity: jaccard, weighted-jaccard, idf-jaccard, simhash, cosine "
        "(vectors) or hamming (fingerprints).  [default: by the column]",
        rich_help_panel=SIMILARITY,
    ),
]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        "-t",
        metavar="SHARE",
        help="Minimum similarity of two near-duplicates, in (0, 1].",
        rich_help_panel=SIMILARITY,
    ),
]
Distance = Annotated[
    int | None,
    typer.Option(
        "--distance",
        help="Maximum Hamming distance in bits (simhash, cosine and fingerprints only). Replaces "
        "--threshold.",
        metavar="D",
        rich_help_panel=SIMILARITY,
    ),
]
Shingle = Annotated[
    str,
    typer.Option(
        "--shingle",
        metavar="UNIT:N",
        help="Unit and length of a shingle: words:N or chars:N.",
        rich_help_panel=SIMILARITY,
    ),
]
Normalise = Annotated[
    str,
    typer.Option(
        "--normalise",
        help="Normalization steps, separated by commas: nfkc, lower, digits (become 0), "
        "punctuation (counts as words), symbols (such as + and a minus count as words), marks "
        "(accents are dropped), markup (tags are dropped), "
        "comments (those of source code are dropped); and masks, which replace values by the name "
        "of their kind: email, uuid, ip, date, path, hex, number.",
        metavar="STEPS",
        rich_help_panel=SIMILARITY,
    ),
]
Stem = Annotated[
    str | None,
    typer.Option(
        "--stem",
        help="Snowball language whose stems replace words, for example english.",
        metavar="LANGUAGE",
        rich_help_panel=SIMILARITY,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="Weights of shingles (simhash only): tf, or tfidf, which counts them first.  "
        "[default: tf]",
        rich_help_panel=SIMILARITY,
    ),
]
Frequencies = Annotated[
    Path | None,
    typer.Option(
        "--frequencies",
        help="File of document frequencies, for idf-jaccard and --weights tfidf.  "
        "[default: counted in the inputs]",
        metavar="FILE",
        rich_help_panel=SIMILARITY,
    ),
]
MaxDf = Annotated[
    float | None,
    typer.Option(
        "--max-df",
        help="Share of the documents, in (0, 1), above which a shingle is removed.",
        metavar="SHARE",
        rich_help_panel=SIMILARITY,
    ),
]
CutList = Annotated[
    Path | None,
    typer.Option(
        "--cut-list",
        help="File cut.arrow of another run, whose shingles are removed. Replaces --max-df.",
        metavar="FILE",
        rich_help_panel=SIMILARITY,
    ),
]
K = Annotated[
    int | None,
    typer.Option(
        "--k",
        help="Number of slots of a signature, or of its bits (simhash and cosine).  "
        "[default: 128 slots; simhash 64 bits; cosine 512 bits]",
        show_default=False,
        rich_help_panel=SIMILARITY,
    ),
]
SlotBits = Annotated[
    int | None,
    typer.Option(
        "--slot-bits",
        help="Number of bits kept of a MinHash slot: 32, 16, 8, 4, 2 or 1.  [default: 32]",
        rich_help_panel=ADVANCED,
    ),
]
Scheme = Annotated[
    str | None,
    typer.Option(
        "--scheme",
        help="Algorithm of MinHash: binned or classic.  [default: binned]",
        rich_help_panel=ADVANCED,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        help="Number that selects the hash functions of signatures.",
        rich_help_panel=ADVANCED,
    ),
]
SpecVersion = Annotated[
    int | None,
    typer.Option(
        "--spec-version",
        help="Version of the format: 2, or 1 to read texts as older releases did and to compare "
        "them with what these made.  [default: 2]",
        rich_help_panel=ADVANCED,
    ),
]
BaseHash = Annotated[
    str | None,
    typer.Option(
        "--base-hash",
        help="Hash function of shingles: xxh3, murmur3 or fnv1a.  [default: xxh3]",
        rich_help_panel=ADVANCED,
    ),
]
KeyFile = Annotated[
    str | None,
    typer.Option(
        "--key-file",
        help="Secret hash key: a FILE, or env:NAME, with 32 hexadecimal digits.",
        metavar="FILE",
        rich_help_panel=ADVANCED,
    ),
]
SpecResourcesFolder = Annotated[
    Path | None,
    typer.Option(
        "--spec-resources",
        help="Output folder of a run whose cut.arrow or frequencies.arrow the Spec of the index "
        "refers to, or a file of document frequencies.",
        metavar="PATH",
        rich_help_panel=ADVANCED,
    ),
]
Recall = Annotated[
    float,
    typer.Option(
        "--recall",
        metavar="SHARE",
        help="Minimum share of the pairs at the threshold that become candidates, in (0, 1).",
        rich_help_panel=CANDIDATES,
    ),
]
LeakRecall = Annotated[
    float,
    typer.Option(
        "--recall",
        metavar="SHARE",
        help="Minimum share of the pairs at the threshold that are found, in (0, 1). More similar "
        "pairs are found with a larger probability.",
        rich_help_panel=CANDIDATES,
    ),
]
Bands = Annotated[
    int | None,
    typer.Option(
        "--bands",
        help="Number of bands, together with --rows.  [default: computed from threshold and "
        "recall]",
        rich_help_panel=CANDIDATES,
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        help="Number of rows of a band, together with --bands.  [default: computed]",
        rich_help_panel=CANDIDATES,
    ),
]
BlockBy = Annotated[
    str | None,
    column_option(
        "--block-by",
        "Column of blocks. Only documents with the same value are compared.",
        panel=CANDIDATES,
    ),
]
MissingBlockOption = Annotated[
    str,
    typer.Option(
        "--missing-block",
        metavar="WHICH",
        help="The documents that one without a value of --block-by is compared with: none or all.",
        rich_help_panel=CANDIDATES,
    ),
]
Across = Annotated[
    str | None,
    column_option(
        "--across",
        "Column of sources. Only documents of different sources are compared.",
        panel=CANDIDATES,
    ),
]
Same = Annotated[
    str | None,
    column_option(
        "--same",
        "Columns, separated by commas. Documents with an equal value in one of them are "
        "duplicates, whatever their texts are. Null and empty values never match.",
        panel=CANDIDATES,
    ),
]
Url = Annotated[
    str | None,
    column_option(
        "--url",
        "Column of URLs. Documents whose URLs have the same canonical form are duplicates "
        "(requires the extra `urls`).",
        panel=CANDIDATES,
    ),
]
Tables = Annotated[
    int,
    typer.Option(
        "--tables",
        help="Number of independent tables of bands over separate MinHash slots, at least 1.",
        metavar="L",
        rich_help_panel=ADVANCED,
    ),
]
Probes = Annotated[
    int,
    typer.Option(
        "--probes",
        help="Number of slots of a band that are looked up by their runner-up too (MinHash only).",
        metavar="P",
        rich_help_panel=ADVANCED,
    ),
]
HotBucketSize = Annotated[
    int,
    typer.Option(
        "--hot-bucket-size",
        help="Number of documents above which a bucket is clustered internally instead of "
        "yielding all its pairs, at least 2.",
        rich_help_panel=ADVANCED,
    ),
]
PairBudget = Annotated[
    int | None,
    typer.Option(
        "--pair-budget",
        help="Number of pairs up to which a bucket yields all its pairs although it is larger "
        "than --hot-bucket-size, at least 0.  [default: 50,000,000 for pairs; none for dedup, "
        "because leaders suffice for clusters]",
        metavar="PAIRS",
        rich_help_panel=ADVANCED,
    ),
]
Fanout = Annotated[
    int,
    typer.Option(
        "--fanout",
        help="Number of leaders with which a member of a hot bucket is compared, at least 1.",
        rich_help_panel=ADVANCED,
    ),
]
Verify = Annotated[
    str,
    typer.Option(
        "--verify",
        metavar="MODE",
        help="Comparison of candidate pairs: exact, estimate (signatures only) or none.",
        rich_help_panel=VERIFICATION,
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        help="Output folder or file, or a hf:// URL.",
        metavar="PATH",
        rich_help_panel=OUTPUT,
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an existing output.", rich_help_panel=OUTPUT),
]
ReadableBy = Annotated[
    str,
    typer.Option(
        "--readable-by",
        metavar="USERS",
        help="Users who may read the output, which contains texts: owner, group or everyone.",
        envvar=READABLE_BY,
        callback=restrict_new_files,
        rich_help_panel=OUTPUT,
    ),
]


def require_stdout_for_json(as_json: bool) -> bool:  # noqa: FBT001 - typer passes the value
    """Requires that standard output is open if a command prints JSON, and returns the value."""
    if as_json:
        require_open_stdout()
    return as_json


Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the summary as JSON, with nothing else on standard output.",
        callback=require_stdout_for_json,
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Show no progress, and of the result only the warnings and one line.",
        rich_help_panel=OUTPUT,
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="Maximum memory, for example 4GB. auto: half of what the process may use.",
        metavar="SIZE",
        rich_help_panel=RUN,
    ),
]
ReadMemory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="Memory for reading. A document may take up to 1/32 of it, and at most 1 GiB; with "
        "auto, 125 MB. Larger ones are rejected.",
        metavar="SIZE",
        rich_help_panel=RUN,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        help="Number of threads.  [default: the cores that the process may use]",
        rich_help_panel=RUN,
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Resume an interrupted run.", rich_help_panel=RUN),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        help="File written by nearkin plan --out, whose settings are used.",
        metavar="FILE",
        rich_help_panel=RUN,
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="Settings file (TOML), for example of nearkin fit. Given options replace its values.",
        metavar="FILE",
        rich_help_panel=SIMILARITY,
    ),
]

Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="Settings for a kind of data: web (pages), articles, records (names and addresses), "
        "bibliography (references), logs (lines), code (functions) or titles (of papers and news). "
        "Each was measured on 1,000 to 100,000 generated rows of its kind; a larger run says so. "
        "Given options replace their values.",
        metavar="KIND",
        rich_help_panel=SIMILARITY,
    ),
]

TEXT_FIELD_OPTIONS = (
    *("shingle", "normalise", "stem", "k", "slot_bits", "scheme", "seed", "base_hash"),
    *("spec_version", "key_file"),
)
"""The options of a Spec of texts, which several fields share."""
NOTHING_READ = 3
"""The exit code of a complete run whose inputs have rows but no document."""
NORMALISE = "nfkc,lower"
DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|m|h|d)?")
SECONDS_OF_UNIT = {None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
MEMORY = "auto"


@dataclass(frozen=True)
class ColumnOptions:
    """The options that name the columns of the inputs."""

    text: Text = None
    tokens: Tokens = None
    vector: Vector = None
    id_column: Id = None
    delimiter: Delimiter = None
    encoding: Encoding = None
    main_text: MainText = False
    lines: Lines = False

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

    def to_both_columns(self, memory: str = MEMORY) -> "BothColumns | None":
        """Returns the columns of texts and of vectors if both are named, otherwise None."""
        if self.text is None or self.vector is None:
            return None
        from nearkin.runs.loading import BothColumns

        texts = replace(self, vector=None)
        vectors = replace(self, text=None)
        return BothColumns(texts.to_columns(memory=memory), vectors.to_columns(memory=memory))

    def to_columns(self, carried: tuple[str, ...] = (), memory: str = MEMORY) -> "Columns":
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
class RunColumnOptions(ColumnOptions):
    """The options that name the columns of commands which also compare given fingerprints."""

    fingerprint: Fingerprint = None
    bits: Bits = None
    ignore_fingerprint: IgnoreFingerprint = None

    @property
    def fingerprint_sizes(self) -> "Collection[int]":
        """The numbers of bits of the fingerprints that are compared."""
        from nearkin.corpus.columns import DEFAULT_BITS

        return () if self.fingerprint is None else (self.bits or DEFAULT_BITS,)

    def to_columns(self, carried: tuple[str, ...] = (), memory: str = MEMORY) -> "Columns":
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
class FieldColumnOptions(RunColumnOptions):
    """The options that name the columns of commands which also compare several fields."""

    fields: Fields = None

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

    def to_columns(self, carried: tuple[str, ...] = (), memory: str = MEMORY) -> "Columns":
        """Returns the columns that are read, as `RunColumnOptions.to_columns` does."""
        columns = super().to_columns(carried, memory)
        if not self.fields:
            return columns
        return replace(columns, text=None, fields=tuple(rule.content for rule in self.rules))


@dataclass(frozen=True)
class SelectionOptions:
    """The options that decide which files of input folders are read."""

    hidden: Hidden = False
    follow_links: FollowLinks = False
    include: Include = None
    exclude: Exclude = None

    @property
    def selection(self) -> "Selection":
        """The rules that decide which files of input folders are read."""
        from nearkin.corpus.inputs import Selection

        return Selection(
            self.hidden, self.follow_links, tuple(self.include or ()), tuple(self.exclude or ())
        )


@dataclass(frozen=True)
class ReadOptions(SelectionOptions):
    """The options that decide which files are read, and what happens to those that cannot be."""

    on_error: OnError = "quarantine"


@dataclass(frozen=True)
class RunReadOptions(ReadOptions):
    """The options for the reading of inputs that a run records."""

    hash_inputs: HashInputs = "sampled"

    def parse_hash_inputs(self) -> "HashedPart":
        """Returns the part of the inputs that is hashed."""
        from nearkin.corpus.input_manifest import HashedPart

        return HashedPart.parse(self.hash_inputs)


IndexBlocklist = Annotated[
    Path | None,
    typer.Option(
        "--blocklist",
        help="Blocklist of nearkin block. Documents that are like one of its entries are not "
        "stored.",
        metavar="LIST",
        rich_help_panel=INPUT,
    ),
]
DecisionsFile = Annotated[
    Path | None,
    typer.Option(
        "--decisions",
        help="File of decisions about pairs (JSON lines, CSV or parquet). Pairs decided to be the "
        "same are always in one cluster, and those decided to be different never.",
        metavar="FILE",
        rich_help_panel=CLUSTERING,
    ),
]


CutUnit = Annotated[
    str | None,
    typer.Option(
        "--cut",
        help="Write the documents with each repeated passage in one place only. What is cut from "
        "the others: passage (the words), sentence, line, paragraph (those that are repeated as a "
        "whole), or document:SHARE (documents of which at least that share of the bytes is "
        "repeated).",
        metavar="UNIT",
        rich_help_panel=OUTPUT,
    ),
]
MinLeft = Annotated[
    int,
    typer.Option(
        help="Number of words (or of characters, if passages are of characters) below which the "
        "rest of a cut document is removed, too.",
        metavar="N",
        rich_help_panel=OUTPUT,
    ),
]


LinesActionOption = Annotated[
    str | None,
    typer.Option(
        help="What is done with repeated lines or paragraphs: keep-one (cut from all places but "
        "one), remove, or report.  [default: keep-one]",
        metavar="ACTION",
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True)
class PassageCutOptions:
    """The options that cut repeated passages or lines of the kept documents."""

    passages: Annotated[
        str | None,
        typer.Option(
            help="Cut passages of at least this number of words from all places but one, after "
            "duplicates have been removed, for example 50, or 100:chars for characters.",
            metavar="N",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    cut_unit: CutUnit = None
    min_left: MinLeft = 0
    repeated_lines: Annotated[
        str | None,
        typer.Option(
            help="Cut lines that occur in at least this number of kept documents, or this number "
            "of times (for example 3:places), after duplicates have been removed.",
            metavar="N",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    repeated_paragraphs: Annotated[
        str | None,
        typer.Option(help="Cut paragraphs in the same way.", metavar="N", rich_help_panel=OUTPUT),
    ] = None
    lines_action: LinesActionOption = None

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
class ReferenceOptions:
    """The options for a reference, whose documents are never removed, and for a blocklist."""

    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Reference: files, globs, folders or URLs, the folder of a finished run, or the "
            "URL of an index. Documents that repeat one of it are removed. May be repeated.",
            metavar="REF",
            rich_help_panel=INPUT,
        ),
    ] = None
    only_against: Annotated[
        bool,
        typer.Option(
            "--only-against",
            help="Compare documents with the reference only, and not with each other.",
            rich_help_panel=INPUT,
        ),
    ] = False
    scope: Annotated[
        str | None,
        typer.Option(
            help="Scope of the index that --against names.  [default: default]",
            rich_help_panel=INPUT,
        ),
    ] = None
    blocklist: Annotated[
        Path | None,
        typer.Option(
            help="Blocklist of nearkin block. Documents that are like one of its entries are "
            "removed.",
            metavar="LIST",
            rich_help_panel=INPUT,
        ),
    ] = None


@dataclass(frozen=True)
class SpecOptions:
    """The options that make a Spec."""

    measure: Measure = None
    shingle: Shingle = "words:3"
    normalise: Normalise = NORMALISE
    stem: Stem = None
    scheme: Scheme = None
    k: K = None
    slot_bits: SlotBits = None
    seed: Seed = 1
    base_hash: BaseHash = None
    spec_version: SpecVersion = None
    key_file: KeyFile = None
    weights: Weights = None
    frequencies: Frequencies = None
    max_df: MaxDf = None
    cut_list: CutList = None

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
class ClusterOptions:
    """The options that decide how documents are clustered and which of them are kept."""

    cluster: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="Clustering method: leaders (every removed document is verified against the kept "
            "one) or components (connected pairs).",
            rich_help_panel=CLUSTERING,
        ),
    ] = "leaders"
    floor: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Minimum similarity to the kept document (components only), from 0 to the "
            "threshold.  [default: threshold - 0.2]",
            rich_help_panel=CLUSTERING,
        ),
    ] = None
    keep: Annotated[
        str,
        typer.Option(
            help="Keep policy, for example 'source:gold>web, quality desc, length desc' or "
            "'most-complete, newest:date'.",
            metavar="EXPR",
            rich_help_panel=CLUSTERING,
        ),
    ] = "length desc"
    keep_up_to: Annotated[
        int,
        typer.Option(
            help="Number of documents of a cluster that are kept, at least 1: the first ones in "
            "keep order.",
            metavar="N",
            rich_help_panel=CLUSTERING,
        ),
    ] = 1
    empty: Annotated[
        str,
        typer.Option(
            metavar="ACTION",
            help="Treatment of documents without shingles, which never match: keep or drop.",
            rich_help_panel=CLUSTERING,
        ),
    ] = "keep"
    accept: Annotated[
        str,
        typer.Option(
            help="Condition under which a document is removed, for example 'jaccard >= 0.8 and "
            "containment >= 0.98'; or safe, contained, or similar (the threshold decides). With "
            "--field, 'title and (body or image)'.",
            metavar="EXPR",
            rich_help_panel=VERIFICATION,
        ),
    ] = "similar"
    max_lost: Annotated[
        float | None,
        typer.Option(
            help="Maximum share of the shingles of a removed document that the kept one lacks, "
            "from 0 to 1. Documents that would lose more are kept.",
            metavar="SHARE",
            rich_help_panel=VERIFICATION,
        ),
    ] = None
    related: Annotated[
        float | None,
        typer.Option(
            help="Minimum similarity of related documents, above 0 and below the threshold. They "
            "are linked in related.parquet, and none is removed because of it.",
            metavar="SHARE",
            rich_help_panel=VERIFICATION,
        ),
    ] = None
    max_removed: Annotated[
        str | None,
        typer.Option(
            help="Maximum share of the documents that may be removed as near-duplicates, exact "
            "copies not counted, from 0 to 1 (default 0.5). COL:SHARE limits what is removed of "
            "each value of a column, for example source:0.5. Both are written as 0.9,source:0.5. A "
            "run that would remove more stops before it writes anything.",
            metavar="SHARE|COL:SHARE",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    second_measure: Annotated[
        str | None,
        typer.Option(
            help="Second measure over the kept documents, in the form cosine:COL:0.95.",
            metavar="MEASURE",
            rich_help_panel=VERIFICATION,
        ),
    ] = None
    source: Annotated[
        str | None,
        column_option(
            "--source", "Column by which the report counts removals and overlaps.", panel=OUTPUT
        ),
    ] = None
    split: Annotated[
        str | None,
        column_option(
            "--split",
            "Column of splits (train, test). The report shows the duplicates between them.",
            panel=OUTPUT,
        ),
    ] = None


@dataclass(frozen=True)
class MatchOptions:
    """The options that decide which documents are near-duplicates, and how they are found."""

    threshold: Threshold = 0.8
    distance: Distance = None
    recall: Recall = 0.95
    bands: Bands = None
    rows: Rows = None
    tables: Tables = 1
    probes: Probes = 0
    verify: Verify = "exact"
    block_by: BlockBy = None
    missing_block: MissingBlockOption = "none"
    across: Across = None
    same: Same = None
    url: Url = None
    hot_bucket_size: HotBucketSize = 100
    pair_budget: PairBudget = None
    fanout: Fanout = 100
    memory: Memory = MEMORY
    workers: Workers = None
    preset: Preset = None

    def carried_columns(self, policy: "KeepPolicy", *others: str | None) -> tuple[str, ...]:
        """Returns the columns that a run reads beside documents and ids."""
        from nearkin.engine.options import carried_columns, split_column_names

        values = (*split_column_names(self.same), self.url)
        return carried_columns(policy, self.block_by, self.across, *values, *others)

    def to_run_options(
        self,
        spec: "Spec",
        clustering: ClusterOptions | None = None,
        fields: Sequence[str] | None = None,
    ) -> "RunOptions":
        """Returns the options of a run."""
        from nearkin.engine.options import RunOptions
        from nearkin.runtime.sizes import parse_memory

        clustering = clustering or ClusterOptions()
        return RunOptions(
            spec=spec,
            threshold=self.threshold,
            distance=self.distance,
            recall=self.recall,
            bands=self.bands,
            rows=self.rows,
            tables=self.tables,
            probes=self.probes,
            verify=self.verify,
            cluster=clustering.cluster,
            floor=clustering.floor,
            keep=clustering.keep,
            keep_up_to=clustering.keep_up_to,
            empty=clustering.empty,
            block_by=self.block_by,
            missing_block=self.missing_block,
            across=self.across,
            accept=clustering.accept,
            max_lost=clustering.max_lost,
            fields=fields or (),
            related=clustering.related,
            same=self.same,
            url=self.url,
            max_removed=clustering.max_removed,
            source=clustering.source,
            split=clustering.split,
            second_measure=clustering.second_measure,
            hot_bucket_size=self.hot_bucket_size,
            pair_budget=self.pair_budget,
            fanout=self.fanout,
            memory=parse_memory(self.memory),
            workers=workers_or_cores(self.workers),
            preset=self.preset,
        )


@dataclass(frozen=True)
class OutputOptions:
    """The options of an output of a run."""

    out: Out
    overwrite: Overwrite = False
    readable_by: ReadableBy = "owner"
    json: Json = False
    quiet: Quiet = False


@dataclass(frozen=True)
class IndexKeyOptions:
    """The options for the data that the Spec of an index refers to."""

    spec_resources: SpecResourcesFolder = None
    key_file: KeyFile = None


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


def workers_or_cores(workers: int | None) -> int:
    """Returns the number of threads that was given, or the number of cores of this process."""
    from nearkin.runtime.process_limits import available_cores

    return workers or available_cores()


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
