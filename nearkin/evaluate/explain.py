"""Why two documents were matched, or were not: everything that the pipeline looks at, for one pair."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus import Columns, Corpus
from nearkin.engine.options import Settings
from nearkin.errors import UsageError
from nearkin.lsh.bands import make_keys
from nearkin.lsh.kernels import pair_agreements
from nearkin.measures import Measure, measure_of
from nearkin.measures.base import Stored
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.spec import Spec
from nearkin.verify.jaccard import SetBuilder

SHOWN = 20
READ_FOR_EXAMPLES = 20_000
"""Characters at the beginning of a text in which examples of its shingles are looked for."""
WORD = re.compile(r"\w+")
PAIR = np.ones(1, np.uint64)
"""Documents 0 and 1, packed."""
VERDICTS = ("exact", "match", "empty", "not a candidate", "below the margin", "below the threshold")


@dataclass(frozen=True)
class Shingles:
    """The shingles that two texts share.

    Attributes:
        sizes: Distinct shingles of each.
        shared: Of both.
        examples: Some that both have, only the first, only the second; as text, lower-cased, from the beginnings of the texts.
    """

    sizes: tuple[int, int]
    shared: int
    examples: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

    @property
    def jaccard(self) -> float:
        """|A ∩ B| / |A ∪ B|; 0 for two empty ones."""
        union = sum(self.sizes) - self.shared
        return self.shared / union if union else 0.0

    @property
    def containment(self) -> tuple[float, float]:
        """How much of the first is in the second, and the other way round."""
        a, b = self.sizes
        return (self.shared / a if a else 0.0, self.shared / b if b else 0.0)


@dataclass(frozen=True)
class Explanation:
    """Two documents through the stages of a run.

    Attributes:
        names: What they are called.
        texts: What was compared.
        measure: As `jaccard`.
        threshold: Similarity from which documents are near-duplicates.
        similarity: Exact.
        estimate: From the signatures.
        agreeing: Slots (or bits) that agree.
        slots: Of how many.
        margin: How many a candidate needs to be compared exactly.
        shared_bands: Bands that agree whole.
        bands: Of how many.
        rows: Of so many slots each.
        probability: That a pair of this similarity becomes a candidate.
        shingles: What they share.
        verdict: One of VERDICTS.
        why: In words.
        run: The two documents in a run (kind, cluster, similarity to its kept one), if one was asked about.
    """

    names: tuple[str, str]
    texts: tuple[str, str]
    measure: str
    threshold: float
    similarity: float
    estimate: float
    agreeing: int
    slots: int
    margin: int
    shared_bands: int
    bands: int
    rows: int
    probability: float
    shingles: Shingles
    verdict: str
    why: str
    run: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        shingles = {**asdict(self.shingles), "jaccard": self.shingles.jaccard, "containment": self.shingles.containment}
        return {**asdict(self), "shingles": shingles}


@dataclass(frozen=True)
class _Pair:
    texts: tuple[str, str]
    settings: Settings
    resources: SpecResources
    documents: int

    @cached_property
    def measure(self) -> Measure:
        return measure_of(self.settings.spec, self.resources, self.settings.distance)

    @cached_property
    def column(self) -> pa.Array:
        return pa.array(self.texts, pa.large_string())

    def whole(self) -> "_Pair":
        """With whole slots, for bands are made of them."""
        spec = self.settings.spec
        return replace(self, settings=replace(self.settings, spec=replace(spec, slot_bits=32))) if spec.truncated else self

    def similarity(self) -> float:
        payload = self.measure.payload_builder().build(self.column)
        starts = np.concatenate([[0], np.cumsum(payload.sizes)]).astype(np.int64)
        stored = Stored(np.arange(2, dtype=np.uint32), starts, payload.columns)
        return float(self.measure.compare(PAIR, stored).similarity[0])


def explain(
    a: str,
    b: str,
    *,
    settings: Settings | None = None,
    resources: SpecResources = NO_RESOURCES,
    names: tuple[str, str] = ("a", "b"),
    documents: int = 1_000_000,
) -> Explanation:
    """Two texts through the stages, as in a corpus that is banded.

    Args:
        a: A text.
        b: Another one.
        settings: The request; defaults otherwise.
        resources: What its Spec names but does not hold.
        names: What the texts are called.
        documents: Corpus size that signs are banded for.

    Examples:
        >>> found = explain("the cat sat on the mat", "the cat sat on the mat today")
        >>> found.verdict, found.similarity, found.shingles.containment
        ('match', 0.8, (1.0, 0.8))
    """
    settings = settings or Settings()
    if settings.spec.unit == "vector":
        raise UsageError("vectors have no words to explain; compare them with nk.estimate and their cosine")
    pair = _Pair((a, b), settings, resources, documents)
    measure, whole = pair.measure, pair.whole()
    sketches = whole.measure.sketcher().sketch(pair.column)
    banding = settings.banding(measure, documents)
    band_layout = whole.measure.band_layout(banding, None)
    keys, agreeing = np.empty((banding.bands, 2), np.uint64), np.empty(1, np.int64)
    make_keys(band_layout, sketches.signatures, np.zeros(2, np.uint64), keys)
    pair_agreements(PAIR, sketches.signatures, band_layout.layout, agreeing)
    similarity = pair.similarity()
    chance = banding.candidate_probability(float(measure.slot_collision_probability(np.array(similarity))))
    found = Explanation(
        names,
        (a, b),
        settings.spec.measure,
        settings.threshold,
        similarity,
        float(whole.measure.estimate(PAIR, agreeing).similarity[0]),
        int(agreeing[0]),
        settings.spec.k,
        banding.margin,
        int((keys[:, 0] == keys[:, 1]).sum()),
        banding.bands,
        banding.rows,
        float(chance),
        shingles_of(a, b, settings, resources),
        "",
        "",
    )
    exact = bool((sketches.fingerprints[0] == sketches.fingerprints[1]).all())
    return judged(found, exact, bool((sketches.shingles == 0).any()))


def judged(found: Explanation, exact: bool, empty: bool) -> Explanation:
    """With the verdict of the stage that decided."""
    near = found.similarity >= found.threshold
    least = f"the threshold {found.threshold:g}"
    if empty:
        verdict, why = "empty", "one of them has no shingle to compare, and such documents match nothing"
    elif exact:
        verdict, why = "exact", "the same words in the same order: exact duplicates"
    elif found.shared_bands == 0:
        chance = f"a pair of similarity {found.similarity:.3f} becomes a candidate with probability {found.probability:.3f}"
        verdict, why = "not a candidate", f"none of {found.bands} bands agrees; {chance}"
    elif found.agreeing < found.margin:
        verdict = "below the margin"
        why = f"{found.agreeing} of {found.slots} slots agree, fewer than the {found.margin} that an exact comparison needs"
    elif not near:
        verdict, why = "below the threshold", f"compared exactly: {found.similarity:.4f} is below {least}"
    else:
        verdict, why = "match", f"compared exactly: {found.similarity:.4f} is at least {least}"
    if near and verdict in ("not a candidate", "below the margin"):
        why += "; it would have been a match (ask for more --recall)"
    return replace(found, verdict=verdict, why=why)


def shingles_of(a: str, b: str, settings: Settings, resources: SpecResources) -> Shingles:
    """Counts by the hashes of the Spec, examples by the words as they are read."""
    builder = SetBuilder(resources.shingler(settings.spec))
    sets = builder.sets(pa.array([a, b], pa.large_string()))
    first, second = np.split(sets.hashes, [int(sets.sizes[0])])
    shared = int(_contains(first, second).sum())
    both, left = _examples(a, first, second, builder, settings.spec)
    _, right = _examples(b, second, first, builder, settings.spec)
    return Shingles((len(first), len(second)), shared, (both, left, right))


def _examples(
    text: str, own: np.ndarray, others: np.ndarray, builder: SetBuilder, spec: Spec
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Finds shingles of a text as words: some that the other text has too, and some that it does not have.

    They are looked for at the beginning of the text, and classified by their hashes as the comparison does, so that time and
    memory do not grow with the text beyond what its hashes take.

    Args:
        text: The text.
        own: Sorted distinct hashes of its shingles, uint64 (n,).
        others: Sorted distinct hashes of the other text's, uint64 (m,).
        builder: Hashes shingles.
        spec: The Spec of the shingles.
    """
    candidates = list(dict.fromkeys(windows(text[:READ_FOR_EXAMPLES], spec)))
    sets = builder.sets(pa.array(candidates, pa.large_string()))
    # a window that does not give exactly one shingle of the text (the last one may be cut) is no example
    single = np.flatnonzero(sets.sizes == 1)
    hashes = sets.hashes[(np.cumsum(sets.sizes) - sets.sizes)[single]]
    there = _contains(own, hashes)
    single = single[there]
    hashes = hashes[there]
    shared = _contains(others, hashes)
    both = tuple(candidates[at] for at in single[shared][:SHOWN])
    only = tuple(candidates[at] for at in single[~shared][:SHOWN])
    return both, only


def _contains(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns which of the wanted hashes are among the values, bool (m,).

    Args:
        values: Sorted, uint64 (n,).
        wanted: In any order, uint64 (m,).
    """
    if not len(values):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    found: np.ndarray = values[places] == wanted
    return found


def windows(text: str, spec: Spec) -> list[str]:
    """Shingles as text, lower-cased; close to what is hashed (normalisation apart)."""
    units, joint = units_of(text, spec)
    return [joint.join(units[i : i + spec.n]) for i in range(max(1, len(units) - spec.n + 1))] if units else []


def units_of(text: str, spec: Spec) -> tuple[list[str], str]:
    """Words or characters of a text, lower-cased, and what goes between them."""
    if spec.unit == "words":
        return WORD.findall(text.lower()), " "
    return list(" ".join(text.lower().split())), ""


def find_documents(corpus: Corpus, columns: Columns, clusters: Path, ids: tuple[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Text and row of the clusters table of two documents of a run.

    Raises:
        UsageError: The run has no such document.
    """
    table = pq.read_table(clusters)
    found: list[tuple[str, dict[str, Any]]] = []
    for name in ids:
        at = pc.index(table["id"], name).as_py()
        if at < 0:
            raise UsageError(f"the run has no document {name!r}; its ids are in {clusters}")
        found.append((_text_at(corpus, columns, at), table.slice(at, 1).to_pylist()[0]))
    return found


def _text_at(corpus: Corpus, columns: Columns, ordinal: int) -> str:
    for batch in corpus.batches(columns):
        if ordinal < batch.first + len(batch.rows):
            value = batch.documents[columns.content][ordinal - batch.first].as_py()
            return value if isinstance(value, str) else " ".join(map(str, value))
    raise UsageError(f"the corpus ends before document {ordinal}; has it changed since the run?")


def in_run(found: Explanation, rows: tuple[Mapping[str, Any], Mapping[str, Any]], compared_all: bool) -> Explanation:
    """What became of the two in a run, with the reason where it is another than the stages'."""
    a, b = rows
    why = found.why
    if compared_all and found.verdict in ("not a candidate", "below the margin"):
        near = found.similarity >= found.threshold
        verdict = "match" if near else "below the threshold"
        why = f"the run compared every pair exactly: {found.similarity:.4f}"
        found = replace(found, verdict=verdict)
    if a["cluster"] == b["cluster"]:
        why += f"; both are in the cluster of {a['cluster']}"
    elif found.verdict in ("match", "exact"):
        moved = [row for row in rows if not row["kept"]]
        why += "".join(f"; {row['id']} joined {row['cluster']}, at {row['similarity']:.4f}" for row in moved)
        if not moved:
            why += "; both are kept, for each was compared with other kept documents first"
    return replace(found, why=why, run=rows)
