"""Indexes that follow a folder or a table: new, changed and missing rows, by id and content."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus import FileCorpus
from nearkin.corpus.delta_tables import read_last_changes, write_changed_rows
from nearkin.corpus.inputs import Selection
from nearkin.corpus.places import places_of
from nearkin.corpus.table_folders import TableFormat
from nearkin.corpus.table_versions import TableVersion
from nearkin.engine.parameters import columns_of
from nearkin.engine.repeated_ids import find_repeated_ids
from nearkin.errors import UsageError
from nearkin.index.entry import Outcome, OutcomeKind, require_unreserved_scope
from nearkin.index.followed_scope import INSERTED, UNCHANGED, FollowedScope, SourceState
from nearkin.index.index import Index
from nearkin.runs.loading import BothColumns, DocumentFiles, portion_size
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.number_format import format_count
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.temporary_folder import TemporaryFolder

MAX_REMOVED = 0.5
"""The share of the documents of a scope that a call removes at most by default."""
KNOWN = (OutcomeKind.EXACT, OutcomeKind.RESOLVED)
"""The outcomes of documents that the index has with the same id and content."""


@dataclass(frozen=True)
class SyncResult:
    """The changes of an index by a call of `sync`.

    Attributes:
        inserted: Number of documents that the index did not have.
        updated: Number of documents of which it had another content.
        unchanged: Number of documents that it had. Those are not counted that a table did not
            change since the last call.
        blocked: Number of documents that are like an entry of the blocklist, and are not stored.
        removed: Number of documents that the files do not have any more.
        left: Number of such documents that stay, because a row of the files cannot be read.
        rejected: Number of rejected rows.
        warnings: Warnings about the files.
    """

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    blocked: int = 0
    removed: int = 0
    left: int = 0
    rejected: int = 0
    warnings: Sequence[str] = ()

    def __repr__(self) -> str:
        return (
            f"<SyncResult: {self.inserted:,} inserted, {self.updated:,} updated, "
            f"{self.unchanged:,} unchanged, {self.removed:,} removed>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts by name, without the warnings."""
        counts = asdict(self)
        del counts["warnings"]
        return {name: counts[name] for name in counts if counts[name] or name != "left"}


class _Limits(NamedTuple):
    """The limits of a call."""

    max_removed: float
    dry_run: bool


@check_arguments
def sync(
    index: Index,
    data: str | Path | Sequence[str | Path],
    *,
    id: str,
    text: str | Sequence[str] | None = None,
    vector: str | None = None,
    scope: str = "default",
    max_removed: float = MAX_REMOVED,
    full: bool = False,
    dry_run: bool = False,
) -> SyncResult:
    """Lets a scope of an index have the documents of files, by their ids and contents.

    New documents are inserted, changed ones updated, and those removed that the files do not have.
    A call that was interrupted can be repeated. Of a Delta table that records its changes
    (`delta.enableChangeDataFeed`), only the rows are read that changed since the last call, and a
    version of any table is read once.

    Args:
        index: An open index.
        data: Files, globs, folders, tables or URLs.
        id: Column of ids.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        vector: Column of vectors, instead of texts or, with `text`, besides.
        scope: Scope of the documents. It should have no documents of other sources, which are
            removed otherwise.
        max_removed: Largest share of the documents of the scope that may be removed. If there are
            more, nothing is changed.
        full: Whether a table is read as a whole, whatever is known of its changes.
        dry_run: Whether nothing is written, and the result tells what would be.

    Raises:
        UsageError: If the files have an id twice, or more documents would be removed than
            `max_removed` allows. Nothing is written then.
        RunError: If a file changes meanwhile.
        StoreError: If the store fails.
    """
    columns: Any = columns_of({"text": text} if vector is None else {"vector": vector}, id)
    if text is not None and vector is not None:
        columns = BothColumns(columns_of({"text": text}, id), columns)
    inputs = [data] if isinstance(data, str | Path) else data
    if not inputs:
        raise UsageError(f"{name_setting('data', [])} names no files; give at least one")
    files = open_source(list(map(str, inputs)), columns, scope)
    return sync_files(index, files, scope, max_removed=max_removed, full=full, dry_run=dry_run)


def open_source(
    inputs: Sequence[str], columns: Any, scope: str, selection: Selection | None = None
) -> DocumentFiles:
    """Opens the files that a scope follows, and checks what can be checked without the index."""
    require_unreserved_scope(scope)
    files = DocumentFiles.open(inputs, columns, selection)
    if files.columns.id is None:
        raise UsageError(
            f"documents are followed by their ids; name their column with {name_setting('id')}"
        )
    return files


def sync_files(
    index: Index,
    files: DocumentFiles,
    scope: str,
    *,
    max_removed: float = MAX_REMOVED,
    full: bool = False,
    dry_run: bool = False,
) -> SyncResult:
    """Lets a scope of an index have the documents of files, as `sync` does."""
    limits = _Limits(max_removed, dry_run)
    table = files.corpus.single_table
    followed = FollowedScope(index, scope, _name_source(files, table))
    state = None if full or table is None else followed.read_state()
    result = None
    if table is not None and state is not None:
        if state.version == table.number:
            return SyncResult(warnings=files.warnings)
        result = _sync_changes(followed, files, limits, table, state)
    if result is None:
        if not dry_run:
            followed.forget_state()
        result = _sync_rows(followed, files, limits)
    if table is not None and not dry_run and not result.left:
        followed.write_state(table.number)
    return result


def _name_source(files: DocumentFiles, table: TableVersion | None) -> str:
    """Returns what tells a table and the columns that are read of it from others."""
    if table is None:
        return ""
    columns = [each.to_record() for each in (files.columns, files.vectors) if each is not None]
    return json.dumps([table.record["path"], columns], sort_keys=True, default=str)


def _sync_rows(followed: FollowedScope, files: DocumentFiles, limits: _Limits) -> SyncResult:
    """Compares all rows of files with all documents of a scope."""
    reader = files.read_for(followed.index)
    portions = reader.portions(portion_size(followed.index))
    ids = pa.chunked_array(
        (pa.array([row.id for row in portion], pa.large_string()) for portion in portions),
        pa.large_string(),
    )
    repeated = find_repeated_ids(ids)
    if len(repeated):
        raise UsageError(
            f"the files have the id {ids[int(repeated[0])].as_py()!r} more than once, so that it "
            "is not known which document is the current one; give each document once"
        )
    stored = followed.read_ids()
    gone = stored.filter(pc.invert(pc.is_in(stored, ids))).to_pylist()
    invalid = reader.first_invalid()
    if gone and invalid is not None:
        stay = "document, which no row has, stays"
        if len(gone) > 1:
            stay = "documents, which no row has, stay"
        warning = (
            f"{len(gone):,} {stay}, because a row that cannot be read may be one of them "
            f"({invalid}); correct it, and repeat the call"
        )
        result = _apply(followed, files, limits, ())
        return replace(result, left=len(gone), warnings=(*result.warnings, warning))
    _require_few(gone, len(stored), limits)
    return _apply(followed, files, limits, gone)


def _sync_changes(
    followed: FollowedScope,
    files: DocumentFiles,
    limits: _Limits,
    table: TableVersion,
    state: SourceState,
) -> SyncResult | None:
    """Follows the changes that a table recorded, or returns None if it did not.

    If a changed row is rejected, all rows must be compared: the scope may have its former content.
    """
    id = files.columns.id
    assert id is not None
    if table.table.format is not TableFormat.DELTA or table.table.is_remote:
        return None
    assert table.number is not None
    with TemporaryFolder() as folder:
        path = folder / "changes.parquet"
        if not write_changed_rows(table.table, state.version, table.number, path):
            return None
        rows, gone = read_last_changes(path, id)
        _require_few(gone, state.documents, limits)
        changed = files._replace(corpus=FileCorpus.open([str(path)]))
        others = np.setdiff1d(np.arange(pq.read_metadata(path).num_rows), rows)
        changed.corpus.withdraw(places_of(np.zeros_like(others), others))
        reader = changed.read_for(followed.index)
        for _ in reader.portions(portion_size(followed.index)):
            pass
        if reader.rejected():
            return None
        return _apply(followed, changed, limits, gone)


def _require_few(gone: Sequence[str], documents: int, limits: _Limits) -> None:
    """Requires that not too many documents are gone."""
    if len(gone) > limits.max_removed * documents:
        raise UsageError(
            f"{len(gone):,} of {format_count(documents, 'document')} would be removed, because no "
            f"row has their ids, for example {gone[0]!r}; this is more than "
            f"{name_setting('max_removed', limits.max_removed)} allows. Nothing was changed; give "
            f"{name_setting('max_removed', 1)} if the rows are complete"
        )


def _apply(
    followed: FollowedScope, files: DocumentFiles, limits: _Limits, gone: Sequence[str]
) -> SyncResult:
    """Upserts the documents of files, and removes those that are gone."""
    index, scope = followed.index, followed.scope
    reader = files.read_for(index)
    counts: Counter[str] = Counter()
    for portion in reader.portions(portion_size(index)):
        documents = [row.document for row in portion if row.document is not None]
        ids = [row.id for row in portion if row.id is not None]
        if limits.dry_run:
            counts.update(followed.compare(documents, ids))
        else:
            counts.update(
                _change_of(outcome) for outcome in index.upsert_many(scope, documents, ids)
            )
    removed = len(gone) if limits.dry_run else index.remove_many(scope, gone)
    return SyncResult(
        **counts,
        removed=removed,
        rejected=reader.rejected(),
        warnings=[*files.warnings, *reader.warnings()],
    )


def _change_of(outcome: Outcome) -> str:
    """Returns the name of the count of an outcome."""
    if outcome.kind in KNOWN:
        return UNCHANGED
    if outcome.kind in (OutcomeKind.UPDATED, OutcomeKind.BLOCKED):
        return str(outcome.kind)
    return INSERTED
