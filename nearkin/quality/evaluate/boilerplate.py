"""Finds boilerplate: phrases that the largest share of the kept documents have, by source."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.document_frequencies import count_repeated
from nearkin.engine.documents import take_values
from nearkin.settings.spec import Spec
from nearkin.stages.shingle import text_buffers
from nearkin.stages.shingle.readable import shingle_texts, split_units
from nearkin.stages.sketch.minhash import splitmix64
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.sketch.sketcher import iterate_streams
from nearkin.stages.verify.jaccard import distinct_sets

MAX_SAMPLE = 4000
"""The largest number of sampled documents."""
SAMPLE_BYTES = 3 << 20
"""The approximate size of the sampled texts in bytes. The sample has fewer documents if they are
long."""
SAMPLE_CHARACTERS = 20_000
"""The number of characters at the beginning of a document that are sampled."""
MIN_SHARE = 0.01
"""The smallest share of the sampled documents that contain a boilerplate shingle."""
MIN_DOCUMENTS = 10
"""The smallest number of sampled documents that contain a boilerplate shingle."""
MAX_PHRASES = 20
"""The largest number of phrases."""
SOURCES_PER_PHRASE = 3
"""The number of sources that are listed for a phrase."""
PHRASE_CHARACTERS = 300
"""The number of characters of a phrase that are shown."""
CONTINUATION_SHARE = 0.8
"""A shingle continues a phrase if at least this share of the documents of the phrase's most
frequent shingle contain it."""


class SourceShare(NamedTuple):
    """The share of the sampled documents of a source that contain a phrase."""

    source: str
    share: float


@dataclass(frozen=True)
class Phrase:
    """Consecutive shingles that many documents contain.

    Attributes:
        text: Words of the phrase in lower case, shortened.
        shingles: Number of shingles.
        share: Share of the sampled documents that contain the most frequent of the shingles.
        sources: Sources with the largest shares.
        cut: True if the frequency cut of the run removed these shingles.
    """

    text: str
    shingles: int
    share: float
    sources: tuple[SourceShare, ...]
    cut: bool


@dataclass(frozen=True)
class Boilerplate:
    """The boilerplate of the kept documents.

    Attributes:
        sampled: Number of sampled kept documents.
        phrases: Phrases, the most frequent first.
        listed: Number of shingles that the frequency cut of the run removed, or None without a cut.
    """

    sampled: int
    phrases: tuple[Phrase, ...]
    listed: int | None = None


def sample_size(mean_bytes: float) -> int:
    """Returns the largest number of documents of a sample, by their mean size in bytes.

    Examples:
        >>> sample_size(500), sample_size(10_000)
        (4000, 314)
    """
    return min(MAX_SAMPLE, int(SAMPLE_BYTES / max(min(mean_bytes, SAMPLE_CHARACTERS), 1)))


class TextSample:
    """A random sample of documents, collected while a corpus is read for another purpose."""

    def __init__(self, ordinals: np.ndarray, mean_bytes: float = 0.0, seed: int = 1) -> None:
        """Draws the sample from documents, int64 (n,) ascending, whose mean size is in bytes."""
        size = sample_size(mean_bytes)
        if len(ordinals) > size:
            ranks = splitmix64(seed, int(ordinals[-1]) + 1)[ordinals]
            ordinals = np.sort(ordinals[np.argpartition(ranks, size)[:size]])
        self.ordinals = ordinals
        self._parts: list[pa.Array] = []

    def observe(self, first: int, documents: pa.Array) -> None:
        """Takes the sampled documents of a batch."""
        low, high = np.searchsorted(self.ordinals, [first, first + len(documents)])
        if high <= low:
            return
        sampled = documents.take(pa.array(self.ordinals[low:high] - first))
        if pa.types.is_large_list(sampled.type):
            lists = [tokens[: SAMPLE_CHARACTERS // 8] for tokens in sampled.to_pylist()]
            self._parts.append(pa.array(lists, sampled.type))
        else:
            self._parts.append(pc.utf8_slice_codeunits(sampled, 0, SAMPLE_CHARACTERS))

    @property
    def documents(self) -> pa.Array:
        """The sampled texts or lists of tokens, in the order of their ordinals."""
        return pa.concat_arrays(self._parts) if self._parts else pa.array([], pa.large_string())


def find_boilerplate(
    sample: TextSample,
    spec: Spec,
    resources: SpecResources,
    sources: pa.ChunkedArray | None = None,
) -> Boilerplate:
    """Finds the phrases that many documents of a sample contain.

    `sources` are those of all documents of the corpus, large_string (n,).
    """
    documents = sample.documents
    cut_hashes = None if resources.cut is None else resources.cut.hashes
    listed = None if cut_hashes is None else len(cut_hashes)
    shingler = resources.shingler(spec)
    hashes = []
    sizes = []
    for _, stream in iterate_streams(shingler, documents):
        hashes.append(stream.hashes.copy())
        sizes.append(np.diff(stream.offsets))
    if not hashes:
        return Boilerplate(0, (), listed)
    streams = _SampleShingles.from_streams(np.concatenate(hashes), np.concatenate(sizes))
    labels = None
    if sources is not None:
        sampled_sources = take_values(sources, np.asarray(sample.ordinals)).cast(pa.large_string())
        labels = pc.fill_null(sampled_sources, "(none)")
    phrases = []
    for sequence in _find_sequences(streams):
        containing = streams.documents_with(sequence.hash)
        text = _sequence_text(documents, sequence, streams, spec, resources)
        phrases.append(
            Phrase(
                text=text[:PHRASE_CHARACTERS],
                shingles=sequence.end - sequence.start,
                share=len(containing) / len(documents),
                sources=() if labels is None else _source_shares(labels, containing),
                cut=cut_hashes is not None and bool(np.isin(sequence.hash, cut_hashes)),
            )
        )
    return Boilerplate(len(documents), tuple(phrases), listed)


class _ShingleSequence(NamedTuple):
    """Consecutive shingles of one document, as positions in the shingles of the sample."""

    hash: np.uint64
    """The hash of the most frequent shingle."""
    document: int
    start: int
    end: int


class _SampleShingles(NamedTuple):
    """The shingles of the sample."""

    hashes: np.ndarray
    """The shingles of all documents in the order of their texts, uint64."""
    offsets: np.ndarray
    """The position of each document in `hashes`, int64 (documents + 1,)."""
    distinct: np.ndarray
    """The distinct shingles of each document, uint64."""
    owners: np.ndarray
    """The document of each of the distinct shingles, int64."""

    @classmethod
    def from_streams(cls, hashes: np.ndarray, sizes: np.ndarray) -> "_SampleShingles":
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        sets = distinct_sets(hashes, offsets)
        owners = np.repeat(np.arange(len(sizes)), sets.sizes)
        return cls(hashes, offsets, sets.hashes, owners)

    def documents_with(self, shingle: np.uint64) -> np.ndarray:
        return self.owners[self.distinct == shingle]


def _find_sequences(streams: _SampleShingles) -> list[_ShingleSequence]:
    """Returns the phrases as sequences, the most frequent first. No shingle is in two of them."""
    least = max(MIN_DOCUMENTS, MIN_SHARE * (len(streams.offsets) - 1))
    hashes, counts = count_repeated(streams.distinct, least - 1)
    if not len(hashes):
        return []
    position = np.minimum(np.searchsorted(hashes, streams.hashes), len(hashes) - 1)
    position = np.where(hashes[position] == streams.hashes, position, -1)
    frequency = np.where(position >= 0, counts[position].astype(np.int64), 0)
    frequent = np.flatnonzero(position >= 0)
    present, firsts = np.unique(position[frequent], return_index=True)
    first_at = dict(zip(present.tolist(), frequent[firsts].tolist(), strict=True))
    # one more entry than values: the position -1 of shingles that are not frequent
    used = np.zeros(len(hashes) + 1, bool)
    sequences: list[_ShingleSequence] = []
    for number in np.lexsort((hashes, -counts.astype(np.int64))).tolist():
        if used[number]:
            continue
        start = first_at[number]
        end = start + 1
        document = int(np.searchsorted(streams.offsets, start, "right")) - 1
        document_start = streams.offsets[document]
        document_end = streams.offsets[document + 1]
        least_frequency = CONTINUATION_SHARE * counts[number]
        while (
            start > document_start
            and frequency[start - 1] >= least_frequency
            and not used[position[start - 1]]
        ):
            start -= 1
        while end < document_end and frequency[end] >= least_frequency and not used[position[end]]:
            end += 1
        used[position[start:end]] = True
        sequences.append(_ShingleSequence(hashes[number], document, start, end))
        if len(sequences) == MAX_PHRASES:
            break
    return sequences


def _sequence_text(
    documents: pa.Array,
    sequence: _ShingleSequence,
    streams: _SampleShingles,
    spec: Spec,
    resources: SpecResources,
) -> str:
    """Returns the words of a sequence.

    Tokens are found by their position. In a text, the sequence begins at the first shingle whose
    hash is one of the sequence's hashes.
    """
    document = documents[sequence.document].as_py()
    length = sequence.end - sequence.start + spec.n - 1
    if not isinstance(document, str):
        start = sequence.start - int(streams.offsets[sequence.document])
        return " ".join(document[start : start + length])
    shingler = resources.shingler(spec)
    data, offsets = text_buffers(pa.array(shingle_texts(document, spec), pa.large_string()))
    shingles = shingler.texts(data, offsets)
    single = np.flatnonzero(np.diff(shingles.offsets) == 1)
    is_match = np.zeros(len(offsets) - 1, bool)
    sequence_hashes = streams.hashes[sequence.start : sequence.end]
    is_match[single] = np.isin(shingles.hashes[shingles.offsets[single]], sequence_hashes)
    if not is_match.any():
        return ""
    start = int(np.argmax(is_match))
    units, separator = split_units(document, spec)
    return separator.join(units[start : start + length])


def _source_shares(labels: pa.ChunkedArray, containing: np.ndarray) -> tuple[SourceShare, ...]:
    """Returns the sources with the largest share of documents that contain a phrase."""
    totals = {entry["values"]: entry["counts"] for entry in pc.value_counts(labels).to_pylist()}
    matching = pc.value_counts(labels.take(pa.array(containing))).to_pylist()
    shares = [
        SourceShare(entry["values"], entry["counts"] / totals[entry["values"]])
        for entry in matching
    ]
    shares.sort(key=lambda entry: (-entry.share, entry.source))
    return tuple(shares[:SOURCES_PER_PHRASE])
