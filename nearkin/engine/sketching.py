"""Stage 1 of a run: reads the corpus once and sketches its documents.

It writes signatures, content hashes, lengths, ids and carried columns. The files of the stage only
grow. A checkpoint records how much of each file is valid and where reading continues, so a killed
run loses at most one segment of work. Data is synced before the checkpoint that describes it is
written. If a file is shorter than the checkpoint says, because a disk lost confirmed data, the
stage starts again.
"""

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus import Batch, Columns, Corpus, QuarantineWriter, Rejection, make_ids
from nearkin.corpus.columns import CARRIED_PREFIX, ID
from nearkin.corpus.corpus import FileCorpus, ReadFiles
from nearkin.corpus.parts import Part, are_files_parts, split_corpus, split_files
from nearkin.engine.document_facts import TextFact, hash_text_facts, text_lengths
from nearkin.engine.documents import (
    KEYS,
    UNIQUE,
    arrays_of,
    presence_file,
    signatures_file,
)
from nearkin.engine.kept_hashes import HashCollector, KeptHashes, StoredHashes
from nearkin.engine.stats import latency_percentiles
from nearkin.engine.work_folder import SPOOL, WorkFolder
from nearkin.runtime.executor import Executor, Task
from nearkin.runtime.files import (
    copy_bytes,
    delete_shared_folder,
    disk_errors,
    sync_file,
    sync_folder,
    to_json,
    write_at,
    write_durably,
)
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import DocumentSketcher
from nearkin.stages.sketch.sketcher import BandKeyBuilder, Sketches

SEGMENT_SECONDS = 5.0
"""Time between checkpoints, in seconds."""
SEGMENT_BYTES = 32 << 20
"""Size from which ids and carried columns are written as a segment, in bytes."""
CHECKPOINT = "checkpoint.json"
APART = "apart-"
"""The beginning of the name of the folder of what parts that work apart have written, before it is
in its place, in the folder `SPOOL`."""
REJECTED = "rejected.jsonl"
CARRIED = "carried.arrows"
"""The ids and carried columns of a part that works apart, in its folder."""


class SketchedPart(NamedTuple):
    """The outcome of sketching a part, for the thread that keeps the order of the parts."""

    slot: int
    """The place of the first document in the files of fixed size."""
    slots: int
    """The number of places that belong to the part: one for each of its rows."""
    documents: int
    columns: list[pa.RecordBatch]
    """The ids and the carried columns, unless they are in `apart`."""
    rejected: list[Rejection]
    """The rejected rows, unless they are in `apart`."""
    rejected_rows: int
    hashes: list[StoredHashes]
    """The shingle hashes of each batch, if they are kept."""
    next: tuple[int, int] | None
    """The file and the row at which reading continues, or None if the part had no rows."""
    durations: list[tuple[float, int]]
    """The seconds to sketch each batch, and its number of documents."""
    apart: Path | None = None
    """The folder of what the part has written, if it is not in its place yet."""
    read: ReadFiles | None = None
    """The statuses of the files and their skipped records, if another process has read them."""


Arrays: TypeAlias = dict[str, tuple[type[np.generic], int | None]]


class Position(NamedTuple):
    """A checkpoint: where reading continues, and how much of the stage's files is valid.

    The names of the fields are the keys in the file of the checkpoint.
    """

    file: int = 0
    row: int = 0
    documents: int = 0
    slots: int = 0
    """The number of documents that the files of fixed size have room for. It is larger than the
    number of documents if rows were rejected."""
    gaps: Sequence[tuple[int, int]] = ()
    """The first place and the number of places that no document took, ascending."""
    is_closing: bool = False
    """True if files without gaps are complete and take the places of those with gaps."""
    segments: int = 0
    rejected_bytes: int = 0
    rejected: int = 0

    @property
    def filled(self) -> int:
        """The place after the last document."""
        if self.gaps and sum(self.gaps[-1]) == self.slots:
            return self.gaps[-1][0]
        return self.slots


def sketch_corpus(
    corpus: Corpus,
    columns: Columns,
    measure: Measure,
    work: WorkFolder,
    executor: Executor,
    progress: Progress,
    key_builder: BandKeyBuilder | None,
    kept_hashes: KeptHashes | None = None,
    *,
    text_facts: Sequence[TextFact] = (),
    further: Sequence[Spec] = (),
) -> list[float] | None:
    """Runs the stage, from its checkpoint if there is one.

    A worker reads, checks and sketches its part of the corpus, and writes the facts of fixed size.

    Returns:
        The median and the 99th percentile of the seconds to sketch a document, or None if no
        document was left to sketch.
    """
    folder = work.folder("sketch")
    (folder / "columns").mkdir(exist_ok=True)
    key_count = key_builder.key_count if key_builder else 0
    arrays = arrays_of(measure.spec, key_count, text_facts=text_facts, further=further)
    position = read_checkpoint(folder)
    if position.is_closing:
        position = _replace_files_with_gaps(folder, arrays, position)
    if not _is_intact(folder, arrays, position):
        position = Position()
    _remove_later_columns(folder, position)
    start = (position.file, position.row)
    apart = None
    if isinstance(corpus, FileCorpus) and (
        not executor.shares_memory or are_files_parts(corpus, columns, executor.workers, start)
    ):
        parts = split_files(corpus, columns, start, executor.workers)
        apart = work.folder(SPOOL) / f"{APART}{uuid4().hex}"
        apart.mkdir()
    else:
        parts = split_corpus(corpus, columns, executor.workers, start, position.slots)
    task = SketchTask(
        corpus, columns, measure, key_builder, folder, arrays, text_facts, kept_hashes, apart
    )
    progress.advance(position.documents)
    durations: list[tuple[float, int]] = []
    with SketchWriter(folder, arrays, position, corpus.names) as writer:
        for done in executor.map(task, parts):
            if done.read is not None and isinstance(corpus, FileCorpus):
                corpus.learn(done.read)
            if kept_hashes is not None:
                kept_hashes.append(writer.position.documents, done.hashes)
            writer.add(done)
            progress.advance(done.documents)
            durations.extend(done.durations)
    if apart is not None:
        delete_shared_folder(apart)
    _close_gaps(folder, arrays, writer.position, executor.workers)
    return latency_percentiles(durations)


@dataclass(frozen=True)
class SketchTask(Task):
    """The stage of one part: a function of the run and of the part alone.

    It writes the facts of fixed size to the places of the part, and returns the others. If a part
    is a whole file, which has any size, or another process does it, all facts are written to a new
    folder: whoever does a part twice, at the same time or after a kill, changes nothing. A part
    counts as done when a checkpoint has recorded what the task returned.

    Attributes:
        folder: Folder of the stage.
        arrays: The files of fixed size.
        kept_hashes: Receives shingle hashes.
        apart: Folder in which the facts of each part are written to a new folder, or None to write
            those of fixed size to their places and return the others.
    """

    corpus: Corpus
    columns: Columns
    measure: Measure
    key_builder: BandKeyBuilder | None
    folder: Path
    arrays: Arrays
    text_facts: Sequence[TextFact] = ()
    kept_hashes: KeptHashes | None = None
    apart: Path | None = None

    @cached_property
    def _sketchers(self) -> ObjectPool[DocumentSketcher]:
        return ObjectPool(lambda: self.measure.sketcher(self.key_builder))

    def __call__(self, part: Part) -> SketchedPart:
        """Sketches the documents of a part."""
        done = SketchedPart(part.slot, part.rows, 0, [], [], 0, [], None, [])
        folder = self.folder
        if self.apart is not None:
            folder = self.apart / uuid4().hex
            folder.mkdir()
            done = done._replace(apart=folder)
        with ExitStack() as stack:
            files = {name: _open_array(stack, folder / name) for name in self.arrays}
            spill = None
            if self.apart is not None:
                spill = _Spill(stack, folder, self.corpus.names)
            for batch in part.read(self.corpus, self.columns):
                done = self._sketch(batch, files, done)
                if spill is not None:
                    spill.take(done)
                if self.stopped.is_set():
                    raise CancelledError
        if self.apart is not None and isinstance(self.corpus, FileCorpus):
            return done._replace(read=self.corpus.tell(rows.file for rows in part.ranges))
        return done

    def _sketch(
        self, batch: Batch, files: Mapping[str, BinaryIO], done: SketchedPart
    ) -> SketchedPart:
        documents = batch.documents[self.columns.content]
        collector = None
        if self.kept_hashes is not None and self.kept_hashes.is_open:
            collector = HashCollector()
        began = time.perf_counter()
        sketches = self._sketchers.use(lambda sketcher: sketcher.sketch(documents, collector))
        seconds = time.perf_counter() - began
        facts = _facts_of(batch, documents, sketches, self.text_facts)
        widths = _bytes_per_document(self.arrays)
        for name, (dtype, _) in self.arrays.items():
            content = np.ascontiguousarray(facts[name], dtype).data
            write_at(files[name], content, (done.slot + done.documents) * widths[name])
        done.columns.append(
            _carried_columns(batch, make_ids(batch, self.columns, self.corpus.names))
        )
        done.rejected.extend(batch.rejected)
        if self.kept_hashes is not None and collector is not None:
            done.hashes.append(self.kept_hashes.store(collector.slices))
        done.durations.append((seconds, len(documents)))
        return done._replace(
            documents=done.documents + len(documents),
            rejected_rows=done.rejected_rows + batch.rejected_rows,
            next=batch.next,
        )


class _Spill:
    """A writer of the columns and the rejected rows of a part that works apart.

    In memory, what a large file has of them would have no bound until its turn.
    """

    def __init__(self, files: ExitStack, folder: Path, names: Sequence[str]) -> None:
        self._files = files
        self._folder = folder
        self._columns: pa.RecordBatchWriter | None = None
        rejected = files.enter_context((folder / REJECTED).open("wb"))
        self._quarantine = QuarantineWriter(rejected, names)

    def take(self, done: SketchedPart) -> None:
        """Moves columns and rejected rows from memory to the files."""
        for columns in done.columns:
            if self._columns is None:
                sink = self._files.enter_context(pa.OSFile(str(self._folder / CARRIED), "wb"))
                writer = pa.ipc.new_stream(sink, columns.schema)
                self._columns = self._files.enter_context(writer)
            self._columns.write_batch(columns)
        self._quarantine.add(done.rejected)
        done.columns.clear()
        done.rejected.clear()


def _open_array(stack: ExitStack, path: Path) -> BinaryIO:
    """Opens a file to write at places of it. It is created if it does not exist."""
    return stack.enter_context(open(path, "r+b", opener=_create_or_open))


def _create_or_open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


def _facts_of(
    batch: Batch, documents: pa.Array, sketches: Sketches, text_facts: Sequence[TextFact]
) -> dict[str, np.ndarray]:
    """Returns the facts of fixed size of a batch, by the names of their files."""
    facts = {
        "signatures": sketches.signatures,
        "shingles": sketches.shingles,
        "fingerprints": sketches.fingerprints,
        "lengths": text_lengths(documents),
        "files": batch.files,
        "rows": batch.rows,
    }
    if sketches.keys is not None:
        facts[KEYS] = sketches.keys
    hashes_of_texts = hash_text_facts(documents, text_facts)
    facts.update({str(fact): hashes for fact, hashes in hashes_of_texts.items()})
    for number, field in enumerate(sketches.fields):
        facts[signatures_file(number)] = field.signatures
        facts[presence_file(number)] = field.has_field
    return facts


def read_checkpoint(folder: Path) -> Position:
    """Returns the last checkpoint of a folder, or the beginning if there is none."""
    path = folder / CHECKPOINT
    if not path.exists():
        return Position()
    return Position(**json.loads(path.read_bytes()))


def write_checkpoint(folder: Path, position: Position) -> None:
    """Writes a checkpoint of a folder."""
    write_durably(folder / CHECKPOINT, to_json(position._asdict()))


def _close_gaps(folder: Path, arrays: Arrays, position: Position, workers: int) -> None:
    """Moves documents together if rejected rows left places that no document took."""
    if not position.gaps:
        return

    def copy_documents(named: tuple[str, int]) -> None:
        name, width = named
        first = 0
        with (folder / name).open("rb") as source, _closed_file(folder, name).open("wb") as target:
            for gap, size in (*position.gaps, (position.slots, 0)):
                source.seek(first * width)
                copy_bytes(source, target, (gap - first) * width)
                first = gap + size
            target.flush()
            os.fsync(target.fileno())

    with disk_errors(folder):
        for _ in ordered_map(copy_documents, _bytes_per_document(arrays).items(), workers):
            pass
        sync_folder(folder)
        position = position._replace(slots=position.documents, gaps=(), is_closing=True)
        write_checkpoint(folder, position)
        _replace_files_with_gaps(folder, arrays, position)


def _replace_files_with_gaps(folder: Path, arrays: Arrays, position: Position) -> Position:
    """Puts the files without gaps into the places of those with gaps."""
    for name in arrays:
        if _closed_file(folder, name).exists():
            _closed_file(folder, name).replace(folder / name)
    sync_folder(folder)
    position = position._replace(is_closing=False)
    write_checkpoint(folder, position)
    return position


def _closed_file(folder: Path, name: str) -> Path:
    """Returns the path of a file without gaps before it replaces the one with gaps."""
    return folder / f"{name}.closed"


def _is_intact(folder: Path, arrays: Arrays, position: Position) -> bool:
    """Returns whether the files of the stage hold at least what the checkpoint says."""
    least = {name: width * position.filled for name, width in _bytes_per_document(arrays).items()}
    least[REJECTED] = position.rejected_bytes
    for name, size in least.items():
        if size and (not (folder / name).is_file() or (folder / name).stat().st_size < size):
            return False
    rows = 0
    for number in range(position.segments):
        try:
            with pa.memory_map(str(_segment_path(folder, number))) as source:
                rows += pa.ipc.open_file(source).read_all().num_rows
        except (OSError, pa.ArrowException):
            return False
    return rows == position.documents


def _remove_later_columns(folder: Path, position: Position) -> None:
    """Deletes columns that were written after the checkpoint, which would count as documents."""
    for path in (folder / "columns").glob("*.arrow"):
        if path >= _segment_path(folder, position.segments):
            path.unlink()
    shutil.rmtree(folder / UNIQUE, ignore_errors=True)


def _segment_path(folder: Path, number: int) -> Path:
    return folder / "columns" / f"{number:06d}.arrow"


def _bytes_per_document(arrays: Arrays) -> dict[str, int]:
    """Returns the bytes of a document in each array."""
    return {
        name: np.dtype(dtype).itemsize * (1 if width is None else width)
        for name, (dtype, width) in arrays.items()
    }


class SketchWriter:
    """A writer of the stage's files, with a checkpoint every few seconds and at the end."""

    def __init__(
        self, folder: Path, arrays: Arrays, position: Position, names: Sequence[str]
    ) -> None:
        self.folder = folder
        self.position = position
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._last = time.monotonic()
        self._files = ExitStack()
        self._widths = _bytes_per_document(arrays)
        self._arrays = {
            name: self._open(name, width * position.slots) for name, width in self._widths.items()
        }
        self._quarantine = QuarantineWriter(self._open(REJECTED, position.rejected_bytes), names)

    def __enter__(self) -> "SketchWriter":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._files:
            if kind is None:
                self.checkpoint()

    def add(self, done: SketchedPart) -> None:
        """Appends a part, whose facts of fixed size are written already."""
        if done.apart is not None:
            done = self._place(done, done.apart)
        position = self.position
        gaps = position.gaps
        if done.documents < done.slots:
            gap = (done.slot + done.documents, done.slots - done.documents)
            gaps = [*gaps, gap]
        file, row = done.next or (position.file, position.row)
        self.position = position._replace(
            file=file,
            row=row,
            documents=position.documents + done.documents,
            slots=done.slot + done.slots,
            gaps=gaps,
            rejected=position.rejected + done.rejected_rows,
        )
        self._quarantine.add(done.rejected)
        self._add_columns(done.columns)
        if time.monotonic() - self._last > SEGMENT_SECONDS:
            self.checkpoint()

    def _place(self, done: SketchedPart, folder: Path) -> SketchedPart:
        """Copies what a part has written apart to the places that follow those of the last part."""
        for name, target in self._arrays.items():
            target.seek(self.position.slots * self._widths[name])
            with (folder / name).open("rb") as source:
                copy_bytes(source, target, done.documents * self._widths[name])
        with (folder / REJECTED).open("rb") as source:
            self._quarantine.copy(source)
        if (folder / CARRIED).exists():
            with pa.OSFile(str(folder / CARRIED)) as source:
                self._add_columns(pa.ipc.open_stream(source))
        shutil.rmtree(folder)
        return done._replace(slot=self.position.slots, slots=done.documents)

    def _add_columns(self, batches: Iterable[pa.RecordBatch]) -> None:
        for columns in batches:
            self._pending.append(columns)
            self._pending_bytes += columns.nbytes
            if self._pending_bytes > SEGMENT_BYTES:
                self._write_segment()

    def _write_segment(self) -> None:
        """Writes the pending columns, which count as documents from the next checkpoint on."""
        segments = self.position.segments
        path = _segment_path(self.folder, segments)
        table = pa.Table.from_batches(self._pending)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        sync_file(path)
        self.position = self.position._replace(segments=segments + 1)
        self._pending = []
        self._pending_bytes = 0

    def checkpoint(self) -> None:
        """Writes a checkpoint, so that all parts so far survive a kill and a power cut.

        The data is synced first, then the checkpoint is written.
        """
        with disk_errors(self.folder):
            for file in self._arrays.values():
                file.flush()
                os.fsync(file.fileno())
            if self._pending:
                self._write_segment()
            sync_folder(self.folder / "columns")
            rejected_bytes = self._quarantine.flush()
            sync_file(self.folder / REJECTED)
            sync_folder(self.folder)
            self.position = self.position._replace(rejected_bytes=rejected_bytes)
            write_checkpoint(self.folder, self.position)
        self._last = time.monotonic()

    def _open(self, name: str, valid: int) -> BinaryIO:
        file = _open_array(self._files, self.folder / name)
        file.truncate(valid)
        file.seek(valid)
        return file


def _carried_columns(batch: Batch, ids: pa.Array) -> pa.RecordBatch:
    documents = batch.documents
    names = [name for name in documents.schema.names if name.startswith(CARRIED_PREFIX)]
    return pa.record_batch([ids, *(documents[name] for name in names)], [ID, *names])
