"""The migration of a live index to another store, and back.

The index stays in use while it is copied: its steps log the documents that they touch, and the copy
follows the log. Writers wait only while the last of those are copied. So the copy has every
acknowledged document, and none that was removed, before anybody writes to it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, cast

from nearkin.errors import IncompatibleError, MissingIndexError, RacedError, StoreError, UsageError
from nearkin.index.entry import RESERVED
from nearkin.index.index import Index
from nearkin.index.migration.copy import (
    UNLIMITED_SIZE,
    Copier,
    CopyComparison,
    compare_clusters,
    keep_cluster_ids_and_compare,
)
from nearkin.index.migration.follow import LogFollower
from nearkin.index.migration.state import CLOSING, COPYING, MOVED, OPEN, MigrationState, Phase
from nearkin.index.opening import open_index
from nearkin.index.session import REFRESH_SECONDS
from nearkin.index.settings import IndexSettings, SettingsFields
from nearkin.index.stores.addresses import MEMORY_URL
from nearkin.index.stores.base import Store
from nearkin.index.stores.urls import recorded_url, with_passwords
from nearkin.runtime.redaction import redact
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.settings.keys import HashKey
from nearkin.stages.sketch.resources import SpecResources


class CutoverResult(CopyComparison):
    """The result of a cutover."""

    written_meanwhile: int
    """The number of documents that were written again because steps touched them."""
    removed_meanwhile: int
    """The number of documents that were removed while the index was copied."""
    seconds_closed: float
    """The time for which writers waited, in seconds."""
    moved_to: str
    """The URLs of the new store, separated by spaces."""


class RebuildResult(CopyComparison):
    """The result of a rebuild beside the source."""

    spec_before: str
    """The fingerprint of the Spec of the source."""
    spec_after: str
    """The fingerprint of the Spec of the new index."""


class RebuildCutoverResult(CutoverResult, RebuildResult):
    """The result of a rebuild to which the index then moved."""


class ReopenedStore(TypedDict):
    """The result of ending an interrupted migration."""

    opened: str
    """The URLs of the store, separated by spaces."""
    was: str
    """The phase in which the migration was interrupted."""


KEPT_SETTINGS = (
    "distance",
    "related",
    "passages",
    "vector",
    "combine",
    "recall",
    "postings",
    "store_text",
    "documents",
)
"""The settings that a copy takes over from its source."""


def settings_of_copy(settings: IndexSettings) -> SettingsFields:
    """Returns the settings of a copy, which takes over documents of any size."""
    kept = {name: getattr(settings, name) for name in KEPT_SETTINGS}
    return cast(SettingsFields, {"cache": 1, "max_document": UNLIMITED_SIZE, **kept})


def rebuild(
    source_url: str,
    target_url: str,
    changes: Mapping[str, Any],
    threshold: float | None,
    secret: HashKey | None,
    spec_resources: Path | None = None,
    *,
    cuts_over: bool = False,
    new_secret: HashKey | None = None,
    vector_threshold: float | None = None,
    combine: str | None = None,
    decisions: Mapping[str, str | Path] | None = None,
) -> RebuildResult | RebuildCutoverResult:
    """Builds an index of another Spec or threshold from the texts of a live one.

    A call that was interrupted continues when it is repeated. If it was complete, the repeated call
    changes nothing.
    """
    has_moved = cuts_over and _has_moved(source_url, target_url)
    with Index.open(
        source_url,
        resources=SpecResources(secret),
        spec_resources=spec_resources,
        decisions=decisions,
        follow=not has_moved,
        must_exist=True,
        warm_up=False,
    ) as source:
        resources = source.resources
        spec = replace(source.spec, **changes)
        if new_secret is not None:
            if cuts_over:
                raise UsageError(
                    "an index cannot move to a store with another key while it is in use, because "
                    "running processes do not know the new key; rebuild without "
                    f"{name_flag('cuts_over')}, then restart them with the new store and the new "
                    "key"
                )
            if source.spec.cut is not None or source.spec.frequencies is not None:
                raise UsageError(
                    f"the Spec resources of {source.url} are hashed with its old key; build a "
                    "new index from its inputs"
                )
            resources = replace(resources, secret=new_secret)
            spec = spec.keyed_with(new_secret)
        kept = settings_of_copy(source.settings)
        _change_evidence(source, kept, new_secret, vector_threshold, combine)
        if threshold is not None:
            # similarities are compared in place of distances
            kept["distance"] = None
        elif source.settings.distance is None:
            threshold = source.threshold
        with (
            _other_settings_refused(target_url) if has_moved else nullcontext(),
            Index.open(
                target_url,
                spec,
                threshold,
                resources=resources,
                decisions=decisions,
                follow=False,
                warm_up=False,
                **kept,
            ) as target,
        ):
            # read before the cutover, after which the source is open at the target's store
            spec_before = source.spec.fingerprint
            spec_after = target.spec.fingerprint
            if cuts_over:
                moved = _completed_move(source, target) if has_moved else cut_over(source, target)
                return {**moved, "spec_before": spec_before, "spec_after": spec_after}
            copied = fill_copy(source, target)
            return {**copied, "spec_before": spec_before, "spec_after": spec_after}


def _has_moved(source_url: str, target_url: str) -> bool:
    """Returns True if an index has moved to a store, or only the note of it is missing.

    A process that was killed after it had opened the complete copy has left the source closed. The
    note is written then.
    """
    opened = open_index(source_url, IndexSettings(), follow=False, must_exist=True)
    with closing(opened.store) as store:
        migration = opened.state.migration
        if migration.urls != (recorded_url(target_url),):
            return False
        if migration.phase == CLOSING and _is_released(target_url):
            store.redirect(MigrationState(migration.epoch + 1, MOVED, migration.urls))
            return True
        return migration.phase == MOVED


def _is_released(url: str) -> bool:
    """Returns True if a store has an index that is not being filled any more."""
    try:
        opened = open_index(url, IndexSettings(), follow=False, must_exist=True)
    except MissingIndexError:
        return False
    with closing(opened.store):
        return opened.state.migration.phase == OPEN


@contextmanager
def _other_settings_refused(target_url: str) -> Iterator[None]:
    """Explains that an index has moved to a store already, with other settings than requested."""
    try:
        yield
    except IncompatibleError as error:
        raise UsageError(
            f"the index has moved to {redact(target_url)} already, and cannot move to the same "
            f"store with other settings ({error}); give the URL of another store"
        ) from error


def _completed_move(source: Index, target: Index) -> CutoverResult:
    """Returns the result of a move that an earlier call has completed."""
    return {
        **compare_clusters(source._session.store, target._session.store),
        "written_meanwhile": 0,
        "removed_meanwhile": 0,
        "seconds_closed": 0.0,
        "moved_to": " ".join(target.public_urls),
    }


def _change_evidence(
    source: Index,
    kept: SettingsFields,
    new_secret: HashKey | None,
    vector_threshold: float | None,
    combine: str | None,
) -> None:
    """Changes what a rebuild keeps of the settings of an index of texts and vectors."""
    vector = kept["vector"]
    if vector is None:
        if vector_threshold is not None or combine is not None:
            raise UsageError(
                f"the documents of {source.url} have one kind of content; leave the settings of "
                "texts and vectors out"
            )
        return
    # the bands follow from the threshold again, as those of the texts do
    vector = replace(vector, bands=None, rows=None)
    if vector_threshold is not None:
        vector = replace(vector, threshold=vector_threshold)
    kept["vector"] = vector if new_secret is None else vector.keyed_with(new_secret)
    if combine == "both":
        _require_both_kinds(source)
    if combine is not None:
        kept["combine"] = combine


def _require_both_kinds(source: Index) -> None:
    """Verifies that each document has a text and a vector, before anything is copied."""
    for entry in source.scan():
        if entry.scope.startswith(RESERVED):
            continue
        has_text = entry.text is not None or entry.size > 0
        if not has_text or source.vector_of(entry) is None:
            missing = "vector" if has_text else "text"
            raise UsageError(
                f"{name_setting('combine', 'both')} needs a text and a vector of each document, "
                f"and {entry.id!r} of scope {entry.scope!r} has no {missing}; keep "
                f"{name_setting('combine', 'either')}"
            )


def fill_copy(source: Index, target: Index) -> CopyComparison:
    """Fills an index from another one, which stays where it is.

    A finished copy is left as it is.
    """
    copier = Copier.between(source, target)
    if copier.is_finished():
        copier.follow_given_decisions()
        return compare_clusters(copier.source, copier.copy)
    copier.claim()
    copier.copy_missing()
    comparison = keep_cluster_ids_and_compare(copier.source, copier.copy)
    copier.release()
    return comparison


def cut_over(source: Index, target: Index, wait: float | None = None) -> CutoverResult:
    """Moves a live index to another store, for all processes that have it open.

    Ids are kept, and cluster ids as far as clusters agree.

    Returns:
        A comparison of the two, the numbers of documents that changed meanwhile, and the seconds
        for which writers waited.
    """
    copier = Copier.between(source, target)
    copier.claim(MEMORY_URL)
    with PhaseWriter(copier.source) as phases:
        phases.write(COPYING, target.public_urls)
        # another process that fills the copy may have read its documents before the log began
        copier.exclude_other_fillers()
        follower = LogFollower(copier)
        copier.copy_missing()
        comparison = keep_cluster_ids_and_compare(copier.source, copier.copy)
        meanwhile = follower.copy_until_few()
        copier.history.copy_new()
        closed_at = time.perf_counter()
        phases.write(CLOSING, target.public_urls)
        meanwhile = meanwhile.add(follower.copy_touched())
        copier.release()
    # this is not undone if it fails: it may have been written, and other processes may have
    # followed
    phases.write(MOVED, target.public_urls)
    seconds_closed = time.perf_counter() - closed_at
    source.refresh()
    time.sleep(REFRESH_SECONDS if wait is None else wait)
    return {
        **comparison,
        "written_meanwhile": meanwhile.written,
        "removed_meanwhile": meanwhile.removed,
        "seconds_closed": round(seconds_closed, 3),
        "moved_to": " ".join(target.public_urls),
    }


def cut_back(
    url: str | Sequence[str],
    secret: HashKey | None = None,
    spec_resources: Path | None = None,
    wait: float | None = None,
) -> CutoverResult | ReopenedStore:
    """Moves an index back to the store that it came from, with all changes since.

    A store whose migration was interrupted is opened instead.
    """
    resources = SpecResources(secret)
    with Index.open(
        url,
        resources=resources,
        spec_resources=spec_resources,
        follow=False,
        must_exist=True,
        cache=1,
        max_document=UNLIMITED_SIZE,
        warm_up=False,
    ) as target:
        store = target._session.store
        migration = store.state().migration
        if migration.phase == OPEN:
            raise UsageError(f"{store.url} has not been moved: there is nothing to cut back")
        if migration.phase != MOVED:
            store.redirect(MigrationState(migration.epoch + 1, OPEN))
            return {"opened": " ".join(target.public_urls), "was": str(migration.phase)}
        urls = with_passwords(migration.urls, (url,) if isinstance(url, str) else url)
        with Index.open(
            urls, resources=resources, spec_resources=spec_resources, must_exist=True, warm_up=False
        ) as source:
            if source.public_urls != migration.urls:
                raise UsageError(
                    f"the index moved on from {' '.join(migration.urls)}; cut back to that store "
                    "first"
                )
            return cut_over(source, target, wait)


class PhaseWriter:
    """Writes the phases of a store's migration, each under the next epoch.

    Of two migrations at once, one meets an epoch that is not its own, and ends. If the body of the
    `with` statement raises another error, the store is opened again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._epoch = store.state().migration.epoch
        self._was_overtaken = False
        """True if another migration has written the state, which is then left as it is."""

    def write(self, phase: Phase, urls: tuple[str, ...] = ()) -> None:
        """Writes the next phase."""
        self._epoch += 1
        try:
            self._store.redirect(MigrationState(self._epoch, phase, urls))
        except RacedError:
            self._was_overtaken = True
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or self._was_overtaken:
            return
        try:
            self.write(OPEN)
        except StoreError as failed:
            raise StoreError(
                f"{error}; the store may still be closed ({failed}): open it with nearkin index "
                f"rebuild --cut-back"
            ) from error
