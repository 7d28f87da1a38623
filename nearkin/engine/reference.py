"""The comparison of a run's documents with those of a reference, which are never removed.

The band keys of the run's documents are put into sets. The keys of the reference are computed in
one pass, and only documents with a key in these sets are compared. So the cost of a reference is
that pass, and not its deduplication. The remaining documents of both sides are one small run whose
pairs are between the two sides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus import Columns, Corpus, FileCorpus
from nearkin.corpus.batches import read_content
from nearkin.corpus.places import places_of
from nearkin.engine.acceptance import accepts_all_copies
from nearkin.engine.candidates import SignatureComparison
from nearkin.engine.documents import take_values
from nearkin.engine.exact_groups import hash_blocks
from nearkin.engine.options import SMALL_CORPUS
from nearkin.engine.reference_matches import (
    ComparedReference,
    ReferenceMatches,
    expand_groups,
)
from nearkin.engine.reference_pairs import compare_sides
from nearkin.engine.reference_sides import (
    KeyedSide,
    Side,
    combine_keys,
    find_equal,
    mark_common_keys,
)
from nearkin.engine.result_schema import EXACT, NEAR, SAME
from nearkin.engine.run import Run
from nearkin.engine.saved_sets import SavedSets, can_save_sets
from nearkin.engine.stats import ReferenceStats, SketchStats, Stage, StageRecord
from nearkin.engine.value_groups import write_value_keys
from nearkin.engine.value_keys import value_columns_of
from nearkin.engine.verification import Payloads
from nearkin.engine.work_folder import AGAINST, WorkFolder
from nearkin.runtime.files import delete_shared_folder
from nearkin.runtime.outputs import MANIFEST
from nearkin.settings.choices import EmptyDocuments
from nearkin.stages.cluster.id_order import sort_ids
from nearkin.stages.cluster.keep import DEFAULT_ORDER
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures.compared_sets import compares_sets
from nearkin.stages.packed_pairs import ScoredPairs, unpack_pairs
from nearkin.stages.pair_scope import NO_BLOCK


@dataclass(frozen=True)
class SavedSignatures:
    """The signatures of a finished run.

    Attributes:
        folder: Folder of the signatures.
        record: Record of its sketch stage.
        evidence: Files of the run that are replaced if its signatures are.
    """

    folder: Path
    record: StageRecord
    evidence: FileCorpus


class DocumentReference(Protocol):
    """Documents that the documents of a run are compared with."""

    def compare(self, run: Run, number: int) -> ComparedReference:
        """Finds the first documents of exact groups that repeat one of the reference.

        With the option `related`, those that are related to one are found, too. A document may
        have several matches.
        """

    def read_contents(self, run: Run, number: int, documents: np.ndarray) -> Iterator[pa.Array]:
        """Yields the contents of some documents of the reference, in batches.

        Nothing is yielded if the reference has no texts, or if they were not read to compare them.

        Args:
            documents: Numbers of the documents in the reference, ascending, int64 (m,).
        """


@dataclass(frozen=True)
class Reference:
    """Documents of files or of a table that the documents of a run are compared with.

    Attributes:
        corpus: Its texts.
        columns: Columns of the texts, with the column of blocks if the run has one.
        saved: Signatures of the texts, or None if they are sketched.
        kept: Which documents of the texts belong to the reference, bool (n,). None for all.
    """

    corpus: Corpus
    columns: Columns
    saved: SavedSignatures | None = None
    kept: np.ndarray | None = None

    def compare(self, run: Run, number: int) -> ComparedReference:
        """Compares the documents of a run, as `DocumentReference` describes."""
        compared = _ReferenceComparison.open(run, self, number).match()
        if self.saved is not None:
            # Other processes have opened the files on their own.
            self.saved.evidence.require_all_unchanged()
        return compared

    def read_contents(self, run: Run, number: int, documents: np.ndarray) -> Iterator[pa.Array]:
        """Yields the contents of some documents, as `DocumentReference` describes.

        Args:
            documents: Numbers of the documents in the reference, ascending, int64 (m,).
        """
        sketched = _sketch_reference(run, self, number)
        if sketched.payloads is not None:
            return
        own = sketched.documents()
        places = places_of(own.files[documents], own.rows[documents])
        for batch in read_content(sketched.corpus, sketched.columns, places):
            yield batch.documents[sketched.columns.content]


@dataclass(frozen=True)
class ReferenceMatcher:
    """A comparison of the documents of a run with those of references.

    Attributes:
        references: References, each compared on its own.
        only_reference: Whether the documents of the run are not compared with each other.
    """

    references: Sequence[DocumentReference]
    only_reference: bool = False

    def match(self, run: Run) -> ComparedReference:
        """Finds the documents that repeat one of a reference, each with its best match.

        The related documents are those that repeat none.
        """
        parts = []
        stats = ReferenceStats()
        for number, reference in enumerate(self.references):
            compared = reference.compare(run, number)
            parts.append(compared)
            stats = stats.add(compared.stats)
        representative = np.arange(len(run.documents()))
        if not run.has_mixed_groups:
            representative = np.asarray(run.work.load("representative"))
        matches = ReferenceMatches.concatenate([part.matches for part in parts])
        best = expand_groups(matches.best(), representative)
        related = ReferenceMatches.concatenate([part.related for part in parts])
        related = related.without(best.documents)
        if self.only_reference:
            # Exact duplicates are kept, and each of them is related.
            related = expand_groups(related.in_order(), representative)
        return ComparedReference(best, related.in_order(), best.add_to(stats))

    def read_contents(self, run: Run, matches: ReferenceMatches) -> dict[int, Any]:
        """Returns the content of the document of a reference by the number of the one it removed.

        Contents that were not read to compare them are left out.
        """
        contents: dict[int, Any] = {}
        for number in np.unique(matches.reference).tolist():
            part = matches.select(np.flatnonzero(matches.reference == number))
            others = np.unique(part.other)
            batches = self.references[number].read_contents(run, number, others)
            values = [value for batch in batches for value in batch.to_pylist()]
            if not values:
                continue
            places = np.searchsorted(others, part.other).tolist()
            for document, place in zip(part.documents.tolist(), places, strict=True):
                contents[document] = values[place]
        return contents


class _ReferenceComparison:
    """The comparison of a run with one reference."""

    def __init__(self, run: Run, reference: Reference, sketched: Run, number: int) -> None:
        self._run = run
        self._sketched = sketched
        self._number = number
        self._folder = sketched.work.path / "pairs"
        documents = sketched.documents()
        is_kept = np.ones(len(documents), bool) if reference.kept is None else reference.kept
        blocks = hash_blocks(documents, run.options)
        is_compared = is_kept & ~documents.empty & (blocks != NO_BLOCK)
        self._theirs = Side.of(documents, run.options, blocks, is_compared)
        self._size = int(np.count_nonzero(is_kept))
        own = run.documents()
        if run.has_mixed_groups:
            own_blocks = hash_blocks(own, run.options)
            is_first = ~own.empty
        else:
            own_blocks = np.asarray(run.work.load("blocks"))
            is_first = run.first_of_groups() & ~own.empty
        self._ours = Side.of(own, run.options, own_blocks, is_first & (own_blocks != NO_BLOCK))
        self._is_kept = is_kept

    @classmethod
    def open(cls, run: Run, reference: Reference, number: int) -> "_ReferenceComparison":
        """Sketches a reference, unless its signatures are saved."""
        sketched = _sketch_reference(run, reference, number)
        return cls(run, reference, sketched, number)

    def match(self) -> ComparedReference:
        """Returns the matches of the run's documents, several for some, and the statistics."""
        exact = self._match_copies()
        same = self._match_values()
        is_open = ~self._ours.documents.matchless
        is_open[exact.documents] = False
        is_open[same.documents] = False
        ours = self._ours.select(is_open)
        theirs = self._theirs.select(~self._theirs.documents.matchless)
        bandings = self._bandings()
        if bandings is not None and self._run.options.containment_threshold is None:
            ours, theirs = self._select_by_keys(ours, theirs, bandings)
        theirs = self._without_copies(theirs)
        pairs_run = compare_sides(self._run, self._sketched, ours, theirs, bandings, self._folder)
        near = self._read_matches(pairs_run, pairs_run.scored(), ours, theirs)
        no_pairs = ScoredPairs.concatenate([])
        has_related = self._run.options.related is not None
        related = self._read_matches(
            pairs_run, pairs_run.related_pairs() if has_related else no_pairs, ours, theirs
        )
        stats = ReferenceStats(
            references=1,
            documents=self._size,
            rejected=self._sketched.sketch_stats.rejected,
            compared=len(theirs.selected),
            hot_buckets=pairs_run.hot_buckets,
            hot_shingles=pairs_run.recorded(Stage.CANDIDATES).get("hot_shingles"),
        )
        delete_shared_folder(self._folder)
        self._sketched.release_hashes()
        return ComparedReference(ReferenceMatches.concatenate([exact, same, near]), related, stats)

    def _bandings(self) -> tuple[Banding, ...] | None:
        """Returns the bands of each kind of signatures that finds candidate pairs.

        It is None if all pairs of both sides are compared.
        """
        options = self._run.options
        ours = self._run.sketch_stats
        documents = ours.documents + self._size
        shingles = ours.shingles + self._sketched.sketch_stats.shingles
        is_small = documents < SMALL_CORPUS and options.can_compare_all(shingles)
        if options.bands is None and is_small:
            return None
        bandings = [
            candidate.banding_if_possible(measure, documents)
            for candidate, measure in zip(
                options.candidate_options, self._run.candidate_measures, strict=True
            )
        ]
        possible = tuple(banding for banding in bandings if banding is not None)
        return possible if len(possible) == len(bandings) else None

    def _match_copies(self) -> ReferenceMatches:
        """Returns the exact duplicates, with all their copies in the reference.

        There are none if the acceptance of the run may not accept some of them. They are compared
        as pairs then.
        """
        if not accepts_all_copies(self._run.options.acceptance):
            return ReferenceMatches.concatenate([])
        ours = self._ours
        theirs = self._theirs
        own, other = find_equal(
            ours, theirs, ours.documents.fingerprints, theirs.documents.fingerprints
        )
        return ReferenceMatches.of_copies(own, take_values(theirs.documents.ids, other))

    def _match_values(self) -> ReferenceMatches:
        """Returns the documents with an equal value of a column, with all equals of the reference.

        There are none without the options `same` and `url`.
        """
        matches = [ReferenceMatches.concatenate([])]
        for number, column in enumerate(value_columns_of(self._run.options)):
            own_keys = write_value_keys(self._ours.documents, column, self._run.work, number)
            other_keys = write_value_keys(
                self._theirs.documents, column, self._sketched.work, number
            )
            ours = self._with_values(self._ours, own_keys)
            theirs = self._with_values(self._theirs, other_keys)
            is_kept = self._is_kept[theirs.selected]
            theirs = theirs._replace(selected=theirs.selected[is_kept])
            own, other = find_equal(ours, theirs, own_keys, other_keys)
            ids = take_values(theirs.documents.ids, other)
            no_similarity = np.full(len(own), np.nan)
            matches.append(ReferenceMatches.without_shingles(own, no_similarity, SAME, ids))
        return ReferenceMatches.concatenate(matches)

    def _with_values(self, side: Side, keys: np.ndarray) -> Side:
        """Returns a side with all documents that have a value, and are not dropped as empty.

        Args:
            keys: Keys of the values of all documents of the side, uint64 (n, 2).
        """
        has_value = (keys != 0).any(axis=1) & (side.blocks != NO_BLOCK)
        if self._run.options.empty == EmptyDocuments.DROP:
            has_value &= ~side.documents.empty
        return side._replace(selected=np.flatnonzero(has_value))

    def _select_by_keys(
        self, ours: Side, theirs: Side, bandings: Sequence[Banding]
    ) -> tuple[Side, Side]:
        """Returns the documents of both sides that have a band key in common with the other one."""
        is_ours = np.zeros(len(ours.documents), bool)
        is_theirs = np.zeros(len(theirs.documents), bool)
        folder = self._sketched.work.path / "keys-of-sides"
        executor = self._sketched.executor
        for number, banding in enumerate(bandings):
            own, other = (
                self._write_keys(side, banding, number, folder / name)
                for name, side in (("own", ours), ("other", theirs))
            )
            memory = self._run.options.memory
            mark_common_keys(own, other, is_ours, is_theirs, memory, executor)
        delete_shared_folder(folder)
        return ours.select(is_ours), theirs.select(is_theirs)

    def _write_keys(self, side: Side, banding: Banding, number: int, folder: Path) -> KeyedSide:
        """Writes the band keys of a side, of the candidate field with a number."""
        options = self._run.options.candidate_options[number]
        measure = self._run.candidate_measures[number]
        return KeyedSide.write(
            side.select(side.documents.have_field(number)),
            SignatureComparison.create(measure, banding, side.documents, options, number),
            options,
            folder,
            self._sketched.executor,
        )

    def _without_copies(self, theirs: Side) -> Side:
        """Returns one document of each exact group of the reference: that of the smallest id."""
        keys = combine_keys(theirs, theirs.selected, theirs.documents.fingerprints)
        ids = take_values(theirs.documents.ids, theirs.selected)
        by_id = sort_ids(ids)
        _, first = np.unique(keys[by_id], return_index=True)
        return theirs._replace(selected=np.sort(theirs.selected[by_id[first]]))

    def _read_matches(
        self, pairs_run: Run, scored: ScoredPairs, ours: Side, theirs: Side
    ) -> ReferenceMatches:
        """Returns scored pairs of the run over both sides as matches."""
        own, other = unpack_pairs(np.asarray(scored.pairs))
        documents = ours.selected[own]
        matched = theirs.selected[other - len(ours.selected)]
        kind = np.full(len(own), NEAR, np.uint8)
        if self._run.options.acceptance is not None:
            # Copies are compared as pairs if further facts decide.
            contents = ours.documents.fingerprints[documents]
            is_copy = (contents == theirs.documents.fingerprints[matched]).all(axis=1)
            kind[is_copy] = EXACT
        shared = np.zeros(len(own), np.int64)
        sizes = np.zeros(len(own), np.int64)
        options = self._run.options
        if pairs_run.is_exact and compares_sets(options.spec.measure) and not options.fields:
            shared = np.asarray(scored.intersection).astype(np.int64)
            sizes = Payloads.load(pairs_run.measure, pairs_run.work).count_shingles(own)
        return ReferenceMatches(
            documents=documents,
            similarity=np.asarray(scored.similarity),
            kind=kind,
            shared=shared,
            sizes=sizes,
            reference=np.full(len(own), self._number),
            other=matched,
            ids=take_values(theirs.documents.ids, matched),
        )


def _sketch_reference(run: Run, reference: Reference, number: int) -> Run:
    """Returns a run over a reference after its sketch stage, which is not repeated."""
    folder = run.work.folder(AGAINST) / f"{number}"
    if (folder / MANIFEST).exists():
        work = WorkFolder.resume(folder)
    else:
        work = WorkFolder.create(folder, {}, durable=run.work.durable)
    if reference.saved is not None:
        reference.saved.evidence.require_all_unchanged()
    if reference.saved is not None and work.done(Stage.SKETCH) is None:
        (work.path / "sketch").unlink(missing_ok=True)
        (work.path / "sketch").symlink_to(
            reference.saved.folder.resolve(), target_is_directory=True
        )
        with work.stage(Stage.SKETCH) as facts:
            facts.update(reference.saved.record)
    payloads = None
    if reference.saved is not None and can_save_sets(run.options):
        documents = SketchStats.from_dict(reference.saved.record).documents
        payloads = SavedSets.open(
            work.path / "sketch",
            documents,
            run.options.workers,
            has_fields=bool(run.options.fields),
        )
    sketched = Run(
        reference.corpus,
        reference.columns,
        replace(run.options, keep=DEFAULT_ORDER),
        work,
        run.progress,
        run.resources,
        payloads=payloads,
        # Bands select few documents, whose texts are read again. Shingles are looked up in all.
        keeps_hashes=run.options.containment_threshold is not None,
        given_executor=run.executor,
    )
    sketched.sketch()
    if reference.saved is not None:
        # The signatures are mapped now, so that they stay as they are.
        sketched.documents()
        reference.saved.evidence.require_all_unchanged()
    return sketched
