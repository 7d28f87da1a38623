"""The index of a server: opened, or made with a secret key of its own."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from nearkin.errors import IncompatibleError, NearkinError, UsageError
from nearkin.index.index import Index
from nearkin.keys import HashKey
from nearkin.server.prober import GoldenPair, read_pairs
from nearkin.server.settings import ServerSettings
from nearkin.server.shadow import Shadow
from nearkin.server.tokens import write_private
from nearkin.sketch.materials import Materials
from nearkin.spec import KEYED, Spec

log = logging.getLogger("nearkin.server")


@dataclass(frozen=True)
class Parts:
    """What a server works with.

    Attributes:
        index: The index.
        shadow: Another banding beside it.
        pairs: Known ones, to be asked for.
    """

    index: Index
    shadow: Shadow | None
    pairs: Sequence[GoldenPair]

    @classmethod
    def opened(cls, settings: ServerSettings) -> Self:
        """All of them.

        Raises:
            NearkinError: One of them cannot be had.
        """
        pairs = [] if settings.golden is None else read_pairs(settings.golden)
        index = open_index(settings)
        try:
            return cls(index, open_shadow(settings, index), pairs)
        except NearkinError:
            index.close()
            raise

    def close(self) -> None:
        """Works off what waits, and gives the stores back."""
        if self.shadow is not None:
            self.shadow.close()
        self.index.close()


def open_index(settings: ServerSettings) -> Index:
    """The index that the settings name.

    Where there is none yet, it is hashed with a secret key, so that nobody outside can make texts that fall into one bucket; an
    existing one is opened as it is, with the key if its Spec names one.
    """
    asked = settings.index_settings()
    urls = settings.urls if len(settings.urls) > 1 else settings.urls[0]
    if settings.kind == "vector" and asked.spec is None:
        raise UsageError("a server of vectors needs their dimensions: NEARKIN_VECTOR_DIMENSIONS or --index dimensions=384")
    wanted = settings.keyed and settings.kind == "text"
    secret = _key(settings) if wanted or settings.key_file.is_file() else None
    materials, spec = Materials(secret), asked.spec or Spec()
    if wanted and secret is not None and spec.key_id is None:
        keyed = replace(asked, spec=replace(spec, base_hash=KEYED, hash_seed=0, key_id=secret.id))
        try:
            return Index.open(urls, settings=keyed, materials=materials, tables=settings.tables)
        except IncompatibleError:
            log.info("the index was made by something else; it is opened as it is")
    return Index.open(urls, settings=asked, materials=materials, tables=settings.tables)


def open_shadow(settings: ServerSettings, index: Index) -> Shadow | None:
    """The banding beside the index, if one is asked for."""
    if settings.shadow_store is None:
        return None
    # nothing but the banding and the place of it differ
    fields: dict[str, Any] = {"bands": settings.shadow_bands, "rows": settings.shadow_rows, "probes": settings.shadow_probes}
    other = Index.open(
        settings.shadow_store, settings=replace(index.settings, max_memory=None, **fields), materials=index.materials
    )
    return Shadow(index, other)


def _key(settings: ServerSettings) -> HashKey:
    path = settings.key_file
    if not path.exists():
        secret, line = HashKey.generate()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, line + "\n")
        log.warning(
            "made a secret key; keep a copy, the index is of no use without it", extra={"file": str(path), "key": secret.id}
        )
    elif path.stat().st_mode & 0o077:
        raise UsageError(f"the key file {path} can be read by others: chmod 600 {path}")
    return HashKey.read(str(path))
