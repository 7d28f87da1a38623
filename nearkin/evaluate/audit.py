"""Measures the precision and the recall of a finished run on its own corpus.

For the precision, removed documents are compared again with the kept document of their cluster. For
the recall, a sample of documents is compared with the whole corpus by a prefilter that misses no
pair at the threshold. If |A∩B| ≥ t·|A∪B|, B contains at least ⌈t·|A|⌉ shingles of A, so it contains
at least one of any |A| − ⌈t·|A|⌉ + 1 of them (prefix filtering: Chaudhuri, Ganti, Kaushik, ICDE
2006; Bayardo, Ma, Srikant, WWW 2007).

The sampled unit is the document (see `nearkin.evaluate.sampling`). The interval of the precision is
Wilson's. The pairs of a document are found or missed together, so the interval of the recall
follows from the differences between documents (see `nearkin.evaluate.intervals`).
"""

import time
from dataclasses import asdict, dataclass

import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.argument_types import check_arguments, require_seed
from nearkin.engine.options import RunOptions
from nearkin.engine.result_schema import KINDS, SAME
from nearkin.engine.stats import NOTABLE_HOT_SHARE
from nearkin.errors import UsageError
from nearkin.evaluate.intervals import Proportion
from nearkin.evaluate.recall import PairCounter, RecallBin, recall_by_similarity
from nearkin.evaluate.sampling import SamplingFrame
from nearkin.evaluate.scan import ReopenedRun, create_scan
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import measure_of
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.progress import Progress
from nearkin.setting_names import name_setting


@dataclass(frozen=True)
class Audit:
    """The measured precision and recall of a run.

    Attributes:
        precision: Proportion of the removed documents that reach the threshold with the kept one.
        recall: Proportion of the pairs at or above the threshold that the run found.
        asked: Requested recall at the threshold.
        bins: Recall by similarity.
        sampled: Number of documents that were compared with the whole corpus.
        exact: Number of pairs of exact duplicates of them. They are found by their content hash and
            do not count for the recall.
        seconds: Duration of the audit in seconds.
        seed: Random seed for sampling.
        advice: What to change, or a statement that nothing needs to be changed.
        residual: Proportion of the kept documents that have a near-duplicate among the kept ones.
            None for audits that were made before it was measured.
    """

    precision: Proportion
    recall: Proportion
    asked: float
    bins: tuple[RecallBin, ...]
    sampled: int
    exact: int
    seconds: float
    seed: int
    advice: str
    residual: Proportion | None = None

    def to_dict(self) -> dict[str, object]:
        """Returns the audit as a JSON object."""
        return asdict(self)


def require_auditable(options: RunOptions) -> None:
    """Requires that the result of a run can be audited.

    Args:
        options: Options of the run.

    Raises:
        UsageError: If the run has a second measure or an acceptance, or keeps several documents of
            a cluster.
    """
    if options.second_measure is not None:
        raise UsageError(
            f"cannot audit a run with the second measure {options.second_measure!r}; run it "
            "again with one measure"
        )
    if options.acceptance is not None:
        raise UsageError(
            f"cannot audit a run that removed documents under the condition "
            f"{str(options.acceptance)!r}: an audit measures a threshold; every removed "
            "document was checked against the condition"
        )
    if options.keep_up_to > 1:
        raise UsageError(
            f"cannot audit a run with {name_setting('keep_up_to', options.keep_up_to)}: it "
            "keeps duplicates on purpose; audit a run without this option"
        )


@check_arguments
def measure_run(
    run: ReopenedRun,
    progress: Progress,
    *,
    sample: int = 1000,
    removed: int = 5000,
    budget: float | None = None,
    seed: int = 1,
) -> Audit:
    """Measures the precision and the recall of a finished run.

    Args:
        run: The finished run.
        progress: Receives stage and document-count updates.
        sample: Number of documents to compare with the whole corpus.
        removed: Largest number of removed documents to compare with the kept one.
        budget: Time in seconds after which no further part of the sample is compared. Unlimited by
            default.
        seed: Random seed for sampling.

    Raises:
        UsageError: If the run cannot be audited (see `require_auditable`), or a number is negative.
    """
    require_auditable(run.settings)
    for name, value, least in (("sample", sample, 1), ("removed", removed, 0)):
        if value < least:
            raise UsageError(
                f"{name_setting(name, value)} is out of range; it must be at least {least}"
            )
    require_seed("seed", seed)
    began = time.monotonic()
    clusters = pq.read_table(run.folder / "clusters.parquet")
    pair_ids = pq.read_table(run.folder / "pairs.parquet", columns=["id_a", "id_b"])
    frame = SamplingFrame.create(clusters, pair_ids)
    sampled = frame.draw(sample, seed)
    scan = create_scan(run, len(clusters), progress)
    precision = Proportion.from_counts(*scan.measure_precision(clusters, removed, seed))
    kept = clusters["kept"].to_numpy()
    has_equal_value = pc.equal(clusters["kind"], KINDS[SAME]).to_numpy()
    counter = PairCounter(scan, clusters["id"], kept, has_equal_value)
    compared = 0
    for start in range(0, len(sampled), scan.sample_per_scan):
        elapsed = time.monotonic() - began
        if compared and budget is not None:
            expected = elapsed * (1 + scan.sample_per_scan / compared)
            if expected > budget:
                break
        part = frame.ordinals[sampled[start : start + scan.sample_per_scan]]
        counter.add(part)
        compared += len(part)
    inclusion = frame.inclusion(sampled[:compared])
    counts = counter.counts(inclusion)
    recall = counts.recall(slice(None))
    return Audit(
        precision=precision,
        recall=recall,
        asked=run.settings.recall,
        bins=tuple(recall_by_similarity(counts, run)),
        sampled=compared,
        exact=counter.exact,
        seconds=round(time.monotonic() - began, 3),
        seed=seed,
        advice=give_advice(precision, recall, run),
        residual=counter.residual(inclusion),
    )


def give_advice(precision: Proportion, recall: Proportion, run: ReopenedRun) -> str:
    """Returns what the measured intervals mean for the settings of the run.

    Args:
        precision: Measured precision.
        recall: Measured recall.
        run: The finished run.
    """
    settings = run.settings
    requested = settings.recall
    has_errors = precision.value < 1
    if has_errors and settings.verify == "exact" and precision.total and precision.high < 1:
        wrong = precision.total - precision.hits
        return (
            f"{wrong} removed documents do not reach the threshold; this is a defect of nearkin, "
            "please report it"
        )
    if has_errors and settings.verify != "exact":
        return (
            f"{name_setting('verify', settings.verify)} removed "
            f"{format_percent(1 - precision.value)} of the "
            f"documents wrongly; use {name_setting('verify', 'exact')}"
        )
    if recall.total == 0:
        return (
            "the sample contains no pair at the threshold: use a larger sample, unless the corpus "
            "has no near-duplicates"
        )
    if recall.high < requested and run.share_of_hot_pairs >= NOTABLE_HOT_SHARE:
        return (
            f"the recall is below the requested {requested}, because "
            f"{format_percent(run.share_of_hot_pairs)} of the pairs that share a bucket are in hot "
            f"buckets, which yield pairs with leaders only: raise {name_setting('hot_bucket_size')}"
            f" or {name_setting('pair_budget')}, or remove boilerplate with "
            f"{name_setting('max_df')}; a higher {name_setting('recall')} does not help. Clusters "
            "suffer less: see the kept documents with a near-duplicate"
        )
    if recall.high < requested:
        change = f"omit {name_setting('bands')} and {name_setting('rows')} to have them solved"
        if not settings.bands:
            change = f"raise {name_setting('recall')}"
        return f"the recall is below the requested {requested}: {change}"
    if recall.low >= requested:
        return f"the recall is at least the requested {requested}"
    return (
        f"the interval of the recall contains the requested {requested}; a larger sample narrows it"
    )


def solve_run_bandings(settings: RunOptions, documents: int) -> tuple[Banding, ...]:
    """Returns the bands and rows of a finished run, for each kind of signatures that finds pairs.

    Args:
        settings: RunOptions of the run.
        documents: Number of documents of the run.
    """
    return tuple(
        options.banding(measure_of(options.spec, distance=options.compared_distance), documents)
        for options in settings.candidate_options
    )
