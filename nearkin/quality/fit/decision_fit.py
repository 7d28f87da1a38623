"""The threshold and the acceptance of one definition that agree best with people's decisions."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from nearkin.corpus import Columns, Corpus
from nearkin.corpus.unknown_ids import describe_unknown_ids
from nearkin.quality.evaluate.golden import golden_set_from_decisions
from nearkin.quality.evaluate.totals import divide_or_one
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.fitting import FitRequest, fit_definition, read_labelled_documents
from nearkin.quality.fit.labels import PairLabels
from nearkin.quality.fit.objective import Objective
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.runtime.progress import Progress
from nearkin.settings.decisions import Decisions
from nearkin.stages.measures.base import as_stored
from nearkin.stages.packed_pairs import pack_pairs

STEP = 0.01
"""The distance between two limits of an acceptance."""
LEAST_GAIN = 0.01
"""The F1 that an acceptance must gain over the threshold alone to be worth proposing."""


@dataclass(frozen=True)
class Agreement:
    """The agreement of a rule with decisions.

    Attributes:
        same_joined: Number of pairs decided to be the same that the rule accepts.
        different_joined: Number of pairs decided to be different that the rule accepts.
        f1: Harmonic mean of the precision and the recall of the accepted pairs.
    """

    same_joined: int
    different_joined: int
    f1: float


@dataclass(frozen=True)
class DecisionFit:
    """The rules that agree best with decisions. They are chosen from the same decisions.

    Attributes:
        same: Number of pairs of the inputs that are decided to be the same.
        different: Number of pairs of the inputs that are decided to be different.
        absent: Number of decisions about a document that is not in the inputs.
        unknown_ids: Some ids that the inputs do not have, each with the one that a spreadsheet
            changed to it, or "".
        threshold: Threshold for `--threshold`.
        by_threshold: Agreement of the threshold.
        accept: Condition for `--accept`, or None if none agrees notably better than the threshold.
        by_acceptance: Agreement of the condition, or None without one.
    """

    same: int
    different: int
    absent: int
    threshold: float
    by_threshold: Agreement
    accept: str | None = None
    by_acceptance: Agreement | None = None
    unknown_ids: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Returns the fit as a JSON object."""
        return asdict(self)

    def describe(self) -> list[str]:
        """Returns the fit as lines for a terminal."""
        lines = [
            f"decisions: {self.same:,} same and {self.different:,} different pairs of the inputs"
            + (f", {self.absent:,} of other documents" if self.absent else ""),
            self._describe_rule(f"threshold {self.threshold:g}", self.by_threshold),
        ]
        if self.accept is not None and self.by_acceptance is not None:
            lines.append(self._describe_rule(f"accept '{self.accept}'", self.by_acceptance))
        if self.unknown_ids:
            lines.append(f"ids not in the inputs: {describe_unknown_ids(self.unknown_ids)}")
        return lines

    def _describe_rule(self, rule: str, agreement: Agreement) -> str:
        return (
            f"{rule}: F1 {agreement.f1:.3f}, {agreement.same_joined:,} of {self.same:,} same and "
            f"{agreement.different_joined:,} of {self.different:,} different pairs accepted"
        )


def fit_to_decisions(
    corpus: Corpus,
    columns: Columns,
    decisions: Decisions,
    definition: Definition,
    progress: Progress,
    workers: int = 2,
) -> DecisionFit:
    """Chooses the threshold of a definition that agrees best with decisions, and an acceptance.

    The threshold is the one around which F1 is highest, as in `nearkin.fit`. An acceptance
    `jaccard >= J and containment >= C` is proposed if it agrees notably better, for sets only.
    """
    golden = golden_set_from_decisions(decisions)
    objective = Objective.parse("f1")
    request = FitRequest(objective, workers=workers)
    documents, labels, _ = read_labelled_documents(corpus, columns, golden, request, progress)
    assert isinstance(labels, PairLabels)
    scorer = DocumentScorer(documents, workers)
    threshold = fit_definition(labels, scorer, definition, objective).threshold
    same = len(labels.duplicate_pairs)
    pairs = np.concatenate([labels.duplicate_pairs, labels.distinct_pairs])
    is_same = np.arange(len(pairs)) < same
    measure = scorer.measure(definition)
    payload = scorer.payload(measure)
    packed = pack_pairs(pairs[:, 0], pairs[:, 1])
    # A measure returns the pairs in the order in which they are given.
    scored = measure.compare(packed, as_stored(payload))
    similarity = scored.similarity
    by_threshold = _judge(similarity >= threshold, is_same)
    fit = DecisionFit(
        same=same,
        different=len(pairs) - same,
        absent=len(decisions) - len(pairs),
        threshold=threshold,
        by_threshold=by_threshold,
        unknown_ids=documents.unknown_ids,
    )
    if definition.measure != "jaccard":
        return fit
    # Documents are in keep order, so that the later one of a pair would be removed.
    containment = scored.intersection / np.maximum(payload.sizes[pairs.max(axis=1)], 1)
    return _with_acceptance(fit, similarity, containment, is_same)


def _judge(is_accepted: np.ndarray, is_same: np.ndarray) -> Agreement:
    same_joined = int(np.count_nonzero(is_accepted & is_same))
    different_joined = int(np.count_nonzero(is_accepted & ~is_same))
    total = np.array(same_joined + different_joined + np.count_nonzero(is_same))
    f1 = float(divide_or_one(np.array(2.0 * same_joined), total))
    return Agreement(same_joined, different_joined, round(f1, 6))


def _with_acceptance(
    fit: DecisionFit, similarity: np.ndarray, containment: np.ndarray, is_same: np.ndarray
) -> DecisionFit:
    """Returns a fit with the best acceptance, if it agrees notably better than the threshold.

    Of equally good ones, it is the one with the highest limit of the similarity, and then of the
    containment of the removed document: it accepts the fewest other pairs.
    """
    steps = round(1 / STEP)
    limits = np.arange(1, steps + 1) / steps
    best: tuple[float, float, float] = (fit.by_threshold.f1 + LEAST_GAIN, 0.0, 0.0)
    chosen = None
    for least_containment in limits.tolist():
        is_contained = containment >= least_containment
        for least_similarity in limits.tolist():
            agreement = _judge(is_contained & (similarity >= least_similarity), is_same)
            key = (agreement.f1, least_similarity, least_containment)
            if key > best:
                best = key
                chosen = agreement
    if chosen is None:
        return fit
    _, least_similarity, least_containment = best
    return replace(
        fit,
        accept=f"jaccard >= {least_similarity:g} and containment >= {least_containment:g}",
        by_acceptance=chosen,
    )
