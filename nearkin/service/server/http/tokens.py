"""Bearer tokens with their rights and scopes. A file keeps their hashes.

A token is `nk_<name>_<secret>`. The secret consists of 256 random bits, so that one round of
SHA-256 is as hard to invert as a slow password hash.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from nearkin.errors import UsageError
from nearkin.index.entry import require_public_name
from nearkin.runtime.file_locks import lock_exclusively
from nearkin.runtime.files import PRIVATE_FILE, make_folders, write_durably
from nearkin.runtime.suggestions import did_you_mean
from nearkin.service.server.http.rates import parse_rate

RIGHTS = ("read", "write", "metrics", "admin")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
TOKEN = re.compile(r"nk_(?P<name>[a-z0-9][a-z0-9-]{0,62})_(?P<secret>[A-Za-z0-9_-]{43})")
WILDCARD = "*"
"""As a scope: all scopes. At the end of a scope: all scopes with that prefix."""
MAX_LIFETIME = 1000 * 366 * 86400
"""Maximum number of seconds for which a token is valid."""
UNKNOWN_TOKEN_HASH = hashlib.sha256(b"nobody").hexdigest()
"""Hash that the secret of an unknown token is compared with, so that the comparison takes the same
time."""


@dataclass(frozen=True)
class Principal:
    """The owner of a token, with its rights and scopes.

    Attributes:
        name: Name of the token.
        scopes: Scopes that it has access to: names, prefixes that end with `*`, or `*` for all
            scopes.
        rights: Some of RIGHTS. The right `admin` includes the others.
        rate: Rate of documents, for example `100/second`; None for no rate of its own.
        expires: Seconds since 1970 after which the token is not valid; None for a token that does
            not expire.
    """

    name: str
    scopes: tuple[str, ...]
    rights: tuple[str, ...]
    rate: str | None = None
    expires: float | None = None

    def has_right(self, right: str) -> bool:
        """Returns True if the token has a right."""
        return right in self.rights or "admin" in self.rights

    def can_access(self, scope: str) -> bool:
        """Returns True if the token has access to a scope.

        Examples:
            >>> reader = Principal("reader", ("shop", "team-*"), ("read",))
            >>> [reader.can_access(scope) for scope in ("shop", "team-a", "shopping")]
            [True, True, False]
        """
        return any(
            scope.startswith(name[:-1]) if name.endswith(WILDCARD) else scope == name
            for name in self.scopes
        )

    @property
    def has_all_scopes(self) -> bool:
        """True if the token has the scope `*`, which requests that concern all scopes require.

        Examples:
            >>> Principal("boss", ("*",), ("admin",)).has_all_scopes
            True
            >>> Principal("team", ("team-*",), ("admin",)).has_all_scopes
            False
        """
        return WILDCARD in self.scopes


LOCAL_PRINCIPAL = Principal("local", (WILDCARD,), RIGHTS)
"""The principal of all requests to a server without tokens."""


class TokenFile:
    """A file of tokens, which is read again when it changes."""

    def __init__(self, path: Path) -> None:
        # absolute, so that messages and logs identify the file wherever the process was started
        self.path = path.absolute()
        self._stamp: tuple[int, int] | None = None
        self._tokens: dict[str, tuple[str, Principal]] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def is_protected(self) -> bool:
        """True if a token was ever created.

        Revoking the last token does not make the server accessible to everybody.
        """
        return self._stamp is not None

    def refresh(self) -> None:
        """Reads the file again if another process changed it."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            # a file that disappears must not make the server accessible to everybody
            if self._stamp is not None:
                self._stamp = (0, 0)
            self._tokens = {}
            return
        except OSError as error:
            raise self._unreadable_error(error) from error
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp == self._stamp:
            return
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise self._unreadable_error(error) from error
        try:
            rows = json.loads(content)["tokens"]
            self._tokens = {row["name"]: (row["hash"], _principal_from_row(row)) for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self.path} is not a file of tokens: it does not hold what nearkin server token "
                "create writes; restore it, or move it away and create new tokens"
            ) from error
        self._stamp = stamp

    def find(self, token: str) -> Principal | None:
        """Returns the principal of a token, or None if the token is unknown or expired."""
        match = TOKEN.fullmatch(token)
        name, secret = (match["name"], match["secret"]) if match else ("", "")
        token_hash, principal = self._tokens.get(name, (UNKNOWN_TOKEN_HASH, None))
        return (
            _unless_expired(principal)
            if hmac.compare_digest(_hash_secret(secret), token_hash)
            else None
        )

    def session_mark(self, name: str) -> str:
        """Returns the value that a session stores instead of a token.

        It becomes invalid when the token is revoked.
        """
        return _hash_secret("session of " + self._tokens[name][0])

    def find_by_mark(self, name: str, mark: str) -> Principal | None:
        """Returns the principal of a session's token, or None if it is not valid any more."""
        if name not in self._tokens or not hmac.compare_digest(self.session_mark(name), mark):
            return None
        return _unless_expired(self._tokens[name][1])

    def create(self, principal: Principal) -> str:
        """Creates a token and returns it. Only its hash is stored."""
        if not NAME.fullmatch(principal.name):
            raise UsageError(
                f"token name {principal.name!r} is not valid; use at most 63 characters of a-z, "
                f"0-9 and -"
            )
        if unknown := [right for right in principal.rights if right not in RIGHTS] or (
            [] if principal.rights else ["none"]
        ):
            raise UsageError(
                f"unknown right {unknown[0]!r}; valid rights are {', '.join(RIGHTS)}"
                f"{did_you_mean(unknown[0], RIGHTS)}"
            )
        if not principal.scopes or not all(principal.scopes):
            raise UsageError(
                f"scopes {principal.scopes!r} contain an empty name; use * for all scopes"
            )
        if inner := [scope for scope in principal.scopes if WILDCARD in scope[:-1]]:
            raise UsageError(
                f"scope {inner[0]!r} has a * before its end; * is a wildcard only at the end"
            )
        for scope in principal.scopes:
            if scope != WILDCARD:
                require_public_name(scope.removesuffix(WILDCARD), f"scope {scope!r}")
        if principal.expires is not None and not 0 < principal.expires - time.time() < MAX_LIFETIME:
            raise UsageError(
                "the expiry of a token must be in the future, and less than 1,000 years away"
            )
        if principal.rate is not None:
            parse_rate(principal.rate)
        secret = secrets.token_urlsafe(32)
        with self._open_for_change():
            if principal.name in self._tokens:
                raise UsageError(
                    f"token {principal.name!r} exists already; revoke it first, or use another name"
                )
            self._tokens[principal.name] = (_hash_secret(secret), principal)
        return f"nk_{principal.name}_{secret}"

    def revoke(self, name: str) -> bool:
        """Deletes a token.

        Returns False if it did not exist. Running servers notice within seconds.
        """
        self.refresh()
        if name not in self._tokens:
            # a new file of no tokens would end the anonymous access to a server
            return False
        with self._open_for_change():
            return self._tokens.pop(name, None) is not None

    def principals(self) -> list[Principal]:
        """Returns the principals of all tokens, sorted by name."""
        return [self._tokens[name][1] for name in sorted(self._tokens)]

    @contextmanager
    def _open_for_change(self) -> Iterator[None]:
        """Locks the file, lets the caller change the tokens, and then replaces the file."""
        try:
            make_folders(self.path.parent)
            # do not follow a link, because others may be able to write to the folder
            handle = os.open(
                f"{self.path}.lock",
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                PRIVATE_FILE,
            )
            with os.fdopen(handle) as lock:
                lock_exclusively(lock)
                self.refresh()
                yield
                rows = [
                    {**asdict(who), "hash": digest}
                    for _, (digest, who) in sorted(self._tokens.items())
                ]
                write_durably(
                    self.path,
                    (json.dumps({"tokens": rows}, indent=1) + "\n").encode(),
                    PRIVATE_FILE,
                )
                self.refresh()
        except OSError as error:
            raise UsageError(
                f"cannot write the tokens file {self.path}: {error.strerror}; correct the path or "
                "its permissions"
            ) from error

    def _unreadable_error(self, error: OSError) -> UsageError:
        return UsageError(
            f"cannot read the tokens file {self.path}: {error.strerror}; correct the path or its "
            "permissions"
        )


def _unless_expired(principal: Principal | None) -> Principal | None:
    if principal is None:
        return None
    is_expired = principal.expires is not None and principal.expires <= time.time()
    return None if is_expired else principal


def _principal_from_row(row: dict[str, object]) -> Principal:
    fields = {name: row.get(name) for name in Principal.__dataclass_fields__}
    fields |= {"scopes": tuple(row["scopes"]), "rights": tuple(row["rights"])}  # type: ignore[arg-type]
    return Principal(**fields)  # type: ignore[arg-type]


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
