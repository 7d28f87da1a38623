"""Generates corpora with a known truth: clusters of edited copies with exact similarities.

Every document is a function of the seed and its number. The corpus is therefore written in one
pass, in shuffled order, in constant memory except one number for each cluster. The truth is
computed from the same texts, which are generated a second time.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.errors import UsageError
from nearkin.quality.lab import kernels
from nearkin.runtime.argument_types import check_arguments, check_fields, require_seed
from nearkin.runtime.number_range import SHARE, NumberRange
from nearkin.runtime.outputs import published_folder
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.suggestions import did_you_mean, require_choice
from nearkin.runtime.threads import ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.packed_pairs import unpack_pairs
from nearkin.stages.shingle import Shingler
from nearkin.stages.verify.jaccard import SetBuilder, compare_sets

BATCH_DOCUMENTS = 4096
MAX_ALL_PAIRS_SIZE = 32
"""The truth contains all pairs of clusters up to this size, and the pairs with the original of
larger clusters."""
FREQUENCY_TABLE_SIZE = 1 << 18
VOCABULARY_SIZE = 50_000
MAX_WORDS = 1 << 20
"""The largest number of words of a document."""
STANDARD_PARAGRAPHS = 20
SOURCES = ("web", "news", "books", "gold")
OPERATIONS = {"substitute": 0, "delete": 1, "insert": 2, "swap": 3, "typo": 4}
FORMATS = ("parquet", "jsonl")
LENGTH, COPIES, TARGET, BOILERPLATE, SOURCE = range(5)
"""The independent uses of the seed."""
HOSTILE_TEXTS: tuple[str | None, ...] = (
    "",
    " \n\t ",
    "word",
    "again " * 20_000,
    "x" * 200_000,
    "e" + "\u0301" * 5_000,
    "\u202eright\u202c \u200bzero\u200b width\ufeff \u0000 null",
    "👩‍👩‍👧‍👦" * 500,
    "<div>" * 5_000 + "&amp;" * 5_000,
    "漢字かな交じり文" * 2_000,
    "\ufdfa" * 2_000,
    None,
)
TRUTH = pa.schema(
    [
        ("id_a", pa.large_string()),
        ("id_b", pa.large_string()),
        ("similarity", pa.float64()),
        ("cluster", pa.int64()),
    ]
)
WORDS = re.compile(r"\w+")
MOST_COPIES = 1000
"""The largest number of copies of an original."""


@dataclass(frozen=True)
class SynthSettings:
    """The settings of a synthetic corpus.

    Attributes:
        documents: Number of documents.
        length: Approximate size of a document in bytes: `fixed:1500`, `uniform:500:3000` or
            `lognormal:1500:0.5` (median, sigma).
        clustered: Share of the documents that are in clusters of near-duplicates.
        copies: Mean number of copies of an original (geometric distribution).
        similarity: Range from which the planned similarity of each copy to its original is drawn.
            The similarities in the truth are exact.
        operations: Weights of the edits: substitute, delete, insert, swap (of sentences), typo.
        exact: Share of the copies that are exact.
        boilerplate: Share of the documents that end in one of twenty standard paragraphs.
        hot_clusters: Number of clusters of `hot_size` documents.
        hot_size: Number of documents in each of these clusters.
        hostile: Number of documents that programs often fail on (empty, very long, zero-width,
            null).
        files: Number of files over which the documents are distributed.
        format: Format of the files: `parquet` or `jsonl`.
        seed: Random seed of the corpus.
    """

    documents: int = 100_000
    length: str = "lognormal:1500:0.5"
    clustered: float = 0.25
    copies: float = 1.5
    similarity: tuple[float, float] = (0.6, 1.0)
    operations: dict[str, float] = field(
        default_factory=lambda: {
            "substitute": 4.0,
            "delete": 1.0,
            "insert": 1.0,
            "swap": 0.25,
            "typo": 1.0,
        }
    )
    exact: float = 0.1
    boilerplate: float = 0.0
    hot_clusters: int = 0
    hot_size: int = 1000
    hostile: int = 0
    files: int = 1
    format: str = "parquet"
    seed: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("clustered", "exact", "boilerplate"):
            SHARE.require(name, getattr(self, name))
        low, high = self.similarity
        if not 0 < low <= high <= 1:
            raise UsageError(
                f"similarity {low}:{high} is not a range; give two numbers above 0 and at most 1, "
                "the smaller one first, for example 0.6:1.0"
            )
        if unknown := sorted(set(self.operations) - set(OPERATIONS)):
            raise UsageError(
                f"unknown operation {unknown[0]!r}; valid operations are {', '.join(OPERATIONS)}"
                f"{did_you_mean(unknown[0], OPERATIONS)}"
            )
        self._check_counts()
        weights = self.operations.values()
        if not (all(weight >= 0 for weight in weights) and 0 < sum(weights) < math.inf):
            raise UsageError(
                f"the weights of operations {self.operations} are out of range; give at least 0 "
                "for each, and more for one of them, for example substitute=4,typo=1"
            )
        require_choice("format", self.format, FORMATS)
        self._check_length()

    def _check_length(self) -> None:
        shortest, median, longest = sorted(map(self.bytes_at, (0.0, 0.5, 1.0)))
        if not (0 <= shortest <= longest < math.inf and median > 0):
            raise UsageError(
                f"length {self.length!r} is out of range; give sizes above 0 bytes, for example "
                "lognormal:1500:0.5"
            )

    def _check_counts(self) -> None:
        least = {"documents": 0, "hot_clusters": 0, "hot_size": 1, "hostile": 0, "files": 1}
        for name, low in least.items():
            NumberRange(low, 2**63 - 1).require(name, getattr(self, name))
        NumberRange(1, MOST_COPIES).require("copies", self.copies)
        require_seed("seed", self.seed)
        if self.hostile + self.hot_clusters * self.hot_size > self.documents:
            raise UsageError(
                f"{self.documents} documents are fewer than those of hostile and hot_clusters "
                "together; raise documents"
            )

    @check_arguments
    def bytes_at(self, quantile: float) -> float:
        """Returns the size of a document in bytes at a quantile of the distribution, in [0, 1].

        Args:
            quantile: Quantile of the sizes, in [0, 1].

        Raises:
            UsageError: If the distribution of the lengths is not valid.
        """
        kind, *numbers = self.length.split(":")
        try:
            values = [float(number) for number in numbers]
            if kind == "fixed" and len(values) == 1:
                return values[0]
            if kind == "uniform" and len(values) == 2:
                return values[0] + (values[1] - values[0]) * quantile
            if kind == "lognormal" and len(values) == 2:
                spread = NormalDist().inv_cdf(min(max(quantile, 1e-6), 1 - 1e-6))
                with np.errstate(over="ignore"):
                    return float(values[0] * np.exp(values[1] * spread))
        except ValueError:
            pass
        raise UsageError(
            f"length {self.length!r} is not of the form fixed:1500, uniform:500:3000 or "
            "lognormal:1500:0.5"
        )


class Vocabulary(NamedTuple):
    """The words of a corpus and their frequencies."""

    words: np.ndarray
    """The words in UTF-8, one after the other, uint8."""
    starts: np.ndarray
    """The position of each word in `words`, int64 (n + 1,)."""
    frequencies: np.ndarray
    """The numbers of words, each as often as its probability demands, uint32."""
    mean: float
    """The mean size of a word and the following space, in bytes."""

    @classmethod
    def from_words(cls, words: list[str], weights: np.ndarray) -> "Vocabulary":
        """Returns a vocabulary of words with weights, float64 (n,)."""
        encoded = [word.encode() for word in words]
        bounds = np.round(np.cumsum(weights) / weights.sum() * FREQUENCY_TABLE_SIZE).astype(
            np.int64
        )
        frequencies = np.repeat(np.arange(len(words), dtype=np.uint32), np.diff(bounds, prepend=0))
        starts = np.concatenate([[0], np.cumsum([len(word) for word in encoded])]).astype(np.int64)
        mean = float(np.diff(starts)[frequencies].mean()) + 1.1
        return cls(np.frombuffer(b"".join(encoded), np.uint8).copy(), starts, frequencies, mean)

    @classmethod
    def from_text(cls, text: str) -> "Vocabulary":
        """Returns the words of a text with their frequencies."""
        counts = Counter(WORDS.findall(text.lower())).most_common((1 << 24) - 1)
        if not counts:
            raise UsageError("the text for the vocabulary contains no word; give another text")
        return cls.from_words(
            [word for word, _ in counts], np.array([count for _, count in counts], float)
        )

    @classmethod
    def invented(cls) -> "Vocabulary":
        """Returns pronounceable words, distributed by Zipf's law."""
        onsets = ("b", "br", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
        rhymes = ("a", "an", "e", "er", "i", "in", "o", "on", "u", "ar", "es", "it")
        syllables = [onset + rhyme for onset in onsets for rhyme in rhymes]
        words = list(syllables) + [a + b for a in syllables for b in syllables]
        words += [a + b + c for a in syllables[:20] for b in syllables[::3] for c in syllables[::9]]
        words = list(dict.fromkeys(words))[:VOCABULARY_SIZE]
        return cls.from_words(words, 1 / (np.arange(len(words)) + 2.7))


class PlannedRows(NamedTuple):
    """The documents of some rows: group, number in the group, and hostile text or -1."""

    groups: np.ndarray
    members: np.ndarray
    hostile: np.ndarray


class CorpusPlan:
    """The assignment of document numbers to groups.

    Hostile documents come first, then hot clusters, clusters and single documents.
    """

    def __init__(self, settings: SynthSettings) -> None:
        """Assigns the document numbers of a corpus with some settings."""
        self.settings = settings
        hot = settings.hot_clusters * settings.hot_size
        room = max(0, round(settings.documents * settings.clustered) - hot)
        sizes = np.concatenate(
            [np.full(settings.hot_clusters, settings.hot_size), self._cluster_sizes(room)]
        ).astype(np.int64)
        self.starts = settings.hostile + np.concatenate([[0], np.cumsum(sizes)])
        self.half_bits = max(1, -(-max(settings.documents - 1, 1).bit_length() // 2))

    def _cluster_sizes(self, room: int) -> np.ndarray:
        room = min(
            room,
            self.settings.documents
            - self.settings.hostile
            - self.settings.hot_clusters * self.settings.hot_size,
        )
        if room < 2:
            return np.empty(0, np.int64)
        uniform = draw_uniforms(self.settings.seed, COPIES, np.arange(room // 2 + 1))
        stay = 1 - 1 / self.settings.copies
        copies = 1 + (
            np.floor(np.log(1 - uniform) / np.log(stay)) if stay > 0 else np.zeros(len(uniform))
        )
        sizes = 1 + np.minimum(copies, MOST_COPIES).astype(np.int64)
        fitting = int(np.searchsorted(np.cumsum(sizes), room, side="right"))
        return sizes[:fitting]

    def rows(self, first: int, count: int) -> PlannedRows:
        """Returns the documents of consecutive output rows, which are in shuffled order."""
        numbers = np.empty(count, np.int64)
        kernels.permute_all(
            first,
            np.uint64(self.settings.documents),
            np.uint64(self.half_bits),
            np.uint64(self.settings.seed),
            numbers,
        )
        return self.rows_of(numbers)

    def rows_of(self, numbers: np.ndarray) -> PlannedRows:
        """Returns the documents with some numbers, int64 (n,)."""
        cluster = np.searchsorted(self.starts, numbers, side="right") - 1
        clusters = len(self.starts) - 1
        inside = (cluster >= 0) & (cluster < clusters)
        at = np.clip(cluster, 0, max(clusters - 1, 0))
        groups = np.where(inside, cluster, numbers + clusters)
        members = np.where(inside, numbers - self.starts[at], 0)
        hostile = np.where(numbers < self.settings.hostile, numbers % len(HOSTILE_TEXTS), -1)
        return PlannedRows(groups, members, hostile)

    @cached_property
    def places(self) -> np.ndarray:
        """The output row of each clustered document, from the first one, int64."""
        numbers = np.empty(self.settings.documents, np.int64)
        kernels.permute_all(
            0,
            np.uint64(self.settings.documents),
            np.uint64(self.half_bits),
            np.uint64(self.settings.seed),
            numbers,
        )
        rows = np.empty(self.settings.documents, np.int64)
        rows[numbers] = np.arange(self.settings.documents)
        return rows[int(self.starts[0]) : int(self.starts[-1])]


def draw_uniforms(seed: int, use: int, keys: np.ndarray) -> np.ndarray:
    """Returns a uniform random number in [0, 1) for each key, float64 (n,)."""
    out = np.empty(len(keys))
    kernels.draw_uniform(np.uint64((seed * 64 + use) % 2**64), keys.astype(np.int64), out)
    return out


class TextGenerator:
    """Generates the texts of planned rows. Its methods may be called from several threads."""

    def __init__(self, settings: SynthSettings, vocabulary: Vocabulary) -> None:
        """Creates a generator."""
        self.settings = settings
        self.vocabulary = vocabulary
        weights = np.array([settings.operations.get(name, 0.0) for name in OPERATIONS])
        self._operations = np.repeat(
            np.arange(len(weights)), np.ceil(weights / weights.sum() * 1000).astype(int)
        )
        quantiles = np.linspace(0, 1, 1025)
        self._words = np.clip(
            [settings.bytes_at(q) / vocabulary.mean for q in quantiles], 1, MAX_WORDS
        )

    def texts(self, rows: PlannedRows) -> pa.Array:
        """Returns the texts of some documents, large_string (n,)."""
        settings = self.settings
        vocabulary = self.vocabulary
        seed = settings.seed
        groups = rows.groups
        lengths = np.interp(
            draw_uniforms(seed, LENGTH, groups), np.linspace(0, 1, 1025), self._words
        ).astype(np.int64)
        own = groups * 1_000_003 + rows.members
        low, high = settings.similarity
        target = low + (high - low) * draw_uniforms(seed, TARGET, own)
        target[draw_uniforms(seed, COPIES, -own - 1) < settings.exact] = 1.0
        standard = draw_uniforms(seed, BOILERPLATE, groups)
        boilerplate = np.where(
            standard < settings.boilerplate,
            (standard * 1e6).astype(np.int64) % STANDARD_PARAGRAPHS,
            -1,
        )
        most = int(lengths.max(initial=1))
        longest = int(np.diff(vocabulary.starts).max()) + 2
        tokens = np.empty((2, most * 2 + 64), np.uint32)
        out = np.empty(int((lengths * 2 + 64).sum()) * longest, np.uint8)
        offsets = np.empty(len(groups) + 1, np.int64)
        kernels.render_documents(
            groups,
            rows.members,
            lengths,
            target,
            boilerplate,
            np.uint64(seed),
            vocabulary.frequencies,
            self._operations,
            vocabulary.words,
            vocabulary.starts,
            tokens,
            out,
            offsets,
        )
        data = out[: offsets[-1]].tobytes()
        texts = pa.Array.from_buffers(
            pa.large_string(), len(groups), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        return _insert_hostile_texts(texts, rows.hostile)


def _insert_hostile_texts(texts: pa.Array, hostile: np.ndarray) -> pa.Array:
    if not (hostile >= 0).any():
        return texts
    values = texts.to_pylist()
    for at in np.flatnonzero(hostile >= 0).tolist():
        values[at] = HOSTILE_TEXTS[int(hostile[at])]
    return pa.array(values, pa.large_string())


@check_arguments
def synth(
    out: str | Path,
    settings: SynthSettings | None = None,
    *,
    vocabulary: str | None = None,
    spec: Spec | None = None,
    workers: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> dict[str, object]:
    """Writes a synthetic corpus and its truth into a new folder, which appears when it is complete.

    `documents/*.parquet` (or .jsonl) has the columns id, text and source. `truth.parquet` has the
    columns id_a, id_b, similarity (the Jaccard similarity of the shingles of `spec`) and cluster.
    `synth.json` contains the settings and counts.

    Args:
        out: Folder to create.
        settings: Settings of the corpus. The default settings are used if it is None.
        vocabulary: Text whose words are used with their frequencies. Invented words by default.
        spec: Spec that defines the similarity. The default Spec is used if it is None.
        workers: Number of threads. By default, the cores that the process may use.
        advance: Receives the number of documents of each written batch.

    Returns:
        The content of synth.json.

    Raises:
        UsageError: If `out` exists.
        RunError: If the folder cannot be written.
    """
    settings = settings or SynthSettings()
    words = Vocabulary.from_text(vocabulary) if vocabulary is not None else Vocabulary.invented()
    plan, generator = CorpusPlan(settings), TextGenerator(settings, words)
    threads = workers_or_cores(workers)
    with published_folder(Path(out), "nearkin lab synth") as staged:
        (staged / "documents").mkdir()
        bytes_written = _write_documents(
            staged / "documents", plan, generator, threads, advance or (lambda _: None)
        )
        pairs = _write_truth(staged / "truth.parquet", plan, generator, spec or Spec(), threads)
        facts = {
            **asdict(settings),
            "spec": orjson.loads((spec or Spec()).to_json()),
            "clusters": len(plan.starts) - 1,
            "planted_pairs": pairs,
            "text_bytes": bytes_written,
        }
        (staged / "synth.json").write_bytes(
            orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
        )
    return facts


def _write_documents(
    folder: Path,
    plan: CorpusPlan,
    generator: TextGenerator,
    workers: int,
    advance: Callable[[int], None],
) -> int:
    settings, total = plan.settings, 0
    bounds = np.linspace(0, settings.documents, settings.files + 1).astype(int).tolist()
    for number, (first, last) in enumerate(pairwise(bounds)):
        path = folder / f"part-{number:05d}.{settings.format}"
        with _ParquetSink(path) if settings.format == "parquet" else _JsonSink(path) as sink:
            for batch in _generate_batches(plan, generator, first, last, workers):
                sink.write(batch)
                total += batch["text"].nbytes
                advance(len(batch))
    return total


def _generate_batches(
    plan: CorpusPlan, generator: TextGenerator, first: int, last: int, workers: int
) -> Iterator[pa.RecordBatch]:
    step = max(1, min(BATCH_DOCUMENTS, int(2**24 / generator.settings.bytes_at(0.9))))

    def make(start: int) -> pa.RecordBatch:
        count = min(step, last - start)
        rows = plan.rows(start, count)
        sources = pa.array(SOURCES).take(
            pa.array((draw_uniforms(plan.settings.seed, SOURCE, rows.groups) * 4).astype(np.int64))
        )
        return pa.record_batch(
            [_make_ids(np.arange(start, start + count)), generator.texts(rows), sources],
            ["id", "text", "source"],
        )

    yield from ordered_map(make, range(first, last, step), workers)


def _make_ids(rows: np.ndarray) -> pa.Array:
    return pa.array([f"d{row:010d}" for row in rows.tolist()], pa.large_string())


class _ParquetSink:
    def __init__(self, path: Path) -> None:
        schema = pa.schema(
            [("id", pa.large_string()), ("text", pa.large_string()), ("source", pa.string())]
        )
        self._writer = pq.ParquetWriter(
            path, schema, compression="snappy", use_dictionary=["source"]
        )
        self._held: list[pa.RecordBatch] = []

    def __enter__(self) -> "_ParquetSink":
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        if sum(len(texts) for texts in self._held) >= 50_000:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held))
        self._held = []

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()


class _JsonSink:
    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def __enter__(self) -> "_JsonSink":
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write(
            b"".join(
                orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in batch.to_pylist()
            )
        )

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _write_truth(
    path: Path, plan: CorpusPlan, generator: TextGenerator, spec: Spec, workers: int
) -> int:
    """Writes the exact similarity of every planted pair in the order of the clusters."""
    cuts = np.searchsorted(
        plan.starts, np.arange(plan.starts[0], plan.starts[-1] + BATCH_DOCUMENTS, BATCH_DOCUMENTS)
    )
    bounds = np.unique(np.clip(cuts, 0, len(plan.starts) - 1)).tolist()
    ranges = dict(pairwise(bounds))
    count = 0
    with pq.ParquetWriter(path, TRUTH, compression="zstd") as writer:
        for batch in ordered_map(
            lambda low: _truth_of_clusters(plan, generator, spec, low, ranges[low]), ranges, workers
        ):
            writer.write_batch(batch)
            count += len(batch)
    return count


def _truth_of_clusters(
    plan: CorpusPlan, generator: TextGenerator, spec: Spec, low: int, high: int
) -> pa.RecordBatch:
    first, last = int(plan.starts[low]), int(plan.starts[high])
    sets = SetBuilder(Shingler(spec)).build(generator.texts(plan.rows_of(np.arange(first, last))))
    pairs, cluster = [], []
    for number in range(low, high):
        members = range(int(plan.starts[number]) - first, int(plan.starts[number + 1]) - first)
        true_pairs = (
            combinations(members, 2)
            if len(members) <= MAX_ALL_PAIRS_SIZE
            else ((members[0], other) for other in members[1:])
        )
        packed = [a << 32 | b for a, b in true_pairs]
        pairs += packed
        cluster += [number] * len(packed)
    packed_pairs = np.array(pairs, np.uint64)
    starts = np.concatenate([[0], np.cumsum(sets.sizes)]).astype(np.int64)
    scored = compare_sets(
        packed_pairs, np.arange(last - first, dtype=np.uint32), starts, sets.hashes
    )
    rows = plan.places[first - int(plan.starts[0]) :]
    ends = [rows[documents] for documents in unpack_pairs(packed_pairs)]
    columns = [
        _make_ids(np.minimum(*ends)),
        _make_ids(np.maximum(*ends)),
        pa.array(scored.similarity),
        pa.array(cluster, pa.int64()),
    ]
    return pa.record_batch(columns, schema=TRUTH)
