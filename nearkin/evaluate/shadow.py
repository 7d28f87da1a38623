"""Two settings over the same signatures: what each finds, what it costs, and where they disagree."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.work_folder import map_file
from nearkin.errors import UsageError
from nearkin.evaluate.golden import Golden, Scores, score
from nearkin.packed_pairs import ScoredPairs, isin_sorted, unpack_pairs
from nearkin.runtime.metrics import QualityMetrics

NAMES = {"b": "bands", "r": "rows"}
KINDS = {
    "bands": int,
    "rows": int,
    "hot_bucket_size": int,
    "fanout": int,
    "threshold": float,
    "recall": float,
    "floor": float,
}
WORDS = ("verify", "cluster")
STAGES = ("candidates", "verify", "cluster")


@dataclass(frozen=True)
class Side:
    """What one of the settings makes of the signatures.

    Attributes:
        threshold: Similarity from which documents are near-duplicates.
        bands: b; 0 where every pair was compared.
        rows: r; 0 where every pair was compared.
        candidates: Pairs scored by estimate; None where every pair was compared.
        pairs: Verified pairs.
        kept: Documents kept.
        recall: Share of the pairs of either side, at or above the higher threshold, that this one found.
        seconds: By stage.
        metrics: As of any run.
        scores: Against labelled documents, if there were any.
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
    """A pair that one of the two found.

    Attributes:
        id_a: One document.
        id_b: The other.
        similarity: Of the two.
        found_by: `live` or `shadow`.
        why: What made the other one miss it.
    """

    id_a: str
    id_b: str
    similarity: float
    found_by: str
    why: str


@dataclass(frozen=True)
class Shadow:
    """Two settings side by side.

    Attributes:
        live: Of the run.
        shadow: The ones to compare with.
        agreement: Share of the pairs of either that both found; 1 where there is none.
        only_live: Pairs that only the run's settings find.
        only_shadow: Pairs that only the others find.
        moved: Documents that are kept by one and removed by the other.
        disagreements: Pairs that one of them found, the most similar first, as many as were asked for.
    """

    live: Side
    shadow: Side
    agreement: float
    only_live: int
    only_shadow: int
    moved: int
    disagreements: tuple[Disagreement, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        out = asdict(self)
        for name, side in (("live", self.live), ("shadow", self.shadow)):
            out[name]["metrics"] = side.metrics.to_dict()
        return out


def parse_against(text: str) -> dict[str, Any]:
    """Settings from the command line's form.

    Examples:
        >>> parse_against("b=16,r=8,threshold=0.8")
        {'bands': 16, 'rows': 8, 'threshold': 0.8}
    """
    out: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        name = NAMES.get(name, name)
        if name not in KINDS and name not in WORDS:
            raise UsageError(
                f"{name!r} in {text!r} cannot differ over the same signatures; {', '.join((*KINDS, *WORDS))} can"
            )
        try:
            out[name] = KINDS.get(name, str)(value)
        except ValueError as error:
            raise UsageError(f"{name}={value!r} is not a number") from error
    return out


def compare(live: LocalRun, shadow: LocalRun, golden: Golden | None, listed: int) -> Shadow:
    """Two finished runs over the same signatures."""
    first, second = live.scored(), shadow.scored()
    only_first, only_second = _without(first, second), _without(second, first)
    common = len(first.pairs) - len(only_first.pairs)
    either = common + len(only_first.pairs) + len(only_second.pairs)
    higher = max(live.options.threshold, shadow.options.threshold)
    reached = [
        len(np.flatnonzero(side.meets_threshold(higher)))
        for side in (first, second, only_first, only_second)
    ]
    union = reached[0] + reached[3]
    kept = [np.asarray(run.clustering().kept) for run in (live, shadow)]
    sides = [
        _side(run, found / union if union else 1.0, golden)
        for run, found in ((live, reached[0]), (shadow, reached[1]))
    ]
    return Shadow(
        sides[0],
        sides[1],
        common / either if either else 1.0,
        len(only_first.pairs),
        len(only_second.pairs),
        int((kept[0] != kept[1]).sum()),
        _listed(live, shadow, only_first, only_second, listed),
    )


def _without(mine: ScoredPairs, other: ScoredPairs) -> ScoredPairs:
    """The pairs that the other one does not have."""
    return mine.select(~isin_sorted(np.asarray(mine.pairs), np.asarray(other.pairs)))


def _side(run: LocalRun, recall: float, golden: Golden | None) -> Side:
    stages, compared_all = run.work.manifest["stages"], run.brute_force
    result = run.clustering()
    scores = None
    if golden is not None:
        ids = run.documents().ids.to_pylist()
        scores = score(
            golden, {ids[i]: ids[head] for i, head in enumerate(np.asarray(result.leader).tolist())}
        )
    return Side(
        run.options.threshold,
        0 if compared_all else run.banding.bands,
        0 if compared_all else run.banding.rows,
        None if compared_all else stages["candidates"]["candidates"],
        len(run.scored().pairs),
        int(np.asarray(result.kept).sum()),
        recall,
        {name: stages[name]["seconds"] for name in STAGES if name in stages},
        QualityMetrics.from_stages(stages, scores.recall.value if scores else None),
        scores,
    )


def _listed(
    live: LocalRun, shadow: LocalRun, only_live: ScoredPairs, only_shadow: ScoredPairs, most: int
) -> tuple[Disagreement, ...]:
    """The most similar pairs of either, ties in the order of the pairs."""
    found = []
    for name, missed_by, pairs in (("live", shadow, only_live), ("shadow", live, only_shadow)):
        best = np.argsort(-pairs.similarity, kind="stable")[:most]
        chosen = pairs.select(best)
        reasons = _reasons(missed_by, chosen)
        similarities, packed = chosen.similarity.tolist(), chosen.pairs.tolist()
        found += [
            (-s, pair, name, why)
            for s, pair, why in zip(similarities, packed, reasons, strict=True)
        ]
    ids = live.documents().ids
    out = []
    for negative, pair, name, why in sorted(found)[:most]:
        a, b = pair >> 32, pair & 0xFFFFFFFF
        out.append(Disagreement(ids[a].as_py(), ids[b].as_py(), -negative, name, why))
    return tuple(out)


def _reasons(run: LocalRun, pairs: ScoredPairs) -> list[str]:
    """Why a run did not find these pairs."""
    low = ~pairs.meets_threshold(run.options.threshold)
    if run.brute_force:
        return ["below its threshold" if is_low else "not compared" for is_low in low.tolist()]
    banding, per = run.banding, 1 + run.banding.probes
    a, b = unpack_pairs(pairs.pairs)
    shared = np.zeros(len(a), bool)
    for band in range(banding.bands):
        keys = map_file(run.work.path / "keys" / f"{band:04d}", np.uint64, per)
        x, y = keys[a].reshape(-1, per), keys[b].reshape(-1, per)
        shared |= (x[:, :, None] == y[:, None, :]).any(axis=(1, 2))
    agreeing = run.agreements(pairs.pairs)
    out = []
    for is_low, is_shared, slots in zip(
        low.tolist(), shared.tolist(), agreeing.tolist(), strict=True
    ):
        if is_low:
            out.append(f"below its threshold {run.options.threshold:g}")
        elif not is_shared:
            out.append("no band in common")
        elif slots < banding.margin:
            out.append(
                f"{slots} of {banding.k} slots agree, fewer than the margin {banding.margin}"
            )
        else:
            out.append("in a hot bucket, behind another leader")
    return out
