"""The statements that the stores of SQLite and PostgreSQL share.

They name values as SQLite does (`:name`), and tables, columns and clauses by the fields of a
`Dialect` in braces. How documents enter and leave buckets differs, and is not here.
"""

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from nearkin.errors import RacedError
from nearkin.index.changes import Changes, Event, LogPortion, count_leaders
from nearkin.index.entry import Entry, content_size
from nearkin.index.migration.state import CLOSING, COPYING, MigrationState, StoreState
from nearkin.index.stores.base import LOG_KEPT, LOG_PORTION, PORTION, Portions, Store

R = TypeVar("R")
COLUMNS = ", ".join(Entry._fields)
"""The columns of an entry, in the order of its fields."""
RESOLVED_TO = "scope = :scope AND leader = :leader AND leader <> id"


class Dialect(NamedTuple):
    """The parts of a statement that differ between databases."""

    documents: str
    """The table of documents."""
    meta: str
    """The table of values that describe the index, in JSON."""
    events: str
    """The table of the change log."""
    heads: str
    """The columns of an entry without its content."""
    json: str
    """The type of a value in JSON."""
    for_update: str
    """The clause that locks rows until the end of a transaction, so that no other one uses them."""
    for_share: str
    """The clause that locks rows until the end of a transaction, so that they stay unchanged."""
    no_limit: str
    """The limit of a listing without a limit."""


class Condition(NamedTuple):
    """A condition of a statement, and its values by name."""

    text: str
    values: dict[str, object]


class SqlStore(Store):
    """A store in tables of a database.

    A connection runs one transaction at a time. `run` is what executes statements in it: the
    connection of SQLite, or a cursor of PostgreSQL.
    """

    dialect: Dialect

    @abstractmethod
    def _read(self, action: Callable[[Any], R]) -> R:
        """Returns the result of an action that reads."""

    @abstractmethod
    def _write(self, action: Callable[[Any], R]) -> R:
        """Returns the result of an action in one transaction."""

    @abstractmethod
    def _fetch(self, run: Any, query: str, values: Any = None) -> list[Any]:
        """Returns all rows of one statement."""

    @abstractmethod
    def _refs_among(self, refs: Sequence[int]) -> Condition:
        """Returns the condition that a number is among some numbers."""

    @abstractmethod
    def _ids_among(self, ids: Sequence[str]) -> Condition:
        """Returns the condition that an id is among some ids."""

    @cached_property
    def _fields(self) -> dict[str, str]:
        return {"columns": COLUMNS, **self.dialect._asdict()}

    def _text(self, query: str) -> str:
        """Returns a statement in the dialect."""
        return query.format_map(self._fields)

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        """Returns the entry of a row with the columns of an entry."""
        return entry_of_row(row)

    def _read_rows(self, query: str, values: Any = None) -> list[Any]:
        """Returns the rows of one statement."""
        return self._read(lambda run: self._fetch(run, query, values))

    def write_once(self, name: str, value: object) -> Any:
        def read(run: Any) -> Any:
            query = "SELECT CAST(value AS TEXT) FROM {meta} WHERE name = :name"
            rows = self._fetch(run, query, {"name": name})
            return json.loads(rows[0][0]) if rows else None

        def write(run: Any) -> Any:
            query = (
                "INSERT INTO {meta} VALUES (:name, CAST(:value AS {json})) ON CONFLICT DO NOTHING"
            )
            run.execute(
                self._text(query), {"name": name, "value": json.dumps(value, sort_keys=True)}
            )
            return read(run)

        return self._read(read) if value is None else self._write(write)

    def _read_state(self, run: Any) -> StoreState:
        query = "SELECT name, CAST(value AS TEXT) FROM {meta} WHERE name IN ('place', 'generation')"
        values_by_name = dict(self._fetch(run, query))
        epoch, phase, urls = (
            json.loads(values_by_name["place"]) if "place" in values_by_name else MigrationState()
        )
        return StoreState(
            MigrationState(epoch, phase, tuple(urls)), int(values_by_name.get("generation", 0))
        )

    def redirect(self, migration: MigrationState) -> None:
        def redirect(run: Any) -> None:
            # steps that have read the row end before it is locked
            self._fetch(run, "SELECT name FROM {meta} WHERE name = 'place' {for_update}")
            current_epoch = self._read_state(run).migration.epoch
            if migration.epoch <= current_epoch:
                raise RacedError(f"{self.url} is in epoch {current_epoch} already")
            query = (
                "INSERT INTO {meta} VALUES ('place', CAST(:value AS {json})) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            )
            run.execute(self._text(query), {"value": json.dumps(migration)})

        self._write(redirect)

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        among = self._ids_among(ids)
        rows = self._read_rows(
            f"SELECT {{columns}} FROM {{documents}} WHERE scope = :scope AND {among.text}",
            {"scope": scope, **among.values},
        )
        entries_by_id = {entry.id: entry for entry in map(self._entry, rows)}
        return [entries_by_id.get(name) for name in ids]

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        among = self._refs_among(refs)
        query = f"SELECT {{columns}} FROM {{documents}} WHERE {among.text}"
        rows = self._read_rows(query, among.values)
        entries_by_ref = {entry.ref: entry for entry in map(self._entry, rows)}
        return [entries_by_ref.get(ref) for ref in refs]

    def members(
        self,
        scope: str,
        leader: str,
        limit: int | None = None,
        *,
        after: int = 0,
        skip: int = 0,
        content: bool = True,
    ) -> list[Entry]:
        columns = "{columns}" if content else "{heads}"
        most = "{no_limit}" if limit is None else ":limit"
        query = (
            f"SELECT {columns} FROM {{documents}} WHERE {RESOLVED_TO} AND ref > :after "
            f"ORDER BY ref LIMIT {most} OFFSET :skip"
        )
        values = {"scope": scope, "leader": leader, "after": after, "skip": skip, "limit": limit}
        return [self._entry(row) for row in self._read_rows(query, values)]

    def member_count(self, scope: str, leader: str) -> int:
        query = f"SELECT COUNT(*) FROM {{documents}} WHERE {RESOLVED_TO}"
        return int(self._read_rows(query, {"scope": scope, "leader": leader})[0][0])

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        columns = "{columns}" if content else "{heads}"
        in_scope = "" if scope is None else "AND scope = :scope"
        # PostgreSQL has an index by scope and number
        order = "ref" if scope is None else "scope, ref"
        query = (
            f"SELECT {columns} FROM {{documents}} WHERE ref > :last {in_scope} "
            f"ORDER BY {order} LIMIT :limit"
        )
        portions = Portions(PORTION)
        last = 0
        while rows := self._read_rows(
            query, {"last": last, "scope": scope, "limit": portions.size if content else PORTION}
        ):
            entries = [self._entry(row) for row in rows]
            last = entries[-1].ref
            portions.read(len(entries), content_size(entries))
            yield from entries

    def scopes(self) -> Iterator[str]:
        # the name of a scope may be empty
        last, behind = "", ">="
        while rows := self._read_rows(
            f"""WITH RECURSIVE found (scope) AS (
              SELECT MIN(scope) FROM {{documents}} WHERE scope {behind} :last
            UNION ALL
              SELECT (SELECT MIN(d.scope) FROM {{documents}} d WHERE d.scope > found.scope)
              FROM found WHERE found.scope IS NOT NULL)
            SELECT scope FROM found WHERE scope IS NOT NULL LIMIT {PORTION}""",
            {"last": last},
        ):
            last, behind = rows[-1][0], ">"
            yield from (name for (name,) in rows)

    def due(self, before: float, *, posted: bool) -> Iterator[Entry]:
        only = "AND posted" if posted else ""
        query = (
            "SELECT {heads} FROM {documents} WHERE (seen, ref) > (:seen, :ref) AND "
            f"seen < :before {only} ORDER BY seen, ref LIMIT {PORTION}"
        )
        values: dict[str, float] = {"seen": -math.inf, "ref": 0, "before": float(before)}
        while rows := self._read_rows(query, values):
            entries = [self._entry(row) for row in rows]
            values["seen"] = entries[-1].seen
            values["ref"] = entries[-1].ref
            yield from entries

    def _check(self, run: Any, changes: Changes) -> dict[int, str]:
        """Checks the conditions of a step, and locks its rows in the order of their numbers.

        Returns the representatives of the documents that must be present, by their numbers.
        """
        there = {entry.ref: entry.id for entry in changes.present}
        leaders: dict[int, str] = {}
        if there:
            among = self._refs_among(sorted(there))
            query = (
                f"SELECT ref, id, leader FROM {{documents}} WHERE {among.text} "
                "ORDER BY ref {for_update}"
            )
            rows = self._fetch(run, query, among.values)
            if {ref: name for ref, name, _ in rows} != there:
                raise RacedError("a document was deleted by another process")
            leaders = {ref: leader for ref, _, leader in rows}
        if any(leaders.get(entry.ref) != entry.leader for entry in changes.expected):
            raise RacedError("a document was resolved to another representative by another process")
        for standing in changes.leader_snapshots:
            # A statement of its own sees what was committed until the statement above locked the
            # row. A step that resolves a document to this one needs the row, and waits for it.
            member_refs = self._fetch(
                run,
                f"SELECT ref FROM {{documents}} WHERE {RESOLVED_TO} LIMIT :limit",
                {
                    "scope": standing.entry.scope,
                    "leader": standing.entry.id,
                    "limit": len(standing.members) + 1,
                },
            )
            standing.require_unchanged(
                leaders.get(standing.entry.ref), (ref for (ref,) in member_refs)
            )
        needed = sorted({entry.ref for entry in changes.required_leaders})
        if needed:
            among = self._refs_among(needed)
            query = (
                f"SELECT ref FROM {{documents}} WHERE {among.text} AND leader = id "
                "ORDER BY ref {for_share}"
            )
            if len(self._fetch(run, query, among.values)) < len(needed):
                raise RacedError("a representative was deleted by another process")
        return leaders

    def _trim_log(self, run: Any) -> None:
        """Deletes the oldest lines of the change log, at most one portion.

        Nothing is deleted while the index is copied.
        """
        bounds = "SELECT (SELECT MIN(number) FROM {events}), (SELECT MAX(number) FROM {events})"
        first, last = self._fetch(run, bounds)[0]
        if last - first < LOG_KEPT + LOG_PORTION:
            return
        if self._read_state(run).migration.phase not in (COPYING, CLOSING):
            until = min(first + 2 * LOG_PORTION, last - LOG_KEPT)
            self._delete_lines(run, until)

    def _delete_lines(self, run: Any, until: int) -> None:
        """Deletes lines of the change log, and records the number of the last one."""
        run.execute(self._text("DELETE FROM {events} WHERE number <= :until"), {"until": until})
        query = (
            "INSERT INTO {meta} VALUES ('dropped', CAST(:value AS {json})) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        run.execute(self._text(query), {"value": str(until)})

    def drop_lines(self, until: int) -> None:
        self._write(lambda run: self._delete_lines(run, until))

    def _read_lines(self, run: Any, after: int, end: int, limit: int) -> LogPortion:
        """Returns the lines of the change log up to a number behind which others may follow."""
        query = (
            "SELECT number, kind, scope, id, into_id, at FROM {events} "
            "WHERE number > :after AND number <= :end ORDER BY number LIMIT :limit"
        )
        rows = self._fetch(run, query, {"after": after, "end": end, "limit": limit})
        lines = [(number, Event.of_row(*row)) for number, *row in rows]
        # read afterwards, so that lines that are deleted meanwhile are not missed in silence
        query = "SELECT CAST(value AS TEXT) FROM {meta} WHERE name = 'dropped'"
        dropped = self._fetch(run, query)
        return LogPortion(lines, int(dropped[0][0]) if dropped else 0, end)


def entry_of_row(row: tuple[Any, ...]) -> Entry:
    """Returns the entry of a row with COLUMNS. SQLite returns a posted flag as a number."""
    entry = Entry._make(row)
    return entry._replace(posted=bool(entry.posted))


def count_changes(changes: Changes, leaders: Mapping[int, str]) -> tuple[int, int]:
    """Returns by how many documents and representatives a step changes the counts.

    The representatives of the changed and deleted documents before the step are given by number.
    """
    gained = count_leaders(changes.new)
    gained += sum(
        entry.is_leader - (leaders[entry.ref] == entry.id)
        for entry in {entry.ref: entry for entry in changes.changed}.values()
    )
    gained -= sum(leaders[entry.ref] == entry.id for entry, _ in changes.dropped)
    return len(changes.new) - len(changes.dropped), gained
