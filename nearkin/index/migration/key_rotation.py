"""The copy of an index into one with another secret key."""

import time
from collections.abc import Collection, Sequence
from contextlib import closing

from nearkin.errors import StoreError, UsageError
from nearkin.index.changes import Changes, Event
from nearkin.index.entry import Entry
from nearkin.index.history import read_setting
from nearkin.index.index import Index
from nearkin.index.migration.copy import (
    Copier,
    CopyComparison,
    compare_clusters,
    keep_cluster_ids_and_compare,
)
from nearkin.index.migration.cutover import settings_of_copy
from nearkin.index.opening import open_index
from nearkin.index.parts import is_part_name
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.urls import recorded_url
from nearkin.runtime.actor import ACTOR
from nearkin.settings.keys import HashKey
from nearkin.stages.sketch.resources import SpecResources


class KeyRotationResult(CopyComparison):
    """The result of a copy with another key."""

    left_out: int
    """The number of documents without a stored text that were left out."""
    key_id: str
    """The id of the new key."""
    finished: bool
    """True if the new index was opened."""


def rotate_key(
    source_url: str | Sequence[str],
    target_url: str,
    new_secret: HashKey,
    *,
    skip_without_text: bool = False,
    finish: bool = True,
) -> KeyRotationResult:
    """Copies an index, with all its scopes, into one with another secret key, from its texts.

    The old key is not needed, so it may be lost. An interrupted copy continues with the next call,
    and a complete one is reported again.
    """
    opened = open_index(source_url, IndexSettings(), follow=True, must_exist=True)
    spec = opened.settings.spec
    assert spec is not None
    store = opened.store
    with closing(store):
        if spec.key_id == new_secret.id:
            raise UsageError(
                f"{store.url} already has this key (key id {spec.key_id}); generate a new one"
            )
        if spec.cut is not None or spec.frequencies is not None:
            raise UsageError(
                f"the Spec resources of {store.url} are hashed with its old key; build a "
                "new index from its inputs"
            )
        kept = settings_of_copy(opened.settings)
        if opened.settings.vector is not None:
            kept["vector"] = opened.settings.vector.keyed_with(new_secret)
        with Index.open(
            target_url,
            spec.keyed_with(new_secret),
            opened.settings.threshold,
            resources=SpecResources(new_secret),
            follow=False,
            warm_up=False,
            **kept,
        ) as target:

            def leaves_out(entry: Entry) -> bool:
                return skip_without_text and _lacks_text(entry, target)

            copier = Copier(
                store,
                tuple(map(recorded_url, opened.urls)),
                target,
                same_shingles=False,
                leaves_out=leaves_out,
            )
            left_out = {
                (entry.scope, entry.id)
                for entry in (store.scan() if skip_without_text else ())
                if leaves_out(entry)
            }
            if copier.is_finished(left_out):
                comparison = compare_clusters(store, copier.copy)
                return _result_of(comparison, left_out, new_secret, finished=True)
            copier.claim()
            copier.copy_missing()
            comparison = keep_cluster_ids_and_compare(store, copier.copy)
            if finish:
                differing = copier.count_differences(copier.left_out)
                if differing:
                    raise StoreError(
                        f"{store.url} was written to while it was copied: {differing:,} "
                        "documents differ from the copy, which stays unfinished; stop every "
                        "process that writes to the index, and repeat the command"
                    )
                if read_setting(store):
                    copier.history.copy_new()
                    line = Event("key-rotated", "", new_secret.id, "", time.time())
                    line = line._replace(actor=ACTOR.get().name)
                    copier.copy.apply(Changes(events=[line], keeps_log=True))
                copier.release()
    return _result_of(comparison, copier.left_out, new_secret, finished=finish)


def _result_of(
    comparison: CopyComparison,
    left_out: Collection[tuple[str, str]],
    new_secret: HashKey,
    *,
    finished: bool,
) -> KeyRotationResult:
    """Returns the result of a rotation to a key that left some documents out."""
    return {
        **comparison,
        "left_out": sum(not is_part_name(scope, id) for scope, id in left_out),
        "key_id": new_secret.id,
        "finished": finished,
    }


def _lacks_text(entry: Entry, target: Index) -> bool:
    """Returns True if a copy needs the text of a document, and it is not stored."""
    if entry.text is not None or target.holds_vectors:
        return False
    has_vector_only = target.holds_both and entry.size == 0 and bool(entry.payload)
    return not has_vector_only
