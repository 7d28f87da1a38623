"""A run that finds the passages of a corpus. Its stages leave their results in a work folder.

The corpus is read twice. The first reading finds which anchors occur twice, in a Bloom filter of
fixed size. The second one writes the windows with such anchors to files, which are divided by hash.
So only counts of documents and passages grow in memory, and the result does not depend on the
bound.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Batch, Columns, Corpus, FileCorpus, QuarantineWriter, TableCorpus
from nearkin.corpus.batches import read_content
from nearkin.corpus.columns import carried_column_name
from nearkin.corpus.document_count import estimate_documents
from nearkin.corpus.nested_columns import list_roots
from nearkin.corpus.places import files_and_rows
from nearkin.corpus.writer import KnownDocuments, limit_copying_workers
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runtime.number_range import NumberRange
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.sizes import require_memory
from nearkin.runtime.threads import ObjectPool, ordered_map, require_workers
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.shingle.shingler import Shingler, require_located_tokens
from nearkin.stages.winnowing import LEAST_TOKENS, MOST_TOKENS, TOKEN_NAMES
from nearkin.stages.winnowing.fingerprints import AnchorFilter, Buffers, collect_anchors
from nearkin.stages.winnowing.tokens import TokenPiece, TokenReader
from nearkin.texts.passages.documents import (
    BYTES,
    ID,
    PLACE,
    SOURCE,
    DocumentWriter,
    read_documents,
)
from nearkin.texts.passages.windows import (
    Passages,
    WindowFiles,
    Windows,
    WindowWriter,
    collect_windows,
    find_passages,
)

Result = TypeVar("Result")
State = TypeVar("State")

LARGE_BATCH = 16 << 20
"""The number of bytes from which a batch is read piece by piece."""
UNKNOWN_TEXT_BYTES = 1 << 28
"""The size that a corpus is taken to have if it is neither files nor a table."""
REJECTED = "rejected.jsonl"
DOCUMENTS = "documents.arrow"
TWICE = "twice"


@dataclass(frozen=True)
class PassageOptions:
    """The options that decide the passages, and two (memory, workers) that do not.

    Attributes:
        spec: Spec of the tokens: words, or the code points of words, in lower case.
        least: Smallest number of tokens of a passage.
        source: Column of sources, whose shares are reported, or None.
        memory: Bound on the anonymous memory of the run, in bytes.
        workers: Number of threads.
        keep_columns: Columns from which the keep order of documents follows, if text is cut.
    """

    spec: Spec
    least: int = 50
    source: str | None = None
    memory: int = 4 << 30
    workers: int = 2
    keep_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_workers(self.workers)
        NumberRange(LEAST_TOKENS, MOST_TOKENS).require("min_tokens", self.least)
        require_memory(self.memory)
        require_located_tokens(self.spec)

    @property
    def token(self) -> str:
        """The name of a token: word or character."""
        return TOKEN_NAMES[self.spec.unit]

    def columns_of(self, columns: Columns) -> Columns:
        """Returns the columns that a run reads: those of texts and ids, and that of sources."""
        if columns.text is None:
            raise UsageError(
                f"{name_setting(columns.content, columns.source)} names no texts, and passages are "
                f"parts of texts; name a column of texts with {name_setting('text')}"
            )
        carried = self.keep_columns if self.source is None else (self.source, *self.keep_columns)
        return replace(
            columns.with_memory(self.memory), carried_columns=tuple(dict.fromkeys(carried))
        )

    def parameters(self) -> dict[str, object]:
        """Returns the options that decide the result, as JSON values. The Spec is not one."""
        return {"min_tokens": self.least, "source": self.source}


class DocumentRun:
    """A run over the texts of one corpus in one work folder.

    Args:
        wanted: True for each document whose text is read, bool (n,), or None for all.
    """

    READING_STAGE: ClassVar[str]
    """The name of the stage that reads all documents, and writes their facts."""

    def __init__(
        self,
        corpus: Corpus,
        columns: Columns,
        options: PassageOptions,
        work: WorkFolder,
        progress: Progress,
        key: HashKey | None = None,
        wanted: np.ndarray | None = None,
    ) -> None:
        self.corpus = corpus
        self.columns = options.columns_of(columns)
        self.options = options
        self.work = work
        self.progress = progress
        self.key = key
        self.wanted = wanted
        """True for each document whose text is read, bool (n,), or None for all."""

    def texts_of(self, batch: Batch) -> pa.Array:
        """Returns the texts of a batch, large_string (n,).

        Those of unwanted documents are empty.
        """
        texts = batch.documents[self.columns.content]
        if self.wanted is None:
            return texts
        is_wanted = self.wanted[batch.first : batch.first + len(texts)]
        return pc.if_else(pa.array(is_wanted), texts, pa.scalar("", texts.type))

    def check_corpus(self) -> None:
        """Requires that the corpus has the columns."""
        self.corpus.check(self.columns)

    def write_facts(
        self, batches: Iterable[tuple[Batch, Result]], use: Callable[[Result], None]
    ) -> dict[str, object]:
        """Writes the facts of all documents while another stage uses what was made of their texts.

        Returns the counts of documents, rejected rows and bytes, for the record of the stage.
        """
        rejected = 0
        with ExitStack() as stack:
            documents = stack.enter_context(
                DocumentWriter(
                    self.work.path / DOCUMENTS,
                    self.columns,
                    list(self.corpus.names),
                    self.options.source,
                    self.options.keep_columns,
                )
            )
            quarantine_file = stack.enter_context((self.work.path / REJECTED).open("wb"))
            quarantine = QuarantineWriter(quarantine_file, self.corpus.names)
            for batch, made in batches:
                use(made)
                documents.add(batch, self.texts_of(batch))
                quarantine.add(batch.rejected)
                rejected += batch.rejected_rows
                self.progress.advance(len(batch.rows))
        return {
            "documents": documents.documents,
            "rejected": rejected,
            "text_bytes": documents.text_bytes,
        }

    @property
    def documents_read(self) -> int:
        """The number of documents."""
        return int(self.work.manifest["stages"][self.READING_STAGE]["documents"])

    @property
    def text_bytes(self) -> int:
        """The size of all texts, in bytes."""
        return int(self.work.manifest["stages"][self.READING_STAGE]["text_bytes"])

    @property
    def rejected(self) -> int:
        """The number of rejected rows."""
        return int(self.work.manifest["stages"][self.READING_STAGE]["rejected"])

    @cached_property
    def _facts(self) -> pa.Table:
        return read_documents(self.work.path / DOCUMENTS)

    @property
    def documents(self) -> pa.Table:
        """The ids, sizes and sources of the documents, mapped from disk."""
        names = (ID, BYTES, SOURCE)
        return self._facts.select([name for name in names if name in self._facts.column_names])

    @property
    def known_documents(self) -> KnownDocuments:
        """The places at which the documents were found."""
        files, rows = files_and_rows(self._facts[PLACE].to_numpy())
        return KnownDocuments(files, rows, np.empty(0, np.int64))

    @property
    def copying_workers(self) -> int:
        """The number of threads that copy the inputs, which the memory bound limits."""
        return limit_copying_workers(self.options.workers, self.options.memory)

    def batches_of(self, numbers: np.ndarray) -> Iterator[Batch]:
        """Yields the texts of some documents, int64 (m,) ascending, in batches.

        The ordinals of the batches count these documents alone.
        """
        places = self._facts[PLACE].to_numpy()[numbers]
        return read_content(self.corpus, self.columns, places)

    def read_texts(self, numbers: np.ndarray) -> Iterator[pa.Scalar]:
        """Yields the texts of some documents, int64 (m,) ascending, as large_binary."""
        for batch in self.batches_of(numbers):
            yield from batch.documents[self.columns.content].cast(pa.large_binary())

    @property
    def keep_columns(self) -> pa.Table:
        """The columns from which the keep order follows, by their names in the inputs."""
        names = list(self.options.keep_columns)
        return self._facts.select(list(map(carried_column_name, names))).rename_columns(names)


class PieceMapper(Generic[State]):
    """Reads the tokens of the documents of a run, piece by piece, in several threads."""

    def __init__(self, run: DocumentRun, make_state: Callable[[], State]) -> None:
        self._run = run
        self._make_state = make_state
        self._tools = ObjectPool(self._make_tool)

    def _make_tool(self) -> tuple[TokenReader, State]:
        options = self._run.options
        shingler = Shingler(options.spec, self._run.key)
        return TokenReader(shingler, options.least), self._make_state()

    @cached_property
    def _serial_tool(self) -> tuple[TokenReader, State]:
        return self._make_tool()

    def map(
        self, work: Callable[[TokenPiece, State], Result]
    ) -> Iterator[tuple[Batch, Iterable[Result]]]:
        """Yields the batches of the corpus, each with work(piece, state) of its pieces, in order.

        A batch with a large document is read by this thread, piece by piece, because the results of
        all its pieces may need several times its size.
        """
        run = self._run

        def read(batch: Batch, tool: tuple[TokenReader, State]) -> Iterator[Result]:
            reader, state = tool
            for piece in reader.read_pieces(run.texts_of(batch), batch.first):
                yield work(piece, state)

        def map_batch(batch: Batch) -> tuple[Batch, list[Result] | None]:
            if batch.documents.nbytes > LARGE_BATCH:
                return batch, None
            return batch, self._tools.use(lambda tool: list(read(batch, tool)))

        batches = run.corpus.batches(run.columns)
        for batch, results in ordered_map(map_batch, batches, run.options.workers):
            yield batch, read(batch, self._serial_tool) if results is None else results


class PassageRun(DocumentRun):
    """A run that finds the passages of one corpus. For its arguments, see `DocumentRun`."""

    READING_STAGE = "fingerprints"

    @cached_property
    def _pieces(self) -> PieceMapper[Buffers]:
        return PieceMapper(self, Buffers)

    def find(self) -> None:
        """Runs the stages that are not finished yet."""
        self.check_corpus()
        for name, stage in (
            ("fingerprints", self._collect_fingerprints),
            ("windows", self._collect_windows),
            ("sources", self._find_sources),
        ):
            if self.work.done(name) is None:
                with self.work.stage(name) as record:
                    record.update(stage())

    def _collect_fingerprints(self) -> dict[str, object]:
        """Reads the corpus, and writes the filter of the anchors that occur twice."""
        anchors_seen = AnchorFilter.for_corpus(self._text_bytes(), self.options.memory)
        least = self.options.least

        def collect(piece: TokenPiece, buffers: Buffers) -> np.ndarray:
            return collect_anchors(piece, least, buffers)

        def add(anchors: Iterable[np.ndarray]) -> None:
            for hashes in anchors:
                anchors_seen.add(hashes)

        self.progress.stage("fingerprints", estimate_documents(self.corpus, self.columns))
        counts = self.write_facts(self._pieces.map(collect), add)
        self.work.save(TWICE, anchors_seen.twice)
        return counts

    def _text_bytes(self) -> int:
        if isinstance(self.corpus, FileCorpus):
            return sum(file.status().size for file in self.corpus.files)
        if isinstance(self.corpus, TableCorpus):
            table = self.corpus.table
            return table.select(list_roots(self.columns, table.schema.names)).nbytes
        return UNKNOWN_TEXT_BYTES

    def _collect_windows(self) -> dict[str, object]:
        """Reads the corpus again, and writes the windows whose anchors may occur twice."""
        twice = np.asarray(self.work.load(TWICE))
        least = self.options.least

        def collect(piece: TokenPiece, buffers: Buffers) -> Windows:
            return collect_windows(piece, least, twice, buffers)

        self.progress.stage("windows", self.documents_read)
        folder = self.work.folder("windows")
        for path in folder.iterdir():
            path.unlink()
        with WindowWriter(folder) as writer:
            for batch, collected in self._pieces.map(collect):
                for windows in collected:
                    writer.add(windows)
                self.progress.advance(len(batch.rows))
        return {"windows": writer.written}

    def _find_sources(self) -> dict[str, object]:
        """Writes where the content of each window occurs first."""
        self.progress.stage("sources", None)
        windows = self.windows()
        windows.write_sources()
        return {}

    def windows(self) -> WindowFiles:
        """Returns the windows that may occur twice, with their sources."""
        record = self.work.manifest["stages"]["windows"]
        return WindowFiles(self.work.path / "windows", int(record["windows"]))

    def passages(self) -> Iterator[Passages]:
        """Yields the passages, ordered by document and first byte."""
        return find_passages(self.windows(), self.options.least)
