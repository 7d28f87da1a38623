"""A run that finds the items of suites in a corpus. Its stages leave results in a work folder.

The corpus is read once. This counts the documents with each word of the suites, and finds the
documents that may hold an item. Only these are compared exactly. Their texts are kept in a file.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.corpus.document_count import estimate_documents
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.keys import HashKey
from nearkin.stages.packed_pairs import sorted_unique
from nearkin.stages.shingle.shingler import Shingler
from nearkin.stages.winnowing.tokens import TokenPiece, TokenReader
from nearkin.texts.decontamination import kernels
from nearkin.texts.decontamination.candidate_texts import CandidateTextWriter, read_candidate_texts
from nearkin.texts.decontamination.index import SuiteIndex
from nearkin.texts.decontamination.matching import Hit, Matcher, Weights, join_spans
from nearkin.texts.decontamination.request import ContaminationAction, DecontaminationRequest
from nearkin.texts.passages.cutting.boundaries import TokenizedText
from nearkin.texts.passages.cutting.request import CutRequest
from nearkin.texts.passages.cutting.run import (
    NO_KEEPER,
    REMOVED_AFTER,
    SPAN,
    DocumentCuts,
    are_inside,
    rows_of,
    write_document_cuts,
)
from nearkin.texts.passages.run import DocumentRun, PassageOptions, PieceMapper

FREQUENCIES = "word-frequencies"
CANDIDATES = "candidates"
TEXTS_FILE = "candidate-texts.arrow"
HITS_FILE = "hits.arrow"
HITS = pa.schema(
    [
        ("document", pa.int64()),
        ("item", pa.int64()),
        ("field", pa.int32()),
        ("score", pa.float64()),
        ("spans", pa.list_(SPAN)),
    ]
)
"""The fields of items that documents hold, by numbers, ordered by document, item and field."""
SCAN_FORMAT = 2
"""The version of the stage results. A run that another version began cannot be resumed."""
MEMORY_SHARE = 2
"""The index of the suites takes at most one part in so many of the memory bound."""
BYTES_PER_WORD = 64
"""The memory that the index takes for each word of the suites, in bytes, approximately."""


class WordCounter:
    """The counts of one thread: how many documents contain each word of the suites."""

    def __init__(self, index: SuiteIndex) -> None:
        self._index = index
        self._counts = index.word_table.rows.copy()
        self._counts[self._counts[:, 1] > 0, 1] = kernels.NO_DOCUMENT

    @property
    def frequencies(self) -> np.ndarray:
        """The number of documents with each word of the index, int64 (words,)."""
        numbers = self._index.word_table.rows[:, 1].astype(np.int64)
        frequencies = np.zeros(len(self._index.words) + 1, np.int64)
        frequencies[numbers] = self._counts[:, 1] & kernels.LOW_HALF
        return frequencies[1:]

    def scan(self, piece: TokenPiece) -> np.ndarray:
        """Counts the words of documents, and returns the numbers of those that may hold an item."""
        numbers = (piece.places >> np.uint64(32)).astype(np.int64)
        is_candidate = np.empty(len(numbers), bool)
        kernels.scan_documents(
            piece.hashes,
            piece.offsets,
            numbers,
            self._index.least,
            self._index.known_texts,
            self._index.known_parts,
            self._index.known_words,
            self._counts,
            is_candidate,
        )
        return np.asarray(numbers[is_candidate])


class TextBatch(NamedTuple):
    """The texts of consecutive candidates."""

    first: int
    """The position of the first one among the candidates that are read."""
    texts: pa.Array
    """large_string (n,)."""


class MatchTool(NamedTuple):
    """The reader and the matcher of one thread."""

    reader: TokenReader
    matcher: Matcher


class DecontaminationRun(DocumentRun):
    """A run that finds the items of suites in one corpus."""

    READING_STAGE = "scan"

    def __init__(
        self,
        corpus: Corpus,
        columns: Columns,
        index: SuiteIndex,
        request: DecontaminationRequest,
        options: PassageOptions,
        work: WorkFolder,
        progress: Progress,
        key: HashKey | None = None,
    ) -> None:
        super().__init__(corpus, columns, options, work, progress, key)
        self.index = index
        self.request = request

    def find(self) -> None:
        """Runs the stages that are not finished yet."""
        self.check_corpus()
        self._require_format()
        for name, stage in (
            ("scan", self._scan),
            ("match", self._match),
            ("cut", self._cut),
        ):
            if self.work.done(name) is None:
                with self.work.stage(name) as record:
                    record.update(stage())

    def _require_format(self) -> None:
        """Requires that the stage results of an interrupted run have the current format."""
        scan = self.work.done("scan")
        if scan is not None and scan.get("format") != SCAN_FORMAT:
            raise UsageError(
                f"cannot resume {self.work.path}: nearkin {self.work.manifest['nearkin']} wrote it "
                f"in another format; run with {name_flag('overwrite')} and without "
                f"{name_flag('resume')} to start again"
            )

    def _scan(self) -> dict[str, object]:
        self.index.prepare()
        counters: list[WordCounter] = []

        def make_counter() -> WordCounter:
            counters.append(WordCounter(self.index))
            return counters[-1]

        candidates = [np.empty(0, np.int64)]
        self.progress.stage("scan", estimate_documents(self.corpus, self.columns))
        pieces = PieceMapper(self, make_counter)
        with CandidateTextWriter(self._texts_path, self.options.memory) as texts:
            counts = self.write_facts(self._find_candidates(pieces, texts), candidates.append)
        numbers = np.concatenate(candidates)
        frequencies = np.zeros(len(self.index.words), np.int64)
        for counter in counters:
            frequencies += counter.frequencies
        self.work.save(FREQUENCIES, frequencies)
        self.work.save(CANDIDATES, numbers)
        return {**counts, "candidates": len(numbers), "format": SCAN_FORMAT}

    def _find_candidates(
        self, pieces: PieceMapper[WordCounter], texts: CandidateTextWriter
    ) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yields the batches of the corpus with the numbers of their candidates, ascending."""
        for batch, found in pieces.map(lambda piece, counter: counter.scan(piece)):
            numbers = sorted_unique(np.concatenate([np.empty(0, np.int64), *found]))
            texts.add(self.texts_of(batch), batch.first, numbers)
            yield batch, numbers

    @property
    def _texts_path(self) -> Path:
        return self.work.path / TEXTS_FILE

    def read_candidates(self, numbers: np.ndarray) -> Iterator[TextBatch]:
        """Yields the texts of some candidates, int64 (m,) ascending.

        Those that were not kept are read from the inputs.
        """
        first = 0
        for texts in read_candidate_texts(self._texts_path, numbers):
            yield TextBatch(first, texts)
            first += len(texts)
        # The texts that were kept are those of the first candidates.
        if first < len(numbers):
            for batch in self.batches_of(numbers[first:]):
                yield TextBatch(first + batch.first, batch.documents[self.columns.content])

    def _make_tool(self) -> MatchTool:
        reader = TokenReader(Shingler(self.options.spec, self.key), 1)
        return MatchTool(reader, Matcher(self.index, self.request, self.weights))

    @cached_property
    def weights(self) -> Weights:
        """The weights of the words of the suites in the corpus."""
        frequencies = np.asarray(self.work.load(FREQUENCIES))
        return Weights(self.index, frequencies, self.documents_read)

    def _match(self) -> dict[str, object]:
        candidates = np.array(self.work.load(CANDIDATES))
        tools = ObjectPool(self._make_tool)
        self.index.prepare()
        # Threads share the weights, too.
        _ = self.weights

        def match(batch: TextBatch) -> tuple[int, pa.RecordBatch]:
            def find(tool: MatchTool) -> list[Hit]:
                pieces = tool.reader.read_documents(batch.texts, batch.first)
                return [hit for piece in pieces for hit in tool.matcher.find(piece)]

            return len(batch.texts), _to_batch(tools.use(find), candidates)

        self.progress.stage("match", len(candidates))
        hits = 0
        with (
            pa.OSFile(str(self.work.path / HITS_FILE), "wb") as file,
            pa.ipc.new_file(file, HITS) as writer,
        ):
            batches = self.read_candidates(candidates)
            for rows, found in ordered_map(match, batches, self.options.workers):
                writer.write_batch(found)
                hits += len(found)
                self.progress.advance(rows)
        return {"hits": hits}

    @cached_property
    def hits(self) -> pa.Table:
        """The fields of items that documents hold, with the schema HITS, mapped from disk."""
        with pa.memory_map(str(self.work.path / HITS_FILE)) as source:
            return pa.ipc.open_file(source).read_all()

    @cached_property
    def contaminated(self) -> np.ndarray:
        """The numbers of the documents that hold an item, ascending, int64 (m,)."""
        return sorted_unique(self.hits["document"].to_numpy())

    def _cut(self) -> dict[str, object]:
        """Writes what is cut, and which documents are removed."""
        removed = np.zeros(self.documents_read, bool)
        if self.request.action == ContaminationAction.DROP:
            removed[self.contaminated] = True
        self.work.save(REMOVED_AFTER, removed)
        parts: Iterable[list[DocumentCuts]] = ()
        if self.request.cut is not None:
            parts = self._find_cuts(self.request.cut)
        write_document_cuts(self.work, parts)
        return {}

    def _find_cuts(self, request: CutRequest) -> Iterator[list[DocumentCuts]]:
        """Yields the parts of contaminated documents that are cut."""
        numbers = self.contaminated
        bounds = np.append(
            np.searchsorted(self.hits["document"].to_numpy(), numbers), len(self.hits)
        )
        readers = ObjectPool(lambda: TokenReader(Shingler(self.options.spec, self.key), 1))
        self.progress.stage("cut", len(numbers))

        def cut_batch(batch: TextBatch) -> list[DocumentCuts]:
            first, end = int(bounds[batch.first]), int(bounds[batch.first + len(batch.texts)])
            spans = self.hits["spans"].slice(first, end - first).to_pylist()

            def cut(reader: TokenReader) -> list[DocumentCuts]:
                cuts = []
                for row, text in enumerate(batch.texts):
                    position = batch.first + row
                    own = spans[int(bounds[position]) - first : int(bounds[position + 1]) - first]
                    planned = [(span["start"], span["end"]) for hit in own for span in hit]
                    document = int(numbers[position])
                    cuts.append(cut_document(document, text.as_py(), planned, request, reader))
                return cuts

            return readers.use(cut)

        for cuts in ordered_map(cut_batch, self.read_candidates(numbers), self.options.workers):
            yield cuts
            self.progress.advance(len(cuts))


def cut_document(
    number: int,
    text: str,
    planned: list[tuple[int, int]],
    request: CutRequest,
    reader: TokenReader,
) -> DocumentCuts:
    """Returns the parts of a document that are cut."""
    content = text.encode()
    (piece,) = reader.read_documents(pa.array([text], pa.large_string()), 0)
    is_cut = are_inside(piece.starts, rows_of(join_spans(planned)))
    tokens = TokenizedText(content, piece.starts, piece.ends, is_cut)
    spans = tokens.spans(request.unit)
    return DocumentCuts(number, content, spans, [NO_KEEPER] * len(spans), is_removed=False)


def _to_batch(hits: list[Hit], candidates: np.ndarray) -> pa.RecordBatch:
    """Returns hits as a batch. Their documents count the candidates alone."""
    columns = [
        pa.array(candidates[[hit.document for hit in hits]] if hits else [], pa.int64()),
        pa.array([hit.item for hit in hits], pa.int64()),
        pa.array([hit.field for hit in hits], pa.int32()),
        pa.array([hit.score for hit in hits], pa.float64()),
        pa.array(
            [[{"start": start, "end": end} for start, end in hit.spans] for hit in hits],
            HITS.field("spans").type,
        ),
    ]
    return pa.record_batch(columns, schema=HITS)


def require_memory(words: int, memory: int) -> None:
    """Requires that the index of suites leaves memory, in bytes, for the documents."""
    needed = words * BYTES_PER_WORD * MEMORY_SHARE
    if needed > memory:
        raise UsageError(
            f"the suites have {words:,} words, and {name_setting('memory', memory)} is too small "
            f"for their index; give at least {name_setting('memory', needed)}, or fewer suites"
        )
