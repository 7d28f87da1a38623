"""Every setting that more than one door has, declared once, in groups.

A door is a command, a keyword of the library, a settings file, `nearkin.toml` or the record of a
run. The groups are dataclasses, so that their values are typed; `SETTINGS` has all of them by name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from nearkin.errors import UsageError
from nearkin.runtime.files import READABLE_BY
from nearkin.runtime.number_range import (
    COUNT,
    COUNT_OR_NONE,
    OPEN_SHARE,
    SHARE,
    SHARE_ABOVE_0,
    UNSIGNED_64,
    NumberRange,
)
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.choices import (
    ClusterMethod,
    EmptyDocuments,
    MergeRule,
    MissingBlock,
    Verify,
)
from nearkin.settings.setting import (
    ADVANCED,
    CANDIDATES,
    CLUSTERING,
    COLUMN,
    OUTPUT,
    RUN,
    SIMILARITY,
    VERIFICATION,
    Declared,
    Need,
    Recorded,
    Setting,
    setting,
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

    text: str | None = setting(
        None,
        "Column of texts, or several that are joined, for example title,body.",
        common=True,
        metavar=COLUMN,
        shown_default="text",
        names_columns=True,
        is_list=True,
        keyword="str | Sequence[str] | None",
        keyword_help="Column of texts, or several columns, whose texts are joined in this order.",
    )
    tokens: str | None = setting(
        None, "Column of token lists, instead of texts.", metavar=COLUMN, names_columns=True
    )
    vector: str | None = setting(
        None,
        "Column of vectors, instead of texts.",
        metavar=COLUMN,
        names_columns=True,
        excludes=_excluding(
            "vectors have no shingles",
            *("shingle", "normalise", "stem", "weights", "max_df", "cut_list", "base_hash"),
            "spec_version",
        ),
    )
    id_column: str | None = setting(
        None,
        "Column of ids.",
        common=True,
        metavar=COLUMN,
        shown_default="PATH:ROW",
        names_columns=True,
    )
    delimiter: str | None = setting(
        None,
        "Character between the values of CSV files: comma, semicolon, tab, pipe or any other.",
        metavar="CHAR",
        shown_default="detected",
        values=("comma", "semicolon", "tab", "\\t", "pipe"),
    )
    encoding: str | None = setting(
        None,
        "Encoding of CSV files, for example utf-8, utf-16 or windows-1252. utf-8,windows-1252 "
        "reads rows that are not UTF-8 as Windows-1252, in JSON and texts too.",
        shown_default="detected",
        values=("utf-8", "utf-16", "windows-1252"),
    )
    main_text: bool = setting(
        False,
        "Read the main text of HTML pages, in files and in WARC files, without navigation, "
        "headers and footers (requires the extra `html`).",
    )
    lines: bool = setting(
        False,
        "Read each line of a text file as a document, for example of .txt and .log, and not the "
        "whole file as one. Blank lines are left out. --preset logs does so.",
        negatable=True,
    )


@dataclass(frozen=True)
class RunColumnSettings(ColumnSettings):
    """The columns of runs that also compare given fingerprints."""

    fingerprint: str | None = setting(
        None,
        "Column of fingerprints, instead of texts: hexadecimal texts, bytes, or 64-bit integers. "
        "Requires --distance.",
        metavar=COLUMN,
        names_columns=True,
        excludes=_excluding("documents have one kind of content", "text", "tokens", "vector")
        | _excluding(
            "fingerprints are given, and not made",
            *("shingle", "normalise", "stem", "weights", "frequencies", "max_df", "cut_list"),
            *("k", "slot_bits", "scheme", "seed", "base_hash", "spec_version", "key_file"),
        ),
    )
    bits: int | None = setting(
        None,
        "Number of bits of a fingerprint: 64, 128, 192 or 256.",
        metavar="BITS",
        shown_default="64",
        range=COUNT,
    )
    ignore_fingerprint: list[str] | None = setting(
        None,
        "Fingerprint in hexadecimal digits. Documents with it are compared with no other, for "
        "example because it is that of a blank picture. May be repeated.",
        metavar="HEX",
        keyword="str | Sequence[str] | None",
        keyword_help="Fingerprint, or several ones, as hexadecimal digits. Documents with one are "
        "compared with no other, for example because it is that of a blank picture.",
    )


@dataclass(frozen=True)
class FieldColumnSettings(RunColumnSettings):
    """The columns of runs that also compare several fields."""

    fields: list[str] | None = setting(
        None,
        "Column that is compared on its own, with its measure and limit: 'title:jaccard>=0.9', "
        "'image:hamming/64<=4' or 'vector:cosine>=0.95'. May be repeated; all fields must be "
        "similar.",
        metavar="FIELD",
        excludes=_excluding(
            "each field names its column, its measure and its limit",
            *("text", "tokens", "vector", "fingerprint", "bits", "measure", "threshold"),
            *("distance", "weights", "frequencies", "max_df", "cut_list"),
        ),
        recorded=Recorded.IF_CHANGED,
        keyword="Sequence[str]",
        keyword_help="Columns that are compared each on its own, with their measures and limits, "
        "for example `title:jaccard>=0.9` and `image:hamming/64<=4`. Near-duplicates reach all of "
        "them, or those that `accept` requires, for example `title and (body or image)`. They "
        "replace `threshold` and `distance`.",
    )


@dataclass(frozen=True)
class SelectionSettings:
    """The choice of the files of input folders."""

    hidden: bool = setting(
        False, "Also read files and folders below an input folder whose names start with . or _."
    )
    follow_links: bool = setting(
        False, "Follow symbolic links to folders below an input folder. Each folder is read once."
    )
    include: list[str] | None = setting(
        None,
        "Pattern of the names of the files that are read, for example '*.csv'. May be repeated.",
        metavar="GLOB",
        keyword="Sequence[str]",
        keyword_help="Patterns of the names of the files that are read, for example "
        '`["*.csv"]`. The default is every file.',
    )
    exclude: list[str] | None = setting(
        None,
        "Pattern of the names of files that are left out, for example '*.md'. May be repeated.",
        metavar="GLOB",
        keyword="Sequence[str]",
        keyword_help="Patterns of the names of files that are left out.",
    )


@dataclass(frozen=True)
class ReadSettings(SelectionSettings):
    """The choice of files, and the treatment of those that cannot be read."""

    on_error: str = setting(
        "quarantine",
        "Treatment of rows and files that cannot be read: quarantine or fail.",
        metavar="ACTION",
        values=("quarantine", "fail"),
        keyword_help="`quarantine` rejects rows that are not documents, and files that cannot be "
        "read; `fail` raises an error.",
    )


@dataclass(frozen=True)
class RunReadSettings(ReadSettings):
    """The reading of inputs that a run records."""

    hash_inputs: str = setting(
        "sampled",
        "Part of the inputs that is hashed, so that changes are detected: sampled or full.",
        metavar="PART",
        values=("sampled", "full"),
    )


@dataclass(frozen=True)
class ReferenceSettings:
    """Other documents, of which a run removes what repeats them."""

    against: list[str] | None = setting(
        None,
        "Reference, whose documents are removed from the inputs. It is files, globs, folders or "
        "URLs, the folder of a finished run, or the URL of an index. May be repeated.",
        common=True,
        metavar="REF",
        is_path=True,
    )
    only_against: bool = setting(
        False, "Compare documents with the reference only, and not with each other."
    )
    scope: str | None = setting(
        None, "Scope of the index that --against names.", shown_default="default"
    )
    blocklist: Path | None = setting(
        None,
        "Blocklist of nearkin block. Documents that are like one of its entries are removed.",
        metavar="LIST",
    )


# -- signatures


@dataclass(frozen=True)
class SignatureSettings:
    """The parts of a Spec: the form of a document, and its signature."""

    measure: str | None = setting(
        None,
        "Measure of similarity: jaccard, weighted-jaccard, idf-jaccard, simhash, cosine (vectors) "
        "or hamming (fingerprints).",
        SIMILARITY,
        shown_default="by the column",
        values=_measures,
    )
    shingle: str = setting(
        "words:3",
        "Unit and length of a shingle: words:N or chars:N.",
        SIMILARITY,
        metavar="UNIT:N",
        values=("words:3", "words:5", "chars:3", "chars:5"),
    )
    normalise: str = setting(
        DEFAULT_STEPS,
        "Normalization steps, separated by commas: nfkc, lower, digits (become 0), punctuation "
        "(counts as words), symbols (such as + and a minus count as words), marks (accents are "
        "dropped), markup (tags are dropped), comments (those of source code are dropped); and "
        "masks, which replace values by the name of their kind: email, uuid, ip, date, path, hex, "
        "number.",
        SIMILARITY,
        metavar="STEPS",
        is_list=True,
        values=_normalisations,
        keyword="str | Sequence[str]",
    )
    stem: str | None = setting(
        None,
        "Snowball language whose stems replace words, for example english.",
        SIMILARITY,
        metavar="LANGUAGE",
        values=_stem_languages,
    )
    scheme: str | None = setting(
        None,
        "Algorithm of MinHash: binned or classic.",
        ADVANCED,
        shown_default="binned",
        values=("binned", "classic"),
    )
    k: int | None = setting(
        None,
        "Number of slots of a signature, or of its bits (simhash and cosine).",
        SIMILARITY,
        shown_default="128 slots; simhash 64 bits; cosine 512 bits",
        range=COUNT,
    )
    slot_bits: int | None = setting(
        None,
        "Number of bits kept of a MinHash slot: 32, 16, 8, 4, 2 or 1.",
        ADVANCED,
        shown_default="32",
        range=NumberRange(1, 32),
    )
    seed: int = setting(
        1, "Number that selects the hash functions of signatures.", ADVANCED, range=UNSIGNED_64
    )
    base_hash: str | None = setting(
        None,
        "Hash function of shingles: xxh3, murmur3 or fnv1a.",
        ADVANCED,
        shown_default="xxh3",
        values=_hash_functions,
    )
    spec_version: int | None = setting(
        None,
        "Version of the format: 2, or 1 to read texts as older releases did and to compare them "
        "with what these made.",
        ADVANCED,
        shown_default="2",
        range=NumberRange(1, 2),
    )
    key_file: str | None = setting(
        None,
        "Secret hash key: a FILE, or env:NAME, with 32 hexadecimal digits.",
        ADVANCED,
        metavar="FILE",
        is_path=True,
        excludes=_excluding("keyed hashing is siphash", "base_hash"),
    )
    weights: str | None = setting(
        None,
        "Weights of shingles (simhash only): tf, or tfidf, which counts them first.",
        SIMILARITY,
        shown_default="tf",
        values=("tf", "tfidf"),
    )
    frequencies: Path | None = setting(
        None,
        "File of document frequencies, for idf-jaccard and --weights tfidf.",
        SIMILARITY,
        metavar="FILE",
        shown_default="counted in the inputs",
    )
    max_df: float | None = setting(
        None,
        "Share of the documents, in (0, 1), above which a shingle is removed.",
        SIMILARITY,
        metavar="SHARE",
        range=OPEN_SHARE,
    )
    cut_list: Path | None = setting(
        None,
        "File cut.arrow of another run, whose shingles are removed. Replaces --max-df.",
        SIMILARITY,
        metavar="FILE",
        excludes=_excluding("the list replaces the share", "max_df"),
    )


@dataclass(frozen=True)
class IndexKeySettings:
    """The data that the Spec of an index refers to."""

    spec_resources: Path | None = setting(
        None,
        "Output folder of a run whose cut.arrow or frequencies.arrow the Spec of the index refers "
        "to, or a file of document frequencies.",
        ADVANCED,
        metavar="PATH",
    )
    key_file: Annotated[str | None, settings_of(SignatureSettings)["key_file"].setting] = None


# -- near-duplicates


@dataclass(frozen=True)
class SearchSettings:
    """The definition of near-duplicates, and the search for them."""

    threshold: float = setting(
        0.8,
        "Minimum similarity of two near-duplicates, in (0, 1].",
        SIMILARITY,
        common=True,
        short="-t",
        metavar="SHARE",
        range=SHARE_ABOVE_0,
        recorded=Recorded.ALWAYS,
    )
    distance: int | None = setting(
        None,
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
    )
    recall: float = setting(
        0.95,
        "Minimum share of the pairs at the threshold that become candidates, in (0, 1).",
        CANDIDATES,
        metavar="SHARE",
        range=OPEN_SHARE,
        recorded=Recorded.ALWAYS,
    )
    bands: int | None = setting(
        None,
        "Number of bands, together with --rows.",
        CANDIDATES,
        shown_default="computed from threshold and recall",
        range=COUNT,
        recorded=Recorded.ALWAYS,
    )
    rows: int | None = setting(
        None,
        "Number of rows of a band, together with --bands.",
        CANDIDATES,
        shown_default="computed",
        range=COUNT,
        recorded=Recorded.ALWAYS,
    )
    tables: int = setting(
        1,
        "Number of independent tables of bands over separate MinHash slots, at least 1.",
        ADVANCED,
        metavar="L",
        range=COUNT,
        recorded=Recorded.ALWAYS,
    )
    probes: int = setting(
        0,
        "Number of slots of a band that are looked up by their runner-up too (MinHash only).",
        ADVANCED,
        metavar="P",
        range=COUNT_OR_NONE,
        recorded=Recorded.ALWAYS,
    )
    verify: str = setting(
        Verify.EXACT,
        "Comparison of candidate pairs: exact, estimate (signatures only) or none.",
        VERIFICATION,
        metavar="MODE",
        values=tuple(Verify),
        recorded=Recorded.ALWAYS,
    )
    block_by: str | None = setting(
        None,
        "Column of blocks. Only documents with the same value are compared.",
        CANDIDATES,
        metavar=COLUMN,
        names_columns=True,
        recorded=Recorded.ALWAYS,
    )
    missing_block: str = setting(
        MissingBlock.NONE,
        "The documents that one without a value of --block-by is compared with: none or all.",
        CANDIDATES,
        metavar="WHICH",
        values=tuple(MissingBlock),
        need=Need("block_by"),
        recorded=Recorded.IF_CHANGED,
    )
    across: str | None = setting(
        None,
        "Column of sources. Only documents of different sources are compared.",
        CANDIDATES,
        metavar=COLUMN,
        names_columns=True,
        recorded=Recorded.IF_CHANGED,
    )
    same: str | None = setting(
        None,
        "Columns, separated by commas. Documents with an equal value in one of them are "
        "duplicates, whatever their texts are. Null and empty values never match.",
        CANDIDATES,
        metavar=COLUMN,
        names_columns=True,
        is_list=True,
        recorded=Recorded.IF_CHANGED,
    )
    url: str | None = setting(
        None,
        "Column of URLs. Documents whose URLs have the same canonical form are duplicates "
        "(requires the extra `urls`).",
        CANDIDATES,
        metavar=COLUMN,
        names_columns=True,
        recorded=Recorded.IF_CHANGED,
    )
    hot_bucket_size: int = setting(
        100,
        "Number of documents above which a bucket is clustered internally instead of yielding all "
        "its pairs, at least 2.",
        ADVANCED,
        range=NumberRange(2),
        recorded=Recorded.ALWAYS,
        record_key="max_bucket",
    )
    pair_budget: int | None = setting(
        None,
        "Number of pairs up to which a bucket yields all its pairs although it is larger than "
        "--hot-bucket-size, at least 0.",
        ADVANCED,
        metavar="PAIRS",
        shown_default="50,000,000 for pairs; none for dedup, because leaders suffice for clusters",
        range=COUNT_OR_NONE,
        recorded=Recorded.ALWAYS,
    )
    fanout: int = setting(
        100,
        "Number of leaders with which a member of a hot bucket is compared, at least 1.",
        ADVANCED,
        range=COUNT,
        recorded=Recorded.ALWAYS,
    )
    preset: str | None = setting(
        None,
        "Settings for a kind of data: web, articles, records, bibliography, logs, code or titles. "
        "These are pages, articles, names and addresses, references, lines, functions, and titles "
        "of papers and news. Each was measured on 1,000 to 100,000 generated rows of its kind; a "
        "larger run says so. Given options replace their values.",
        SIMILARITY,
        common=True,
        metavar="KIND",
        values=_presets,
    )


@dataclass(frozen=True)
class ClusterSettings:
    """The clusters of documents, and the documents of them that are kept."""

    cluster: str = setting(
        ClusterMethod.LEADERS,
        "Clustering method: leaders (every removed document is verified against the kept one) or "
        "components (connected pairs).",
        CLUSTERING,
        metavar="METHOD",
        values=tuple(ClusterMethod),
        recorded=Recorded.ALWAYS,
    )
    floor: float | None = setting(
        None,
        "Minimum similarity to the kept document (components only), from 0 to the threshold.",
        CLUSTERING,
        metavar="SHARE",
        shown_default="threshold - 0.2",
        range=SHARE,
        need=Need("cluster", (ClusterMethod.COMPONENTS,)),
        recorded=Recorded.ALWAYS,
    )
    keep: str = setting(
        "length desc",
        "Rule that decides which document of a cluster is kept. For example 'source:gold>web, "
        "quality desc, length desc' or 'most-complete, newest:date'.",
        CLUSTERING,
        common=True,
        metavar="EXPR",
        names_columns=True,
        values=("length", "most-complete", "central"),
        is_list=True,
        recorded=Recorded.ALWAYS,
        keyword="str | Callable[..., object]",
        keyword_help="Keep policy, for example `source:gold>web, quality desc, length desc` or "
        "`most-complete, newest:date`; or, for `nearkin.dedup` over data in memory, a function of "
        "the rows of a cluster that may be kept (dictionaries, in keep order), which returns one "
        "of them or its id.",
    )
    keep_up_to: int = setting(
        1,
        "Number of documents of a cluster that are kept, at least 1: the first ones in keep order.",
        CLUSTERING,
        metavar="N",
        range=COUNT,
        recorded=Recorded.IF_CHANGED,
    )
    empty: str = setting(
        EmptyDocuments.KEEP,
        "Treatment of documents without shingles, which never match: keep or drop.",
        CLUSTERING,
        metavar="ACTION",
        values=tuple(EmptyDocuments),
        recorded=Recorded.ALWAYS,
    )
    accept: str = setting(
        "similar",
        "Condition under which a document is removed, for example 'jaccard >= 0.8 and containment "
        ">= 0.98'; or safe, contained, or similar (the threshold decides). With --field, 'title "
        "and (body or image)'.",
        VERIFICATION,
        metavar="EXPR",
        recorded=Recorded.IF_CHANGED,
        keyword_help="Condition under which a document is removed in favor of the kept one: an "
        "expression such as `jaccard >= 0.8 and containment >= 0.98`, `safe` or `contained`. It "
        "replaces `threshold`. With `similar`, the threshold alone decides. `nearkin.pairs` lists "
        "the pairs for which it holds.",
    )
    max_lost: float | None = setting(
        None,
        "Maximum share of the shingles of a removed document that the kept one lacks, from 0 to "
        "1. Documents that would lose more are kept.",
        VERIFICATION,
        metavar="SHARE",
        range=SHARE,
        recorded=Recorded.IF_CHANGED,
    )
    related: float | None = setting(
        None,
        "Minimum similarity of related documents, above 0 and below the threshold. They are "
        "linked in related.parquet, and none is removed because of it.",
        VERIFICATION,
        metavar="SHARE",
        range=SHARE_ABOVE_0,
        recorded=Recorded.IF_CHANGED,
        keyword_help="Minimum similarity of related documents, above 0 and below the threshold "
        "(with `distance`, the share of equal bits; with `accept`, at most 1). They are linked "
        "with each other, and none is removed because of it.",
    )
    max_removed: float | str | None = setting(
        None,
        "Maximum share of the documents that may be removed as near-duplicates, exact copies not "
        "counted, from 0 to 1 (default 0.5). COL:SHARE limits what is removed of each value of a "
        "column, for example source:0.5. Both are written as 0.9,source:0.5. A run that would "
        "remove more stops before it writes anything.",
        OUTPUT,
        metavar="SHARE|COL:SHARE",
        option_type=str,
        keyword_help="Maximum share of the documents that may be removed as near-duplicates, "
        "exact copies not counted. The default is 0.5. A command that would remove more stops "
        "before it writes anything, and a result of the library has a warning. `COLUMN:SHARE` "
        "limits the removed documents of each value of a column, and `0.9,source:0.5` sets both.",
    )
    expect: str | None = setting(
        None,
        "Precision that the removals of near-duplicates must be expected to have, for example "
        "precision>=0.9. A run with a lower estimate, which needs no labels, writes nothing.",
        OUTPUT,
        metavar="PRECISION",
        keyword_help="Precision that the removals of near-duplicates must be expected to have, "
        "for example `precision>=0.9`. A lower estimate, which needs no labels, is an error.",
    )
    second_measure: str | None = setting(
        None,
        "Second measure over the kept documents, in the form cosine:COL:0.95.",
        VERIFICATION,
        metavar="MEASURE",
        recorded=Recorded.ALWAYS,
        record_key="then",
    )
    source: str | None = setting(
        None,
        "Column by which the report counts removals and overlaps.",
        OUTPUT,
        metavar=COLUMN,
        names_columns=True,
        recorded=Recorded.ALWAYS,
    )
    split: str | None = setting(
        None,
        "Column of splits (train, test). The report shows the duplicates between them.",
        OUTPUT,
        metavar=COLUMN,
        names_columns=True,
        recorded=Recorded.ALWAYS,
    )


# -- what is written


@dataclass(frozen=True)
class OutputSettings:
    """The output of a run."""

    out: Annotated[
        Path,
        Setting(
            "Output folder, file, URL or table.",
            OUTPUT,
            common=True,
            metavar="PATH",
            short="-o",
        ),
    ]
    overwrite: bool = setting(False, "Replace an existing output.", OUTPUT, common=True)
    readable_by: str = setting(
        "owner",
        "Users who may read the output, which contains texts: owner, group or everyone.",
        OUTPUT,
        metavar="USERS",
        values=("owner", "group", "everyone"),
        variable=READABLE_BY,
    )
    json: bool = setting(
        False,
        "Print the summary as JSON. Nothing else is on standard output.",
        OUTPUT,
        common=True,
    )
    quiet: bool = setting(
        False,
        "Show only warnings and one line; -qq nothing but errors.",
        OUTPUT,
        common=True,
        short="-q",
        is_counted=True,
        option_type=int,
    )


WRITE_MODES = ("create", "append", "delete")


@dataclass(frozen=True)
class TableOutputSettings:
    """The change of a table that is the output."""

    write_mode: str = setting(
        "create",
        "What is done with a table, for example --out delta:lake/pages: create it (--overwrite "
        "replaces its rows), append the kept documents, or delete the removed documents from the "
        "table that is the input.",
        OUTPUT,
        values=WRITE_MODES,
    )


@dataclass(frozen=True)
class CutSettings:
    """The repeated passages or lines that are cut from the kept documents."""

    passages: str | None = setting(
        None,
        "Cut passages of at least this number of words from all places but one, after duplicates "
        "have been removed, for example 50, or 100:chars for characters.",
        OUTPUT,
        metavar="N",
    )
    cut_unit: str | None = setting(
        None,
        "Write the documents with each repeated passage in one place only. What is cut from the "
        "others: passage (the words), sentence, line, paragraph (those that are repeated as a "
        "whole), or document:SHARE (documents of which at least that share of the bytes is "
        "repeated).",
        OUTPUT,
        metavar="UNIT",
    )
    min_left: int = setting(
        0,
        "Number of words (or of characters, if passages are of characters) below which the rest "
        "of a cut document is removed, too.",
        OUTPUT,
        metavar="N",
        range=COUNT_OR_NONE,
    )
    repeated_lines: str | None = setting(
        None,
        "Cut lines that occur in at least this number of kept documents, or this number of times "
        "(for example 3:places), after duplicates have been removed.",
        OUTPUT,
        metavar="N",
    )
    repeated_paragraphs: str | None = setting(
        None, "Cut paragraphs in the same way.", OUTPUT, metavar="N"
    )
    lines_action: str | None = setting(
        None,
        "What is done with repeated lines or paragraphs: keep-one (cut from all places but one), "
        "remove, or report.",
        OUTPUT,
        metavar="ACTION",
        shown_default="keep-one",
    )


@dataclass(frozen=True)
class MergeSettings:
    """The values that kept rows get from the rows of their clusters."""

    merge_fields: str | None = setting(
        None,
        "Columns of which the kept row of a cluster gets a value of its rows, with a rule for "
        "each: first-non-empty (in keep order), most-frequent, longest, min, max or union (of "
        "lists, or of texts). For example 'phone:first-non-empty, tags:union'.",
        OUTPUT,
        metavar="COL:RULE",
        names_columns=True,
        values=tuple(MergeRule),
        is_list=True,
        keyword_help="Columns of which the kept row of a cluster gets a value of its rows, with a "
        "rule for each: `first-non-empty` (in keep order), `most-frequent`, `longest`, `min`, "
        "`max` or `union` (of lists, or of texts). For example `phone:first-non-empty, "
        "tags:union`.",
    )
    merge_sources: bool = setting(
        False,
        "Add the column merged_from to the kept documents: the ids of the rows that each merged "
        "value is from.",
        OUTPUT,
        need=Need("merge_fields"),
    )


@dataclass(frozen=True)
class ResourceSettings:
    """The share of the machine that a run may use. It does not decide the result."""

    memory: str = setting(
        AUTOMATIC,
        "Maximum memory, for example 4GB. auto: half of what the process may use.",
        RUN,
        metavar="SIZE",
        keyword="int | str",
        keyword_help="Bound on the anonymous memory of the run: a number of bytes, a size such as "
        "`4GB`, or `auto` for half of the memory that the process may use.",
    )
    workers: int | None = setting(
        None,
        "Number of threads.",
        RUN,
        shown_default="the cores that the process may use",
        range=NumberRange(1, MOST_THREADS),
    )


@dataclass(frozen=True)
class FileSettings:
    """The files that a run reads besides its inputs, and the earlier run that it continues."""

    plan: Path | None = setting(
        None, "File written by nearkin plan --out, whose settings are used.", RUN, metavar="FILE"
    )
    settings: Path | None = setting(
        None,
        "Settings file (TOML), for example of nearkin fit. Given options replace its values.",
        SIMILARITY,
        metavar="FILE",
        keyword="str | Path | Mapping[str, object] | None",
        keyword_help="A settings file, or its values. Other parameters that are given replace its "
        "values.",
    )
    decisions: Path | None = setting(
        None,
        "File of decisions about pairs (JSON lines, CSV, .xlsx or parquet). Pairs decided to be "
        "the same are always in one cluster, and those decided to be different never.",
        CLUSTERING,
        metavar="FILE",
    )
    dry_run: bool = setting(
        False,
        "Show what the command would do. That is what it would read, its settings, and the time, "
        "memory and disk to expect. Nothing is written.",
        RUN,
        common=True,
    )
    resume: bool = setting(
        False,
        "Resume an interrupted run.",
        RUN,
        excludes=_excluding("a resumed run keeps what an interrupted one left", "overwrite"),
    )


@dataclass(frozen=True)
class ObjectSettings:
    """The objects that only a program can give."""

    spec: Any = setting(
        None,
        "The Spec of the signatures. By default, it is made of the settings of the Spec.",
        keyword="Spec | None",
    )
    key: Any = setting(
        None,
        "The hash key. It is required if the Spec is keyed, and keys a Spec that is made.",
        keyword="HashKey | None",
    )
    frequencies: Any = setting(
        None,
        "Document frequencies for tf-idf weights and for measure `idf-jaccard`. By default, they "
        "are counted.",
        keyword="DocumentFrequencies | None",
    )
    cut: Any = setting(
        None,
        "The shingles that are removed, if the Spec has a frequency cut.",
        keyword="DocumentFrequencies | None",
    )


GROUPS: tuple[type, ...] = (
    FieldColumnSettings,
    RunReadSettings,
    ReferenceSettings,
    SignatureSettings,
    SearchSettings,
    ClusterSettings,
    IndexKeySettings,
    OutputSettings,
    TableOutputSettings,
    CutSettings,
    MergeSettings,
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


def require_compatible(name: str, given: Mapping[str, object]) -> None:
    """Requires that a setting of a run, if it is given, excludes none of the other given ones.

    Raises:
        UsageError: If it excludes one.
    """
    if not given.get(name):
        return
    for other, reason in SETTINGS[name].setting.excludes.items():
        keyword = KEYWORDS_OF_FILES.get(other, other)
        if given.get(keyword) is not None:
            raise UsageError(
                f"{name_setting(name)} and {name_setting(keyword)} exclude each other: {reason}; "
                "leave out one of them"
            )


def names_of(*groups: type) -> tuple[str, ...]:
    """Returns the names of the settings of groups, in their order."""
    return tuple(name for group in groups for name in settings_of(group))


FIRST_KEYWORDS = ("text", "threshold", "preset", "keep")
"""The keywords of runs that functions name as parameters, because most programs use them."""
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
KEYWORDS_OF_FILES = {
    "id_column": "id",
    "key_file": "key",
    "frequencies": "frequencies",
    "cut_list": "cut",
}
"""The keywords of settings that a program gives in another form: the key as an object."""
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
        if name not in KEYWORDS_OF_FILES
    },
    "settings": SETTINGS["settings"],
    **settings_of(ObjectSettings),
}
"""The settings that are keywords of the library."""
