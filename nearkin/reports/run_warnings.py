"""Warnings about a finished run, as sentences for its report."""

import logging
import sys
import warnings as python_warnings
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from nearkin.corpus import Columns, Corpus, FileCorpus
from nearkin.corpus.corpus import describe_skipped_records
from nearkin.corpus.document_count import list_empty_files
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.inputs import describe_skipped
from nearkin.corpus.rejects import describe_rejections, list_top_reasons
from nearkin.corpus.unknown_ids import describe_unknown_ids
from nearkin.engine.advice import advise, explain_advice
from nearkin.engine.options import (
    BETWEEN_INPUTS,
    MOST_FIELD_SHINGLES,
    SMALL_CORPUS,
)
from nearkin.engine.removal_limit import doubt_removals
from nearkin.engine.short_documents import (
    USUAL_THRESHOLD,
    ShortDocumentCounts,
)
from nearkin.engine.stats import (
    MissingPairsStats,
    ReferenceStats,
    Stage,
)
from nearkin.runtime.dialect import MIXED
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import FINGERPRINT

if TYPE_CHECKING:
    from nearkin.engine.run import Run

log = logging.getLogger("nearkin")
SKIPPED_PACKAGES = ("nearkin", "sklearn")
"""The packages whose lines a Python warning does not name: nearkin, and one whose methods call it.
"""
WRONG_BYTES = tuple(f"the {part} is not valid UTF-8" for part in ("row", "line", "text"))
"""The reasons of rejected rows in another encoding."""
MIN_INDEPENDENT_COSINE = 0.8
"""The cosine below which the signs of SimHash signatures of texts agree less evenly than
independent ones."""


def warn_of_run(run: "Run") -> list[str]:
    """Returns the warnings about a finished run, the most important ones first.

    Every list of warnings has this order, and a summary on a terminal shows only the first one:
    rows that were not read or not compared, settings without effect, duplicates that are missing,
    settings that do not fit the documents, and remarks. What doubts the whole result, for example
    too many removals, precedes them all.
    """
    if run.recorded(Stage.CONTAINMENT):
        # Containment has no bands.
        return [
            *_warn_of_rejected_rows(run),
            *warn_of_inputs(run.corpus, run.columns),
            *warn_of_missing_pairs(run),
        ]
    return [
        *_warn_of_rejected_rows(run),
        *warn_of_decisions(run),
        *warn_of_reference(run),
        *warn_of_inputs(run.corpus, run.columns),
        *_warn_of_columns(run),
        *warn_of_missing_pairs(run),
        *warn_of_duplicates_left(run),
        *warn_of_recall(run),
        *_warn_of_banding(run),
        *warn_of_short_documents(run),
        *_warn_of_choice(run),
        *warn_of_fingerprints(run),
        *_warn_of_documents(run),
        *warn_of_preset(run),
        *_warn_of_workers(run),
    ]


def _warn_of_rejected_rows(run: "Run") -> list[str]:
    sketch = run.recorded("sketch")
    # The record of a run of an earlier version has no reasons.
    reasons = sketch.get("rejected_reasons")
    return warn_of_rejections(sketch["rejected"], reasons) if reasons else []


def _warn_of_columns(run: "Run") -> list[str]:
    """Returns warnings about columns without values, which have no effect."""
    options = run.options
    grouping = run.recorded("collapse")
    warnings = []
    for column in grouping.get("without_values") or ():
        setting = "url" if column == options.url else "same"
        warnings.append(
            f"no document has a value in column {column!r}, so {name_setting(setting, column)} has "
            "no effect; check the column"
        )
    if without_source := grouping.get("without_source"):
        warnings.append(
            f"{without_source:,} documents have no value in column {options.across!r}; they are a "
            "source of their own, so they are compared with all documents that have one"
        )
    without_block = grouping.get("without_block")
    if without_block and options.bands_by_block:
        warnings.append(
            f"{without_block:,} documents have no value in column {options.block_by!r}, so they "
            f"are compared with no other; {name_setting('missing_block', 'all')} compares them "
            "with all"
        )
    return warnings


def _warn_of_banding(run: "Run") -> list[str]:
    """Returns warnings about bands that find fewer pairs than requested, and about estimates."""
    options = run.options
    warnings = []
    lowest = None if run.brute_force else min(run.bandings, key=lambda banding: banding.recall)
    if lowest is not None and lowest.recall < options.recall:
        warnings.append(
            f"{lowest.bands} bands of {lowest.rows} rows reach a recall of "
            f"{lowest.recall:.3f} at the threshold, less than the requested {options.recall}; "
            f"omit {name_setting('bands')} and {name_setting('rows')} to have them solved"
        )
    if not run.brute_force and options.verify != "exact":
        warnings.append(
            f"similarities are estimates (verify={options.verify}); use "
            f"{name_setting('verify', 'exact')} to verify them"
        )
    if run.compares_all_for_recall:
        documents = run.recorded("sketch")["documents"]
        warnings.append(
            f"no bands of {options.spec.k} signs reach the recall {options.recall:g} at threshold "
            f"{options.threshold:g}, so all {documents * (documents - 1) // 2:,} pairs of "
            f"{documents:,} documents were compared; a corpus of more than 10,000 documents needs "
            f"a higher {name_setting('k')} or threshold"
        )
    return warnings


def _warn_of_choice(run: "Run") -> list[str]:
    return list(run.chosen.warnings) if run.chosen is not None and run.chosen.is_default else []


def _warn_of_documents(run: "Run") -> list[str]:
    """Returns warnings about documents without vectors, shingles or dates, and with equal ids."""
    options = run.options
    warnings = []
    second = run.recorded("then")
    if second and second["rejected"]:
        warnings.append(
            f"{second['rejected']:,} kept documents have no vector to compare by "
            f"{options.second_measure}; they stay in the result"
        )
    if all_cut := run.recorded("collapse").get("all_cut"):
        warnings.append(
            f"the frequency cut removes all shingles of {all_cut:,} documents; only their exact "
            "duplicates are removed"
        )
    unreadable_dates = run.recorded("collapse").get("unreadable_dates") or {}
    for column, unreadable in unreadable_dates.items():
        if unreadable:
            problem = f"values in column {column!r} are not dates, so their documents come last"
            if unreadable == 1:
                problem = f"value in column {column!r} is not a date, so its document comes last"
            warnings.append(
                f"{unreadable:,} {problem} in keep order; write dates as 2024-05-01, "
                "2024-05-01T10:30:00+02:00 or seconds since 1970"
            )
    # The ids of a check are those that documents have in their own input.
    repeated = run.recorded("sketch").get("repeated_ids")
    if repeated and options.across != BETWEEN_INPUTS:
        warnings.append(
            f"{repeated:,} rows share an id with another row; #<path>:<row> was appended to each "
            "of these ids"
        )
    return warnings


def _warn_of_workers(run: "Run") -> list[str]:
    limited = run.recorded("sketch").get("workers_limited")
    if not limited:
        return []
    requested, used = limited
    return [
        f"{used} of the requested {requested} workers ran, because {name_setting('memory')} "
        f"({run.options.memory:,} bytes) has no room for more; raise it to use more"
    ]


def warn_of_fingerprints(run: "Run") -> list[str]:
    """Returns warnings about fingerprints that are ignored, or perhaps should be."""
    warnings = []
    grouping = run.recorded("collapse")
    options = run.options
    ignored = grouping.get("empty", 0)
    if ignored and options.spec.unit == FINGERPRINT and not options.fields:
        setting = name_setting("ignore_fingerprint")
        have, were = ("document has", "was") if ignored == 1 else ("documents have", "were")
        warnings.append(
            f"{ignored:,} {have} a fingerprint that {setting} names, and {were} compared with no "
            "other"
        )
    constant: Mapping[str, int] = grouping.get("constant_fingerprints") or {}
    for fingerprint, count in constant.items():
        warnings.append(
            f"{count:,} documents have the fingerprint {fingerprint}, which different documents "
            "without content often share, and count as copies of each other; to compare them with "
            f"no other, use {name_setting('ignore_fingerprint', fingerprint)}"
        )
    return warnings


def warn_of_decisions(run: "Run") -> list[str]:
    """Returns a warning if decisions are about documents that a run does not have."""
    recorded = run.recorded("collapse")
    counts = recorded.get("decisions") or {}
    absent = counts.get("absent", 0)
    if not absent:
        return []
    reason = "the blocklist removes one of their documents"
    if unknown := recorded.get("unknown_ids"):
        reason = f"the inputs do not have both ids, for example {describe_unknown_ids(unknown)}"
    return [
        f"{absent:,} of {sum(counts.values()):,} decisions {'has' if absent == 1 else 'have'} no "
        f"effect, because {reason}"
    ]


def warn_of_reference(run: "Run") -> list[str]:
    """Returns warnings about a reference that could not be compared completely."""
    recorded = run.recorded(Stage.AGAINST)
    if not recorded:
        return []
    stats = ReferenceStats.from_dict(recorded)
    options = run.options
    warnings = []
    if not stats.documents:
        warnings.append(
            f"the reference has no documents, so no document was compared with it; check "
            f"{name_setting('against')}, and {name_setting('scope')} of an index"
        )
    if stats.rejected:
        rows = "row was" if stats.rejected == 1 else "rows were"
        warnings.append(
            f"{stats.rejected:,} {rows} rejected among those of the reference; the documents were "
            "compared with all others"
        )
    if stats.hot_buckets:
        warnings.append(
            f"{stats.hot_buckets:,} buckets have so many documents of the reference and of the "
            f"inputs that the documents were compared with at most {options.fanout} others each, "
            f"and duplicates of the reference may be missing; raise {name_setting('pair_budget')} "
            f"or the threshold"
        )
    if stats.hot_shingles:
        warnings.append(
            f"{stats.hot_shingles:,} shingles are in so many documents of the reference and of the "
            "inputs that they were not looked up, so that duplicates of the reference may be "
            f"missing; raise {name_setting('pair_budget')}"
        )
    return warnings


def warn_of_preset(run: "Run") -> list[str]:
    """Returns a warning if a run is larger than those that its preset was measured on."""
    preset = run.options.parsed_preset
    if preset is None:
        return []
    warning = preset.warn_of_size(run.recorded("sketch").get("documents", 0))
    return [] if warning is None else [warning]


def warn_of_short_documents(run: "Run") -> list[str]:
    """Returns a warning if many documents are too short for the shingles of the run."""
    options = run.options
    grouping = run.recorded("collapse")
    compared = run.recorded("sketch").get("documents", 0) - grouping.get("empty", 0)
    counts = ShortDocumentCounts(grouping.get("single", 0), grouping.get("fragile", 0))
    # With a threshold of 1, no copy with a changed word is wanted.
    is_by_threshold = (
        options.distance is None and options.acceptance is None and options.threshold < 1
    )
    if doubt_removals(run.stats, options.removal_limits) is not None:
        # The run seems to remove too much, so nothing that finds more duplicates is proposed.
        return []
    is_chosen = run.chosen is not None
    if is_chosen or not is_by_threshold or not counts.is_notable(compared):
        return []
    unit = "word" if options.spec.unit == "words" else "character"
    threshold = min(options.threshold, USUAL_THRESHOLD)
    text = (
        f"{counts.fragile:,} of {compared:,} documents ({counts.fragile / compared:.0%}) have so "
        f"few shingles {options.spec.shingle} that a copy with one changed {unit} has a "
        f"similarity below {threshold:g}"
    )
    if counts.single:
        text += (
            f"; {counts.single:,} of them ({counts.single / compared:.0%}) are not longer than one "
            "shingle and match only the same text"
        )
    if options.fields:
        limits = f"lower limits in {name_setting('fields')}"
        if options.spec.unit == "words":
            limits = f"{name_setting('shingle', 'chars:3')} and {limits}"
        return [f"{text}. To compare short texts, use {limits}"]
    advice = advise(None, are_short=True)
    return [f"{text}. {explain_advice(advice, run.corpus, run.columns)}"]


def warn_of_duplicates_left(run: "Run") -> list[str]:
    """Returns a warning if many near-duplicates may be left in a result, because of hot buckets."""
    recorded = run.recorded(Stage.MISSING_PAIRS)
    options = run.options
    if not recorded or not run.recorded(Stage.CLUSTER):
        return []
    missing = MissingPairsStats.from_dict(recorded)
    # Bands of a distance miss no pair.
    recall = 1.0 if options.distance is not None else options.recall
    if missing.share <= 1 - recall:
        return []
    buckets = "bucket has" if missing.truncated == 1 else "buckets have"
    return [
        f"about {missing.pairs:,} of {missing.total:,} pairs of near-duplicates may be missed and "
        f"left in the result (95 % interval: {missing.low:,} to {missing.high:,}), because "
        f"{missing.truncated:,} {buckets} more than {options.complete_bucket_size:,} kept "
        f"documents, which were not all compared with each other; raise "
        f"{name_setting('hot_bucket_size')} or the threshold, or remove boilerplate with "
        f"{name_setting('max_df')}"
    ]


def warn_of_recall(run: "Run") -> list[str]:
    """Returns a warning for each reason why the recall of a run is lower than requested."""
    options = run.options
    if options.distance is not None or run.brute_force:
        return []
    warnings: list[str] = []
    sketched = run.recorded(Stage.SKETCH)
    documents, shingles = sketched.get("documents", 0), sketched.get("shingles", 0)
    is_small = documents < SMALL_CORPUS
    if options.bands is None and is_small and not options.can_compare_all(shingles):
        warnings.append(
            f"the corpus has fewer than {SMALL_CORPUS:,} documents, but their fields are long: "
            f"they have {shingles:,} shingles, more than the {MOST_FIELD_SHINGLES:,} up to which "
            f"all pairs are compared, so the recall is not 1, but the requested {options.recall:g}"
        )
    recorded = run.recorded(Stage.CANDIDATES)
    hot_shingles = recorded.get("hot_shingles") or 0
    if hot_shingles:
        warnings.append(
            f"{hot_shingles:,} shingles are in more than {options.complete_bucket_size:,} "
            "documents and were not looked up, so that documents which consist of such shingles "
            f"may be kept; raise {name_setting('pair_budget')}"
        )
    if options.spec.measure == "simhash" and options.threshold < MIN_INDEPENDENT_COSINE:
        warnings.append(
            f"at cosine {options.threshold:g} the bits of SimHash signatures are not independent, "
            f"so the recall is lower than the requested {options.recall:g} (0.68 was measured on "
            "revised texts at 0.6); measure it with nearkin audit"
        )
    return warnings


def warn_of_missing_pairs(run: "Run") -> list[str]:
    """Returns a warning if a run that lists pairs lacks some, because of its pair budget."""
    recorded = run.recorded(Stage.MISSING_PAIRS)
    if not recorded or run.recorded(Stage.CLUSTER):
        return []
    missing = MissingPairsStats.from_dict(recorded)
    budget = run.options.pair_budget or 0
    largest = run.options.complete_bucket_size
    if run.recorded(Stage.CONTAINMENT):
        cause = (
            f"{missing.truncated:,} shingles are in more than {largest:,} documents and were not "
            "looked up"
        )
    else:
        cause = (
            f"{missing.truncated:,} buckets have more than {largest:,} documents and were compared "
            f"with at most {run.options.fanout} leaders each"
        )
    return [
        f"{cause} ({name_setting('pair_budget')} is {budget:,}). An estimated {missing.pairs:,} "
        f"pairs are missing (95 % interval: {missing.low:,} to {missing.high:,}), "
        f"{format_percent(missing.share)} of all pairs; raise {name_setting('pair_budget')} or the "
        f"threshold, or remove boilerplate with {name_setting('max_df')}"
    ]


def log_warnings(warnings: Iterable[str]) -> None:
    """Logs the warnings of a run of the library, which has no terminal to print them on.

    A program that has not configured logging receives Python warnings instead, so that a result
    that is not what it seems is never returned in silence. They name the line of the program that
    called nearkin.
    """
    logged = _has_log_handler()
    for warning in warnings:
        if logged:
            log.warning("%s", warning)
        else:
            python_warnings.warn(warning, stacklevel=_count_skipped_frames() + 1)


def _count_skipped_frames() -> int:
    """Returns the number of frames between this one and the line that called nearkin."""
    count = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package_of(frame) in SKIPPED_PACKAGES:
        count += 1
        frame = frame.f_back
    return count


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _has_log_handler() -> bool:
    logger: logging.Logger | None = log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def warn_of_rejections(rejected: int, reasons: Mapping[str, int]) -> list[str]:
    """Returns a warning with the most frequent reasons of rejected rows, if there are any."""
    if not rejected:
        return []
    remedy = ""
    if any(reason.endswith(WRONG_BYTES) for reason in list_top_reasons(reasons)):
        remedy = f"; {name_setting('encoding', MIXED)} reads rows that are not UTF-8"
    return [describe_rejections(rejected, reasons) + remedy]


def warn_of_inputs(corpus: Corpus, columns: Columns) -> list[str]:
    """Returns warnings about inputs that were not read, or perhaps not as intended."""
    if not isinstance(corpus, FileCorpus):
        return []
    return [
        *describe_skipped_records(corpus.skipped_records),
        *describe_skipped(corpus.skipped),
        *_describe_empty_files(list_empty_files(corpus)),
        *corpus.describe_doubts(columns),
    ]


def _describe_empty_files(files: Sequence[InputFile]) -> list[str]:
    if not files:
        return []
    name = files[0].name
    if len(files) == 1:
        return [f"{name} has no rows, so that it contributes no document"]
    others = len(files) - 1
    return [
        f"{name} and {others:,} other {'file' if others == 1 else 'files'} have no rows, so "
        "that they contribute no documents"
    ]
