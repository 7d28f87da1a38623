"""Compares two settings over the same signatures: what each finds, and what each costs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nearkin.engine.run import Run
from nearkin.engine.work_folder import map_file
from nearkin.errors import UsageError
from nearkin.quality.evaluate.golden import GoldenSet, Scores, score_clusters
from nearkin.runtime.metrics import QualityMetrics
from nearkin.runtime.suggestions import did_you_mean
from nearkin.stages.packed_pairs import ScoredPairs, isin_sorted, unpack_pairs

SHORT_NAMES = {"b": "bands", "r": "rows"}
SETTINGS: dict[str, Callable[[str], Any]] = {
    "bands": int,
    "rows": int,
    "hot_bucket_size": int,
    "pair_budget": int,
    "fanout": int,
    "threshold": float,
    "recall": float,
    "floor": float,
    "verify": str,
    "cluster": str,
}
"""The settings that may differ over the same signatures, with the type of their values."""
TIMED_STAGES = ("candidates", "verify", "cluster")


@dataclass(frozen=True)
class ShadowSide:
    """The result of one of the two settings.

    Attributes:
        threshold: Smallest similarity of near-duplicates.
        bands: Number of bands, or 0 if every pair was compared.
        rows: Number of slots in a band, or 0 if every pair was compared.
        candidates: Number of pairs that were scored by estimate, or None if every pair was
            compared.
        pairs: Number of verified pairs.
        kept: Number of kept documents.
        recall: Share of the pairs of both sides, at or above the higher threshold, that this side
            found.
        seconds: Duration of each stage in seconds.
        metrics: Metrics of the run with these settings.
        scores: Scores against golden pairs, if there are any.
    """

    threshold: float
    bands: int
    rows: int
    candidates: int | None
    pairs: int
    kept: int
    recall: float
    seconds: dict[str, float]
    metrics: QualityMetrics
    scores: Scores | None


@dataclass(frozen=True)
class Disagreement:
    """A pair that only one of the two settings found.

    Attributes:
        id_a: Id of the first document.
        id_b: Id of the second document.
        similarity: Similarity of the pair.
        found_by: Side that found the pair: `live` or `shadow`.
        why: Reason why the other side missed it.
    """

    id_a: str
    id_b: str
    similarity: float
    found_by: str
    why: str


@dataclass(frozen=True)
class ShadowComparison:
    """Two settings side by side.

    Attributes:
        live: Result of the settings of the run.
        shadow: Result of the settings to compare with.
        agreement: Share of all pairs that both found, or 1 if there are no pairs.
        only_live: Number of pairs that only the settings of the run find.
        only_shadow: Number of pairs that only the other settings find.
        moved: Number of documents that are kept by one and removed by the other.
        disagreements: Pairs that only one side found, the most similar first.
    """

    live: ShadowSide
    shadow: ShadowSide
    agreement: float
    only_live: int
    only_shadow: int
    moved: int
    disagreements: tuple[Disagreement, ...]

    def to_dict(self) -> dict[str, object]:
        """Returns the comparison as a JSON object."""
        out = asdict(self)
        out["live"]["metrics"] = self.live.metrics.to_dict()
        out["shadow"]["metrics"] = self.shadow.metrics.to_dict()
        return out


def parse_shadow_settings(text: str) -> dict[str, object]:
    """Parses settings in the form of the command line.

    Examples:
        >>> parse_shadow_settings("b=16,r=8,threshold=0.8")
        {'bands': 16, 'rows': 8, 'threshold': 0.8}
    """
    settings: dict[str, object] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        name = SHORT_NAMES.get(name.strip(), name.strip())
        value = value.strip()
        if name not in SETTINGS:
            raise UsageError(
                f"{name!r} in {text!r} cannot differ over the same signatures; only "
                f"{', '.join(SETTINGS)} can{did_you_mean(name, SETTINGS)}"
            )
        if name in settings:
            raise UsageError(f"{text!r} has the setting {name!r} twice; give it once")
        try:
            settings[name] = SETTINGS[name](value)
        except ValueError as error:
            raise UsageError(
                f"{part.strip()!r} in {text!r} is not valid: {value!r} is not a number"
            ) from error
    return settings


def compare_runs(live: Run, shadow: Run, golden: GoldenSet | None, limit: int) -> ShadowComparison:
    """Compares two finished runs over the same signatures."""
    live_pairs = live.scored()
    shadow_pairs = shadow.scored()
    only_live = _pairs_without(live_pairs, shadow_pairs)
    only_shadow = _pairs_without(shadow_pairs, live_pairs)
    common = len(live_pairs.pairs) - len(only_live.pairs)
    total = common + len(only_live.pairs) + len(only_shadow.pairs)
    threshold = max(live.options.threshold, shadow.options.threshold)
    live_above = _count_above(live_pairs, threshold)
    shadow_above = _count_above(shadow_pairs, threshold)
    total_above = live_above + _count_above(only_shadow, threshold)
    kept_live = np.asarray(live.clustering().kept)
    kept_shadow = np.asarray(shadow.clustering().kept)
    return ShadowComparison(
        live=_summarize(live, live_above / total_above if total_above else 1.0, golden),
        shadow=_summarize(shadow, shadow_above / total_above if total_above else 1.0, golden),
        agreement=common / total if total else 1.0,
        only_live=len(only_live.pairs),
        only_shadow=len(only_shadow.pairs),
        moved=int((kept_live != kept_shadow).sum()),
        disagreements=_list_disagreements(live, shadow, only_live, only_shadow, limit),
    )


def _pairs_without(pairs: ScoredPairs, others: ScoredPairs) -> ScoredPairs:
    return pairs.select(~isin_sorted(np.asarray(pairs.pairs), np.asarray(others.pairs)))


def _count_above(pairs: ScoredPairs, threshold: float) -> int:
    return int(pairs.meets_threshold(threshold).sum())


def _summarize(run: Run, recall: float, golden: GoldenSet | None) -> ShadowSide:
    stages = run.work.manifest["stages"]
    compared_all = run.brute_force
    clustering = run.clustering()
    scores = None
    labelled_recall = None
    if golden is not None:
        ids = run.documents().ids.to_pylist()
        leaders = np.asarray(clustering.leader).tolist()
        scores = score_clusters(golden, {ids[i]: ids[leader] for i, leader in enumerate(leaders)})
        if scores.recall.total:
            labelled_recall = scores.recall.value
    return ShadowSide(
        threshold=run.options.threshold,
        bands=0 if compared_all else run.banding.bands,
        rows=0 if compared_all else run.banding.rows,
        candidates=None if compared_all else stages["candidates"]["candidates"],
        pairs=len(run.scored().pairs),
        kept=int(np.asarray(clustering.kept).sum()),
        recall=recall,
        seconds={name: stages[name]["seconds"] for name in TIMED_STAGES if name in stages},
        metrics=QualityMetrics.from_stages(stages, labelled_recall),
        scores=scores,
    )


def _list_disagreements(
    live: Run,
    shadow: Run,
    only_live: ScoredPairs,
    only_shadow: ScoredPairs,
    limit: int,
) -> tuple[Disagreement, ...]:
    """Returns the most similar pairs that one side found, ties in the order of the pairs."""
    ranked = []
    for found_by, missed_by, pairs in (("live", shadow, only_live), ("shadow", live, only_shadow)):
        most_similar = np.argsort(-pairs.similarity, kind="stable")[:limit]
        chosen = pairs.select(most_similar)
        reasons = _explain_misses(missed_by, chosen)
        similarities = chosen.similarity.tolist()
        for similarity, pair, why in zip(similarities, chosen.pairs.tolist(), reasons, strict=True):
            ranked.append((-similarity, pair, found_by, why))
    ids = live.documents().ids
    return tuple(
        Disagreement(
            id_a=ids[pair >> 32].as_py(),
            id_b=ids[pair & 0xFFFFFFFF].as_py(),
            similarity=-negative,
            found_by=found_by,
            why=why,
        )
        for negative, pair, found_by, why in sorted(ranked)[:limit]
    )


def _explain_misses(run: Run, pairs: ScoredPairs) -> list[str]:
    is_low = ~pairs.meets_threshold(run.options.threshold)
    if run.brute_force:
        return ["below its threshold" if low else "not compared" for low in is_low.tolist()]
    banding = run.banding
    shares_band = _share_band(run, pairs.pairs).tolist()
    agreements = run.agreements(pairs.pairs).tolist()
    reasons = []
    for low, shares, agreeing in zip(is_low.tolist(), shares_band, agreements, strict=True):
        if low:
            reasons.append(f"below its threshold {run.options.threshold:g}")
        elif not shares:
            reasons.append("no band in common")
        elif agreeing < banding.margin:
            reasons.append(
                f"{agreeing} of {banding.k} slots agree, fewer than the margin {banding.margin}"
            )
        else:
            reasons.append("in a hot bucket, assigned to another leader")
    return reasons


def _share_band(run: Run, pairs: np.ndarray) -> np.ndarray:
    """Returns which pairs have a band key or a probed key in common, bool (m,)."""
    banding = run.banding
    keys_per_band = 1 + banding.probes
    a, b = unpack_pairs(pairs)
    shared = np.zeros(len(a), bool)
    for band in range(banding.bands):
        keys = map_file(run.work.path / "keys" / f"{band:04d}", np.uint64, keys_per_band)
        x = keys[a].reshape(-1, keys_per_band)
        y = keys[b].reshape(-1, keys_per_band)
        shared |= (x[:, :, None] == y[:, None, :]).any(axis=(1, 2))
    return shared
