"""A run that extends a finished one: new, changed and withdrawn documents.

The sketches of the finished run are taken over without its withdrawn documents, and new files are
sketched and follow them. A new document takes the place of the one with the same id. Pairs of two
documents that the finished run has compared are known, so that only the others are looked up. The
result is that of a run over all documents, because each stage depends on the documents and on the
pairs alone.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import FileCorpus
from nearkin.corpus.columns import ID
from nearkin.corpus.places import places_of
from nearkin.engine.documents import COLUMNS, Documents, arrays_of, read_columns
from nearkin.engine.joined_sketches import join_sketches
from nearkin.engine.pair_files import KnownPairs, ScoredWriter, read_scored
from nearkin.engine.repeated_ids import find_repeated_ids
from nearkin.engine.run import Run
from nearkin.engine.saved_sets import SavedSets
from nearkin.engine.work_folder import GROWN, WorkFolder, map_file
from nearkin.errors import RunError, UsageError
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.runtime.outputs import MANIFEST
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, pack_pairs, unpack_pairs

COMPARED = "compared"
"""The file that says which documents a run has compared with each other, uint8 (n,)."""
WITHDRAWN = "withdrawn"
"""The file of the places of rows that are not documents any more, ascending, uint64."""
LEFT = "left"
"""The array of the documents of the finished run that are left, bool (n,)."""


@dataclass(frozen=True)
class Growth:
    """The finished run that a run extends, and what is new.

    Attributes:
        sketches: Folder of the sketches of the finished run, with its sets.
        known: Its scored pairs, and the documents that it compared. None if all documents are
            compared again.
        files: Number of its files.
        corpus: The new files, or None if documents are only withdrawn.
        withdrawn: Ids of withdrawn documents, large_string.
        kept: Which of its documents it kept, bool (n,).
        stable: Whether these stay kept. Otherwise, the keep policy alone decides.
    """

    sketches: Path
    known: KnownPairs | None
    files: int
    corpus: FileCorpus | None
    withdrawn: pa.Array
    kept: np.ndarray
    stable: bool = False

    def sketch(self, run: Run) -> list[float] | None:
        """Writes the sketches of both runs, as described in `GrownRun`."""
        new = None if self.corpus is None else self._sketch_new(run, self.corpus)
        replaced = [self.withdrawn]
        if new is not None:
            replaced += new.documents().ids.chunks
        left = np.concatenate(
            [np.empty(0, bool)]
            + [
                pc.invert(pc.is_in(part, pa.chunked_array(replaced))).to_numpy(zero_copy_only=False)
                for part in iterate_portions(self._read_ids())
            ]
        )
        run.work.save(LEFT, left)
        join_sketches(
            self.sketches,
            left,
            None if new is None else new.work.path / "sketch",
            run.work.folder("sketch"),
            arrays_of(run.options.spec, 0, further=run.options.further_specs),
            self.files,
        )
        files = map_file(self.sketches / "files", np.int32)
        rows = map_file(self.sketches / "rows", np.int64)
        places = [places_of(files[~left], rows[~left])]
        if (self.sketches / WITHDRAWN).exists():
            places.append(np.fromfile(self.sketches / WITHDRAWN, np.uint64))
        np.sort(np.concatenate(places)).tofile(run.work.path / "sketch" / WITHDRAWN)
        latency = None if new is None else new.sketch_stats.build_latency
        return None if latency is None else list(latency)

    def _read_ids(self) -> pa.ChunkedArray:
        return read_columns(self.sketches / COLUMNS, ())[ID]

    def _sketch_new(self, run: Run, corpus: FileCorpus) -> Run:
        """Sketches the new files in a work folder of their own."""
        folder = run.work.path / GROWN
        if (folder / MANIFEST).exists():
            work = WorkFolder.resume(folder)
        else:
            work = WorkFolder.create(folder, {}, durable=run.work.durable)
        new = Run(
            corpus, run.columns, run.options, work, run.progress, run.resources, saves_sets=True
        )
        new.sketch()
        if new.sketch_stats.repeated_ids:
            repeated = find_repeated_ids(read_columns(work.path / "sketch" / COLUMNS, ())[ID])
            first = new.documents().ids[int(repeated[0])].as_py()
            raise UsageError(
                f"the new documents have the id {first.rpartition('#')[0]!r} more than once, so "
                "that it is not known which of them is the current one; give each document once"
            )
        return new

    def restore(self, run: Run) -> None:
        """Gives a run the sets, the known pairs and the rows that are left out."""
        documents = run.documents()
        folder = run.work.path / "sketch"
        withdrawn = np.fromfile(folder / WITHDRAWN, np.uint64)
        if isinstance(run.corpus, FileCorpus):
            run.corpus.withdraw(withdrawn)
        sets = SavedSets.open(
            folder, len(documents), run.options.workers, has_fields=bool(run.options.fields)
        )
        if sets is None:
            raise RunError(f"the sets in {folder} are damaged; run again without the work folder")
        run.payloads = sets
        if self.known is not None:
            run.known = self._renumber(self.known, run.work.load(LEFT), len(documents))
        if self.stable:
            run.order_of = partial(self.order, run)

    def _renumber(self, known: KnownPairs, left: np.ndarray, documents: int) -> KnownPairs:
        """Returns what the finished run knows of documents that are left, by their new numbers."""
        compared = np.zeros(documents, bool)
        before = known.compared[left]
        compared[: len(before)] = before
        numbers = np.cumsum(left) - 1
        scored = known.among(left)
        first, second = unpack_pairs(scored.pairs)
        pairs = pack_pairs(numbers[first], numbers[second])
        return KnownPairs(compared, scored._replace(pairs=pairs))

    def order(self, run: Run, documents: Documents) -> np.ndarray:
        """Returns the keep order, with the documents that were kept before first, uint32 (n,)."""
        was_kept = np.zeros(len(documents), bool)
        before = self.kept[run.work.load(LEFT)]
        was_kept[: len(before)] = before
        order = run.options.keep_policy.order(
            documents.carried, np.asarray(documents.lengths), documents.id_ranks()
        )
        return order[np.argsort(~was_kept[order], kind="stable")]

    def count(self, run: Run) -> "GrowthCounts":
        """Returns the numbers of documents that changed."""
        left = run.work.load(LEFT)
        ids = self._read_ids()
        known = sum(
            int(np.count_nonzero(pc.is_in(part, self.withdrawn))) for part in iterate_portions(ids)
        )
        return GrowthCounts(
            new=len(run.documents()) - int(np.count_nonzero(left)),
            withdrawn=known,
            replaced=int(np.count_nonzero(~left)) - known,
            unknown=len(self.withdrawn) - known,
        )


class GrowthCounts(NamedTuple):
    """The numbers of documents that changed since the run that another one extends."""

    new: int
    """The number of documents of the new files."""
    withdrawn: int
    replaced: int
    """The number of further documents of the finished run whose id a new document has."""
    unknown: int
    """The number of ids of withdrawn documents that the finished run does not have."""


def save_comparison(run: Run, folder: Path) -> None:
    """Saves the scored pairs of a run, and which documents it compared, for runs that extend it."""
    folder.mkdir()
    with ScoredWriter(folder) as writer:
        for start in range(0, len(run.scored().pairs), PAIRS_PER_BATCH):
            writer.add(run.scored().select(slice(start, start + PAIRS_PER_BATCH)))
    run.active().astype(np.uint8).tofile(folder / COMPARED)


def read_comparison(folder: Path, documents: int) -> KnownPairs | None:
    """Returns what `save_comparison` saved of a run, or None if it is not there, or damaged."""
    try:
        compared = map_file(folder / COMPARED, np.uint8)
        scored = read_scored(folder)
    except (OSError, ValueError):
        return None
    if len(compared) != documents or len(set(map(len, scored))) > 1:
        return None
    if len(scored.pairs) and int(scored.pairs[-1] >> np.uint64(32)) >= documents:
        return None
    return KnownPairs(compared.astype(bool), scored)
