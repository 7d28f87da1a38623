"""An index of another Spec or threshold, made beside a live one; and the cut-over to it, or back.

The live index goes on while it is copied: its steps log which documents they touch, and the copy follows the log. Only while
the last of those are carried over nobody writes. So the copy has every acknowledged document, and none that was removed, before
anybody writes to it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice, takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from nearkin.errors import StoreError, UsageError
from nearkin.index.changes import TOUCHED, Changes, KeyedEntry
from nearkin.index.entry import Entry, batches_by_scope
from nearkin.index.index import INTERVAL, Index
from nearkin.index.migration.state import CLOSING, COPYING, FILLING, MOVED, OPEN, Move
from nearkin.index.opening import open_index
from nearkin.index.parts import of_pieces
from nearkin.index.preparation import Checked, Shingled
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.base import PORTION, Store
from nearkin.index.stores.memory import MemoryStore
from nearkin.index.stores.urls import recorded_url, with_passwords
from nearkin.keys import HashKey
from nearkin.sketch.resources import SpecResources, shingle_facts

ROUNDS, FEW = 10, 1000
"""Times that a copy follows the log before it closes the index, at most, and touched documents with which it does not wait
for another one: carrying so many over takes well under a second."""
AT_ONCE = 1000
ANY_SIZE = 1 << 40
"""Of a document: what is stored was admitted before."""


class Brought(NamedTuple):
    """What was done to a copy."""

    written: int
    removed: int


def rebuild(
    source: str,
    target: str,
    changes: Mapping[str, Any],
    threshold: float | None,
    secret: HashKey | None,
    tables: Path | None = None,
    cuts_over: bool = False,
    new_secret: HashKey | None = None,
) -> dict[str, Any]:
    """An index of another Spec or threshold beside a live one, from its texts; says how the two compare.

    One that was broken off goes on where it stopped when it is asked for again.

    Args:
        source: URL of the live index.
        target: URL of an empty store.
        changes: Fields of the Spec.
        threshold: None for the live index' one.
        secret: Key of the Spec.
        tables: A run's folder with the tables that the Spec names.
        cuts_over: Whether the index moves there.
        new_secret: Another key for the target; None for the live index' one.

    Raises:
        UsageError: The target has documents of its own, or texts were not kept; or another key is asked for where tables were
            hashed with the old one, or where processes that have the index open would have to know it.
    """
    with Index.open(source, resources=SpecResources(secret), tables=tables) as live:
        kept: dict[str, Any] = {
            name: getattr(live.settings, name) for name in ("recall", "postings", "store_text", "documents")
        }
        asked = live.threshold if threshold is None else threshold
        resources = live.resources
        if new_secret is not None:
            if cuts_over:
                raise UsageError(
                    "processes that have the index open do not know the new key, so that it cannot move under them: build it "
                    "beside, then open the target with the new key"
                )
            if live.spec.cut is not None or live.spec.frequencies is not None:
                raise UsageError(f"the tables of {live.store.url} are hashed with its old key; build an index from its inputs")
            resources = replace(resources, secret=new_secret)
        spec = replace(live.spec, **changes)
        if new_secret is not None:
            spec = spec.keyed_with(new_secret)
        with Index.open(target, spec, asked, resources=resources, follow=False, cache=1, max_document=ANY_SIZE, **kept) as anew:
            # before the move: then the live one is the other
            specs = {"spec_before": live.spec.fingerprint, "spec_after": anew.spec.fingerprint}
            return {**(cut_over(live, anew) if cuts_over else beside(live, anew)), **specs}


class Origin(NamedTuple):
    """The store that documents are copied from, where its index cannot or need not be opened."""

    store: Store
    place: tuple[str, ...]


def rotate_key(
    source: str | Sequence[str], target: str, new_secret: HashKey, *, skip_without_text: bool = False, finish: bool = True
) -> dict[str, Any]:
    """Copies an index, every scope of it, into one with another secret key, from its texts.

    The old key is not needed, so it may be lost. An interrupted copy continues with the next call.

    Args:
        source: URL of the index.
        target: URL of an empty store, or of an unfinished copy of this index.
        new_secret: The key of the new index.
        skip_without_text: Whether documents whose text was not kept are left out. By default they are an error.
        finish: Whether the new index is opened. If not, nobody else may write to it, and the next call brings what has changed
            since, and deletes what was deleted since.

    Raises:
        UsageError: If the target has documents of its own, the key is the same, a text was not kept, or the index has tables
            that are hashed with the old key.
        StoreError: If the index was written to while the last of it was copied. The new one is not opened then; stop the
            processes that write, and call this again.
    """
    origin_index = open_index(source, IndexSettings(), True)
    spec = origin_index.settings.spec
    assert spec is not None
    origin = Origin(origin_index.store, tuple(map(recorded_url, origin_index.urls)))
    with closing(origin.store):
        if spec.key_id == new_secret.id:
            raise UsageError(f"{origin.store.url} has this key already (key id {spec.key_id}); generate a new one")
        if spec.cut is not None or spec.frequencies is not None:
            raise UsageError(f"the tables of {origin.store.url} are hashed with its old key; build an index from its inputs")
        spec = spec.keyed_with(new_secret)
        kept: dict[str, Any] = {
            name: getattr(origin_index.settings, name) for name in ("recall", "postings", "store_text", "documents")
        }
        with Index.open(
            target,
            spec,
            origin_index.settings.threshold,
            resources=SpecResources(new_secret),
            follow=False,
            cache=1,
            max_document=ANY_SIZE,
            **kept,
        ) as anew:
            accept(origin, anew)
            left_out = _copy_texts(origin.store, anew, skip_without_text)
            compared = _compared(origin.store, anew)
            if finish:
                late = _count_differences(origin.store, anew.store, left_out)
                if late:
                    raise StoreError(
                        f"{origin.store.url} was written to while it was copied: {late:,} documents differ from the copy, "
                        "which stays unfinished; stop every process that writes to the index, and give the same command again"
                    )
                _settle(anew)
    return {**compared, "left_out": len(left_out), "key_id": new_secret.id, "finished": finish}


def _copy_texts(source: Store, anew: Index, skip_without_text: bool) -> set[tuple[str, str]]:
    """Makes a copy the same as its source.

    Returns:
        The scope and id of documents that were left out because their text was not kept.
    """
    left_out = set[tuple[str, str]]()
    for scope, some in batches_by_scope(chain(source.scan(), anew.store.scan())):
        names = [entry.id for entry in some]
        wanted = dict(zip(names, source.entries(scope, names), strict=True))
        if skip_without_text and not anew.preparer.vectors:
            missing = [name for name, entry in wanted.items() if entry is not None and entry.text is None]
            left_out.update((scope, name) for name in missing)
            # an earlier version of one, whose text was kept, may have been copied
            wanted |= dict.fromkeys(missing)
        _bring(anew, scope, wanted, False)
    return left_out


def _count_differences(source: Store, copy: Store, left_out: set[tuple[str, str]]) -> int:
    """Returns how many documents are only in one of two stores, or have another content in the other one."""
    contents = {(entry.scope, entry.id): entry.digest for entry in copy.scan(content=False)}
    differing = sum(
        contents.pop((entry.scope, entry.id), b"") != entry.digest
        for entry in source.scan(content=False)
        if (entry.scope, entry.id) not in left_out
    )
    return differing + len(contents)


def beside(live: Index, anew: Index) -> dict[str, Any]:
    """Fills an index from another one, that stays where it is, and compares the two."""
    accept(live, anew)
    fill(live, anew)
    compared = _compared(live.store, anew)
    _settle(anew)
    return compared


def cut_over(live: Index, anew: Index, wait: float | None = None) -> dict[str, Any]:
    """Moves a live index to another store, whoever has it open; ids are kept, cluster ids as far as clusters agree.

    Args:
        live: Where it is.
        anew: Where it goes: opened with `follow=False`; empty, or a copy that was broken off, or the place that it came from.
        wait: Seconds to wait at the end; by default until every process must have looked and gone over, readers too.

    Returns:
        How the two compare, what came meanwhile, and for how many seconds nobody could write.

    Raises:
        UsageError: It cannot go there.
        StoreError: A store failed; the index is where it was.
    """
    accept(live, anew, MemoryStore.url)
    source = live.store
    with Phases(source) as phases:
        phases.write(COPYING, anew.place)
        # whoever else fills the copy has read what he brings before the log began, perhaps
        _fence(anew)
        log = Log(live)
        fill(live, anew)
        compared = _compared(source, anew)
        meanwhile = _follow(log, anew)
        closed = time.perf_counter()
        phases.write(CLOSING, anew.place)
        last = log.bring(anew)
        _settle(anew)
    # not undone if it fails: whether it was written is not known then, and somebody may have gone over
    phases.write(MOVED, anew.place)
    closed = time.perf_counter() - closed
    live.refresh()
    time.sleep(INTERVAL if wait is None else wait)
    return {
        **compared,
        "written_meanwhile": meanwhile.written + last.written,
        "removed_meanwhile": meanwhile.removed + last.removed,
        "seconds_closed": round(closed, 3),
        "moved_to": " ".join(anew.place),
    }


def cut_back(
    url: str | Sequence[str], secret: HashKey | None = None, tables: Path | None = None, wait: float | None = None
) -> dict[str, Any]:
    """Moves an index back to the store that it was moved from, with all that has come since; or opens a store whose move was
    broken off.

    Args:
        url: Of the store that it was moved from.
        secret: Key of the Spec.
        tables: A run's folder with the tables that the Spec names.
        wait: As in `cut_over`.

    Raises:
        UsageError: The index has not been moved.
    """
    resources = SpecResources(secret)
    with Index.open(url, resources=resources, tables=tables, follow=False, cache=1, max_document=ANY_SIZE) as back:
        move = back.store.state().move
        if move.phase == OPEN:
            raise UsageError(f"{back.store.url} has not been moved: there is nothing to cut back to it")
        if move.phase != MOVED:
            back.store.redirect(Move(move.epoch + 1, OPEN))
            return {"opened": " ".join(back.place), "was": move.phase}
        urls = with_passwords(move.urls, (url,) if isinstance(url, str) else url)
        with Index.open(urls, resources=resources, tables=tables) as live:
            if live.place != move.urls:
                raise UsageError(f"the index moved on from {' '.join(move.urls)}: cut back to that first")
            return cut_over(live, back, wait)


class Phases:
    """The phases of a store's move, each written under the next epoch: of two moves at once, one meets an epoch that is not its
    own, and ends. Left by an error, the store is open again."""

    def __init__(self, store: Store) -> None:
        self._store, self._epoch = store, store.state().move.epoch

    def write(self, phase: str, urls: tuple[str, ...] = ()) -> None:
        """The next one."""
        self._epoch += 1
        self._store.redirect(Move(self._epoch, phase, urls))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            try:
                self.write(OPEN)
            except StoreError as failed:
                raise StoreError(
                    f"{error}; and it may be closed still ({failed}): nearkin index rebuild --cut-back opens it"
                ) from error


class Log:
    """The documents that steps touched while an index was copied.

    Each reading begins where the log ended before the reading before it, so that only what is new is read while the index is
    closed. A line that is read twice does no harm.
    """

    def __init__(self, live: Index) -> None:
        self._live, self._source = live, live.store
        self._place = self._source.log_end()
        self._seen: Counter[tuple[str, str]] = Counter()
        if self._place is None:
            self._seen = Counter(self._touches())

    def _touches(self) -> Iterator[tuple[str, str]]:
        return ((event.scope, event.id) for event in self._source.events(self._place) if event.kind == TOUCHED)

    def bring(self, anew: Index) -> Brought:
        """Carries over those since the last time."""
        if self._place is None:
            # a store whose log has no places: its lines are counted, for they come in no order
            touches = Counter(self._touches())
            fresh = touches - self._seen
            self._seen = touches
            return bring(self._live, anew, fresh)
        end = self._source.log_end()
        touched = self._touches()
        total = Brought(0, 0)
        while some := dict.fromkeys(islice(touched, AT_ONCE)):
            total = _total((total, bring(self._live, anew, some)))
        self._place = end
        return total


def bring(live: Index, anew: Index, touched: Iterable[tuple[str, str]]) -> Brought:
    """Some documents, by scope and id, as they are in one index by now, into another: written, or removed."""
    scopes: dict[str, list[str]] = {}
    for scope, name in touched:
        scopes.setdefault(scope, []).append(name)
    same = alike(live, anew)
    return _total(
        _bring(anew, scope, dict(zip(some, live.store.entries(scope, some), strict=True)), same)
        for scope, names in scopes.items()
        for some in _parts(names)
    )


def _follow(log: Log, anew: Index) -> Brought:
    """Until few come in the time that carrying them over takes."""
    total = Brought(0, 0)
    for _ in range(ROUNDS):
        some = log.bring(anew)
        total = _total((total, some))
        if sum(some) < FEW:
            break
    return total


def accept(live: Index | Origin, anew: Index, *never: str) -> None:
    """Marks the target as being filled, so that nobody writes to it who takes it for an index of its own.

    Raises:
        UsageError: It holds something else, or is no place to move to.
    """
    where, move = anew.store.url, anew.store.state().move
    if live.place == anew.place or where in never:
        raise UsageError(f"an index at {live.store.url} cannot move to {where}; give the URL of another store")
    if (move.phase, move.urls) == (MOVED, live.place):
        # where the index came from: who opens it is led to the live one until it is settled
        _carry_protection(live, anew)
        return
    if anew.store.counts()["records"] and (move.phase, move.urls) != (FILLING, live.place):
        raise UsageError(f"{where} has documents already; rebuild into an empty store")
    anew.store.redirect(Move(move.epoch + 1, FILLING, live.place))
    _carry_protection(live, anew)
    anew.refresh()


def _carry_protection(live: Index | Origin, anew: Index) -> None:
    """Keeps a copy from being served to everybody where the original was not."""
    if live.store.is_protected():
        anew.store.protect()


def _fence(anew: Index) -> None:
    """From now on only this process fills the copy."""
    move = anew.store.state().move
    anew.store.redirect(move._replace(epoch=move.epoch + 1))
    anew.refresh()


def _settle(anew: Index) -> None:
    """It is an index like any other."""
    anew.store.redirect(Move(anew.store.state().move.epoch + 1, OPEN))
    anew.refresh()


def alike(live: Index, anew: Index) -> bool:
    """Whether both make the same shingles of a text, so that those of one serve the other where texts are not kept."""
    both = (live, anew)
    return len({(one.preparer.takes_shingles, shingle_facts(one.spec), one.spec.cut) for one in both}) == 1


def fill(live: Index, anew: Index, still: Callable[[], bool] = lambda: True) -> Brought:
    """Everything that is missing in a copy, or another there, or gone from its source.

    Args:
        live: The source.
        anew: The copy.
        still: Asked before each batch; once it says no, nothing more is done.
    """
    source, same = live.store, alike(live, anew)
    looks = [source.scan(content=False)]
    if anew.store.counts()["records"]:
        looks.append(anew.store.scan(content=False))
    return _total(
        _bring(anew, scope, dict(zip(names, source.entries(scope, names), strict=True)), same)
        for scope, some in takewhile(lambda _: still(), batches_by_scope(chain(*looks)))
        for names in [[entry.id for entry in some]]
    )


def _bring(anew: Index, scope: str, wanted: Mapping[str, Entry | None], same: bool) -> Brought:
    """Documents of a scope as they should be, None for those that should not be there."""
    there = dict(zip(wanted, anew.store.entries(scope, list(wanted)), strict=True))
    if of_pieces(scope):
        return _bring_pieces(anew, scope, wanted, there, same)
    some = [entry for entry in wanted.values() if entry is not None and not _same(entry, there[entry.id])]
    most = anew.settings.max_batch
    for part in (some[start : start + most] for start in range(0, len(some), most)):
        anew.upsert_many(scope, [content_of(anew, entry, same) for entry in part], [entry.id for entry in part])
    gone = [name for name, entry in wanted.items() if entry is None and there[name] is not None]
    return Brought(len(some), sum(anew.remove(scope, name) for name in gone))


def _bring_pieces(
    anew: Index, scope: str, wanted: Mapping[str, Entry | None], there: Mapping[str, Entry | None], same: bool
) -> Brought:
    """What there is of documents that are not whole yet: as it is, for nothing resembles a part."""
    written, removed = 0, 0
    for name, entry in wanted.items():
        held = there[name]
        if entry is not None and not same:
            raise UsageError(
                f"{name!r} came in pieces and is not closed yet: the texts of pieces are not kept, so that an index of other "
                "shingles cannot take it over; close it first"
            )
        if (entry is None and held is None) or (entry is not None and _same(entry, held)):
            continue

        def step(entry: Entry | None = entry, held: Entry | None = held) -> None:
            # the running signature may be of another kind; one is made of the shingles when the document is closed
            kept = [] if entry is None else [KeyedEntry(entry._replace(ref=0, signature=b""), None)]
            anew.apply(Changes(dropped=[] if held is None else [KeyedEntry(held, None)], new=kept))

        anew.step(scope, step)
        written, removed = written + (entry is not None), removed + (entry is None)
    return Brought(written, removed)


def _same(entry: Entry, other: Entry | None) -> bool:
    return other is not None and other.digest == entry.digest


def content_of(anew: Index, entry: Entry, same: bool) -> Checked:
    if anew.preparer.vectors:
        return np.frombuffer(entry.payload, np.float32)
    if entry.text is None and same and anew.preparer.takes_shingles:
        return Shingled(np.frombuffer(entry.payload, np.uint64), digest=entry.digest)
    if entry.text is None:
        raise UsageError(
            f"the text of {entry.id!r} was not kept (store_text=False); an index of other shingles cannot be made without it"
        )
    return entry.text


def _total(parts: Iterable[Brought]) -> Brought:
    written, removed = zip(Brought(0, 0), *parts, strict=True)
    return Brought(sum(written), sum(removed))


def _parts(names: list[str]) -> list[list[str]]:
    return [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]


def _compared(source: Store, anew: Index) -> dict[str, Any]:
    """Gives clusters the ids that they had, then counts what agrees."""
    was = {(entry.scope, entry.id): (entry.cluster, entry.is_leader) for entry in source.scan(content=False)}
    _keep_cluster_ids(was, anew.store)
    before, after = source.counts(), anew.store.counts()
    found = [(was.get((entry.scope, entry.id)), entry.cluster, entry.is_leader) for entry in anew.store.scan(content=False)]
    return {
        "documents": after["records"],
        "clusters_before": before["leaders"],
        "clusters_after": after["leaders"],
        "same_standing": sum(old is not None and old[1] == leads for old, _, leads in found),
        "same_cluster": sum(old is not None and old[0] == cluster for old, cluster, _ in found),
    }


def _keep_cluster_ids(was: Mapping[tuple[str, str], tuple[str, bool]], store: Store) -> None:
    """A cluster gets the id that its representative's had; of several, the one whose representative it was before."""
    heads = [entry for entry in store.scan(content=False) if entry.is_leader]
    heads.sort(key=lambda head: not was.get((head.scope, head.id), ("", False))[1])
    taken: set[tuple[str, str]] = set()
    for head in heads:
        old = was.get((head.scope, head.id), (head.cluster, False))[0]
        name = next((name for name in (old, head.cluster, head.id) if (head.scope, name) not in taken), head.cluster)
        taken.add((head.scope, name))
        if name != head.cluster:
            _rename_cluster(store, head, name)


def _rename_cluster(store: Store, head: Entry, name: str) -> None:
    """Gives a cluster another id, a portion at a time; the representative is last, so that a repetition does the rest."""
    last = 0
    while some := store.member_page(head.scope, head.id, last, 0, PORTION):
        last = some[-1].ref
        whole = [entry for entry in store.by_refs([one.ref for one in some]) if entry is not None]
        store.apply(Changes(changed=[entry._replace(cluster=name) for entry in whole], invalidates_caches=True))
    whole = [entry for entry in store.by_refs([head.ref]) if entry is not None]
    store.apply(Changes(changed=[entry._replace(cluster=name) for entry in whole], invalidates_caches=True))
