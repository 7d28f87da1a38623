"""Secret keys of keyed hashing: where they come from, and the name by which Specs refer to them."""

import hashlib
import os
import secrets
from pathlib import Path

from nearkin.errors import UsageError

SIZE = 16
ENVIRONMENT = "env:"
CONTEXT = b"nearkin key id 1"


class HashKey:
    """A 128-bit secret. It never shows: not in repr, not in pickles; a Spec holds its `id` alone.

    Examples:
        >>> HashKey(bytes(range(16)))
        <HashKey 2be4dfecbe6f3e1a>
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SIZE:
            raise UsageError(f"a key is {SIZE} bytes (32 hexadecimal digits), not {len(secret)} bytes")
        self._secret = secret

    @classmethod
    def generate(cls) -> tuple["HashKey", str]:
        """A fresh one, and the line to keep in a file."""
        secret = secrets.token_bytes(SIZE)
        return cls(secret), secret.hex()

    @classmethod
    def read(cls, source: str) -> "HashKey":
        """From a file, or with `env:NAME` from an environment variable: 32 hexadecimal digits.

        Raises:
            UsageError: If it is missing or malformed; what was found there is not repeated.
        """
        if source.startswith(ENVIRONMENT):
            name = source.removeprefix(ENVIRONMENT)
            text = os.environ.get(name)
            if text is None:
                raise UsageError(f"the key's environment variable {name} is not set")
        else:
            try:
                text = Path(source).read_text("ascii")
            except OSError as error:
                raise UsageError(f"the key file {source} cannot be read: {error.strerror}") from error
            except UnicodeDecodeError as error:
                raise UsageError(f"the key in {source} is not {2 * SIZE} hexadecimal digits") from error
        try:
            return cls(bytes.fromhex(text.strip()))
        except (ValueError, UsageError):
            raise UsageError(
                f"the key in {source} is not {2 * SIZE} hexadecimal digits; make one with: openssl rand -hex {SIZE}"
            ) from None

    @property
    def id(self) -> str:
        """16 hexadecimal digits that tell keys apart and reveal nothing: SHA-256 of a context and the key, cut."""
        return hashlib.sha256(CONTEXT + self._secret).hexdigest()[:16]

    def words(self) -> tuple[int, int]:
        """Low and high half, as SipHash reads them (little-endian)."""
        return int.from_bytes(self._secret[:8], "little"), int.from_bytes(self._secret[8:], "little")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashKey) and secrets.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<HashKey {self.id}>"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled; read it again where it is needed")
