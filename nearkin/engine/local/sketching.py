"""Stage 1 of the local engine: reads the corpus once and sketches its documents.

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
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus import Batch, Columns, Corpus, QuarantineWriter, make_ids
from nearkin.corpus.columns import CARRIED_PREFIX, ID
from nearkin.engine.document_facts import TextFact, hash_text_facts, text_lengths
from nearkin.engine.local.documents import (
    KEYS,
    UNIQUE,
    arrays_of,
    presence_file,
    signatures_file,
)
from nearkin.engine.local.kept_hashes import HashCollector, HashSlice, KeptHashes
from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.stats import latency_percentiles
from nearkin.runtime.files import disk_errors, sync_file, sync_folder, to_json, write_durably
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.measures import Measure
from nearkin.stages.sketch.sketcher import BandKeyBuilder, Sketches

SEGMENT_SECONDS = 5.0
"""Time between checkpoints, in seconds."""
SEGMENT_BYTES = 32 << 20
"""Largest size of the ids and carried columns that wait for a checkpoint, in bytes."""
CHECKPOINT = "checkpoint.json"
REJECTED = "rejected.jsonl"


class SketchedBatch(NamedTuple):
    """A batch with the signatures of its documents."""

    batch: Batch
    ids: pa.Array
    sketches: Sketches
    lengths: np.ndarray
    seconds: float
    hashes: list[HashSlice] | None
    """The shingle hashes of the documents, or None if they are not kept."""
    text_facts: dict[TextFact, np.ndarray]
    """The hashes of what an acceptance compares of the wordings, uint64 (n, 2) each."""


Arrays: TypeAlias = dict[str, tuple[type[np.generic], int | None]]


class Position(NamedTuple):
    """A checkpoint: where reading continues, and how much of the stage's files is valid.

    The names of the fields are the keys in the file of the checkpoint.
    """

    file: int = 0
    row: int = 0
    documents: int = 0
    segments: int = 0
    rejected_bytes: int = 0
    rejected: int = 0


def sketch_corpus(
    corpus: Corpus,
    columns: Columns,
    measure: Measure,
    work: WorkFolder,
    workers: int,
    progress: Progress,
    key_builder: BandKeyBuilder | None,
    kept_hashes: KeptHashes | None = None,
    *,
    text_facts: Sequence[TextFact] = (),
    further: Sequence[Spec] = (),
) -> list[float] | None:
    """Runs the stage, from its checkpoint if there is one.

    Returns:
        The median and the 99th percentile of the seconds to sketch a document, or None if no
        document was left to sketch.
    """
    folder = work.folder("sketch")
    (folder / "columns").mkdir(exist_ok=True)
    key_count = key_builder.key_count if key_builder else 0
    arrays = arrays_of(measure.spec, key_count, text_facts=text_facts, further=further)
    position = read_checkpoint(folder)
    if not _is_intact(folder, arrays, position):
        position = Position()
    _remove_later_columns(folder, position)
    sketchers = ObjectPool(lambda: measure.sketcher(key_builder))

    def sketch(batch: Batch) -> SketchedBatch:
        documents = batch.documents[columns.content]
        collector = None
        if kept_hashes is not None and kept_hashes.is_open:
            collector = HashCollector()
        began = time.perf_counter()
        sketches = sketchers.use(lambda sketcher: sketcher.sketch(documents, collector))
        seconds = time.perf_counter() - began
        return SketchedBatch(
            batch=batch,
            ids=make_ids(batch, columns, corpus.names),
            sketches=sketches,
            lengths=text_lengths(documents),
            seconds=seconds,
            hashes=None if collector is None else collector.slices,
            text_facts=hash_text_facts(documents, text_facts),
        )

    progress.advance(position.documents)
    batches = corpus.batches(columns, (position.file, position.row), position.documents)
    durations: list[tuple[float, int]] = []
    with SketchWriter(folder, arrays, position, corpus.names) as writer:
        for sketched in ordered_map(sketch, batches, workers):
            writer.add(sketched)
            if kept_hashes is not None and sketched.hashes is not None:
                kept_hashes.add(sketched.batch.first, sketched.hashes)
            progress.advance(len(sketched.ids))
            durations.append((sketched.seconds, len(sketched.ids)))
    return latency_percentiles(durations)


def read_checkpoint(folder: Path) -> Position:
    """Returns the last checkpoint of a folder, or the beginning if there is none."""
    path = folder / CHECKPOINT
    if not path.exists():
        return Position()
    return Position(**json.loads(path.read_bytes()))


def _is_intact(folder: Path, arrays: Arrays, position: Position) -> bool:
    """Returns whether the files of the stage hold at least what the checkpoint says."""
    least = {
        name: width * position.documents for name, width in _bytes_per_document(arrays).items()
    }
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
        self._types = {name: dtype for name, (dtype, _) in arrays.items()}
        self._arrays = {
            name: self._open(name, width * position.documents)
            for name, width in _bytes_per_document(arrays).items()
        }
        self._quarantine = QuarantineWriter(self._open(REJECTED, position.rejected_bytes), names)

    def __enter__(self) -> "SketchWriter":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._files:
            if kind is None:
                self.checkpoint()

    def add(self, done: SketchedBatch) -> None:
        """Appends one batch."""
        batch = done.batch
        facts = {
            "signatures": done.sketches.signatures,
            "shingles": done.sketches.shingles,
            "fingerprints": done.sketches.fingerprints,
            "lengths": done.lengths,
            "files": batch.files,
            "rows": batch.rows,
            KEYS: done.sketches.keys,
        }
        facts.update({str(fact): hashes for fact, hashes in done.text_facts.items()})
        for number, field in enumerate(done.sketches.fields):
            facts[signatures_file(number)] = field.signatures
            facts[presence_file(number)] = field.has_field
        for name, dtype in self._types.items():
            self._arrays[name].write(np.ascontiguousarray(facts[name], dtype).data)
        self._quarantine.add(batch.rejected)
        self._pending.append(_carried_columns(done))
        file, row = batch.next
        self.position = self.position._replace(
            file=file,
            row=row,
            documents=batch.first + len(done.ids),
            rejected=self.position.rejected + batch.rejected_rows,
        )
        self._pending_bytes += self._pending[-1].nbytes
        if time.monotonic() - self._last > SEGMENT_SECONDS or self._pending_bytes > SEGMENT_BYTES:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Writes a checkpoint, so that all batches so far survive a kill and a power cut.

        The data is synced first, then the checkpoint is written.
        """
        segments = self.position.segments
        with disk_errors(self.folder):
            for file in self._arrays.values():
                file.flush()
                os.fsync(file.fileno())
            if self._pending:
                path = _segment_path(self.folder, segments)
                _write_segment(path, self._pending)
                sync_file(path)
                sync_folder(path.parent)
                segments += 1
            self._pending = []
            self._pending_bytes = 0
            rejected_bytes = self._quarantine.flush()
            sync_file(self.folder / REJECTED)
            sync_folder(self.folder)
            self.position = self.position._replace(segments=segments, rejected_bytes=rejected_bytes)
            write_durably(self.folder / CHECKPOINT, to_json(self.position._asdict()))
        self._last = time.monotonic()

    def _open(self, name: str, valid: int) -> BinaryIO:
        path = self.folder / name
        path.touch()
        file = self._files.enter_context(path.open("r+b"))
        file.truncate(valid)
        file.seek(valid)
        return file


def _carried_columns(done: SketchedBatch) -> pa.RecordBatch:
    documents = done.batch.documents
    names = [name for name in documents.schema.names if name.startswith(CARRIED_PREFIX)]
    return pa.record_batch([done.ids, *(documents[name] for name in names)], [ID, *names])


def _write_segment(path: Path, batches: list[pa.RecordBatch]) -> None:
    table = pa.Table.from_batches(batches)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
