"""The index of a server: opened, or made with a secret key of its own."""

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from nearkin.errors import IncompatibleError, NearkinError, UsageError
from nearkin.index.index import Index
from nearkin.index.migration.copy import UNLIMITED_SIZE
from nearkin.index.opening import without_fixed_settings
from nearkin.index.stores.urls import recorded_url
from nearkin.keys import ENVIRONMENT, HashKey
from nearkin.runtime.files import PRIVATE_FILE, make_folders, write_durably
from nearkin.server.golden_probe import GoldenPair, read_golden_pairs
from nearkin.server.http.tokens import TokenFile
from nearkin.server.settings import ServerSettings
from nearkin.server.shadow import ShadowIndex
from nearkin.sketch.resources import SpecResources
from nearkin.spec import KEYED_HYPERPLANES, Spec

log = logging.getLogger("nearkin.server")


@dataclass(frozen=True)
class ServerResources:
    """What a server works with.

    Attributes:
        index: The index.
        shadow: Another banding beside it.
        golden_pairs: Known ones, to be asked for.
    """

    index: Index
    shadow: ShadowIndex | None
    golden_pairs: Sequence[GoldenPair]

    @classmethod
    def open(cls, settings: ServerSettings) -> Self:
        """All of them.

        Raises:
            NearkinError: One of them cannot be had.
        """
        pairs = [] if settings.golden is None else read_golden_pairs(settings.golden)
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

    Raises:
        KeyRequiredError: Its Spec names a key, and the file has another one or none.
    """
    with _key_file_locked(settings):
        return _open_index(settings)


@contextmanager
def _key_file_locked(settings: ServerSettings) -> Iterator[None]:
    """Lets one process at a time make a key file, and others read it when it is certain that the file stays.

    Two servers that start in one folder at the same moment must not make two keys: one of them would be replaced, and the index
    that was made with it could not be opened any more.
    """
    if not settings.keyed or settings.key_file.startswith(ENVIRONMENT):
        yield
        return
    path = Path(settings.key_file)
    with _key_errors(path):
        is_there = path.exists()
        if not is_there:
            make_folders(path.parent)
    try:
        # the folder itself: no file is left behind
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        # a key that was put into a folder that this user cannot list
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if is_there else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _key_errors(path: Path) -> Iterator[None]:
    """Raises a failure to read or write the key file as a UsageError that says what to do."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot use the key file {path}: {error.strerror}; fix the folder or name another file with --key-file"
        ) from error


def _open_index(settings: ServerSettings) -> Index:
    asked = settings.index_settings()
    if settings.kind == "vector" and asked.spec is None:
        raise UsageError("a server of vectors needs their dimensions: NEARKIN_VECTOR_DIMENSIONS or --index dimensions=384")
    spec, own = asked.spec or Spec(), _own_key(settings)
    if own is not None and spec.key_id is None:
        secret, is_made = own
        keyed = replace(asked, spec=spec.keyed_with(secret))
        try:
            return Index.open(settings.urls, settings=keyed, resources=SpecResources(secret), tables=settings.tables)
        except IncompatibleError:
            # there is an index, made with another key or none: a key that was made for it is of no use
            if is_made:
                Path(settings.key_file).unlink()
    kept = HashKey.read(settings.key_file) if _is_there(settings.key_file) else None
    index = Index.open(settings.urls, settings=asked, resources=SpecResources(kept), tables=settings.tables)
    try:
        if not index.holds_vectors:
            index.resources.shingler(index.spec)
        elif index.spec.scheme == KEYED_HYPERPLANES:
            index.spec.require_key(index.resources.secret)
    except UsageError:
        index.close()
        raise
    return index


def require_protection(index: Index, tokens: TokenFile, settings: ServerSettings) -> None:
    """Marks an index that is served with tokens, and refuses to serve a marked one to everybody.

    A tokens file that is gone, or that is looked for in another folder, must not open an index that was closed before.

    Raises:
        UsageError: If the index was served with tokens before, there are none now, and `allow_anonymous` is not set.
    """
    if tokens.is_protected:
        index.protect()
    elif index.is_protected() and not settings.allow_anonymous:
        raise UsageError(
            f"{index.url} was served with tokens before, and {tokens.path} does not exist: name the file with --tokens, "
            f"make a token with nearkin token create NAME --file {tokens.path}, or pass --allow-anonymous to serve everybody"
        )


def open_shadow(settings: ServerSettings, index: Index) -> ShadowIndex | None:
    """The banding beside the index, if one is asked for."""
    if settings.shadow_store is None:
        return None
    shadow_store = settings.shadow_store

    def opened(second: bool) -> Index:
        urls, asked = settings.urls, without_fixed_settings(index.settings)
        # what is stored was admitted before
        fields: dict[str, Any] = {"max_memory": None, "max_document": UNLIMITED_SIZE, "cache": 1}
        if second:
            # nothing but the banding and the place of it differ
            urls, asked = [shadow_store], index.settings
            fields |= {"bands": settings.shadow_bands, "rows": settings.shadow_rows, "probes": settings.shadow_probes}
        return Index.open(urls, settings=asked, resources=index.resources, tables=settings.tables, follow=False, **fields)

    return ShadowIndex(index, (recorded_url(shadow_store),), opened)


def _own_key(settings: ServerSettings) -> tuple[HashKey, bool] | None:
    """The key that an index of this server's own making is hashed with, and whether it was made just now; None without one."""
    if not settings.keyed:
        return None
    path = Path(settings.key_file)
    if _is_there(settings.key_file):
        return HashKey.read(settings.key_file), False
    if settings.key_file.startswith(ENVIRONMENT):
        raise UsageError(f"the key's environment variable {settings.key_file.removeprefix(ENVIRONMENT)} is not set")
    secret, line = HashKey.generate()
    with _key_errors(path):
        write_durably(path, f"{line}\n".encode(), PRIVATE_FILE)
    about = {"file": settings.key_file, "key": secret.id}
    log.warning("made a secret key; keep a copy, the index is of no use without it", extra=about)
    return secret, True


def _is_there(source: str) -> bool:
    """Whether a key is kept there.

    Raises:
        UsageError: In a file that others can read.
    """
    if source.startswith(ENVIRONMENT):
        return source.removeprefix(ENVIRONMENT) in os.environ
    path = Path(source)
    with _key_errors(path):
        is_there = path.exists()
        if is_there and path.stat().st_mode & 0o077:
            raise UsageError(f"the key file {path} can be read by others: chmod 600 {path}")
    return is_there
