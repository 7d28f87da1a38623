"""The opening of an index: its header is compared with the request, and its migrations followed."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

from nearkin.errors import IncompatibleError, MissingIndexError, StoreError, UsageError
from nearkin.index.migration.state import MOVED, StoreState
from nearkin.index.settings import (
    IndexSettings,
    VectorEvidence,
    require_related,
    threshold_of_distance,
)
from nearkin.index.stores.base import Store
from nearkin.index.stores.sharded import ShardedStore
from nearkin.index.stores.urls import (
    open_store,
    recorded_url,
    with_passwords,
    without_inapplicable_bound,
)
from nearkin.runtime.setting_names import SettingForm, current_form, describe_setting, name_setting
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec

FORMAT = 1
DISTANCE_FORMAT = 2
"""The format of an index with a Hamming distance, which older versions of nearkin refuse."""
VECTOR_FORMAT = 3
"""The format of an index of texts and vectors, which older versions of nearkin refuse."""
RELATED_FORMAT = 4
"""The format of an index with related documents, which older versions of nearkin refuse."""
PASSAGES_FORMAT = 5
"""The format of an index with fingerprints of passages, which older versions of nearkin refuse."""
FORMATS = (FORMAT, DISTANCE_FORMAT, VECTOR_FORMAT, RELATED_FORMAT, PASSAGES_FORMAT)
"""The formats that this version reads."""
DEFAULT_THRESHOLD = 0.8
DEFAULT_VECTOR_THRESHOLD = 0.95
"""The default threshold of the vectors of an index of texts and vectors."""
FIXED_SETTINGS = (
    "threshold",
    "recall",
    "bands",
    "rows",
    "probes",
    "documents",
    "postings",
    "store_text",
)
"""The settings that are fixed when an index is created, besides its Spec, its distance and its
vectors."""
OPTIONAL_SETTINGS = ("distance", "related", "passages", "combine")
"""The settings that are fixed too, and recorded by the indexes that have them only."""
FIXED_VECTOR_SETTINGS = ("threshold", "recall", "bands", "rows")
"""The settings of the vectors of an index that are fixed when it is created, besides their Spec."""
MAX_MIGRATIONS = 5
"""The number of migrations that are followed, one after the other."""


class VectorHeader(TypedDict):
    """The part of a header that describes the vectors of an index of texts and vectors."""

    spec: dict[str, object]
    """The Spec of the vectors, as its JSON."""
    threshold: float
    recall: float
    bands: int | None
    rows: int | None


class IndexHeader(TypedDict):
    """The header of an index: what is fixed when it is created."""

    format: int
    spec: dict[str, object]
    """The Spec, as its JSON."""
    threshold: float
    recall: float
    bands: int | None
    rows: int | None
    probes: int
    documents: int
    postings: str
    store_text: bool
    distance: NotRequired[int]
    related: NotRequired[float]
    passages: NotRequired[int]
    vector: NotRequired[VectorHeader]
    combine: NotRequired[str]
    shard: NotRequired[list[int]]
    """The position of the store among the shards of an index, and the number of shards. A store of
    all shards leaves it out."""


class Opened(NamedTuple):
    """A store, and what is known of the index in it."""

    store: Store
    settings: IndexSettings
    """The settings, with the Spec and the threshold that the index was created with."""
    state: StoreState
    urls: tuple[str, ...]
    """The URLs of the store, with passwords."""


def open_index(
    url: str | Sequence[str],
    requested: IndexSettings,
    *,
    follow: bool,
    store: Store | None = None,
    must_exist: bool = False,
) -> Opened:
    """Opens the store of an index, following migrations to other stores.

    The request may name the parameters from before a migration or from after it: a process that
    does not know of the migration asks for the former, another one for the latter.
    """
    visited: list[str] = []
    urls = (url,) if isinstance(url, str) else tuple(url)
    while True:
        # A request that is not valid is refused before the store makes a file.
        requested_header = new_header(requested)
        _require_one_store(requested, urls, store)
        if store is None:
            store = _open_next_store(urls, requested, visited, must_exist=must_exist)
        try:
            if must_exist or visited:
                header = read_header(store)
            else:
                header = cast(IndexHeader, store.claim(dict(requested_header)))
            state = store.state()
            if not follow or state.migration.phase != MOVED:
                settings = settings_of(header, requested, store.url)
                return Opened(store, settings, state, urls)
        except BaseException:
            store.close()
            raise
        store.close()
        visited.append(lasting_name(urls))
        _require_progress(visited, lasting_name(state.migration.urls))
        next_urls = state.migration.urls
        requested = _request_after_migration(header, requested, store.url, next_urls)
        urls = with_passwords(state.migration.urls, urls)
        store = None


def _require_one_store(requested: IndexSettings, urls: Sequence[str], store: Store | None) -> None:
    """Verifies that an index with fingerprints of passages is not divided among several stores."""
    is_divided = len(urls) > 1 or isinstance(store, ShardedStore)
    if requested.passages is not None and is_divided:
        raise UsageError(
            f"{name_setting('passages', requested.passages)} is not possible over the shards of "
            "several stores; give the URL of one store, or leave the setting out"
        )


def _open_next_store(
    urls: Sequence[str], requested: IndexSettings, visited: Sequence[str], *, must_exist: bool
) -> Store:
    """Opens a store of an index, or the store that the index has moved to."""
    if not visited:
        return open_store(urls, requested, must_exist=must_exist)
    with target_of_move(visited[-1]):
        return open_store(urls, requested, must_exist=True)


@contextmanager
def target_of_move(source: str) -> Iterator[None]:
    """Turns the error of a missing index into that of a store that has lost its index."""
    try:
        yield
    except MissingIndexError as error:
        raise StoreError(
            f"the index has moved from {source}, and {error}; restore that store, or run nearkin "
            f"index rebuild --store {source} --cut-back to go back"
        ) from error


def read_header(store: Store) -> IndexHeader:
    """Returns the header of the index in a store, and writes nothing."""
    header = store.read_header()
    if header is None:
        raise MissingIndexError(f"there is no index at {store.url}")
    return cast(IndexHeader, header)


def lasting_name(urls: Sequence[str]) -> str:
    """Returns a name that is equal for two spellings of the same store."""
    return " ".join(map(recorded_url, urls))


def _require_progress(visited: list[str], target: str) -> None:
    """Verifies that migrations form no loop and no long chain."""
    path = " -> ".join([*visited, target])
    if target in visited:
        raise StoreError(
            f"migration loop detected: {path}; run nearkin index rebuild --store "
            f"{visited[-1]} --cut-back to end it there"
        )
    if len(visited) >= MAX_MIGRATIONS:
        raise StoreError(
            f"the index moved {len(visited)} times: {path}; open it by the URL of its last store"
        )


def _request_after_migration(
    header: IndexHeader, requested: IndexSettings, url: str, next_urls: Sequence[str]
) -> IndexSettings:
    """Returns the settings to request from the store that an index has moved to.

    They are free if the request agrees with the index from before the migration.
    """
    requested = without_inapplicable_bound(requested, next_urls)
    try:
        settings_of(header, requested, url)
    except IncompatibleError:
        return requested
    return without_fixed_settings(requested)


def without_fixed_settings(settings: IndexSettings) -> IndexSettings:
    """Returns settings without the Spec and those that are fixed when an index is created."""
    default = IndexSettings()
    defaults = {name: getattr(default, name) for name in (*FIXED_SETTINGS, *OPTIONAL_SETTINGS)}
    vector = settings.vector
    if vector is not None:
        # a migration keeps the Spec of the vectors
        vector = VectorEvidence(vector.spec, lookup_probes=vector.lookup_probes)
    return replace(settings, spec=None, vector=vector, **defaults)


def new_header(settings: IndexSettings) -> IndexHeader:
    """Returns the header of a new index."""
    spec = settings.spec or Spec(measure="jaccard" if settings.distance is None else "simhash")
    fixed = {name: getattr(settings, name) for name in FIXED_SETTINGS}
    header = cast(IndexHeader, {"format": FORMAT, "spec": json.loads(spec.to_json()), **fixed})
    if settings.threshold is None:
        header["threshold"] = DEFAULT_THRESHOLD
    if settings.distance is not None:
        header["format"] = DISTANCE_FORMAT
        header["distance"] = settings.distance
        header["threshold"] = threshold_of_distance(spec, settings)
    if settings.vector is not None:
        header["format"] = VECTOR_FORMAT
        header["vector"] = _vector_header(settings.vector)
        header["combine"] = settings.combine
    elif settings.combine != IndexSettings().combine:
        raise UsageError(
            f"{name_setting('combine', settings.combine)} is for an index of texts and vectors; "
            f"pass "
            f"{name_setting('vector')}, too"
        )
    require_related(settings, header["threshold"])
    if settings.related is not None:
        header["format"] = RELATED_FORMAT
        header["related"] = settings.related
    if settings.passages is not None:
        # few indexes have passages, and the kernels of words take time to import
        from nearkin.index.passage_postings import passage_spec

        passage_spec(spec)
        header["format"] = PASSAGES_FORMAT
        header["passages"] = settings.passages
    return header


def _vector_header(vector: VectorEvidence) -> VectorHeader:
    """Returns the part of the header of a new index that describes its vectors."""
    return {
        "spec": json.loads(vector.spec.to_json()),
        "threshold": DEFAULT_VECTOR_THRESHOLD if vector.threshold is None else vector.threshold,
        "recall": vector.recall,
        "bands": vector.bands,
        "rows": vector.rows,
    }


def settings_of(header: IndexHeader, requested: IndexSettings, url: str) -> IndexSettings:
    """Returns the settings of an existing index, which replace defaults."""
    if header["format"] not in FORMATS:
        raise IncompatibleError(
            f"{url} has index format {header['format']}; this version of nearkin reads {FORMAT} "
            f"to {max(FORMATS)}"
        )
    if "shard" in header:
        position, count = header["shard"]
        raise IncompatibleError(
            f"{url} is shard {position + 1} of the {count} shards of an index; give the URLs of "
            "all shards, in their order"
        )
    spec = Spec.from_json(json.dumps(header["spec"]))
    if requested.spec is not None:
        # the index prepares all texts itself, so that it keeps the version it was created with
        wanted = requested.spec
        if wanted.has_shingles and spec.has_shingles and "symbols" not in wanted.normalise:
            wanted = replace(wanted, version=spec.version)
        wanted.require(spec, f"the index {url}")
    # what depends on the Spec and the vectors is verified when they are set
    names = (*FIXED_SETTINGS, *OPTIONAL_SETTINGS)
    default = IndexSettings()
    values: dict[str, Any] = {name: header.get(name, getattr(default, name)) for name in names}
    recorded = replace(requested, spec=None, vector=None, **values)
    _require_agreement(names, recorded, requested, default, url)
    vector = _vector_evidence_of(header.get("vector"), requested.vector, url)
    return replace(recorded, spec=spec, vector=vector)


def _vector_evidence_of(
    header: VectorHeader | None, requested: VectorEvidence | None, url: str
) -> VectorEvidence | None:
    """Returns the vectors of an existing index of texts, or None if it has none."""
    if header is None:
        if requested is not None:
            raise IncompatibleError(
                f"the documents of the index {url} have no vectors besides their texts; leave "
                f"{name_setting('vector')} out, or create a new index"
            )
        return None
    recorded = read_vector_evidence(header)
    if requested is None:
        return recorded
    requested.spec.require(recorded.spec, f"the vectors of the index {url}")
    default = VectorEvidence(recorded.spec)
    # in Python, the settings of vectors are keywords of a class of their own
    prefix = "" if current_form() is SettingForm.KEYWORD else "vector_"
    _require_agreement(FIXED_VECTOR_SETTINGS, recorded, requested, default, url, prefix)
    return replace(recorded, lookup_probes=requested.lookup_probes)


def read_vector_evidence(header: VectorHeader) -> VectorEvidence:
    """Returns the vectors of an index of texts and vectors, as they were recorded."""
    return VectorEvidence(
        Spec.from_json(json.dumps(header["spec"])),
        threshold=header["threshold"],
        recall=header["recall"],
        bands=header["bands"],
        rows=header["rows"],
    )


def _require_agreement(
    names: Sequence[str],
    recorded: IndexSettings | VectorEvidence,
    requested: IndexSettings | VectorEvidence,
    default: IndexSettings | VectorEvidence,
    url: str,
    prefix: str = "",
) -> None:
    """Verifies that a request names no other value of a fixed setting."""
    for name in names:
        recorded_value = getattr(recorded, name)
        requested_value = getattr(requested, name)
        if requested_value != getattr(default, name) and requested_value != recorded_value:
            raise IncompatibleError(
                f"the index {url} was created with "
                f"{describe_setting(prefix + name, recorded_value)}, and the request has "
                f"{requested_value!r}; leave the setting out, or rebuild the index"
            )


def require_matching_key(settings: IndexSettings, secret: HashKey | None) -> None:
    """Requires that a key is the one that the Specs of an index name, if both have one.

    An index is opened without its key by commands that compute no hashes.
    """
    specs = [settings.spec, None if settings.vector is None else settings.vector.spec]
    for spec in specs:
        if secret is not None and spec is not None:
            spec.require_key(secret)


def require_used_resources(folder: Path | None, settings: IndexSettings) -> None:
    """Requires that an index uses the Spec resources that are given for it."""
    spec = settings.spec
    if folder is None or spec is None or spec.uses_frequencies or spec.cut is not None:
        return
    raise UsageError(
        f"the Spec resources in {str(folder)!r} have no effect, because the Spec of the index "
        "names neither document frequencies nor cut shingles; leave them out"
    )
