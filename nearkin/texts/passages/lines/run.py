"""A run that finds the lines that occur several times, and cuts them.

The corpus is read once, and the places of all lines are written to files. The frequencies are
counted partition by partition. Documents with lines to cut are then read again.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Batch, Columns
from nearkin.corpus.document_count import estimate_documents
from nearkin.engine.documents import take_values
from nearkin.engine.work_folder import map_file
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.cluster.keep import KeepPolicy
from nearkin.stages.shingle.shingler import Shingler, text_buffers
from nearkin.texts.passages.cutting.boundaries import UNIT_ENDS
from nearkin.texts.passages.cutting.run import (
    BOUNDS_FILE,
    NO_KEEPER,
    REMOVED_AFTER,
    TEXT_FILE,
    CutTexts,
    parse_document_policy,
    require_one_column,
)
from nearkin.texts.passages.documents import ID, SOURCE
from nearkin.texts.passages.lines.frequencies import (
    HALF,
    LINES,
    RepeatedLines,
    find_repeated_lines,
)
from nearkin.texts.passages.lines.request import LinesAction, LinesRequest
from nearkin.texts.passages.partitions import PartitionWriter
from nearkin.texts.passages.run import DocumentRun

LINES_FOLDER = "lines"
COUNTING_STAGE = "line-frequencies"
LISTED_FILE = "repeated-lines"
SOURCES_FILE = "repeated-line-sources"
QUOTED_BYTES = 2000
"""The number of bytes of a repeated line that are quoted."""
SOURCE_COUNT = pa.struct([("source", pa.large_string()), ("documents", pa.int64())])
REPEATED_LINES = pa.schema(
    [
        ("documents", pa.int64()),
        ("places", pa.int64()),
        ("id", pa.large_string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.large_string()),
        ("sources", pa.list_(SOURCE_COUNT)),
    ]
)
"""The repeated lines: the number of documents and of places, the first place in keep order with the
beginning of its text, and the number of documents of each source."""


@dataclass(frozen=True)
class LineCounts:
    """The counts of repeated lines.

    Attributes:
        repeated_lines: Number of different lines that occur in enough documents.
        repeated_places: Number of their places.
    """

    repeated_lines: int
    repeated_places: int


class LineRun(DocumentRun):
    """A run that finds repeated lines of one corpus. For its arguments, see `DocumentRun`."""

    READING_STAGE = "lines"

    def find_lines(self, request: LinesRequest, order_of: Callable[[], np.ndarray]) -> None:
        """Runs the stages that are not finished yet.

        After all documents are read, `order_of` returns their keep order, uint32 (n,).
        """
        self.check_corpus()
        work = self.work
        if work.done(self.READING_STAGE) is None:
            with work.stage(self.READING_STAGE) as record:
                record.update(self._collect_lines(request))
        if work.done(COUNTING_STAGE) is None:
            with work.stage(COUNTING_STAGE) as record:
                record.update(self._count_lines(request, order_of()))

    def _collect_lines(self, request: LinesRequest) -> dict[str, object]:
        folder = self.work.folder(LINES_FOLDER)
        for path in folder.iterdir():
            path.unlink()
        writer = PartitionWriter(folder, LINES)
        hashers = ObjectPool(self._make_hasher)

        def collect(batch: Batch) -> tuple[Batch, np.ndarray]:
            texts = self.texts_of(batch)
            return batch, hashers.use(
                lambda hasher: locate_lines(texts, batch.first, request, hasher)
            )

        self.progress.stage("lines", estimate_documents(self.corpus, self.columns))
        batches = self.corpus.batches(self.columns)
        counts = self.write_facts(ordered_map(collect, batches, self.options.workers), writer.add)
        writer.flush()
        return {**counts, "lines": writer.written}

    def _make_hasher(self) -> "LineHasher":
        return LineHasher.for_spec(self.options.spec, self.key)

    def _count_lines(self, request: LinesRequest, order: np.ndarray) -> dict[str, object]:
        self.progress.stage(COUNTING_STAGE, None)
        ranks = np.empty(len(order), np.uint32)
        ranks[order] = np.arange(len(order), dtype=np.uint32)
        listed = [np.empty((0, 5), np.int64)]
        cuts = [np.empty((0, 4), np.int64)]
        sources = [np.empty((0, 3), np.int64)]
        codes = self._source_codes
        count = 0
        folder = self.work.folder(LINES_FOLDER)
        memory = self.options.memory
        for part in find_repeated_lines(folder, ranks, request.least, memory, request.counted):
            firsts = np.flatnonzero(np.diff(part.lines, prepend=-1))
            listed.append(_list_lines(part, firsts))
            cuts.append(_plan_cuts(part, firsts, request.action))
            if codes is not None:
                sources.append(_count_sources(part, codes, count))
            count += len(firsts)
        lines = np.concatenate(listed)
        lines_order = np.lexsort((lines[:, 1], lines[:, 0]))
        lines = lines[lines_order]
        lines.tofile(self.work.path / LISTED_FILE)
        _order_sources(np.concatenate(sources), lines_order).tofile(self.work.path / SOURCES_FILE)
        self._write_cuts(np.concatenate(cuts))
        return {"repeated_lines": len(lines), "repeated_places": int(lines[:, 4].sum())}

    @cached_property
    def _source_names(self) -> pa.Array:
        """The different sources in order, of which null is the last one, large_string (k,)."""
        names = pc.unique(self.documents[SOURCE])
        return names.take(pc.sort_indices(names))

    @property
    def _source_codes(self) -> np.ndarray | None:
        """The number of the source of each document, int64 (n,), or None without sources."""
        if self.options.source is None:
            return None
        codes = pc.index_in(self.documents[SOURCE], self._source_names)
        return np.asarray(codes.to_numpy().astype(np.int64))

    def _describe_sources(self, rows: np.ndarray, first: int, count: int) -> pa.Array:
        """Returns the sources of consecutive lines, each with its number of documents.

        A row has line, source and number of documents, ordered by line.
        """
        kind = REPEATED_LINES.field("sources").type
        if self.options.source is None:
            return pa.nulls(count, kind)
        offsets = np.searchsorted(rows[:, 0], np.arange(first, first + count + 1))
        part = np.asarray(rows[offsets[0] : offsets[-1]])
        names = self._source_names.take(pa.array(part[:, 1].copy()))
        counted = pa.StructArray.from_arrays(
            [names, pa.array(part[:, 2].copy())], fields=list(SOURCE_COUNT)
        )
        starts = pa.array((offsets - offsets[0]).astype(np.int32))
        return pa.ListArray.from_arrays(starts, counted, type=kind)

    def _write_cuts(self, cuts: np.ndarray) -> None:
        """Writes what is cut, and its texts, in the form in which `CutTexts` reads them."""
        bounds = cuts[np.lexsort((cuts[:, 2], cuts[:, 0]))]
        bounds.tofile(self.work.path / BOUNDS_FILE)
        with (
            pa.OSFile(str(self.work.path / TEXT_FILE), "wb") as text_file,
            pa.ipc.new_file(text_file, pa.schema([("text", pa.large_string())])) as writer,
        ):
            for texts in self._quote(bounds[:, 0], bounds[:, 2], bounds[:, 3]):
                writer.write_batch(pa.record_batch([texts], ["text"]))
        self.work.save(REMOVED_AFTER, np.zeros(self.documents_read, bool))

    def _quote(
        self, documents: np.ndarray, starts: np.ndarray, ends: np.ndarray
    ) -> Iterator[pa.Array]:
        """Yields the texts of places, ordered by document, int64 (m,), for batches of documents."""
        numbers, firsts = np.unique(documents, return_index=True)
        bounds = np.append(firsts, len(documents))
        for batch in self.batches_of(numbers):
            quoted: list[str] = []
            for row, text in enumerate(batch.documents[self.columns.content]):
                content = memoryview(text.cast(pa.large_binary()).as_buffer())
                number = batch.first + row
                for place in range(bounds[number], bounds[number + 1]):
                    part = bytes(content[starts[place] : ends[place]])
                    quoted.append(part.decode(errors="ignore"))
            yield pa.array(quoted, pa.large_string())

    @property
    def counts(self) -> LineCounts:
        """The counts of repeated lines."""
        record = self.work.manifest["stages"][COUNTING_STAGE]
        return LineCounts(int(record["repeated_lines"]), int(record["repeated_places"]))

    def line_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the table of repeated lines, with the schema REPEATED_LINES.

        Lines are ordered by the document and the first byte of their first place in keep order.
        """
        lines = map_file(self.work.path / LISTED_FILE, np.int64, 5)
        sources = map_file(self.work.path / SOURCES_FILE, np.int64, 3)
        ids = self.documents[ID]
        most = np.minimum(lines[:, 2], lines[:, 1] + QUOTED_BYTES)
        first = 0
        for texts in self._quote(lines[:, 0], lines[:, 1], most):
            part = np.asarray(lines[first : first + len(texts)])
            columns = [
                pa.array(part[:, 3].copy()),
                pa.array(part[:, 4].copy()),
                take_values(ids, part[:, 0]),
                pa.array(part[:, 1].copy()),
                pa.array(part[:, 2].copy()),
                texts,
                self._describe_sources(sources, first, len(texts)),
            ]
            first += len(texts)
            yield pa.record_batch(columns, schema=REPEATED_LINES)


def require_lines_request(columns: Columns, request: LinesRequest) -> KeepPolicy:
    """Requires that repeated lines can be cut, and returns the policy that orders documents."""
    if request.is_cut:
        require_one_column(columns, request.setting)
    return parse_document_policy(request.keep)


def count_lines(run: LineRun, request: LinesRequest) -> dict[str, int]:
    """Returns the counts of a finished run, by the names that they have in its record."""
    counts = {
        "documents": run.documents_read,
        "rejected": run.rejected,
        "text_bytes": run.text_bytes,
        **asdict(run.counts),
    }
    if request.is_cut:
        counts |= asdict(CutTexts(run).counts)
    return counts


class LineHasher(NamedTuple):
    """The hash functions of lines. Each thread needs its own."""

    hashes: Shingler
    """Computes the hashes of lines."""
    checks: Shingler
    """Computes the second hashes."""

    @classmethod
    def for_spec(cls, spec: Spec, key: HashKey | None = None) -> "LineHasher":
        """Returns the hash functions of a Spec."""
        other = replace(spec, hash_seed=spec.hash_seed ^ 1)
        return cls(Shingler(spec, key), Shingler(other, key))


def locate_lines(
    texts: pa.Array, first: int, request: LinesRequest, hasher: LineHasher
) -> np.ndarray:
    """Returns the places of the lines with content of documents, with their hashes.

    A row, uint64 (4,), is one that `nearkin.texts.passages.lines.frequencies` describes.
    """
    data, offsets = text_buffers(texts)
    pattern = UNIT_ENDS[request.unit]
    content = data.data
    bounds = [int(offsets[0])]
    numbers: list[int] = []
    for number, end in enumerate(offsets[1:].tolist()):
        before = len(bounds)
        bounds += [match.end() for match in pattern.finditer(content, bounds[-1], end)]
        if bounds[-1] < end:
            bounds.append(end)
        numbers += [number] * (len(bounds) - before)
    edges = np.array(bounds, np.int64)
    edges.flags.writeable = False
    hashes = hasher.hashes.hash_whole_texts(data, edges)
    has_content = np.diff(hashes.offsets) > 0
    documents = np.array(numbers, np.int64)[has_content]
    begins = offsets[documents]
    places = np.empty((len(documents), 4), np.uint64)
    places[:, 0] = hashes.hashes
    places[:, 1] = hasher.checks.hash_whole_texts(data, edges).hashes
    places[:, 2] = (documents + first).astype(np.uint64) << HALF
    places[:, 2] |= (edges[:-1][has_content] - begins).astype(np.uint64)
    places[:, 3] = edges[1:][has_content] - begins
    return places


def _list_lines(part: RepeatedLines, firsts: np.ndarray) -> np.ndarray:
    """Returns the document, first byte, byte after the last one, documents and places of lines."""
    places = np.diff(np.append(firsts, len(part.lines)))
    columns = [part.documents[firsts], part.starts[firsts], part.ends[firsts]]
    return np.stack([*columns, part.frequencies, places], axis=1).astype(np.int64)


def _count_sources(part: RepeatedLines, codes: np.ndarray, first: int) -> np.ndarray:
    """Returns line, source and number of documents for each source of each line."""
    begins = np.ones(len(part.lines), bool)
    begins[1:] = (part.lines[1:] != part.lines[:-1]) | (part.documents[1:] != part.documents[:-1])
    pairs = np.stack([part.lines[begins] + first, codes[part.documents[begins]]], axis=1)
    rows, counts = np.unique(pairs, axis=0, return_counts=True)
    return np.column_stack([rows, counts]).astype(np.int64)


def _order_sources(rows: np.ndarray, lines_order: np.ndarray) -> np.ndarray:
    """Returns sources of lines, ordered by line, number of documents and source.

    `lines_order` are the numbers of the lines in their new order, int64 (k,).
    """
    positions = np.empty(len(lines_order), np.int64)
    positions[lines_order] = np.arange(len(lines_order))
    moved = rows.copy()
    moved[:, 0] = positions[rows[:, 0]]
    return np.asarray(moved[np.lexsort((moved[:, 1], -moved[:, 2], moved[:, 0]))])


def _plan_cuts(part: RepeatedLines, firsts: np.ndarray, action: LinesAction) -> np.ndarray:
    """Returns the document, keeper, first byte and byte after the last one of each cut."""
    if action == LinesAction.REPORT:
        return np.empty((0, 4), np.int64)
    keepers = np.full(len(part.lines), NO_KEEPER, np.int64)
    is_cut = np.ones(len(part.lines), bool)
    if action == LinesAction.KEEP_ONE:
        keepers = part.documents[firsts][part.lines]
        is_cut[firsts] = False
    return np.stack([part.documents, keepers, part.starts, part.ends], axis=1)[is_cut]
