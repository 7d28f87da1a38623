"""Boilerplate: the shingles that the largest share of the kept documents have, joined to phrases, by source."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.local.document_frequencies import repeated
from nearkin.engine.local.documents import take
from nearkin.shingle import text_buffers
from nearkin.shingle.readable import shingle_texts, split_units
from nearkin.sketch.minhash import splitmix64
from nearkin.sketch.resources import SpecResources
from nearkin.sketch.sketcher import iterate_streams
from nearkin.spec import Spec
from nearkin.verify.jaccard import distinct_sets

SAMPLE, SAMPLE_BYTES = 4000, 3 << 20
"""Kept documents looked at, and about how much of their text: fewer of longer ones."""
CHARACTERS = 20_000
"""Of a document, from its beginning."""
LEAST_SHARE, LEAST_DOCUMENTS = 0.01, 10
PHRASES, SOURCES, SHOWN = 20, 3, 300
ALIKE = 0.8
"""A shingle continues a phrase if it is in at least this share of the documents that the phrase's most frequent one is in."""


class SourceShare(NamedTuple):
    """Share of a source's sampled documents."""

    source: str
    share: float


@dataclass(frozen=True)
class Phrase:
    """Shingles that follow one another in many documents.

    Attributes:
        text: The words, lower-cased, as far as they are shown.
        shingles: How many.
        share: Of the sampled documents, those with the most frequent of the shingles.
        sources: Where it is most frequent.
        cut: Whether the run left it out.
    """

    text: str
    shingles: int
    share: float
    sources: tuple[SourceShare, ...]
    cut: bool


@dataclass(frozen=True)
class Boilerplate:
    """What kept documents have in common.

    Attributes:
        sampled: Kept documents looked at.
        phrases: The most frequent first.
        listed: Shingles that the run left out; None without a frequency cut.
    """

    sampled: int
    phrases: tuple[Phrase, ...]
    listed: int | None = None


class TextSample:
    """Documents drawn at random, collected while a corpus is read for another purpose.

    Args:
        among: int64, ascending: ordinals to draw from.
        mean: Bytes of a document.
        seed: Of the draw.
    """

    def __init__(self, among: np.ndarray, mean: float = 0.0, seed: int = 1) -> None:
        size = min(SAMPLE, int(SAMPLE_BYTES / max(min(mean, CHARACTERS), 1)))
        if len(among) > size:
            ranks = splitmix64(seed, int(among[-1]) + 1)[among]
            among = np.sort(among[np.argpartition(ranks, size)[:size]])
        self.ordinals = among
        self._parts: list[pa.Array] = []

    def observe(self, first: int, documents: pa.Array) -> None:
        """Takes the drawn ones of a batch."""
        low, high = np.searchsorted(self.ordinals, [first, first + len(documents)])
        if high > low:
            some = documents.take(pa.array(self.ordinals[low:high] - first))
            lists = pa.types.is_large_list(some.type)
            self._parts.append(
                _shortened(some) if lists else pc.utf8_slice_codeunits(some, 0, CHARACTERS)
            )

    @property
    def documents(self) -> pa.Array:
        """The texts, or lists of tokens, in the order of the ordinals."""
        return pa.concat_arrays(self._parts) if self._parts else pa.array([], pa.large_string())


def _shortened(lists: pa.Array) -> pa.Array:
    return pa.array([tokens[: CHARACTERS // 8] for tokens in lists.to_pylist()], lists.type)


def boilerplate(
    sample: TextSample, spec: Spec, resources: SpecResources, sources: pa.ChunkedArray | None = None
) -> Boilerplate:
    """The phrases of a sample.

    Args:
        sample: After the corpus was read.
        spec: Of text.
        resources: What the Spec names but does not hold.
        sources: (n,) of the corpus: the source of each document.
    """
    documents = sample.documents
    listed = None if resources.cut is None else resources.cut.hashes
    shingler = resources.shingler(spec)
    parts = [
        (stream.hashes.copy(), np.diff(stream.offsets))
        for _, stream in iterate_streams(shingler, documents)
    ]
    if not parts:
        return Boilerplate(0, (), None if listed is None else len(listed))
    streams = _Streams.of(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    labels = (
        None
        if sources is None
        else pc.fill_null(
            take(sources, np.asarray(sample.ordinals)).cast(pa.large_string()), "(none)"
        )
    )
    phrases = []
    for run in _runs(streams):
        inside = streams.documents_with(run.hash)
        phrases.append(
            Phrase(
                _text(documents, run, streams, spec, resources)[:SHOWN],
                run.end - run.start,
                len(inside) / len(documents),
                () if labels is None else _shares(labels, inside),
                listed is not None and bool(np.isin(run.hash, listed)),
            )
        )
    return Boilerplate(len(documents), tuple(phrases), None if listed is None else len(listed))


class _Run(NamedTuple):
    """Consecutive shingles of one document."""

    hash: np.uint64
    document: int
    start: int
    end: int


class _Streams(NamedTuple):
    """Shingles of the sample in order of the text, and each document's distinct ones."""

    hashes: np.ndarray
    offsets: np.ndarray
    distinct: np.ndarray
    owners: np.ndarray

    @classmethod
    def of(cls, hashes: np.ndarray, sizes: np.ndarray) -> "_Streams":
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        sets = distinct_sets(hashes, offsets)
        return cls(hashes, offsets, sets.hashes, np.repeat(np.arange(len(sizes)), sets.sizes))

    def documents_with(self, value: np.uint64) -> np.ndarray:
        return self.owners[self.distinct == value]


def _runs(streams: _Streams) -> list[_Run]:
    """Phrases, the most frequent first; no shingle in two of them."""
    least = max(LEAST_DOCUMENTS, LEAST_SHARE * (len(streams.offsets) - 1))
    values, counts = repeated(streams.distinct, least - 1)
    if not len(values):
        return []
    place = np.minimum(np.searchsorted(values, streams.hashes), len(values) - 1)
    place = np.where(values[place] == streams.hashes, place, -1)
    times = np.where(place >= 0, counts[place].astype(np.int64), 0)
    frequent = np.flatnonzero(place >= 0)
    found, firsts = np.unique(place[frequent], return_index=True)
    first_at = dict(zip(found.tolist(), frequent[firsts].tolist(), strict=True))
    used, out = np.zeros(len(values) + 1, bool), list[_Run]()
    for value in np.lexsort((values, -counts.astype(np.int64))).tolist():
        if used[value]:
            continue
        at = first_at[value]
        document = int(np.searchsorted(streams.offsets, at, "right")) - 1
        start, end = at, at + 1
        good = ALIKE * counts[value]
        while (
            start > streams.offsets[document]
            and times[start - 1] >= good
            and not used[place[start - 1]]
        ):
            start -= 1
        while end < streams.offsets[document + 1] and times[end] >= good and not used[place[end]]:
            end += 1
        used[place[start:end]] = True
        out.append(_Run(values[value], document, start, end))
        if len(out) == PHRASES:
            break
    return out


def _text(
    documents: pa.Array, run: _Run, streams: _Streams, spec: Spec, resources: SpecResources
) -> str:
    """The words of a run: tokens by their places, texts from the first window on whose hash alone is one of the run's."""
    document = documents[run.document].as_py()
    if not isinstance(document, str):
        at = run.start - int(streams.offsets[run.document])
        return " ".join(document[at : at + run.end - run.start + spec.n - 1])
    shingler = resources.shingler(spec)
    data, offsets = text_buffers(pa.array(shingle_texts(document, spec), pa.large_string()))
    alone = shingler.texts(data, offsets)
    single = np.flatnonzero(np.diff(alone.offsets) == 1)
    matching = np.zeros(len(offsets) - 1, bool)
    matching[single] = np.isin(
        alone.hashes[alone.offsets[single]], streams.hashes[run.start : run.end]
    )
    if not matching.any():
        return ""
    start = int(np.argmax(matching))
    units, joint = split_units(document, spec)
    return joint.join(units[start : start + run.end - run.start + spec.n - 1])


def _shares(labels: pa.ChunkedArray, inside: np.ndarray) -> tuple[SourceShare, ...]:
    """The sources with the largest share of documents that have it, ties by name."""
    totals = {entry["values"]: entry["counts"] for entry in pc.value_counts(labels).to_pylist()}
    having = {
        entry["values"]: entry["counts"]
        for entry in pc.value_counts(labels.take(pa.array(inside))).to_pylist()
    }
    shares = [SourceShare(name, count / totals[name]) for name, count in having.items()]
    return tuple(sorted(shares, key=lambda entry: (-entry.share, entry.source))[:SOURCES])
