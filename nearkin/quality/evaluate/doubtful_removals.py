"""Finds removed near-duplicates that may be distinct documents, without labels.

A sample of the removed documents is compared with the kept ones and with a sample of the corpus.
`nearkin.quality.evaluate.pair_evidence` says what is measured, and `Reason` what makes a removal
doubtful. `benchmarks/doubtful.py` compares the share of doubtful removals with that of
wrong ones over labelled sets.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from nearkin.engine.clustering import Clustering
from nearkin.engine.removal_limit import WRONG_SHARES, WrongShare
from nearkin.engine.result_schema import NEAR
from nearkin.engine.wilson import wilson_interval
from nearkin.errors import RunError
from nearkin.quality.evaluate.boilerplate import TextSample
from nearkin.quality.evaluate.pair_doubts import PairDoubts
from nearkin.quality.evaluate.pair_evidence import Background, PairEvidence, prepare_texts
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.minhash import splitmix64

MOST_EXAMINED = 300
"""The largest number of removed documents that are examined."""
LEAST_EXAMINED = 10
"""The number of removed near-duplicates below which none is examined. A user can read them all."""
MOST_BACKGROUND = 1500
"""The largest number of documents with which they are compared."""
BACKGROUND_BYTES = 1 << 20
"""The approximate size of the texts of these documents in bytes. Longer ones are fewer."""
LEAST_BACKGROUND = 300
"""The number of documents with which they are compared, however long these are."""
LISTED = 20
"""The number of doubtful removals that are listed."""
LISTED_WORDS = 8
"""The number of words of each text that are listed of a doubtful removal."""
SAMPLE_SEED = 3
LEAST_COMMON = 0.35
"""The share of common words below which a removal is doubtful."""
MOST_REPLACED = 0.06
"""The share of replaced words above which a removal is doubtful."""
MOST_DIFFERING = 0.12
"""The share of differing words above which a removal is doubtful."""
MOST_BY_CHANCE = -1.0
"""The logarithm of the expected number of equally similar documents from which a removal is
doubtful: about one for three removed documents."""
FEW_DOUBTFUL = 0.1
"""The share of doubtful removals at a threshold up to which it is advised."""
THRESHOLD_STEP = 0.02
"""The distance of two thresholds that are tried."""
MOST_DOUBTFUL = 0.5
"""The share of doubtful removals above which a run has a warning."""


class Reason(StrEnum):
    """Why a removal is doubtful. Of several reasons, the first one is given."""

    REPLACED = "replaced"
    """Each text has words that the other lacks, and that other documents have."""
    DIFFERING = "differing"
    """Each text has more words of its own than errors explain."""
    QUALIFIED = "qualified"
    """One text has words in addition that tell many pairs apart."""
    UNLIKE = "unlike"
    """The texts have few words in common."""
    CHANCE = "chance"
    """Unrelated documents are about as similar."""

    @classmethod
    def of_evidence(cls, evidence: PairEvidence) -> "Reason | None":
        """Returns the first reason that holds, or None."""
        if evidence.replaced > MOST_REPLACED + evidence.misspelled:
            return cls.REPLACED
        if evidence.differing > MOST_DIFFERING + evidence.misspelled:
            return cls.DIFFERING
        if evidence.qualified > MOST_REPLACED + evidence.misspelled:
            return cls.QUALIFIED
        if evidence.common < LEAST_COMMON:
            return cls.UNLIKE
        if evidence.chance >= MOST_BY_CHANCE:
            return cls.CHANCE
        return None


DESCRIPTIONS = {
    Reason.REPLACED: "with other words that other documents have",
    Reason.DIFFERING: "with more different words than errors explain",
    Reason.QUALIFIED: "with words that tell many pairs apart",
    Reason.UNLIKE: "with few common words",
    Reason.CHANCE: "as similar as unrelated documents are",
}
"""The reasons in words, after the number of removals."""


@dataclass(frozen=True)
class DoubtfulRemoval:
    """A removed document that may differ from the kept one.

    Attributes:
        removed: Id of the removed document.
        kept: Id of the kept document.
        similarity: Their similarity in the run.
        reason: Why the removal is doubtful.
        removed_words: Some words that only the removed document has.
        kept_words: Some words that only the kept document has.
    """

    removed: str
    kept: str
    similarity: float
    reason: str
    removed_words: tuple[str, ...]
    kept_words: tuple[str, ...]


@dataclass(frozen=True)
class DoubtfulRemovals:
    """The number of removed near-duplicates that may be distinct documents.

    Attributes:
        near: Number of near-duplicates that the run removed.
        examined: Number of them that were examined, drawn at random.
        doubtful: Number of the examined ones that are doubtful.
        reasons: Number of the doubtful ones by reason, see `Reason`.
        low: Lower end of the 95 % interval of the share of doubtful removals.
        high: Upper end of this interval.
        advised_threshold: Lowest threshold at which at most a tenth of the examined removals that
            remain are doubtful. None if no more are doubtful, or at no threshold so few are.
        best_threshold: Threshold at which most removals without doubt remain beyond the doubtful
            ones. 0 if no higher threshold is better than that of the run.
        listed: Doubtful removals, the most similar pairs first.
        pairs: Pairs inside of the clusters. None without labelled duplicates.
    """

    near: int
    examined: int
    doubtful: int
    reasons: dict[str, int]
    low: float
    high: float
    advised_threshold: float | None
    best_threshold: float
    listed: tuple[DoubtfulRemoval, ...]
    pairs: PairDoubts | None = None

    @property
    def share(self) -> float:
        """The share of the examined removals that are doubtful."""
        return self.doubtful / self.examined

    @property
    def wrong(self) -> WrongShare:
        """The share of the removed near-duplicates that are expected to be distinct documents."""
        return next(wrong for limit, wrong in WRONG_SHARES if self.share <= limit)

    def describe_wrong(self) -> str:
        """Returns how many removals are expected to be wrong, without an end."""
        wrong = self.wrong
        return (
            f"about {wrong.mean:.0%} of the removed near-duplicates are expected to be distinct "
            f"documents ({wrong.low:.0%} to {wrong.high:.0%})"
        )

    def require_precision(self, least: float) -> None:
        """Raises a RunError if the expected precision is below the one that a user requires."""
        if 1 - self.wrong.mean >= least:
            return
        expected = name_setting("expect", f"precision>={least:g}")
        raise RunError(
            f"{self.describe_wrong()}, more than {expected} allows, because {self.doubtful:,} of "
            f"{self.examined:,} examined ones are doubtful; nothing was written. "
            f"{self.advise().capitalize()}. If they are duplicates, lower {name_setting('expect')}"
        )

    def describe(self) -> str:
        """Returns how many removals are doubtful, and why, in a sentence."""
        counted = f"{self.doubtful:,} of {self.examined:,} examined near-duplicates"
        if not self.doubtful:
            return f"{counted}."
        found = [
            f"{self.reasons[reason]:,} {description}"
            for reason, description in DESCRIPTIONS.items()
            if self.reasons[reason]
        ]
        wrong = self.describe_wrong().capitalize()
        return f"{counted} ({format_percent(self.share)}): {', '.join(found)}. {wrong}."

    def warn(self) -> str | None:
        """Returns a warning if most removals are doubtful, or None."""
        if self.share <= MOST_DOUBTFUL:
            return None
        return (
            f"{self.doubtful:,} of {self.examined:,} examined near-duplicates may be distinct "
            f"documents; look at some of them in the report, and {self.advise()}"
        )

    def advise(self) -> str:
        """Returns what to do if the doubtful removals are wrong, without an end."""
        if self.advised_threshold is None:
            return (
                "compare other columns or fields if they are distinct: no threshold leaves few "
                "doubtful removals"
            )
        return (
            f"raise {name_setting('threshold')} if they are distinct: at "
            f"{self.advised_threshold:g}, at most {format_percent(FEW_DOUBTFUL)} of the removals "
            "are doubtful"
        )

    def to_record(self) -> dict[str, object]:
        """Returns the numbers as run.json contains them, without ids and words."""
        values = asdict(self)
        del values["listed"]
        del values["best_threshold"]
        del values["pairs"]
        values["expected_wrong"] = self.wrong._asdict()
        if self.pairs is not None:
            values["pairs"] = self.pairs._asdict()
            values["expected_wrong_pairs"] = self.pairs.expect_wrong()._asdict()
        return values


class RemovalSample:
    """Removed near-duplicates, their kept documents and others, collected while a corpus is read.

    Attributes:
        near: Number of removed near-duplicates.
        removed: Numbers of the examined ones, int64 (p,), ascending.
        background: Numbers of the documents with which they are compared, int64 (m,), ascending.
        labelled: Number of labelled duplicates. None without labels.
        found: Number of them that are of one cluster.
        known: Numbers of the documents of some of these, int64 (k, 2).
        pairs: Numbers of the documents of pairs inside of clusters, int64 (q, 2). Without labels,
            none is drawn.
        texts: Texts of all of these, and of the kept documents.
    """

    def __init__(
        self,
        result: Clustering,
        lengths: np.ndarray,
        least: int = LEAST_EXAMINED,
        known: np.ndarray | None = None,
    ) -> None:
        """Draws the documents by the clusters and the lengths of all documents, int64 (n,).

        None is drawn if fewer than `least` near-duplicates were removed. `known` are the numbers of
        the documents of labelled duplicates, int64 (p, 2).
        """
        leader = np.asarray(result.leader)
        self.labelled = None if known is None else len(known)
        self.found = 0
        self.known = np.empty((0, 2), np.int64)
        self.pairs = np.empty((0, 2), np.int64)
        if known is not None:
            found = known[leader[known[:, 0]] == leader[known[:, 1]]]
            self.found = len(found)
            self.known = found[draw_places(len(found), MOST_EXAMINED, SAMPLE_SEED + 3)]
            self.pairs = draw_pairs(leader)
        near = np.flatnonzero((np.asarray(result.kind) == NEAR) & result.removed_in_run)
        self.near = len(near)
        self.removed = np.empty(0, np.int64)
        self.background = np.empty(0, np.int64)
        if len(near) >= least:
            self.removed = near[draw_places(len(near), MOST_EXAMINED, SAMPLE_SEED)]
            size = int(BACKGROUND_BYTES / max(lengths.mean(), 1))
            size = max(LEAST_BACKGROUND, min(MOST_BACKGROUND, size))
            self.background = draw_places(len(lengths), size, SAMPLE_SEED + 1)
        kept = leader[self.removed].astype(np.int64)
        pairs = np.concatenate([self.pairs, self.known]).reshape(-1)
        drawn = np.concatenate([self.removed, kept, self.background, pairs])
        self.texts = TextSample(np.unique(drawn))


def draw_places(count: int, most: int, seed: int) -> np.ndarray:
    """Draws one of each of `most` equal ranges of the numbers below `count`, int64 (n,).

    It needs no memory for the numbers that are not drawn, of which there can be billions.

    Examples:
        >>> draw_places(3, 5, 1).tolist(), draw_places(1000, 4, 1).tolist()
        ([0, 1, 2], [215, 269, 590, 985])
    """
    if count <= most:
        return np.arange(count)
    starts = np.arange(most + 1) * count // most
    widths = np.diff(starts)
    return starts[:-1] + (splitmix64(seed, most) % widths.astype(np.uint64)).astype(np.int64)


def draw_pairs(leader: np.ndarray) -> np.ndarray:
    """Draws pairs of documents of one cluster, int64 (q, 2), all with the same probability.

    Args:
        leader: The kept document of the cluster of each document, int64 (n,).

    Examples:
        >>> draw_pairs(np.array([0, 0, 2, 2, 2])).tolist()
        [[0, 1], [1, 0], [2, 3], [2, 4], [3, 2], [3, 4], [4, 2], [4, 3]]
    """
    members = np.argsort(leader, kind="stable")
    clusters = leader[members].astype(np.int64)
    others = np.bincount(clusters)[clusters] - 1
    ends = np.cumsum(others)
    drawn = draw_places(int(ends[-1]), MOST_EXAMINED, SAMPLE_SEED + 2)
    places = np.searchsorted(ends, drawn, side="right")
    first = np.searchsorted(clusters, clusters[places])
    # the other members of the cluster, in order, without the document itself
    other = drawn - (ends - others)[places]
    other += other >= places - first
    return np.stack([members[places], members[first + other]], axis=1).astype(np.int64)


def find_doubtful_removals(
    sample: RemovalSample,
    result: Clustering,
    spec: Spec,
    ids: pa.ChunkedArray,
    *,
    has_sources: bool,
) -> DoubtfulRemovals | None:
    """Examines sampled removals by the ids of all documents. Returns None if there are too few.

    Some evidence does not hold if documents of different sources are compared, see `Background`.
    """
    documents = sample.texts.documents
    if not len(sample.removed) or not pa.types.is_large_string(documents.type):
        return None
    leader = np.asarray(result.leader)
    texts = dict(
        zip(
            sample.texts.ordinals.tolist(),
            prepare_texts(documents, spec.normalise),
            strict=True,
        )
    )
    clusters = leader[sample.removed].astype(np.int64)
    background = Background(
        [texts[document] for document in sample.background.tolist()],
        leader[sample.background].astype(np.int64),
        len(leader),
        has_sources=has_sources,
    )
    compared = background.compare(
        [texts[document] for document in sample.removed.tolist()],
        [texts[document] for document in clusters.tolist()],
        clusters,
    )
    reasons = [Reason.of_evidence(evidence) for evidence in compared]
    pairs = None
    if sample.labelled is not None:
        pairs = PairDoubts(
            pairs=len(sample.pairs),
            doubtful_pairs=_count_doubtful(sample.pairs, texts, leader, background),
            duplicates=len(sample.known),
            doubtful_duplicates=_count_doubtful(sample.known, texts, leader, background),
            labelled=sample.labelled,
            found=sample.found,
        )
    similarity = np.asarray(result.similarity)[sample.removed]
    is_doubtful = np.array([reason is not None for reason in reasons])
    most_similar = np.argsort(-similarity, kind="stable")
    low, high = wilson_interval(float(is_doubtful.mean()), len(compared))
    return DoubtfulRemovals(
        near=sample.near,
        examined=len(compared),
        doubtful=int(is_doubtful.sum()),
        reasons={reason.value: reasons.count(reason) for reason in Reason},
        low=low,
        high=high,
        advised_threshold=advise_threshold(similarity, is_doubtful),
        best_threshold=find_best_threshold(similarity, is_doubtful),
        listed=tuple(
            DoubtfulRemoval(
                removed=ids[sample.removed[row]].as_py(),
                kept=ids[clusters[row]].as_py(),
                similarity=float(similarity[row]),
                reason=str(reasons[row]),
                removed_words=compared[row].removed_words[:LISTED_WORDS],
                kept_words=compared[row].kept_words[:LISTED_WORDS],
            )
            for row in most_similar[is_doubtful[most_similar]][:LISTED].tolist()
        ),
        pairs=pairs,
    )


def _count_doubtful(
    pairs: np.ndarray, texts: Mapping[int, str], leader: np.ndarray, background: Background
) -> int:
    """Returns how many pairs of documents, int64 (k, 2), would be doubtful as removals."""
    compared = background.compare(
        [texts[document] for document in pairs[:, 0].tolist()],
        [texts[document] for document in pairs[:, 1].tolist()],
        leader[pairs[:, 0]].astype(np.int64),
    )
    return sum(Reason.of_evidence(evidence) is not None for evidence in compared)


def advise_threshold(similarity: np.ndarray, is_doubtful: np.ndarray) -> float | None:
    """Returns the lowest threshold at which few of the remaining removals are doubtful, or None.

    Args:
        similarity: Similarity of each removed document to the kept one, float64 (p,).
        is_doubtful: Whether each removal is doubtful, bool (p,).

    Examples:
        >>> similarity = np.repeat([0.5, 0.7, 0.9], 20)
        >>> advise_threshold(similarity, similarity < 0.8)
        0.72
        >>> advise_threshold(similarity, similarity > 0.8) is None
        True
    """
    if is_doubtful.mean() <= FEW_DOUBTFUL:
        return None
    for step in range(1, round(1 / THRESHOLD_STEP)):
        threshold = round(step * THRESHOLD_STEP, 2)
        remaining = is_doubtful[similarity >= threshold]
        if len(remaining) < LEAST_EXAMINED:
            return None
        if remaining.mean() <= FEW_DOUBTFUL:
            return threshold
    return None


def find_best_threshold(similarity: np.ndarray, is_doubtful: np.ndarray) -> float:
    """Returns the threshold that leaves most removals without doubt beyond the doubtful ones, or 0.

    Args:
        similarity: Similarity of each removed document to the kept one, float64 (p,).
        is_doubtful: Whether each removal is doubtful, bool (p,).

    Examples:
        >>> similarity = np.repeat([0.5, 0.7, 0.9], 20)
        >>> find_best_threshold(similarity, similarity < 0.6)
        0.52
        >>> find_best_threshold(similarity, similarity > 0.8)
        0.0
    """
    gains = np.where(is_doubtful, -1, 1)
    thresholds = np.arange(round(1 / THRESHOLD_STEP)) * THRESHOLD_STEP
    left = [int(gains[similarity >= threshold].sum()) for threshold in thresholds]
    return round(float(thresholds[int(np.argmax(left))]), 2)
