"""The run that cuts repeated passages: two more stages after those that find them.

The first stage decides in keep order which windows stay. The second one reads the documents with
windows to cut again, finds the boundaries, and writes what is cut to a file.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus import Batch, Columns
from nearkin.engine.documents import take_values
from nearkin.engine.work_folder import WorkFolder, map_file
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.stages.cluster.id_order import rank_ids
from nearkin.stages.cluster.keep import KeepPolicy
from nearkin.stages.shingle.shingler import Shingler
from nearkin.stages.winnowing.tokens import TokenReader
from nearkin.texts.passages.cutting.boundaries import TokenizedText, require_graphemes
from nearkin.texts.passages.cutting.plan import CutPlan, PlannedCuts, plan_cuts
from nearkin.texts.passages.cutting.request import CUT_SPANS, CutCounts, CutRequest
from nearkin.texts.passages.documents import BYTES, ID
from nearkin.texts.passages.run import DocumentRun, PassageRun

SPAN = pa.struct([("start", pa.int64()), ("end", pa.int64())])
CUTS = pa.schema(
    [
        ("id", pa.large_string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.large_string()),
        ("kept_id", pa.large_string()),
        ("document", pa.int64()),
    ]
)
"""A part that was cut: bytes from `start` up to `end` of document `id`, and their `text`.

`kept_id` is the document that holds the passage with which it begins, and null for a
document that was removed."""
KEPT_DOCUMENTS = pa.schema(
    [("id", pa.large_string()), ("text", pa.large_string()), (CUT_SPANS, pa.list_(SPAN))]
)
"""The documents that are kept, with rewritten texts."""
BOUNDS_FILE = "cut-bounds"
TEXT_FILE = "cut-texts.arrow"
PLANNED = "cut-planned"
HOLDS = "cut-holds"
REMOVED = "cut-removed"
REMOVED_AFTER = "cut-removed-after"
NO_KEEPER = -1


def require_cuttable(columns: Columns, request: CutRequest) -> KeepPolicy:
    """Requires that texts can be rewritten, and that an order of documents decides what stays."""
    require_rewritable(columns)
    return parse_document_policy(request.keep)


def parse_document_policy(keep: str) -> KeepPolicy:
    """Parses a keep policy that orders all documents of a corpus."""
    policy = KeepPolicy.parse(keep)
    if policy.cluster_criterion is not None:
        raise UsageError(
            f"{name_setting('keep', keep)} chooses documents of clusters, and passages "
            f"have none; leave out {policy.cluster_criterion}"
        )
    return policy


def require_rewritable(columns: Columns, setting: str = "cut_unit") -> None:
    """Requires that texts can be rewritten: they are in one column, and boundaries can be found."""
    require_one_column(columns, setting)
    require_graphemes()


def require_one_column(columns: Columns, setting: str) -> None:
    """Requires that the texts to be rewritten are in one column."""
    if columns.joined:
        names = ", ".join(columns.sources)
        raise UsageError(
            f"{name_setting(setting)} rewrites one column of texts, and "
            f"{name_setting('text')} names several ({names}); name one"
        )


def order_documents(run: DocumentRun, policy: KeepPolicy) -> np.ndarray:
    """Returns the documents of a run in keep order, uint32 (n,)."""
    sizes = run.documents[BYTES].to_numpy()
    return policy.order(run.keep_columns, sizes, rank_ids(run.documents[ID]))


class DocumentCuts(NamedTuple):
    """The parts that are cut from one document."""

    document: int
    text: bytes
    spans: list[tuple[int, int]]
    """The first byte, and the byte after the last one, of each part, ascending."""
    keepers: list[int]
    """The document that holds the content of each part, or NO_KEEPER."""
    is_removed: bool


class CutTexts:
    """The cuts of a run, from the files that its stages wrote."""

    def __init__(self, run: DocumentRun) -> None:
        self.run = run

    @cached_property
    def bounds(self) -> np.ndarray:
        """The parts that are cut, ascending, int64 (n, 4).

        A row has the document, the one that holds the content (or NO_KEEPER), the first byte, and
        the byte after the last one.
        """
        return map_file(self.run.work.path / BOUNDS_FILE, np.int64, 4)

    def _bounds_of_documents(self, first: int, end: int) -> np.ndarray:
        low, high = np.searchsorted(self.bounds[:, 0], [first, end])
        return np.asarray(self.bounds[low:high])

    @cached_property
    def kept(self) -> np.ndarray:
        """True for each document that is not removed as a whole, bool (n,)."""
        return ~np.asarray(self.run.work.load(REMOVED_AFTER))

    def rewrite(self, first: int, texts: pa.Array) -> pa.Array | None:
        """Returns the original texts of consecutive documents without what is cut."""
        bounds = self._bounds_of_documents(first, first + len(texts))
        if not len(bounds):
            return None
        rewritten: list[str | None] = [None] * len(texts)
        numbers, starts = np.unique(bounds[:, 0], return_index=True)
        for number, spans in zip(numbers.tolist(), np.split(bounds, starts[1:]), strict=True):
            text = texts[number - first].as_py().encode()
            rewritten[number - first] = remove_spans(text, spans[:, 2:].tolist()).decode()
        return pa.array(rewritten, pa.large_string())

    def span_column(self, first: int, end: int) -> pa.RecordBatch:
        """Returns the column of the bytes that are cut from documents."""
        bounds = self._bounds_of_documents(first, end)
        offsets = np.searchsorted(bounds[:, 0], np.arange(first, end + 1)).astype(np.int32)
        starts = pa.array(np.ascontiguousarray(bounds[:, 2]))
        ends = pa.array(np.ascontiguousarray(bounds[:, 3]))
        spans = pa.StructArray.from_arrays([starts, ends], fields=list(SPAN))
        return pa.record_batch([pa.ListArray.from_arrays(pa.array(offsets), spans)], [CUT_SPANS])

    def cut_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the table of what is cut, with the schema CUTS, ordered by document and byte."""
        ids = self.run.documents[ID]
        first = 0
        with pa.memory_map(str(self.run.work.path / TEXT_FILE)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                texts = reader.get_batch(number)["text"]
                bounds = np.asarray(self.bounds[first : first + len(texts)])
                first += len(texts)
                has_keeper = bounds[:, 1] != NO_KEEPER
                keepers = take_values(ids, np.where(has_keeper, bounds[:, 1], bounds[:, 0]))
                columns = [
                    take_values(ids, bounds[:, 0]),
                    pa.array(np.ascontiguousarray(bounds[:, 2])),
                    pa.array(np.ascontiguousarray(bounds[:, 3])),
                    texts,
                    pa.compute.if_else(pa.array(has_keeper), keepers, None),
                    pa.array(np.ascontiguousarray(bounds[:, 0])),
                ]
                yield pa.record_batch(columns, schema=CUTS)

    def kept_documents(
        self, texts: Iterable[pa.Array], wanted: np.ndarray | None = None
    ) -> pa.Table:
        """Returns the documents that are kept: their ids, rewritten texts and cut bytes.

        Passages were found of the wanted documents, bool (n,), or of all.
        """
        kept = self.kept if wanted is None else self.kept & wanted
        tables = [KEPT_DOCUMENTS.empty_table()]
        first = 0
        for part in texts:
            end = first + len(part)
            rewritten = self.rewrite(first, part)
            new_texts = part if rewritten is None else pa.compute.coalesce(rewritten, part)
            ids = self.run.documents[ID].slice(first, len(part)).combine_chunks()
            spans = self.span_column(first, end)[CUT_SPANS]
            table = pa.table([ids, new_texts, spans], KEPT_DOCUMENTS.names)
            tables.append(table.filter(pa.array(kept[first:end])))
            first = end
        return pa.concat_tables(tables)

    @property
    def counts(self) -> CutCounts:
        """The counts of the cut."""
        bounds = self.bounds
        sizes = np.asarray(bounds[:, 3] - bounds[:, 2])
        is_in_kept = self.kept[bounds[:, 0]]
        return CutCounts(
            cuts=int(is_in_kept.sum()),
            cut_bytes=int(sizes[is_in_kept].sum()),
            documents_cut=len(np.unique(bounds[is_in_kept, 0])),
            documents_removed=int((~self.kept).sum()),
            removed_bytes=int(sizes[~is_in_kept].sum()),
        )


class CutRun(CutTexts):
    """A run that cuts the passages that another run finds.

    Args:
        order_of: Returns the keep order of the documents, uint32 (n,), after the run.
    """

    def __init__(
        self, run: PassageRun, request: CutRequest, order_of: Callable[[], np.ndarray]
    ) -> None:
        super().__init__(run)
        self.passages = run
        self.request = request
        self._order_of = order_of
        self._readers = ObjectPool(self._make_reader)

    def _make_reader(self) -> TokenReader:
        return TokenReader(Shingler(self.passages.options.spec, self.passages.key), 1)

    def find(self) -> None:
        """Runs the stages that are not finished yet."""
        self.passages.find()
        work = self.passages.work
        if work.done("plan") is None:
            with work.stage("plan") as record:
                self.passages.progress.stage("plan", None)
                record.update(self._plan())
        if work.done("cut") is None:
            with work.stage("cut") as record:
                record.update(self._cut())

    def _plan(self) -> dict[str, object]:
        run = self.passages
        plan = plan_cuts(
            run.windows(),
            self._order_of(),
            run.options.least,
            run.documents[BYTES].to_numpy(),
            self.request,
            run.work.path,
        )
        run.work.save(PLANNED, plan.runs)
        run.work.save(HOLDS, plan.holds)
        run.work.save(REMOVED, plan.removed)
        return {"runs": len(plan.runs)}

    def _cut(self) -> dict[str, object]:
        """Reads the documents with planned cuts, and writes the bytes and texts that are cut."""
        run = self.passages
        work = run.work
        plan = CutPlan(work.load(PLANNED), work.load(HOLDS), work.load(REMOVED))
        removed = np.array(plan.removed)
        changed = plan.changed

        def cut_batch(batch: Batch) -> tuple[int, list[DocumentCuts]]:
            numbers = changed[batch.first : batch.first + len(batch.rows)]
            planned = plan.of_documents(numbers)
            texts = batch.documents[run.columns.content]

            def cut(reader: TokenReader) -> list[DocumentCuts]:
                return [
                    cut_planned_document(number, text.as_py(), about, self.request, reader)
                    for number, text, about in zip(numbers.tolist(), texts, planned, strict=True)
                ]

            return len(batch.rows), self._readers.use(cut)

        batches = run.batches_of(changed)
        run.progress.stage("cut", len(changed))

        def mark_removed() -> Iterator[list[DocumentCuts]]:
            for rows, documents in ordered_map(cut_batch, batches, run.options.workers):
                for document in documents:
                    removed[document.document] = document.is_removed
                yield documents
                run.progress.advance(rows)

        write_document_cuts(work, mark_removed())
        work.save(REMOVED_AFTER, removed)
        return {}


def cut_planned_document(
    number: int, text: str, planned: PlannedCuts, request: CutRequest, reader: TokenReader
) -> DocumentCuts:
    """Returns the parts of a document that are cut, at the boundaries of the chosen unit."""
    content = text.encode()
    if planned.is_removed:
        return DocumentCuts(number, content, [(0, len(content))], [NO_KEEPER], is_removed=True)
    (piece,) = reader.read_documents(pa.array([text], pa.large_string()), 0)
    starts = piece.starts
    is_cut = are_inside(np.arange(len(starts)), planned.runs)
    spans = TokenizedText(content, starts, piece.ends, is_cut).spans(request.unit)
    left = len(starts) - int(are_inside(starts, rows_of(spans)).sum())
    if spans and left < request.min_left and not planned.holds_passage:
        return DocumentCuts(number, content, [(0, len(content))], [NO_KEEPER], is_removed=True)
    firsts = np.searchsorted(starts, [start for start, _ in spans])
    runs = np.searchsorted(planned.runs[:, 2], firsts, side="right")
    keepers = planned.runs[np.minimum(runs, len(planned.runs) - 1), 3].tolist()
    return DocumentCuts(number, content, spans, keepers, is_removed=False)


def write_document_cuts(work: WorkFolder, parts: Iterable[list[DocumentCuts]]) -> None:
    """Writes what is cut, and its texts, in the form in which `CutTexts` reads them.

    The cuts ascend by document.
    """
    with (
        (work.path / BOUNDS_FILE).open("wb") as bounds_file,
        pa.OSFile(str(work.path / TEXT_FILE), "wb") as text_file,
        pa.ipc.new_file(text_file, pa.schema([("text", pa.large_string())])) as texts_written,
    ):
        for documents in parts:
            cut = [document for document in documents if document.spans]
            bounds_file.write(_bounds_of(cut).tobytes())
            texts = [part for document in cut for part in _texts_of(document)]
            texts_written.write_batch(
                pa.record_batch([pa.array(texts, pa.large_string())], ["text"])
            )


def remove_spans(text: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Returns a text without the bytes of ascending spans.

    Examples:
        >>> remove_spans(b"abcdef", [(0, 1), (3, 5)])
        b'bcf'
    """
    parts = []
    copied = 0
    for start, end in spans:
        parts.append(text[copied:start])
        copied = end
    return b"".join([*parts, text[copied:]])


def are_inside(positions: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Returns whether each position, integers (n,), is in a span, bool (n,).

    Spans ascend and do not overlap. In a row of at least three numbers, the second and the third
    are the first position and the one after the last.
    """
    number = np.searchsorted(spans[:, 1], positions, side="right") - 1
    ends = np.concatenate([spans[:, 2], [0]])
    return np.asarray(positions < ends[number])


def rows_of(spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns spans in the form of planned ones, as `are_inside` takes them, int64 (n, 3)."""
    rows = np.zeros((len(spans), 3), np.int64)
    rows[:, 1:] = np.array(spans, np.int64).reshape(-1, 2)
    return rows


def _bounds_of(documents: list[DocumentCuts]) -> np.ndarray:
    rows = [
        (document.document, keeper, start, end)
        for document in documents
        for (start, end), keeper in zip(document.spans, document.keepers, strict=True)
    ]
    return np.array(rows, np.int64).reshape(-1, 4)


def _texts_of(document: DocumentCuts) -> list[str]:
    return [document.text[start:end].decode() for start, end in document.spans]
