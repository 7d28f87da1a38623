"""The copy of an index into one with another secret key."""

from collections.abc import Sequence
from contextlib import closing
from itertools import chain

from nearkin.errors import StoreError, UsageError
from nearkin.index.entry import Entry, batches_by_scope
from nearkin.index.index import Index
from nearkin.index.migration.copy import (
    CopyComparison,
    CopySource,
    claim_target,
    compare_clusters,
    copy_decisions,
    copy_entries,
    count_differences,
    is_finished_copy,
    keep_cluster_ids_and_compare,
    release_target,
)
from nearkin.index.migration.cutover import settings_of_copy
from nearkin.index.opening import open_index
from nearkin.index.parts import is_part_name
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.base import Store
from nearkin.index.stores.urls import recorded_url
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
    source = CopySource(opened.store, tuple(map(recorded_url, opened.urls)))
    with closing(source.store):
        if spec.key_id == new_secret.id:
            raise UsageError(
                f"{source.store.url} already has this key (key id {spec.key_id}); generate a new "
                f"one"
            )
        if spec.cut is not None or spec.frequencies is not None:
            raise UsageError(
                f"the Spec resources of {source.store.url} are hashed with its old key; build a "
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
            **kept,
        ) as target:
            left_out = _documents_without_text(source.store, target) if skip_without_text else set()
            if is_finished_copy(source.store, target, left_out):
                comparison = compare_clusters(source.store, target._session.store)
                return _result_of(comparison, left_out, new_secret, finished=True)
            claim_target(source, target)
            left_out = _copy_texts(source.store, target, skip_without_text=skip_without_text)
            comparison = keep_cluster_ids_and_compare(source.store, target)
            if finish:
                differing = count_differences(source.store, target._session.store, left_out)
                if differing:
                    raise StoreError(
                        f"{source.store.url} was written to while it was copied: {differing:,} "
                        "documents differ from the copy, which stays unfinished; stop every "
                        "process that writes to the index, and repeat the command"
                    )
                release_target(target)
    return _result_of(comparison, left_out, new_secret, finished=finish)


def _result_of(
    comparison: CopyComparison,
    left_out: set[tuple[str, str]],
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


def _documents_without_text(source: Store, target: Index) -> set[tuple[str, str]]:
    """Returns the scopes and ids of documents that a copy leaves out, because it needs texts."""
    if target.holds_vectors:
        return set()
    return {
        (entry.scope, entry.id)
        for entry in source.scan()
        if entry.text is None and not _has_vector_only(entry, target)
    }


def _copy_texts(source: Store, target: Index, *, skip_without_text: bool) -> set[tuple[str, str]]:
    """Makes a copy equal to its source."""
    left_out: set[tuple[str, str]] = set()
    # documents follow decisions when they are copied
    copy_decisions(source, target)
    for scope, entries in batches_by_scope(chain(source.scan(), target.scan())):
        ids = [entry.id for entry in entries]
        entries_by_id = dict(zip(ids, source.entries(scope, ids), strict=True))
        if skip_without_text and not target.holds_vectors:
            missing = [
                id
                for id, entry in entries_by_id.items()
                if entry is not None and entry.text is None and not _has_vector_only(entry, target)
            ]
            left_out.update((scope, id) for id in missing)
            # an earlier version of one, whose text was stored, may have been copied
            entries_by_id |= dict.fromkeys(missing)
        copy_entries(source, target, scope, entries_by_id, same_shingles=False)
    return left_out


def _has_vector_only(entry: Entry, target: Index) -> bool:
    """Returns True if a document of texts and vectors has no text that could be stored."""
    return target.holds_both and entry.size == 0 and bool(entry.payload)
