"""The folder of what a service needs before its first start: its key, its tokens and passwords."""

import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from nearkin.errors import UsageError
from nearkin.runtime.files import PRIVATE_FILE, PRIVATE_FOLDER, make_folders, write_durably
from nearkin.service.server.http.tokens import WILDCARD, Principal, TokenFile
from nearkin.settings.keys import HashKey

KEY = "nearkin.key"
TOKENS = "nearkin-tokens.json"
METRICS_TOKEN = "prometheus-token"
GRAFANA_PASSWORD = "grafana-password"
OWN_FILES = frozenset((KEY, TOKENS, METRICS_TOKEN, GRAFANA_PASSWORD))
OPERATOR = Principal("operator", (WILDCARD,), ("admin",))
SCRAPER = Principal("prometheus", (WILDCARD,), ("metrics",))
GROUP_FILE = 0o640
GROUP_FOLDER = 0o750


@dataclass(frozen=True)
class FolderChanges:
    """The parts of the folder of a service that were missing and were made.

    Attributes:
        created: The files.
        operator_token: The token of the operator, which is shown once, or None if there was one.
    """

    created: tuple[Path, ...]
    operator_token: str | None


def complete_service_folder(folder: Path, *, monitoring: bool = False) -> FolderChanges:
    """Makes what a service needs and its folder does not have. Nothing is replaced.

    Args:
        folder: The folder, which is made if it does not exist. Its owner alone can read it. The
            permissions of a folder with other files stay as they are.
        monitoring: Whether Prometheus gets a token, and Grafana a password. The group of the folder
            can read these two.

    Raises:
        UsageError: If the folder cannot be written, or its tokens cannot be read.
    """
    try:
        make_folders(folder)
        if all(path.name in OWN_FILES or path.suffix == ".lock" for path in folder.iterdir()):
            folder.chmod(GROUP_FOLDER if monitoring else PRIVATE_FOLDER)
        changes = FolderChanges((), None)
        changes = _complete_key(folder, changes)
        changes = _complete_operator(folder, changes)
        if monitoring:
            changes = _complete_monitoring(folder, changes)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror}; name a folder of this user"
        ) from error
    return changes


def _complete_key(folder: Path, changes: FolderChanges) -> FolderChanges:
    path = folder / KEY
    if os.path.lexists(path):
        return changes
    _, line = HashKey.generate()
    write_durably(path, f"{line}\n".encode(), PRIVATE_FILE)
    return _add(changes, path)


def _complete_operator(folder: Path, changes: FolderChanges) -> FolderChanges:
    tokens = TokenFile(folder / TOKENS)
    if tokens.is_protected:
        return changes
    secret = tokens.create(OPERATOR)
    return replace(_add(changes, tokens.path), operator_token=secret)


def _complete_monitoring(folder: Path, changes: FolderChanges) -> FolderChanges:
    token = folder / METRICS_TOKEN
    if not os.path.lexists(token):
        tokens = TokenFile(folder / TOKENS)
        # The file may have been lost after the token was made, and tokens are stored as hashes.
        tokens.revoke(SCRAPER.name)
        write_durably(token, tokens.create(SCRAPER).encode(), PRIVATE_FILE)
        changes = _add(changes, token)
    password = folder / GRAFANA_PASSWORD
    if not os.path.lexists(password):
        write_durably(password, secrets.token_urlsafe(16).encode(), PRIVATE_FILE)
        changes = _add(changes, password)
    for path in (token, password):
        # A process may be told to make files that its user alone can read.
        path.chmod(GROUP_FILE)
    return changes


def _add(changes: FolderChanges, path: Path) -> FolderChanges:
    return replace(changes, created=(*changes.created, path))
