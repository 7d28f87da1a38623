"""Bearer tokens: who may do what in which scopes, kept hashed in a file.

A token is `nk_<name>_<secret>`, the secret being 256 random bits: one round of SHA-256 over it is as hard to invert as any slow
hash, for there is nothing to guess from.
"""

import fcntl
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
from nearkin.runtime.files import PRIVATE_FILE, make_folders, write_durably
from nearkin.server.http.rates import parse_rate

RIGHTS = ("read", "write", "metrics", "admin")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
TOKEN = re.compile(r"nk_(?P<name>[a-z0-9][a-z0-9-]{0,62})_(?P<secret>[A-Za-z0-9_-]{43})")
EVERY = "*"
MILLENNIUM = 1000 * 366 * 86400
NOBODY = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True)
class Principal:
    """Who asks.

    Attributes:
        name: Of the token.
        scopes: That it may see: names, names with `*` at the end, or `*`.
        rights: Of RIGHTS; admin has the others too.
        rate: Documents, as 100/second; None for no limit of its own.
        expires: Seconds since 1970; None for never.
    """

    name: str
    scopes: tuple[str, ...]
    rights: tuple[str, ...]
    rate: str | None = None
    expires: float | None = None

    def has_right(self, right: str) -> bool:
        """Whether it has a right."""
        return right in self.rights or "admin" in self.rights

    def can_access(self, scope: str) -> bool:
        """Whether a scope is its own.

        Examples:
            >>> some = Principal("reader", ("shop", "team-*"), ("read",))
            >>> some.can_access("shop"), some.can_access("team-a"), some.can_access("shopping")
            (True, True, False)
        """
        return any(scope.startswith(name[:-1]) if name.endswith(EVERY) else scope == name for name in self.scopes)

    @property
    def has_all_scopes(self) -> bool:
        """Whether the token has the scope `*`, as everything that counts over all scopes requires.

        Examples:
            >>> Principal("boss", ("*",), ("admin",)).sees_every_scope
            True
            >>> Principal("team", ("team-*",), ("admin",)).sees_every_scope
            False
        """
        return EVERY in self.scopes


LOCAL_PRINCIPAL = Principal("local", (EVERY,), RIGHTS)
"""Whoever asks a server without tokens, which listens on this machine only."""


class TokenFile:
    """The tokens of a file; read again when it changes."""

    def __init__(self, path: Path) -> None:
        # absolute: messages and logs say which file is meant, wherever the process was started
        self.path = path.absolute()
        self._stamp: tuple[int, int] | None = None
        self._held: dict[str, tuple[str, Principal]] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_protected(self) -> bool:
        """Whether a token was ever made: then revoking the last one opens no door."""
        return self._stamp is not None

    def refresh(self) -> None:
        """Takes over what another process wrote.

        Raises:
            UsageError: The file is damaged.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            # where tokens were kept, nobody is let in without one because their file went
            self._stamp, self._held = None if self._stamp is None else (0, 0), {}
            return
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from error
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp == self._stamp:
            return
        try:
            rows = json.loads(self.path.read_bytes())["tokens"]
            self._held = {row["name"]: (row["hash"], _principal(row)) for row in rows}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.path} holds no tokens: {error!r}; make one with nearkin token create") from error
        self._stamp = stamp

    def find(self, token: str) -> Principal | None:
        """Whose token it is; None if it is nobody's, or its time is over."""
        match = TOKEN.fullmatch(token)
        name, secret = (match["name"], match["secret"]) if match else ("", "")
        kept, who = self._held.get(name, (NOBODY, None))
        return _valid(who) if hmac.compare_digest(_hash(secret), kept) else None

    def mark(self, name: str) -> str:
        """What a session keeps of a token instead of the token: it names it, and stops to when the token is revoked."""
        return _hash("session of " + self._held[name][0])

    def find_by_mark(self, name: str, mark: str) -> Principal | None:
        """Whose token it was when the mark was made; None if that token is no longer valid."""
        _, who = self._held.get(name, (NOBODY, None))
        return _valid(who) if who is not None and hmac.compare_digest(self.mark(name), mark) else None

    def create(self, principal: Principal) -> str:
        """A new token, which is nowhere kept.

        Raises:
            UsageError: The name is taken, or something of it is malformed.
        """
        if not NAME.fullmatch(principal.name):
            raise UsageError(f"token name {principal.name!r} is not made of a-z, 0-9 and -, at most 63")
        if unknown := [right for right in principal.rights if right not in RIGHTS] or ([] if principal.rights else ["none"]):
            raise UsageError(f"right {unknown[0]!r} is none of {', '.join(RIGHTS)}")
        if not principal.scopes or not all(principal.scopes):
            raise UsageError(f"scopes {principal.scopes!r} are empty; * stands for every scope")
        if inner := [scope for scope in principal.scopes if EVERY in scope[:-1]]:
            raise UsageError(f"scope {inner[0]!r} has a * before its end, where it stands for nothing")
        for scope in principal.scopes:
            if scope != EVERY:
                require_public_name(scope.removesuffix(EVERY), f"scope {scope!r}")
        if principal.expires is not None and not 0 < principal.expires - time.time() < MILLENNIUM:
            raise UsageError("a token ends at some time to come, in less than 1,000 years")
        if principal.rate is not None:
            parse_rate(principal.rate)
        secret = secrets.token_urlsafe(32)
        with self._changing():
            if principal.name in self._held:
                raise UsageError(f"there is a token {principal.name!r} already; revoke it first, or take another name")
            self._held[principal.name] = (_hash(secret), principal)
        return f"nk_{principal.name}_{secret}"

    def revoke(self, name: str) -> bool:
        """Whether there was such a token; servers know within seconds."""
        with self._changing():
            return self._held.pop(name, None) is not None

    def principals(self) -> list[Principal]:
        """All, by name."""
        return [self._held[name][1] for name in sorted(self._held)]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One writer at a time; the file is replaced whole."""
        try:
            make_folders(self.path.parent)
            # never through a link: the file is in a folder that others may be able to write in
            handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
            with os.fdopen(handle) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self.refresh()
                yield
                rows = [{**asdict(who), "hash": digest} for _, (digest, who) in sorted(self._held.items())]
                write_durably(self.path, (json.dumps({"tokens": rows}, indent=1) + "\n").encode(), PRIVATE_FILE)
                self.refresh()
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror}") from error


def _valid(who: Principal | None) -> Principal | None:
    """Unless its time is over."""
    return None if who is None or (who.expires is not None and who.expires <= time.time()) else who


def _principal(row: dict[str, object]) -> Principal:
    fields = {name: row.get(name) for name in Principal.__dataclass_fields__}
    fields |= {"scopes": tuple(row["scopes"]), "rights": tuple(row["rights"])}  # type: ignore[arg-type]
    return Principal(**fields)  # type: ignore[arg-type]


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
