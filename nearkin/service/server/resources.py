"""The index of a server and what belongs to it. A new index is created with a secret key."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from nearkin.errors import IncompatibleError, NearkinError, UsageError
from nearkin.index.index import Index
from nearkin.index.migration.copy import UNLIMITED_SIZE
from nearkin.index.opening import without_fixed_settings
from nearkin.index.settings import SettingsFields
from nearkin.index.stores.urls import recorded_url
from nearkin.runtime.file_locks import lock_exclusively, lock_shared
from nearkin.runtime.files import PRIVATE_FILE, make_folders, write_durably
from nearkin.runtime.setting_names import name_setting
from nearkin.service.server.golden_probe import GoldenPair, read_golden_pairs
from nearkin.service.server.http.tokens import TokenFile
from nearkin.service.server.settings import ServerSettings
from nearkin.service.server.shadow import LiveSide, ShadowIndex
from nearkin.service.server.watched_blocklist import WatchedBlocklist
from nearkin.settings.keys import ENVIRONMENT, HashKey
from nearkin.settings.spec import KEYED_HYPERPLANES, Spec
from nearkin.stages.sketch.resources import SpecResources

log = logging.getLogger("nearkin.server")


@dataclass(frozen=True)
class ServerResources:
    """The index of a server, its shadow index and its golden pairs.

    Attributes:
        index: The index that answers requests.
        shadow: The shadow index, if the settings name one.
        golden_pairs: Golden pairs; empty if the settings name none.
        blocklist: The blocklist, if the settings name one. It is in use already.
    """

    index: Index
    shadow: ShadowIndex | None
    golden_pairs: Sequence[GoldenPair]
    blocklist: WatchedBlocklist | None = None

    @classmethod
    def open(cls, settings: ServerSettings) -> Self:
        """Opens the resources that the settings name."""
        golden_pairs = [] if settings.golden is None else read_golden_pairs(settings.golden)
        blocklist = None
        if settings.blocklist is not None:
            blocklist = WatchedBlocklist(settings.blocklist)
        index = open_index(settings)
        try:
            if blocklist is not None:
                index.use_blocklist(blocklist.blocklist)
            if golden_pairs and index.settings.combine == "both":
                raise UsageError(
                    f"golden pairs have one kind of documents, and {index.url} compares texts and "
                    f"vectors ({name_setting('combine', 'both')}); remove the setting golden"
                )
            return cls(index, open_shadow(settings, index), golden_pairs, blocklist)
        except NearkinError:
            index.close()
            raise

    def close(self) -> None:
        """Closes the indexes."""
        if self.shadow is not None:
            self.shadow.close()
        self.index.close()


def open_index(settings: ServerSettings) -> Index:
    """Opens the index that the settings name, or creates it.

    A new index is hashed with a secret key, so that outsiders cannot construct texts that share a
    bucket. An existing index is opened as it is, with the key if its Spec requires one.
    """
    with _key_file_locked(settings):
        return _open_index(settings)


@contextmanager
def _key_file_locked(settings: ServerSettings) -> Iterator[None]:
    """Lets one process at a time create a key file.

    Others read it only after the index was created.

    Two servers that start in one folder at the same time must not create two keys. One key would
    replace the other, and an index that was created with the replaced key could not be opened any
    more.
    """
    if not settings.keyed or settings.is_in_memory or settings.key_file.startswith(ENVIRONMENT):
        yield
        return
    path = Path(settings.key_file)
    with _key_errors(path):
        exists = path.exists()
        if not exists:
            make_folders(path.parent)
    try:
        # locks the folder itself, so that no lock file remains
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        # the user cannot list the folder, so that the key was put there by someone else
        yield
        return
    try:
        if exists:
            lock_shared(handle)
        else:
            lock_exclusively(handle)
        yield
    finally:
        os.close(handle)


@contextmanager
def _key_errors(path: Path) -> Iterator[None]:
    """Converts failures to read or write the key file to a UsageError that says what to do."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot use the key file {path}: {error.strerror}; fix the folder or name another "
            f"file with --key-file"
        ) from error


def _open_index(settings: ServerSettings) -> Index:
    index_settings = settings.index_settings()
    if settings.shadow_store is not None:
        # a shadow index is compared with the live one, for which it searches every document
        index_settings = replace(index_settings, member_content=True)
    if settings.kind == "vector" and index_settings.spec is None:
        raise UsageError(
            "an index of vectors needs their dimensions; set NEARKIN_VECTOR_DIMENSIONS or pass "
            "--index dimensions=384"
        )
    spec = index_settings.spec or Spec()
    new_key = _read_or_create_key(settings)
    if new_key is not None and spec.key_id is None:
        secret, is_created = new_key
        vector = index_settings.vector
        keyed = replace(
            index_settings,
            spec=spec.keyed_with(secret),
            vector=None if vector is None else vector.keyed_with(secret),
        )
        resources = SpecResources(secret)
        try:
            return Index.open(
                settings.urls,
                settings=keyed,
                resources=resources,
                spec_resources=settings.spec_resources,
                decisions=settings.decisions,
                warm_up=False,
            )
        except IncompatibleError:
            # the index exists already, with another key or without one, so that a new key is
            # useless
            if is_created:
                Path(settings.key_file).unlink()
                is_created = False
        finally:
            # after other errors, too: the index may have been created with the key
            if is_created:
                log.warning(
                    "secret key created; keep a copy, because the index cannot be used without it",
                    extra={"file": settings.key_file, "key_id": secret.id},
                )
    secret_of_index = HashKey.read(settings.key_file) if _key_exists(settings.key_file) else None
    resources = SpecResources(secret_of_index)
    index = Index.open(
        settings.urls,
        settings=index_settings,
        resources=resources,
        spec_resources=settings.spec_resources,
        decisions=settings.decisions,
        warm_up=False,
    )
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
    """Protects an index that is served with tokens, and requires tokens for a protected one.

    An index must not become accessible to everybody because the tokens file was deleted or is in
    another folder.
    """
    if tokens.is_protected:
        index.protect()
    elif index.is_protected() and not settings.allow_anonymous:
        raise UsageError(
            f"{index.url} was served with tokens before, but {tokens.path} does not exist; "
            f"name the file with --tokens, "
            f"create a token with nearkin server token create NAME --file {tokens.path}, or pass "
            f"--allow-anonymous"
        )


def open_shadow(settings: ServerSettings, index: Index) -> ShadowIndex | None:
    """Opens the shadow index, or returns None if the settings name none."""
    if settings.shadow_store is None:
        return None
    shadow_store = settings.shadow_store
    # documents that are stored already must not be rejected
    unlimited: SettingsFields = {
        "max_memory": None,
        "max_document": UNLIMITED_SIZE,
        "cache": 1,
    }

    def open_side(side: LiveSide) -> Index:
        if side == LiveSide.PRIMARY:
            urls = settings.urls
            index_settings = without_fixed_settings(index.settings)
            fields: SettingsFields = unlimited
        else:
            # only the store and the banding differ
            urls = [shadow_store]
            index_settings = index.settings
            fields = {
                **unlimited,
                "bands": settings.shadow_bands,
                "rows": settings.shadow_rows,
                "probes": settings.shadow_probes,
            }
        return Index.open(
            urls,
            settings=index_settings,
            resources=index.resources,
            spec_resources=settings.spec_resources,
            decisions=settings.decisions,
            follow=False,
            warm_up=False,
            **fields,
        )

    return ShadowIndex(index, (recorded_url(shadow_store),), open_side)


def _read_or_create_key(settings: ServerSettings) -> tuple[HashKey, bool] | None:
    """Returns the key for new indexes, and whether it is new; None without keys."""
    if not settings.keyed:
        return None
    if _key_exists(settings.key_file):
        return HashKey.read(settings.key_file), False
    if settings.key_file.startswith(ENVIRONMENT):
        raise UsageError(
            f"key_file names the environment variable "
            f"{settings.key_file.removeprefix(ENVIRONMENT)}, which is not set"
        )
    secret, line = HashKey.generate()
    if settings.is_in_memory:
        # the index ends with the process, and so does its key
        return secret, False
    path = Path(settings.key_file)
    with _key_errors(path):
        write_durably(path, f"{line}\n".encode(), PRIVATE_FILE)
    return secret, True


def _key_exists(source: str) -> bool:
    """Returns True if a key file or variable exists."""
    if source.startswith(ENVIRONMENT):
        return source.removeprefix(ENVIRONMENT) in os.environ
    path = Path(source)
    with _key_errors(path):
        exists = path.exists()
        if exists and path.stat().st_mode & 0o077:
            raise UsageError(f"other users can read the key file {path}; run chmod 600 {path}")
    return exists
