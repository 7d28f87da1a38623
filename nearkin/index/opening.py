"""An index' store opened: what it was made with, held against what is asked for; where it has moved, followed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from nearkin.errors import IncompatibleError, StoreError
from nearkin.index.migration.state import MOVED, StoreState
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.base import Store
from nearkin.index.stores.urls import open_store, recorded_url, with_passwords
from nearkin.spec import Spec

FORMAT = 1
DEFAULT_THRESHOLD = 0.8
KEPT = ("threshold", "recall", "bands", "rows", "probes", "documents", "postings", "store_text")
"""Settings that an index is made with, beside its Spec."""
CHAIN = 5
"""Moves that are followed, one after the other."""


class Opened(NamedTuple):
    """A store, and what is known of the index in it."""

    store: Store
    settings: IndexSettings
    """With the Spec and the threshold that it was made with."""
    news: StoreState
    urls: tuple[str, ...]
    """Where it is, as it was opened: with passwords."""


def open_index(url: str | Sequence[str], asked: IndexSettings, follow: bool) -> Opened:
    """Opens a store, or the one that its index has moved to, and so on.

    What is asked for may be what the index was made with before a move, or after it: a process that has not heard of the move
    asks for the one, another for the other.

    Args:
        url: One, or several for shards.
        asked: Settings; Spec and threshold None for whatever is there.
        follow: Whether to go where it has moved to.

    Raises:
        IncompatibleError: The index was made with other settings.
        StoreError: A store cannot be reached, or the moves lead in a circle.
    """
    passed, urls = list[str](), (url,) if isinstance(url, str) else tuple(url)
    while True:
        store = open_store(urls, asked)
        try:
            header, news = store.claim(header_for(asked)), store.state()
            if not follow or news.move.phase != MOVED:
                return Opened(store, settings_of(header, asked, store.url), news, urls)
        except BaseException:
            store.close()
            raise
        store.close()
        _pass(passed, lasting_name(urls), lasting_name(news.move.urls))
        asked = _onwards(header, asked, store.url)
        urls = with_passwords(news.move.urls, urls)


def lasting_name(urls: Sequence[str]) -> str:
    """By which two ways of naming a store are the same."""
    return " ".join(map(recorded_url, urls))


def _pass(passed: list[str], here: str, there: str) -> None:
    passed.append(here)
    way = " to ".join([*passed, there])
    if there in passed:
        raise StoreError(f"the index moved in a circle, {way}; nearkin index rebuild --cut-back {here} ends it there")
    if len(passed) >= CHAIN:
        raise StoreError(f"the index moved {len(passed)} times, {way}: open it at its last place")


def _onwards(header: dict[str, Any], asked: IndexSettings, url: str) -> IndexSettings:
    """What to ask of the place that an index has moved to: nothing more, if this is what it was before."""
    asked = replace(asked, max_memory=None)
    try:
        settings_of(header, asked, url)
    except IncompatibleError:
        return asked
    return unasked(asked)


def unasked(settings: IndexSettings) -> IndexSettings:
    """Settings without those that an index is made with."""
    default = IndexSettings()
    return replace(settings, spec=None, **{name: getattr(default, name) for name in KEPT})


def header_for(settings: IndexSettings) -> dict[str, Any]:
    """What an index is made with."""
    spec = settings.spec or Spec()
    threshold = DEFAULT_THRESHOLD if settings.threshold is None else settings.threshold
    given = asdict(settings)
    kept = {name: given[name] for name in KEPT}
    return {"format": FORMAT, "spec": json.loads(spec.to_json()), **kept, "threshold": threshold}


def settings_of(header: dict[str, Any], asked: IndexSettings, url: str) -> IndexSettings:
    """An existing index' settings, which win over defaults; what was asked for and is another is an error."""
    if header["format"] != FORMAT:
        raise IncompatibleError(f"{url} has index format {header['format']}, this nearkin reads {FORMAT}")
    spec = Spec.from_json(json.dumps(header["spec"]))
    if asked.spec is not None:
        asked.spec.require(spec, f"the index {url}")
    default = IndexSettings()
    kept = {name: header[name] for name in KEPT}
    for name, value in kept.items():
        given = getattr(asked, name)
        if given != getattr(default, name) and given != value:
            raise IncompatibleError(
                f"the index {url} was made with {name}={value!r}, this asks for {given!r}: leave it out, or rebuild the index"
            )
    return replace(asked, spec=spec, **kept)
