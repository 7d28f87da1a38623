"""Measures the precision and the recall of a finished run on its own corpus.

For the precision, removed documents are compared again with the kept document of their cluster. For
the recall, a sample of documents is compared with the whole corpus by a prefilter that misses no
pair at the threshold. If |A∩B| ≥ t·|A∪B|, B contains at least ⌈t·|A|⌉ shingles of A, so it contains
at least one of any |A| − ⌈t·|A|⌉ + 1 of them (prefix filtering: Chaudhuri, Ganti, Kaushik, ICDE
2006; Bayardo, Ma, Srikant, WWW 2007).

The sampled unit is the document (see `evaluate.sampling`). The interval of the precision is
Wilson's. The pairs of a document are found or missed together, so the interval of the recall
follows from the differences between documents (see `nearkin.quality.evaluate.intervals`).
"""

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.engine.options import RunOptions
from nearkin.engine.result_schema import KINDS, SAME
from nearkin.engine.stats import NOTABLE_HOT_SHARE
from nearkin.errors import UsageError
from nearkin.quality.evaluate.intervals import Proportion
from nearkin.quality.evaluate.recall import PairCounter, RecallBin, recall_by_similarity
from nearkin.quality.evaluate.sampling import SamplingFrame
from nearkin.quality.evaluate.scan import ReadDocuments, Removals, ReopenedRun, create_scan
from nearkin.runtime.argument_types import check_arguments, require_seed
from nearkin.runtime.deadline import Deadline
from nearkin.runtime.number_format import format_count, format_percent
from nearkin.runtime.number_range import COUNT, COUNT_OR_NONE
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import measure_of
from nearkin.stages.packed_pairs import sorted_unique

READING_SHARE = 0.5
"""The share of the time after which reading of the sampled documents ends."""
WRITING_SHARE = 0.1
"""The share of the time that is left for counting and for writing the report."""


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
        reached: Number of documents, from the first one of the corpus on, that were read before the
            time ended. All numbers are of these documents, and the intervals allow for the others.
            None if the whole corpus was read.
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
    reached: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Returns the audit as a JSON object, without `reached` if it is of the whole corpus."""
        record = asdict(self)
        if self.reached is None:
            del record["reached"]
        return record


def require_auditable(options: RunOptions) -> None:
    """Requires that the result of a run can be audited."""
    options.require_defaults(
        "an audit",
        {
            "second_measure": "an audit measures one measure; run again with one",
            "keep_up_to": "the run keeps duplicates on purpose; audit a run without this option",
        },
    )
    if options.acceptance is not None:
        raise UsageError(
            f"cannot audit a run that removed documents under the condition "
            f"{str(options.acceptance)!r}: an audit measures a threshold; every removed "
            "document was checked against the condition"
        )


@check_arguments
def measure_run(
    run: ReopenedRun,
    progress: Progress,
    *,
    sample: int = 1000,
    removed: int = 5000,
    deadline: Deadline | None = None,
    seed: int = 1,
) -> Audit:
    """Measures the precision and the recall of a finished run."""
    require_auditable(run.settings)
    COUNT.require("sample", sample)
    COUNT_OR_NONE.require("removed", removed)
    require_seed("seed", seed)
    deadline = deadline or Deadline()
    clusters = pq.read_table(run.folder / "clusters.parquet")
    pair_ids = pq.read_table(run.folder / "pairs.parquet", columns=["id_a", "id_b"])
    frame = SamplingFrame.create(clusters, pair_ids)
    sampled = frame.draw(sample, seed)
    drawn = frame.ordinals[sampled]
    removals = Removals.draw(clusters, removed, seed)
    scan = create_scan(run, len(clusters), progress)
    # The report is written at the end, which takes time as well.
    comparing = deadline.portion(1 - WRITING_SHARE)
    wanted = sorted_unique(np.concatenate([*removals, drawn]))
    read = scan.read_documents(wanted, comparing.portion(READING_SHARE))
    precision = Proportion.from_counts(*scan.measure_precision(removals, read))
    kept = clusters["kept"].to_numpy()
    has_equal_value = pc.equal(clusters["kind"], KINDS[SAME]).to_numpy()
    counter = PairCounter(scan, clusters["id"], kept, has_equal_value)
    compared = _compare_parts(counter, drawn, read, comparing, scan.sample_per_scan)
    reached = min(read.end, counter.end) if len(drawn) else read.end
    is_reached = drawn[:compared] < reached
    inclusion = frame.inclusion(sampled[:compared])[is_reached]
    is_complete = reached == len(clusters)
    if not is_complete:
        # What was reached is taken as a sample of the corpus, so that the intervals are wider. Both
        # documents of a pair are in it.
        inclusion = inclusion * (reached / len(clusters)) ** 2
    counts = counter.counts(inclusion)
    recall = counts.recall(slice(None))
    more = "a larger sample"
    if compared < len(drawn) or not is_complete:
        more = f"a longer {name_setting('budget')}"
    advice = give_advice(precision, recall, run, more)
    if not reached:
        advice = f"the time ended before a document was compared; give {more}"
    elif not is_complete:
        advice = (
            f"the time ended after {reached:,} of {format_count(len(clusters), 'document')}, and "
            f"the audit is of these; {advice}"
        )
    return Audit(
        precision=precision,
        recall=recall,
        asked=run.settings.recall,
        bins=tuple(recall_by_similarity(counts, run)),
        sampled=int(is_reached.sum()),
        exact=counter.exact,
        seconds=round(deadline.elapsed, 3),
        seed=seed,
        advice=advice,
        residual=counter.residual(inclusion),
        reached=None if is_complete else reached,
    )


def _compare_parts(
    counter: PairCounter,
    drawn: np.ndarray,
    read: ReadDocuments,
    deadline: Deadline,
    part_size: int,
) -> int:
    compared = 0
    for start in range(0, len(drawn), part_size):
        began = deadline.elapsed
        part = drawn[start : start + part_size]
        if deadline.has_passed or not counter.add(part, read, deadline):
            break
        compared += len(part)
        if not deadline.allows(deadline.elapsed - began):
            break
    return compared


def give_advice(precision: Proportion, recall: Proportion, run: ReopenedRun, more: str) -> str:
    """Returns what the measured intervals mean for the settings of the run."""
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
            f"the sample contains no pair at the threshold: use {more}, unless the corpus has no "
            "near-duplicates"
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
    return f"the interval of the recall contains the requested {requested}; {more} narrows it"


def solve_run_bandings(settings: RunOptions, documents: int) -> tuple[Banding, ...]:
    """Returns bands and rows of a finished run for each kind of signatures that finds pairs."""
    return tuple(
        options.banding(measure_of(options.spec, distance=options.compared_distance), documents)
        for options in settings.candidate_options
    )
