"""The versions of documents, by which an older one never replaces a newer one.

The version of an id is an entry of a reserved scope, which stays when the document is deleted. A
writer first claims its version, in a step of its own. Each of its steps that writes or deletes the
document then requires that the version is still the one that it claimed.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

from nearkin.errors import OldVersionError, UsageError
from nearkin.index.changes import Changes, KeyedEntry, observe_steps
from nearkin.index.entry import VERSIONS_PREFIX, Entry, internal_entry, reserved_scope
from nearkin.index.session import Session
from nearkin.index.stores.sharded import ShardedStore

Version: TypeAlias = Decimal | datetime
"""A version: a number, or a time with its zone."""
NUMBER = re.compile(r"-?\d{1,60}(\.\d{1,60})?")


def versions_scope(scope: str) -> str:
    """Returns the scope that holds the versions of a scope. Callers cannot name it."""
    return reserved_scope(VERSIONS_PREFIX, scope)


def parse_version(text: str, name: str) -> Version:
    """Returns a version. A time without a zone is in UTC.

    Args:
        name: Name of the field, for the message of an error.

    Examples:
        >>> parse_version("10", "version") > parse_version("9.5", "version")
        True
        >>> parse_version("2026-12-01T10:00:00+02:00", "at").isoformat()
        '2026-12-01T08:00:00+00:00'
    """
    if NUMBER.fullmatch(text):
        return Decimal(text)
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{name} is {text[:60]!r}, which is neither a number nor a time such as "
            "2026-12-01T10:00:00Z"
        ) from error


class DocumentVersions:
    """The versions of the documents of an open index.

    Args:
        session: Session of the index. Its store must write a step as a whole.
    """

    def __init__(self, session: Session) -> None:
        if isinstance(session.store, ShardedStore):
            raise UsageError(
                f"versions need a store that writes a step as a whole, and {session.store.url} "
                "consists of shards; leave out the field of versions, or use one store"
            )
        self._session = session

    def claim(self, scope: str, versions: Mapping[str, Version]) -> dict[str, UsageError]:
        """Stores versions that are newer than the stored ones.

        Args:
            versions: Versions by the ids of documents.

        Returns:
            The reasons why some were refused, by id: an OldVersionError, or another error if it
            cannot be compared with the stored version.
        """
        place = versions_scope(scope)
        return self._session.run_step(place, lambda: self._claim(place, versions))

    def _claim(self, place: str, versions: Mapping[str, Version]) -> dict[str, UsageError]:
        session = self._session
        stored = session.store.entries(place, list(versions))
        if None in stored:
            session.confirm_state()
        refused: dict[str, UsageError] = {}
        changes = Changes()
        now = session.clock()
        for (id, version), entry in zip(versions.items(), stored, strict=True):
            problem = None if entry is None else _compare(id, version, entry)
            if problem is not None:
                refused[id] = problem
            elif entry is None or _version_of(entry) != version:
                if entry is not None:
                    changes.dropped.append(KeyedEntry(entry, None))
                changes.new.append(KeyedEntry(_make_entry(place, id, version, now), None))
        if changes:
            session.apply(changes)
        return refused

    @contextmanager
    def requiring(self, scope: str, versions: Mapping[str, Version]) -> Iterator[None]:
        """Lets the steps of this thread within the context require versions that were claimed.

        A step raises OldVersionError, and writes nothing, if a newer version of one of its
        documents was claimed since.
        """

        def stage(changes: Changes) -> None:
            touched = {entry.id for entry, _ in (*changes.new, *changes.dropped)}
            ids = sorted(touched & versions.keys())
            entries = self._session.store.entries(versions_scope(scope), ids)
            for id, entry in zip(ids, entries, strict=True):
                if entry is None or _version_of(entry) != versions[id]:
                    raise OldVersionError(f"a newer version of {id!r} was stored meanwhile")
                changes.required_leaders.append(entry)

        with observe_steps(stage):
            yield


def _compare(id: str, version: Version, entry: Entry) -> UsageError | None:
    """Returns the reason why a version does not replace a stored one, or None."""
    stored = _version_of(entry)
    try:
        is_older = version < stored  # type: ignore[operator]
    except TypeError:
        return UsageError(
            f"the version {_format(version)} of {id!r} cannot be compared with the stored one, "
            f"{_format(stored)}; give all versions as numbers, or all as times"
        )
    if is_older:
        return OldVersionError(f"the version {_format(stored)} of {id!r} is stored already")
    return None


def _version_of(entry: Entry) -> Version:
    return parse_version(entry.text or "", "version")


def _format(version: Version) -> str:
    return version.isoformat() if isinstance(version, datetime) else str(version)


def _make_entry(place: str, id: str, version: Version, now: float) -> Entry:
    text = _format(version)
    digest = hashlib.sha256(text.encode()).digest()[:16]
    return internal_entry(place, id, digest, now, text)
