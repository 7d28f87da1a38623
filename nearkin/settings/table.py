"""Every setting that more than one door has, declared once, in groups.

A door is a command, a keyword of the library, a settings file, `nearkin.toml` or the record of a
run. The groups are dataclasses, so that their values are typed; `SETTINGS` has all of them by name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from nearkin.runtime.files import READABLE_BY
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.choices import ClusterMethod, EmptyDocuments, MissingBlock, Verify
from nearkin.settings.setting import (
    ADVANCED,
    CANDIDATES,
    CLUSTERING,
    COLUMN,
    COUNT,
    COUNT_OR_NONE,
    OPEN_SHARE,
    OUTPUT,
    RUN,
    SHARE,
    SHARE_ABOVE_0,
    SIMILARITY,
    UNSIGNED_64,
    VERIFICATION,
    Declared,
    Need,
    NumberRange,
    Recorded,
    Setting,
    settings_of,
)

DEFAULT_STEPS = "nfkc,lower"
MOST_THREADS = 4096


def _measures() -> Iterable[str]:
    from nearkin.settings.spec import MEASURES

    return MEASURES


def _normalisations() -> Iterable[str]:
    from nearkin.settings.spec import NORMALISATIONS

    return NORMALISATIONS


def _hash_functions() -> Iterable[str]:
    from nearkin.settings.spec import FAMILIES

    return FAMILIES


def _stem_languages() -> Iterable[str]:
    from nearkin.settings.spec import stem_languages

    return stem_languages()


def _presets() -> Iterable[str]:
    from nearkin.settings.presets import PRESETS

    return PRESETS


def _excluding(reason: str, *names: str) -> dict[str, str]:
    """Returns the settings that another one excludes for one reason."""
    return dict.fromkeys(names, reason)


# -- what is read


@dataclass(frozen=True)
class ColumnSettings:
    """The columns of the inputs, and how files of text and HTML are read."""

    text: Annotated[
        str | None,
        Setting(
            "Column of texts, or several that are joined, for example title,body.",
            metavar=COLUMN,
            shown_default="text",
            names_columns=True,
            is_list=True,
            keyword="str | Sequence[str] | None",
            keyword_help="Column of texts, or several columns, whose texts are joined in this "
            "order.",
        ),
    ] = None
    tokens: Annotated[
        str | None,
        Setting("Column of token lists, instead of texts.", metavar=COLUMN, names_columns=True),
    ] = None
    vector: Annotated[
        str | None,
        Setting(
            "Column of vectors, instead of texts.",
            metavar=COLUMN,
            names_columns=True,
            excludes=_excluding(
                "vectors have no shingles",
                *("shingle", "normalise", "stem", "weights", "max_df", "cut_list", "base_hash"),
                "spec_version",
            ),
        ),
    ] = None
    id_column: Annotated[
        str | None,
        Setting(
            "Column of ids.",
            metavar=COLUMN,
            shown_default="ids of the form PATH:ROW",
            names_columns=True,
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        Setting(
            "Character between the values of CSV files: comma, semicolon, tab, pipe or any other.",
            metavar="CHAR",
            shown_default="detected",
            values=("comma", "semicolon", "tab", "\\t", "pipe"),
        ),
    ] = None
    encoding: Annotated[
        str | None,
        Setting(
            "Encoding of CSV files, for example utf-8, utf-16 or windows-1252. utf-8,windows-1252 "
            "reads rows that are not UTF-8 as Windows-1252, in JSON and texts too.",
            shown_default="detected",
            values=("utf-8", "utf-16", "windows-1252"),
        ),
    ] = None
    main_text: Annotated[
        bool,
        Setting(
            "Read the main text of HTML pages, in files and in WARC files, without navigation, "
            "headers and footers (requires the extra `html`)."
        ),
    ] = False
    lines: Annotated[
        bool,
        Setting(
            "Read each line of a text file as a document, for example of .txt and .log, and not "
            "the whole file as one. Blank lines are left out. --preset logs does so.",
            negatable=True,
        ),
    ] = False


@dataclass(frozen=True)
class RunColumnSettings(ColumnSettings):
    """The columns of runs that also compare given fingerprints."""

    fingerprint: Annotated[
        str | None,
        Setting(
            "Column of fingerprints, instead of texts: hexadecimal texts, bytes, or 64-bit "
            "integers. Requires --distance.",
            metavar=COLUMN,
            names_columns=True,
            excludes=_excluding("documents have one kind of content", "text", "tokens", "vector")
            | _excluding(
                "fingerprints are given, and not made",
                *("shingle", "normalise", "stem", "weights", "frequencies", "max_df", "cut_list"),
                *("k", "slot_bits", "scheme", "seed", "base_hash", "spec_version", "key_file"),
            ),
        ),
    ] = None
    bits: Annotated[
        int | None,
        Setting(
            "Number of bits of a fingerprint: 64, 128, 192 or 256.",
            metavar="BITS",
            shown_default="64",
            range=COUNT,
        ),
    ] = None
    ignore_fingerprint: Annotated[
        list[str] | None,
        Setting(
            "Fingerprint in hexadecimal digits. Documents with it are compared with no other, for "
            "example because it is that of a blank picture. May be repeated.",
            metavar="HEX",
            keyword="str | Sequence[str] | None",
            keyword_help="Fingerprint, or several ones, as hexadecimal digits. Documents with one "
            "are compared with no other, for example because it is that of a blank picture.",
        ),
    ] = None


@dataclass(frozen=True)
class FieldColumnSettings(RunColumnSettings):
    """The columns of runs that also compare several fields."""

    fields: Annotated[
        list[str] | None,
        Setting(
            "Column that is compared on its own, with its measure and limit: "
            "'title:jaccard>=0.9', 'image:hamming/64<=4' or 'vector:cosine>=0.95'. May be "
            "repeated; all fields must be similar.",
            metavar="FIELD",
            excludes=_excluding(
                "each field names its column, its measure and its limit",
                *("text", "tokens", "vector", "fingerprint", "bits", "measure", "threshold"),
                *("distance", "weights", "frequencies", "max_df", "cut_list", "max_lost"),
            ),
            recorded=Recorded.IF_CHANGED,
            keyword="Sequence[str]",
            keyword_help="Columns that are compared each on its own, with their measures and "
            "limits, for example `title:jaccard>=0.9` and `image:hamming/64<=4`. Near-duplicates "
            "reach all of them, or those that `accept` requires, for example `title and (body or "
            "image)`. They replace `threshold` and `distance`.",
        ),
    ] = None


@dataclass(frozen=True)
class SelectionSettings:
    """The choice of the files of input folders."""

    hidden: Annotated[
        bool,
        Setting("Also read files and folders below an input folder whose names start with . or _."),
    ] = False
    follow_links: Annotated[
        bool,
        Setting(
            "Follow symbolic links to folders below an input folder. Each folder is read once."
        ),
    ] = False
    include: Annotated[
        list[str] | None,
        Setting(
            "Pattern of the names of the files that are read, for example '*.csv'. May be "
            "repeated.",
            metavar="GLOB",
            keyword="Sequence[str]",
            keyword_help="Patterns of the names of the files that are read, for example "
            '`["*.csv"]`. The default is every file.',
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        Setting(
            "Pattern of the names of files that are left out, for example '*.md'. May be repeated.",
            metavar="GLOB",
            keyword="Sequence[str]",
            keyword_help="Patterns of the names of files that are left out.",
        ),
    ] = None


@dataclass(frozen=True)
class ReadSettings(SelectionSettings):
    """The choice of files, and the treatment of those that cannot be read."""

    on_error: Annotated[
        str,
        Setting(
            "Treatment of rows and files that cannot be read: quarantine or fail.",
            metavar="ACTION",
            values=("quarantine", "fail"),
            keyword_help="`quarantine` rejects rows that are not documents, and files that cannot "
            "be read; `fail` raises an error.",
        ),
    ] = "quarantine"


@dataclass(frozen=True)
class RunReadSettings(ReadSettings):
    """The reading of inputs that a run records."""

    hash_inputs: Annotated[
        str,
        Setting(
            "Part of the inputs that is hashed, so that changes are detected: sampled or full.",
            metavar="PART",
            values=("sampled", "full"),
        ),
    ] = "sampled"


@dataclass(frozen=True)
class ReferenceSettings:
    """Other documents, of which a run removes what repeats them."""

    against: Annotated[
        list[str] | None,
        Setting(
            "Reference: files, globs, folders or URLs, the folder of a finished run, or the URL "
            "of an index. Documents that repeat one of it are removed. May be repeated.",
            metavar="REF",
            is_path=True,
        ),
    ] = None
    only_against: Annotated[
        bool,
        Setting("Compare documents with the reference only, and not with each other."),
    ] = False
    scope: Annotated[
        str | None,
        Setting("Scope of the index that --against names.", shown_default="default"),
    ] = None
    blocklist: Annotated[
        Path | None,
        Setting(
            "Blocklist of nearkin block. Documents that are like one of its entries are removed.",
            metavar="LIST",
        ),
    ] = None


# -- signatures


@dataclass(frozen=True)
class SignatureSettings:
    """The parts of a Spec: the form of a document, and its signature."""

    measure: Annotated[
        str | None,
        Setting(
            "Measure of similarity: jaccard, weighted-jaccard, idf-jaccard, simhash, cosine "
            "(vectors) or hamming (fingerprints).",
            SIMILARITY,
            shown_default="by the column",
            values=_measures,
        ),
    ] = None
    shingle: Annotated[
        str,
        Setting(
            "Unit and length of a shingle: words:N or chars:N.",
            SIMILARITY,
            metavar="UNIT:N",
            values=("words:3", "words:5", "chars:3", "chars:5"),
        ),
    ] = "words:3"
    normalise: Annotated[
        str,
        Setting(
            "Normalization steps, separated by commas: nfkc, lower, digits (become 0), "
            "punctuation (counts as words), symbols (such as + and a minus count as words), marks "
            "(accents are dropped), markup (tags are dropped), "
            "comments (those of source code are dropped); and masks, which replace values by the "
            "name of their kind: email, uuid, ip, date, path, hex, number.",
            SIMILARITY,
            metavar="STEPS",
            is_list=True,
            values=_normalisations,
            keyword="str | Sequence[str]",
        ),
    ] = DEFAULT_STEPS
    stem: Annotated[
        str | None,
        Setting(
            "Snowball language whose stems replace words, for example english.",
            SIMILARITY,
            metavar="LANGUAGE",
            values=_stem_languages,
        ),
    ] = None
    scheme: Annotated[
        str | None,
        Setting(
            "Algorithm of MinHash: binned or classic.",
            ADVANCED,
            shown_default="binned",
            values=("binned", "classic"),
        ),
    ] = None
    k: Annotated[
        int | None,
        Setting(
            "Number of slots of a signature, or of its bits (simhash and cosine).",
            SIMILARITY,
            shown_default="128 slots; simhash 64 bits; cosine 512 bits",
            range=COUNT,
        ),
    ] = None
    slot_bits: Annotated[
        int | None,
        Setting(
            "Number of bits kept of a MinHash slot: 32, 16, 8, 4, 2 or 1.",
            ADVANCED,
            shown_default="32",
            range=NumberRange(1, 32),
        ),
    ] = None
    seed: Annotated[
        int,
        Setting(
            "Number that selects the hash functions of signatures.", ADVANCED, range=UNSIGNED_64
        ),
    ] = 1
    base_hash: Annotated[
        str | None,
        Setting(
            "Hash function of shingles: xxh3, murmur3 or fnv1a.",
            ADVANCED,
            shown_default="xxh3",
            values=_hash_functions,
        ),
    ] = None
    spec_version: Annotated[
        int | None,
        Setting(
            "Version of the format: 2, or 1 to read texts as older releases did and to compare "
            "them with what these made.",
            ADVANCED,
            shown_default="2",
            range=NumberRange(1, 2),
        ),
    ] = None
    key_file: Annotated[
        str | None,
        Setting(
            "Secret hash key: a FILE, or env:NAME, with 32 hexadecimal digits.",
            ADVANCED,
            metavar="FILE",
            is_path=True,
            excludes=_excluding("keyed hashing is siphash", "base_hash"),
        ),
    ] = None
    weights: Annotated[
        str | None,
        Setting(
            "Weights of shingles (simhash only): tf, or tfidf, which counts them first.",
            SIMILARITY,
            shown_default="tf",
            values=("tf", "tfidf"),
        ),
    ] = None
    frequencies: Annotated[
        Path | None,
        Setting(
            "File of document frequencies, for idf-jaccard and --weights tfidf.",
            SIMILARITY,
            metavar="FILE",
            shown_default="counted in the inputs",
        ),
    ] = None
    max_df: Annotated[
        float | None,
        Setting(
            "Share of the documents, in (0, 1), above which a shingle is removed.",
            SIMILARITY,
            metavar="SHARE",
            range=OPEN_SHARE,
        ),
    ] = None
    cut_list: Annotated[
        Path | None,
        Setting(
            "File cut.arrow of another run, whose shingles are removed. Replaces --max-df.",
            SIMILARITY,
            metavar="FILE",
            excludes=_excluding("the list replaces the share", "max_df"),
        ),
    ] = None


@dataclass(frozen=True)
class IndexKeySettings:
    """The data that the Spec of an index refers to."""

    spec_resources: Annotated[
        Path | None,
        Setting(
            "Output folder of a run whose cut.arrow or frequencies.arrow the Spec of the index "
            "refers to, or a file of document frequencies.",
            ADVANCED,
            metavar="PATH",
        ),
    ] = None
    key_file: Annotated[str | None, settings_of(SignatureSettings)["key_file"].setting] = None


# -- near-duplicates


@dataclass(frozen=True)
class SearchSettings:
    """The definition of near-duplicates, and the search for them."""

    threshold: Annotated[
        float,
        Setting(
            "Minimum similarity of two near-duplicates, in (0, 1].",
            SIMILARITY,
            short="-t",
            metavar="SHARE",
            range=SHARE_ABOVE_0,
            recorded=Recorded.ALWAYS,
        ),
    ] = 0.8
    distance: Annotated[
        int | None,
        Setting(
            "Maximum Hamming distance in bits (simhash, cosine and fingerprints only). Replaces "
            "--threshold.",
            SIMILARITY,
            metavar="D",
            range=COUNT_OR_NONE,
            excludes=_excluding("the distance replaces the threshold", "threshold")
            | _excluding(
                "the search by distance finds every pair",
                *("recall", "bands", "rows", "tables", "probes"),
            ),
            recorded=Recorded.ALWAYS,
        ),
    ] = None
    recall: Annotated[
        float,
        Setting(
            "Minimum share of the pairs at the threshold that become candidates, in (0, 1).",
            CANDIDATES,
            metavar="SHARE",
            range=OPEN_SHARE,
            recorded=Recorded.ALWAYS,
        ),
    ] = 0.95
    bands: Annotated[
        int | None,
        Setting(
            "Number of bands, together with --rows.",
            CANDIDATES,
            shown_default="computed from threshold and recall",
            range=COUNT,
            recorded=Recorded.ALWAYS,
        ),
    ] = None
    rows: Annotated[
        int | None,
        Setting(
            "Number of rows of a band, together with --bands.",
            CANDIDATES,
            shown_default="computed",
            range=COUNT,
            recorded=Recorded.ALWAYS,
        ),
    ] = None
    tables: Annotated[
        int,
        Setting(
            "Number of independent tables of bands over separate MinHash slots, at least 1.",
            ADVANCED,
            metavar="L",
            range=COUNT,
            recorded=Recorded.ALWAYS,
        ),
    ] = 1
    probes: Annotated[
        int,
        Setting(
            "Number of slots of a band that are looked up by their runner-up too (MinHash only).",
            ADVANCED,
            metavar="P",
            range=COUNT_OR_NONE,
            recorded=Recorded.ALWAYS,
        ),
    ] = 0
    verify: Annotated[
        str,
        Setting(
            "Comparison of candidate pairs: exact, estimate (signatures only) or none.",
            VERIFICATION,
            metavar="MODE",
            values=tuple(Verify),
            recorded=Recorded.ALWAYS,
        ),
    ] = Verify.EXACT
    block_by: Annotated[
        str | None,
        Setting(
            "Column of blocks. Only documents with the same value are compared.",
            CANDIDATES,
            metavar=COLUMN,
            names_columns=True,
            recorded=Recorded.ALWAYS,
        ),
    ] = None
    missing_block: Annotated[
        str,
        Setting(
            "The documents that one without a value of --block-by is compared with: none or all.",
            CANDIDATES,
            metavar="WHICH",
            values=tuple(MissingBlock),
            need=Need("block_by"),
            recorded=Recorded.IF_CHANGED,
        ),
    ] = MissingBlock.NONE
    across: Annotated[
        str | None,
        Setting(
            "Column of sources. Only documents of different sources are compared.",
            CANDIDATES,
            metavar=COLUMN,
            names_columns=True,
            recorded=Recorded.IF_CHANGED,
        ),
    ] = None
    same: Annotated[
        str | None,
        Setting(
            "Columns, separated by commas. Documents with an equal value in one of them are "
            "duplicates, whatever their texts are. Null and empty values never match.",
            CANDIDATES,
            metavar=COLUMN,
            names_columns=True,
            is_list=True,
            recorded=Recorded.IF_CHANGED,
        ),
    ] = None
    url: Annotated[
        str | None,
        Setting(
            "Column of URLs. Documents whose URLs have the same canonical form are duplicates "
            "(requires the extra `urls`).",
            CANDIDATES,
            metavar=COLUMN,
            names_columns=True,
            recorded=Recorded.IF_CHANGED,
        ),
    ] = None
    hot_bucket_size: Annotated[
        int,
        Setting(
            "Number of documents above which a bucket is clustered internally instead of "
            "yielding all its pairs, at least 2.",
            ADVANCED,
            range=NumberRange(2),
            recorded=Recorded.ALWAYS,
            record_key="max_bucket",
        ),
    ] = 100
    pair_budget: Annotated[
        int | None,
        Setting(
            "Number of pairs up to which a bucket yields all its pairs although it is larger "
            "than --hot-bucket-size, at least 0.",
            ADVANCED,
            metavar="PAIRS",
            shown_default="50,000,000 for pairs; none for dedup, because leaders suffice for "
            "clusters",
            range=COUNT_OR_NONE,
            recorded=Recorded.ALWAYS,
        ),
    ] = None
    fanout: Annotated[
        int,
        Setting(
            "Number of leaders with which a member of a hot bucket is compared, at least 1.",
            ADVANCED,
            range=COUNT,
            recorded=Recorded.ALWAYS,
        ),
    ] = 100
    preset: Annotated[
        str | None,
        Setting(
            "Settings for a kind of data: web (pages), articles, records (names and addresses), "
            "bibliography (references), logs (lines), code (functions) or titles (of papers and "
            "news). Each was measured on 1,000 to 100,000 generated rows of its kind; a larger run "
            "says so. Given options replace their values.",
            SIMILARITY,
            metavar="KIND",
            values=_presets,
        ),
    ] = None


@dataclass(frozen=True)
class ClusterSettings:
    """The clusters of documents, and the documents of them that are kept."""

    cluster: Annotated[
        str,
        Setting(
            "Clustering method: leaders (every removed document is verified against the kept "
            "one) or components (connected pairs).",
            CLUSTERING,
            metavar="METHOD",
            values=tuple(ClusterMethod),
            recorded=Recorded.ALWAYS,
        ),
    ] = ClusterMethod.LEADERS
    floor: Annotated[
        float | None,
        Setting(
            "Minimum similarity to the kept document (components only), from 0 to the threshold.",
            CLUSTERING,
            metavar="SHARE",
            shown_default="threshold - 0.2",
            range=SHARE,
            need=Need("cluster", (ClusterMethod.COMPONENTS,)),
            recorded=Recorded.ALWAYS,
        ),
    ] = None
    keep: Annotated[
        str,
        Setting(
            "Keep policy, for example 'source:gold>web, quality desc, length desc' or "
            "'most-complete, newest:date'.",
            CLUSTERING,
            metavar="EXPR",
            names_columns=True,
            values=("length",),
            is_list=True,
            recorded=Recorded.ALWAYS,
            keyword="str | Callable[..., object]",
            keyword_help="Keep policy, for example `source:gold>web, quality desc, length desc` or "
            "`most-complete, newest:date`; or, for `nearkin.dedup` over data in memory, a function "
            "of the rows of a cluster that may be kept (dictionaries, in keep order), which "
            "returns one of them or its id.",
        ),
    ] = "length desc"
    keep_up_to: Annotated[
        int,
        Setting(
            "Number of documents of a cluster that are kept, at least 1: the first ones in keep "
            "order.",
            CLUSTERING,
            metavar="N",
            range=COUNT,
            recorded=Recorded.IF_CHANGED,
        ),
    ] = 1
    empty: Annotated[
        str,
        Setting(
            "Treatment of documents without shingles, which never match: keep or drop.",
            CLUSTERING,
            metavar="ACTION",
            values=tuple(EmptyDocuments),
            recorded=Recorded.ALWAYS,
        ),
    ] = EmptyDocuments.KEEP
    accept: Annotated[
        str,
        Setting(
            "Condition under which a document is removed, for example 'jaccard >= 0.8 and "
            "containment >= 0.98'; or safe, contained, or similar (the threshold decides). With "
            "--field, 'title and (body or image)'.",
            VERIFICATION,
            metavar="EXPR",
            recorded=Recorded.IF_CHANGED,
            keyword_help="Condition under which a document is removed in favor of the kept one: an "
            "expression such as `jaccard >= 0.8 and containment >= 0.98`, `safe` or `contained`. "
            "It replaces `threshold`. With `similar`, the threshold alone decides. `nearkin.pairs` "
            "lists the pairs for which it holds.",
        ),
    ] = "similar"
    max_lost: Annotated[
        float | None,
        Setting(
            "Maximum share of the shingles of a removed document that the kept one lacks, from 0 "
            "to 1. Documents that would lose more are kept.",
            VERIFICATION,
            metavar="SHARE",
            range=SHARE,
            recorded=Recorded.IF_CHANGED,
        ),
    ] = None
    related: Annotated[
        float | None,
        Setting(
            "Minimum similarity of related documents, above 0 and below the threshold. They are "
            "linked in related.parquet, and none is removed because of it.",
            VERIFICATION,
            metavar="SHARE",
            range=SHARE_ABOVE_0,
            recorded=Recorded.IF_CHANGED,
            keyword_help="Minimum similarity of related documents, above 0 and below the threshold "
            "(with `distance`, the share of equal bits; with `accept`, at most 1). They are linked "
            "with each other, and none is removed because of it.",
        ),
    ] = None
    max_removed: Annotated[
        float | str | None,
        Setting(
            "Maximum share of the documents that may be removed as near-duplicates, exact copies "
            "not counted, from 0 to 1 (default 0.5). COL:SHARE limits what is removed of each "
            "value of a column, for example source:0.5. Both are written as 0.9,source:0.5. A run "
            "that would remove more stops before it writes anything.",
            OUTPUT,
            metavar="SHARE|COL:SHARE",
            option_type=str,
            keyword_help="Maximum share of the documents that may be removed as near-duplicates, "
            "exact copies not counted. The default is 0.5. A command that would remove more stops "
            "before it writes anything, and a result of the library has a warning. `COLUMN:SHARE` "
            "limits the removed documents of each value of a column, and `0.9,source:0.5` sets "
            "both.",
        ),
    ] = None
    second_measure: Annotated[
        str | None,
        Setting(
            "Second measure over the kept documents, in the form cosine:COL:0.95.",
            VERIFICATION,
            metavar="MEASURE",
            recorded=Recorded.ALWAYS,
            record_key="then",
        ),
    ] = None
    source: Annotated[
        str | None,
        Setting(
            "Column by which the report counts removals and overlaps.",
            OUTPUT,
            metavar=COLUMN,
            names_columns=True,
            recorded=Recorded.ALWAYS,
        ),
    ] = None
    split: Annotated[
        str | None,
        Setting(
            "Column of splits (train, test). The report shows the duplicates between them.",
            OUTPUT,
            metavar=COLUMN,
            names_columns=True,
            recorded=Recorded.ALWAYS,
        ),
    ] = None


# -- what is written


@dataclass(frozen=True)
class OutputSettings:
    """The output of a run."""

    out: Annotated[
        Path, Setting("Output folder or file, or a hf:// URL.", OUTPUT, metavar="PATH", short="-o")
    ]
    overwrite: Annotated[bool, Setting("Replace an existing output.", OUTPUT)] = False
    readable_by: Annotated[
        str,
        Setting(
            "Users who may read the output, which contains texts: owner, group or everyone.",
            OUTPUT,
            metavar="USERS",
            values=("owner", "group", "everyone"),
            variable=READABLE_BY,
        ),
    ] = "owner"
    json: Annotated[
        bool,
        Setting("Print the summary as JSON, with nothing else on standard output.", OUTPUT),
    ] = False
    quiet: Annotated[
        bool,
        Setting(
            "Show no progress, and of the result only the warnings and one line.",
            OUTPUT,
            short="-q",
        ),
    ] = False


@dataclass(frozen=True)
class CutSettings:
    """The repeated passages or lines that are cut from the kept documents."""

    passages: Annotated[
        str | None,
        Setting(
            "Cut passages of at least this number of words from all places but one, after "
            "duplicates have been removed, for example 50, or 100:chars for characters.",
            OUTPUT,
            metavar="N",
        ),
    ] = None
    cut_unit: Annotated[
        str | None,
        Setting(
            "Write the documents with each repeated passage in one place only. What is cut from "
            "the others: passage (the words), sentence, line, paragraph (those that are repeated "
            "as a whole), or document:SHARE (documents of which at least that share of the bytes "
            "is repeated).",
            OUTPUT,
            metavar="UNIT",
        ),
    ] = None
    min_left: Annotated[
        int,
        Setting(
            "Number of words (or of characters, if passages are of characters) below which the "
            "rest of a cut document is removed, too.",
            OUTPUT,
            metavar="N",
            range=COUNT_OR_NONE,
        ),
    ] = 0
    repeated_lines: Annotated[
        str | None,
        Setting(
            "Cut lines that occur in at least this number of kept documents, or this number of "
            "times (for example 3:places), after duplicates have been removed.",
            OUTPUT,
            metavar="N",
        ),
    ] = None
    repeated_paragraphs: Annotated[
        str | None, Setting("Cut paragraphs in the same way.", OUTPUT, metavar="N")
    ] = None
    lines_action: Annotated[
        str | None,
        Setting(
            "What is done with repeated lines or paragraphs: keep-one (cut from all places but "
            "one), remove, or report.",
            OUTPUT,
            metavar="ACTION",
            shown_default="keep-one",
        ),
    ] = None


@dataclass(frozen=True)
class ResourceSettings:
    """The share of the machine that a run may use. It does not decide the result."""

    memory: Annotated[
        str,
        Setting(
            "Maximum memory, for example 4GB. auto: half of what the process may use.",
            RUN,
            metavar="SIZE",
            keyword="int | str",
            keyword_help="Bound on the anonymous memory of the run: a number of bytes, a size such "
            "as `4GB`, or `auto` for half of the memory that the process may use.",
        ),
    ] = AUTOMATIC
    workers: Annotated[
        int | None,
        Setting(
            "Number of threads.",
            RUN,
            shown_default="the cores that the process may use",
            range=NumberRange(1, MOST_THREADS),
        ),
    ] = None


@dataclass(frozen=True)
class FileSettings:
    """The files that a run reads besides its inputs, and the earlier run that it continues."""

    plan: Annotated[
        Path | None,
        Setting(
            "File written by nearkin plan --out, whose settings are used.", RUN, metavar="FILE"
        ),
    ] = None
    settings: Annotated[
        Path | None,
        Setting(
            "Settings file (TOML), for example of nearkin fit. Given options replace its values.",
            SIMILARITY,
            metavar="FILE",
            keyword="str | Path | Mapping[str, object] | None",
            keyword_help="A settings file, or its values. Other parameters that are given replace "
            "its values.",
        ),
    ] = None
    decisions: Annotated[
        Path | None,
        Setting(
            "File of decisions about pairs (JSON lines, CSV or parquet). Pairs decided to be the "
            "same are always in one cluster, and those decided to be different never.",
            CLUSTERING,
            metavar="FILE",
        ),
    ] = None
    resume: Annotated[
        bool,
        Setting(
            "Resume an interrupted run.",
            RUN,
            excludes=_excluding("a resumed run keeps what an interrupted one left", "overwrite"),
        ),
    ] = False


@dataclass(frozen=True)
class ObjectSettings:
    """The objects that only a program can give."""

    spec: Annotated[
        Any,
        Setting(
            "The Spec of the signatures. By default, it is made of the settings of the Spec.",
            keyword="Spec | None",
        ),
    ] = None
    key: Annotated[
        Any,
        Setting(
            "The hash key. It is required if the Spec is keyed, and keys a Spec that is made.",
            keyword="HashKey | None",
        ),
    ] = None
    frequencies: Annotated[
        Any,
        Setting(
            "Document frequencies for tf-idf weights and for measure `idf-jaccard`. By default, "
            "they are counted.",
            keyword="DocumentFrequencies | None",
        ),
    ] = None
    cut: Annotated[
        Any,
        Setting(
            "The shingles that are removed, if the Spec has a frequency cut.",
            keyword="DocumentFrequencies | None",
        ),
    ] = None


GROUPS: tuple[type, ...] = (
    FieldColumnSettings,
    RunReadSettings,
    ReferenceSettings,
    SignatureSettings,
    SearchSettings,
    ClusterSettings,
    IndexKeySettings,
    OutputSettings,
    CutSettings,
    ResourceSettings,
    FileSettings,
)
"""The groups of the settings that commands have."""
SETTINGS: Mapping[str, Declared] = {
    name: declared for group in GROUPS for name, declared in settings_of(group).items()
}
"""The settings that commands have, by name."""


def varied(name: str, help: str = "", **changes: Any) -> Setting:
    """Returns a setting of the table that means something else in one command, or excludes more."""
    setting = SETTINGS[name].setting
    return replace(setting, help=help or setting.help, **changes)


def names_of(*groups: type) -> tuple[str, ...]:
    """Returns the names of the settings of groups, in their order."""
    return tuple(name for group in groups for name in settings_of(group))


READ_KEYWORDS = (*names_of(ReadSettings), "delimiter", "encoding", "main_text", "lines")
"""The keywords that decide how inputs are read."""
SPEC_KEYWORDS = (
    *(
        name
        for name in names_of(SignatureSettings)
        if name not in ("measure", "key_file", "frequencies", "max_df", "cut_list")
    ),
    "bits",
)
"""The keywords that make a Spec, beside its measure and what is counted for it."""
FILES_OF_OPTIONS = ("id_column", "key_file", "frequencies", "cut_list")
"""The settings that a program gives in another form: the key as an object, for example."""
KEYWORDS: Mapping[str, Declared] = {
    **{
        name: SETTINGS[name]
        for name in names_of(
            FieldColumnSettings,
            SignatureSettings,
            SearchSettings,
            ClusterSettings,
            ResourceSettings,
            ReadSettings,
        )
        if name not in FILES_OF_OPTIONS
    },
    "settings": SETTINGS["settings"],
    **settings_of(ObjectSettings),
}
"""The settings that are keywords of the library."""
