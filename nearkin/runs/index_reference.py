"""An online index as the reference of a run: its documents are searched for, and never changed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus import Batch, Columns, FileCorpus
from nearkin.corpus.batches import read_content
from nearkin.corpus.file_names import hide_password
from nearkin.corpus.places import places_of
from nearkin.engine.options import RunOptions
from nearkin.engine.reference import Reference
from nearkin.engine.reference_matches import ComparedReference, ReferenceMatches
from nearkin.engine.result_schema import NEAR
from nearkin.engine.run import Run
from nearkin.engine.stats import ReferenceStats
from nearkin.engine.work_folder import AGAINST
from nearkin.errors import IncompatibleError, UsageError
from nearkin.index.documents import documents_of
from nearkin.index.entry import Match, require_scope
from nearkin.index.index import Index
from nearkin.index.migration.copy import UNLIMITED_SIZE
from nearkin.index.stores.urls import local_file_of
from nearkin.runtime.files import disk_errors
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.threads import ordered_map
from nearkin.settings.spec import advise_on_version, find_spec_difference
from nearkin.stages.sketch.resources import SpecResources

MOST_MATCHES = 1 << 20
"""The largest number of documents of an index that one document is compared with by a condition."""
TEXTS = pa.schema([("id", pa.large_string()), ("text", pa.large_string())])
"""The columns of the file of texts that were found in an index."""


class _Found(NamedTuple):
    """Documents of a run, each with a document of the index."""

    documents: list[int]
    matches: list[Match]

    def add(self, document: int, match: Match) -> None:
        """Adds a document of the run with one of the index."""
        self.documents.append(document)
        self.matches.append(match)

    def to_matches(self) -> ReferenceMatches:
        """Returns the matches as arrays."""
        return ReferenceMatches.without_shingles(
            documents=np.array(self.documents, np.int64),
            similarity=np.array([match.similarity for match in self.matches], np.float64),
            kind=NEAR,
            ids=pa.array([match.id for match in self.matches], pa.large_string()),
        )


class _FoundInIndex(NamedTuple):
    """The documents of an index that some documents of a run repeat, or are related to."""

    same: _Found
    """The document that each one repeats."""
    related: _Found
    """The documents that the others are related to."""


@dataclass(frozen=True)
class IndexReference:
    """A scope of an index that the documents of a run are compared with.

    The index answers as in `Index.match_many`: with representatives, or with all documents if it
    was created with `postings="all"`. It is opened when documents are searched for, so that its
    memory is not held longer.

    Attributes:
        url: URL of the store.
        scope: Scope that is searched.
        resources: The hash key and the data that the Spec of the run refers to.
    """

    url: str
    scope: str
    resources: SpecResources

    @property
    def shown_url(self) -> str:
        """The URL without a password."""
        return hide_password(self.url)

    @property
    def local_file(self) -> Path | None:
        """The file on this machine that holds the store, or None if it is not a file."""
        return local_file_of(self.url)

    def check(self, columns: Columns, options: RunOptions) -> None:
        """Checks that the documents of a run can be searched for."""
        require_scope(self.scope)
        against = name_setting("against", self.shown_url)
        if options.fields:
            raise UsageError(
                f"{name_setting('fields', list(options.fields))} cannot be combined with "
                f"{against}: an index stores one text, vector or fingerprint of a document, so "
                "that other fields cannot be compared; give the files of its documents, or a run "
                f"over them with {name_flag('save_signatures')}"
            )
        if columns.tokens is not None:
            raise UsageError(
                f"column {columns.tokens!r} holds lists of tokens, and the index of {against} "
                "stores texts and vectors; join the tokens to texts"
            )
        if options.acceptance_columns:
            raise UsageError(
                f"a condition ({options.acceptance}) cannot be combined with {against}: an index "
                f"keeps no columns of documents, such as {options.acceptance_columns[0]!r}; give "
                f"the files of its documents, or a run over them with "
                f"{name_flag('save_signatures')}"
            )
        if options.acceptance is not None and options.related is not None:
            raise UsageError(
                f"{name_setting('related', options.related)} and a condition "
                f"({options.acceptance}) cannot be combined with {against}: documents that are not "
                "accepted may be related, and an index finds one of its thresholds at a time; "
                "leave one of them out, or give the files of its documents"
            )
        if options.groups_by_value:
            name = "url" if options.same is None else "same"
            raise UsageError(
                f"{name_setting(name, options.url or options.same)} cannot be combined with "
                f"{against}: an index keeps no columns of documents; give the files of its "
                f"documents, or a run over them with {name_flag('save_signatures')}"
            )
        if options.block_by is not None:
            raise UsageError(
                f"{name_setting('block_by', options.block_by)} cannot be combined with {against}: "
                "documents of an index are in no blocks; leave one out"
            )
        with self._open(options):
            pass

    @contextmanager
    def _open(self, options: RunOptions) -> Iterator[Index]:
        """Opens the index, if it can answer for a run with some options."""
        with Index.open(
            self.url,
            resources=self.resources,
            must_exist=True,
            max_document=UNLIMITED_SIZE,
            warm_up=False,
        ) as index:
            self._require_comparable(index, options)
            yield index

    def _require_comparable(self, index: Index, options: RunOptions) -> None:
        """Requires that an index finds what a run would count as duplicates."""
        name = f"the index {self.shown_url}"
        if index.holds_both:
            raise IncompatibleError(
                f"{name} compares documents by texts and vectors, and the run by one of them; "
                f"give an index of one kind with {name_setting('against')}"
            )
        difference = find_spec_difference(options.spec, index.spec)
        if difference is not None:
            field, own_value, value_of_index = difference
            raise IncompatibleError(
                f"{name} has the Spec {index.spec.fingerprint}, whose {field} is "
                f"{value_of_index!r}, and the run has the Spec {options.spec.fingerprint}, whose "
                f"{field} is {own_value!r}; run with the options of the index, or give the files "
                f"of its documents with "
                f"{name_setting('against')}{advise_on_version(field)}"
            )
        distance = index.settings.distance
        if (distance is None) != (options.distance is None):
            measured = "similarity" if distance is None else "distance"
            raise IncompatibleError(
                f"{name} compares documents by their {measured}, and the run does not; run with "
                f"{name_setting('threshold' if distance is None else 'distance')}"
            )
        if index.threshold > options.threshold:
            wanted = name_setting("threshold", index.threshold)
            if distance is not None:
                wanted = name_setting("distance", distance)
            if options.condition is not None and options.max_lost is None:
                raise IncompatibleError(
                    f"{name} finds no similarities below {index.threshold:g}, and the condition "
                    f"({options.condition}) can hold below; add 'and jaccard >= "
                    f"{index.threshold:g}' to it, or give the files of its documents"
                )
            raise IncompatibleError(
                f"{name} finds no similarities below {index.threshold:g}, and the run counts "
                f"documents as duplicates from {options.threshold:g}; run with {wanted}, or "
                "rebuild the index with a lower threshold"
            )
        if options.acceptance is not None and not index.settings.store_text:
            raise IncompatibleError(
                f"{name} keeps no texts, and the condition ({options.acceptance}) is computed of "
                f"them; give the files of its documents with {name_setting('against')}, or build "
                f"an index without {name_setting('store_text', value=False)}"
            )
        self._require_related(index, options, name)

    def _require_related(self, index: Index, options: RunOptions, name: str) -> None:
        """Requires that an index finds what a run would count as related."""
        if options.related is None:
            return
        wanted = name_setting("related", options.related)
        least = index.settings.related
        if least is None:
            raise IncompatibleError(
                f"{name} was created without {name_setting('related')}, so that related documents "
                f"would be missed; build an index with {wanted}, or leave the option out"
            )
        if least > options.related:
            raise IncompatibleError(
                f"{name} finds no related documents below {least:g}, and the run asks for those "
                f"from {options.related:g}; run with {name_setting('related', least)}, or build an "
                f"index with {wanted}"
            )

    def compare(self, run: Run, number: int) -> ComparedReference:
        """Searches for the first document of each exact group, as `DocumentReference` describes."""
        if run.options.acceptance is not None:
            return self._compare_texts(run, number)
        found: list[_FoundInIndex] = []
        with self._open(run.options) as index:

            def search(numbered: tuple[np.ndarray, Batch]) -> _FoundInIndex:
                return self._search(index, run, *numbered)

            found.extend(ordered_map(search, _read_first_documents(run), run.options.workers))
            stored = self._count_documents(index)
        near = ReferenceMatches.concatenate([part.same.to_matches() for part in found])
        related = ReferenceMatches.concatenate([part.related.to_matches() for part in found])
        stats = ReferenceStats(references=1, documents=stored, compared=len(near))
        return ComparedReference(near, related, stats)

    def _count_documents(self, index: Index) -> int:
        """Returns the number of documents of an index, or 0 if it does not have the scope."""
        has_scope = self.scope in index.iterate_scopes()
        return index.counts()["records"] if has_scope else 0

    def _compare_texts(self, run: Run, number: int) -> ComparedReference:
        """Compares the documents with the texts of those that the index finds, by a condition."""
        ids: set[str] = set()
        with self._open(run.options) as index:

            def search(numbered: tuple[np.ndarray, Batch]) -> set[str]:
                documents = documents_of(numbered[1].documents[run.columns.content])
                matches = [index.query(self.scope, each, MOST_MATCHES) for each in documents]
                return {match.id for part in matches for match in part}

            for part in ordered_map(search, _read_first_documents(run), run.options.workers):
                ids |= part
            stored = self._count_documents(index)
            folder = run.work.folder(AGAINST)
            # The index may have changed since an interrupted run wrote them.
            shutil.rmtree(folder / f"{number}", ignore_errors=True)
            self._write_texts(index, sorted(ids), _path_of_texts(run, number))
        compared = _open_texts(run, number).compare(run, number)
        return compared._replace(stats=replace(compared.stats, documents=stored))

    def _write_texts(self, index: Index, ids: list[str], path: Path) -> None:
        """Writes the texts of documents of an index to a file."""
        with disk_errors(path.parent), pq.ParquetWriter(path, TEXTS) as writer:
            for start in range(0, len(ids), index.settings.max_batch):
                entries = index.get_many(self.scope, ids[start : start + index.settings.max_batch])
                # Documents may be erased since they were found.
                rows = [
                    {"id": entry.id, "text": entry.text} for entry in entries if entry is not None
                ]
                writer.write_batch(pa.RecordBatch.from_pylist(rows, TEXTS))

    def read_contents(self, run: Run, number: int, documents: np.ndarray) -> Iterator[pa.Array]:
        """Yields the contents of some documents, as `DocumentReference` describes.

        Args:
            documents: Numbers of the documents among those that were found, ascending, int64 (m,).
        """
        return _open_texts(run, number).read_contents(run, number, documents)

    def _search(self, index: Index, run: Run, numbers: np.ndarray, batch: Batch) -> _FoundInIndex:
        """Returns what an index has for the documents of a batch.

        The threshold of the run can be above that of the index. Matches between them are related.
        """
        documents = documents_of(batch.documents[run.columns.content])
        found = _FoundInIndex(_Found([], []), _Found([], []))
        least = run.options.related
        most = index.settings.max_batch
        for start in range(0, len(documents), most):
            part = documents[start : start + most]
            matches = index.match_many(self.scope, part)
            others: list[list[Match]] = [[]] * len(part)
            if least is not None:
                others = index.related_many(self.scope, part)
            rows = zip(numbers[start : start + most].tolist(), matches, others, strict=True)
            for number, match, related in rows:
                if match is not None and match.similarity >= run.options.threshold:
                    found.same.add(number, match)
                    continue
                named = {} if match is None else {match.id: match}
                named.update((other.id, other) for other in related)
                for other in named.values():
                    if least is not None and other.similarity >= least:
                        found.related.add(number, other)
        return found


def _path_of_texts(run: Run, number: int) -> Path:
    """Returns the file of the texts that were found in the index with a position."""
    return run.work.folder(AGAINST) / f"{number}-texts.parquet"


def _open_texts(run: Run, number: int) -> Reference:
    """Returns the texts that were found in the index with a position, as a reference."""
    corpus = FileCorpus.open([str(_path_of_texts(run, number))])
    return Reference(corpus, Columns(id="id", document_limit=run.columns.document_limit))


def _read_first_documents(run: Run) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yields the first documents of exact groups that have shingles, with their numbers."""
    documents = run.documents()
    wanted = np.flatnonzero(run.first_of_groups() & ~documents.matchless)
    places = places_of(documents.files[wanted], documents.rows[wanted])
    return _number_batches(read_content(run.corpus, run.columns, places), wanted)


def _number_batches(
    batches: Iterator[Batch], wanted: np.ndarray
) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yields batches with the numbers of their documents.

    Args:
        wanted: Numbers of these documents, ascending, int64 (m,).
    """
    for batch in batches:
        yield wanted[batch.first : batch.first + len(batch.rows)], batch
