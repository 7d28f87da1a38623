"""Files beside what an index answers: the documents without a match, and a table of matches."""

import json
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus import (
    Columns,
    FileCorpus,
    QuarantineWriter,
    detect_dimensions,
    make_ids,
    write_kept,
)
from nearkin.corpus.file_names import hide_password
from nearkin.corpus.inputs import Selection
from nearkin.corpus.rejects import count_rejections
from nearkin.engine.result_schema import (
    BLOCKED_BY_COLUMN,
    NEW_OUTCOME,
    OUTCOME_COLUMN,
    OUTCOMES,
    RELATED_FILE,
    RELATED_OUTCOME,
    SAME_OUTCOME,
)
from nearkin.engine.sketching import REJECTED
from nearkin.errors import UsageError
from nearkin.index.documents import documents_of
from nearkin.index.entry import Match, Outcome, require_scope
from nearkin.index.index import Index
from nearkin.reports.run_warnings import warn_of_inputs, warn_of_rejections
from nearkin.runs.loading import AddedDocuments, add_files
from nearkin.runtime.files import Readers, disk_errors, set_readers
from nearkin.runtime.outputs import (
    RESULT,
    claimed,
    require_apart,
    require_replaceable_folder,
    require_work_folder,
    work_folder_of,
)
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.settings.keys import HashKey
from nearkin.stages.sketch.resources import SpecResources

MATCHES = "matches.parquet"
"""The table of matches in an output folder."""
KEPT = "kept"
"""The folder of the documents without a match in an output folder."""
MATCHES_SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("kept", pa.bool_()),
        ("duplicate_of", pa.large_string()),
        ("cluster", pa.large_string()),
        ("similarity", pa.float64()),
        ("exact", pa.bool_()),
    ]
)
"""The table of matches: one row for each document, in the order of the inputs. `duplicate_of` is
the id of the document of the index that it repeats, and `cluster` that of its cluster. `exact` says
for a similarity of 1 if both are exact duplicates."""
RELATED_MATCHES = pa.schema(
    [
        ("id", pa.large_string()),
        ("related_to", pa.large_string()),
        ("cluster", pa.large_string()),
        ("similarity", pa.float64()),
    ]
)
"""The table of related documents: one row for each related representative of a document, the most
similar ones first, in the order of the inputs. `cluster` is the id of the representative's cluster.
"""


@dataclass
class MatchTable:
    """The rows of a table of matches, in the order of the inputs.

    Attributes:
        has_blocklist: Whether the documents are compared with a blocklist.
        related: Rows of the table of related documents. None for an index without the setting
            `related`, whose matches have no outcomes.
    """

    has_blocklist: bool = False
    related: list[dict[str, object]] | None = None
    _outcomes: list[str] = field(default_factory=list)
    _columns: dict[str, list[object]] = field(
        default_factory=lambda: {
            name: [] for name in (*MATCHES_SCHEMA.names, BLOCKED_BY_COLUMN.name)
        }
    )

    def add_match(self, id: str, match: Match | None) -> None:
        """Adds a document that was searched for."""
        if match is None:
            self._add(id, None, None, None)
        else:
            self._add(id, match.id, match.cluster, match.similarity, exact=match.exact)

    def add_related(self, related: Sequence[Sequence[Match]]) -> None:
        """Adds the outcomes of the next documents, and the documents that they are related to.

        The matches of these documents were added before.
        """
        first = len(self._outcomes)
        for row, found in enumerate(related, start=first):
            self._add_related_of(row, found)

    def _add_related_of(self, row: int, related: Sequence[Match]) -> None:
        """Adds the outcome of the document of a row, and its related documents."""
        assert self.related is not None
        cluster = self._columns["cluster"][row]
        is_blocked = self._columns[BLOCKED_BY_COLUMN.name][row] is not None
        others = [other for other in related if other.cluster != cluster and not is_blocked]
        for other in others:
            self.related.append(
                {
                    "id": self._columns["id"][row],
                    "related_to": other.id,
                    "cluster": other.cluster,
                    "similarity": other.similarity,
                }
            )
        outcome = RELATED_OUTCOME if others else NEW_OUTCOME
        if not self._columns["kept"][row]:
            outcome = SAME_OUTCOME
        self._outcomes.append(OUTCOMES[outcome])

    def add_outcome(self, outcome: Outcome) -> None:
        """Adds a document that was upserted. A representative repeats no other document."""
        if outcome.blocked_by is not None:
            self._add(outcome.id, None, None, outcome.similarity, blocked_by=outcome.blocked_by)
        elif outcome.duplicate:
            self._add(
                outcome.id,
                outcome.representative,
                outcome.cluster,
                outcome.similarity,
                exact=outcome.exact,
            )
        else:
            self._add(outcome.id, None, outcome.cluster, None)

    def _add(
        self,
        id: str,
        duplicate_of: str | None,
        cluster: str | None,
        similarity: float | None,
        *,
        exact: bool | None = None,
        blocked_by: str | None = None,
    ) -> None:
        is_kept = duplicate_of is None and blocked_by is None
        row = (id, is_kept, duplicate_of, cluster, similarity, exact, blocked_by)
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)

    @property
    def kept(self) -> np.ndarray:
        """The documents without a match, bool (n,)."""
        return np.array(self._columns["kept"], bool)

    @property
    def related_count(self) -> int | None:
        """The number of documents with the outcome `related`, or None without outcomes."""
        if self.related is None:
            return None
        return self._outcomes.count(OUTCOMES[RELATED_OUTCOME])

    def to_arrow(self) -> pa.Table:
        """Returns the table."""
        schema = MATCHES_SCHEMA.append(BLOCKED_BY_COLUMN) if self.has_blocklist else MATCHES_SCHEMA
        table = pa.table({name: self._columns[name] for name in schema.names}, schema)
        if self.related is None:
            return table
        return table.append_column(OUTCOME_COLUMN, pa.array(self._outcomes, OUTCOME_COLUMN.type))


@dataclass(frozen=True)
class MatchOutput:
    """The folder that receives the documents without a match, and the table of matches.

    Attributes:
        folder: The folder.
        overwrite: Whether an existing output is replaced.
        readers: The users who may read it.
    """

    folder: Path
    overwrite: bool = False
    readers: Readers = Readers.OWNER

    def require_free(self, corpus: FileCorpus) -> None:
        """Requires that the folder can be written."""
        require_apart(self.folder, [file.path for file in corpus.files])
        require_work_folder(work_folder_of(self.folder))
        if not os.path.lexists(self.folder):
            return
        if not self.overwrite:
            raise UsageError(
                f"{self.folder} exists; replace it with {name_flag('overwrite')}, or choose "
                "another folder"
            )
        require_replaceable_folder(self.folder)

    def write(
        self, corpus: FileCorpus, columns: Columns, matches: MatchTable, command: str, url: str
    ) -> None:
        """Writes the folder. A previous output stays in its place until the new one is complete."""
        with (
            claimed(self.folder, f"nearkin {command}", replaces=self.overwrite) as claim,
            disk_errors(self.folder.parent),
        ):
            staging = claim.path / RESULT
            (staging / KEPT).mkdir(parents=True)
            with (staging / REJECTED).open("wb") as file:
                quarantine = QuarantineWriter(file, corpus.names)
                for batch in corpus.batches(columns):
                    quarantine.add(batch.rejected)
            write_kept(corpus, columns, matches.kept, staging / KEPT)
            pq.write_table(matches.to_arrow(), staging / MATCHES, compression="zstd")
            if matches.related is not None:
                related = pa.Table.from_pylist(matches.related, RELATED_MATCHES)
                pq.write_table(related, staging / RELATED_FILE, compression="zstd")
            set_readers(staging, self.readers)
            identity = {
                "command": command,
                "store": hide_password(url),
                "columns": json.loads(json.dumps(columns.to_record())),
            }
            claim.publish_folder(staging, uuid.uuid4().hex, identity, replaces=self.overwrite)


@dataclass(frozen=True)
class MatchedDocuments:
    """The result of a search for the documents of files.

    Attributes:
        documents: Number of documents.
        matched: Number of documents that repeat a document of the index.
        rejected: Number of rejected rows.
        warnings: Warnings about the files.
        related: Number of other documents that are related to one of the index. None for an index
            without the setting `related`.
    """

    documents: int
    matched: int
    rejected: int
    warnings: tuple[str, ...]
    related: int | None = None

    def to_dict(self) -> dict[str, int]:
        """Returns the counts by name, without the warnings."""
        related = {} if self.related is None else {"related": self.related}
        return {
            "documents": self.documents,
            "kept": self.documents - self.matched,
            "matched": self.matched,
            **related,
            "rejected": self.rejected,
        }


def match_files(
    inputs: tuple[str, ...],
    columns: Columns,
    url: str,
    scope: str,
    output: MatchOutput,
    secret: HashKey | None = None,
    spec_resources: Path | None = None,
    selection: Selection | None = None,
) -> MatchedDocuments:
    """Searches an index for the documents of files, and adds none of them.

    With an index that has the setting `related`, each document has the outcome that `Index.upsert`
    would give it if it came alone: `same`, `related` or `new`. With `postings="all"`, a document
    that repeats a member of a cluster is the `same`, too.
    """
    require_scope(scope)
    corpus = FileCorpus.open(inputs, selection=selection)
    output.require_free(corpus)
    columns = detect_dimensions(corpus, columns)
    corpus.check(columns)
    rejected = 0
    reasons: Counter[str] = Counter()
    with Index.open(
        url,
        resources=SpecResources(secret),
        spec_resources=spec_resources,
        must_exist=True,
        warm_up=False,
    ) as index:
        is_related = index.settings.related is not None
        matches = MatchTable(related=[] if is_related else None)
        for batch in corpus.batches(columns):
            rejected += batch.rejected_rows
            reasons.update(count_rejections(batch.rejected))
            ids = make_ids(batch, columns, corpus.names).to_pylist()
            documents = documents_of(batch.documents[columns.content])
            for part in _split_rows(len(ids), index.settings.max_batch):
                found = index.match_many(scope, documents[part])
                for id, match in zip(ids[part], found, strict=True):
                    matches.add_match(id, match)
                if is_related:
                    matches.add_related(index.related_many(scope, documents[part]))
        kept = matches.kept
        warnings = warn_of_inputs(corpus, columns) + warn_of_rejections(rejected, reasons)
        if kept.all() and scope not in index.iterate_scopes():
            warnings.append(
                f"the scope {scope!r} of {hide_password(url)} has no documents, so no document was "
                f"compared with it; check {name_setting('scope')} and {name_setting('store')}"
            )
    output.write(corpus, columns, matches, "index match", url)
    return MatchedDocuments(
        documents=len(kept),
        matched=int(np.count_nonzero(~kept)),
        rejected=rejected,
        warnings=tuple(warnings),
        related=matches.related_count,
    )


def add_files_with_matches(
    inputs: tuple[str, ...],
    columns: Columns,
    url: str,
    scope: str,
    output: MatchOutput,
    secret: HashKey | None = None,
    spec_resources: Path | None = None,
    selection: Selection | None = None,
    decisions: Path | None = None,
    blocklist: Path | None = None,
) -> AddedDocuments:
    """Upserts the documents of files, and writes those that are not resolved to another one.

    A repetition gives the same files: a document that is a representative already is kept. With an
    index that has the setting `related`, the documents have outcomes, and are linked to the
    representatives that they are related to when all of them are stored.
    """
    if columns.id is None:
        raise UsageError(
            f"{name_setting('kept', str(output.folder))} needs ids, by which a document is "
            f"distinguished from its copies; name their column with {name_setting('id')}"
        )
    corpus = FileCorpus.open(inputs, selection=selection)
    output.require_free(corpus)
    matches = MatchTable(has_blocklist=blocklist is not None)
    added = add_files(
        inputs,
        columns,
        url,
        scope,
        secret,
        spec_resources=spec_resources,
        selection=selection,
        observe=matches.add_outcome,
        decisions=decisions,
        blocklist=blocklist,
    )
    columns = detect_dimensions(corpus, columns)
    with Index.open(
        url, resources=SpecResources(secret), spec_resources=spec_resources, warm_up=False
    ) as index:
        if index.settings.related is not None:
            _find_related(matches, index, scope, corpus, columns)
    output.write(corpus, columns, matches, "index add", url)
    return added


def _find_related(
    matches: MatchTable, index: Index, scope: str, corpus: FileCorpus, columns: Columns
) -> None:
    """Adds the outcomes of documents that were upserted, and the documents they are related to.

    They are searched for when all documents are stored, so that a repetition finds the same ones.
    """
    matches.related = []
    for batch in corpus.batches(columns):
        documents = documents_of(batch.documents[columns.content])
        for part in _split_rows(len(documents), index.settings.max_batch):
            matches.add_related(index.related_many(scope, documents[part]))


def _split_rows(rows: int, most: int) -> Iterator[slice]:
    """Yields ranges of rows of bounded length."""
    for start in range(0, rows, most):
        yield slice(start, start + most)
