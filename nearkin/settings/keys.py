"""Hash keys: the secrets of keyed hashing, and the ids by which Specs refer to them."""

import hashlib
import os
import platform
import secrets
from pathlib import Path
from typing import NamedTuple

from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments

SIZE = 16
MAX_KEY_FILE = 1 << 10
"""The largest size of a key file in bytes, with white space."""
ENVIRONMENT = "env:"
CONTEXT = b"nearkin key id 1"


class KeyReference(NamedTuple):
    """A reference to a key without the secret, from which other processes read the key."""

    source: str
    """The absolute path of a file, or `env:NAME` for an environment variable."""
    id: str
    """The id of the key."""

    def read(self) -> "HashKey":
        """Reads the key in this process.

        Raises:
            UsageError: If the key is missing or not valid, or another one. The message names the
                machine.
        """
        machine = platform.node()
        try:
            key = HashKey.read(self.source)
        except UsageError as error:
            raise UsageError(
                f"a task on {machine} cannot read the key {self.id} of the driver: {error}; give "
                "all machines the same key"
            ) from error
        if key.id != self.id:
            raise UsageError(
                f"{self.source} holds the key {key.id} on {machine}, where a task runs, and the "
                f"key {self.id} on the machine of the driver; give all machines the same key"
            )
        return key


class HashKey:
    """A secret key of 128 bits.

    The secret does not occur in `repr`, in pickles or in a Spec, which contains only the `id`.

    Args:
        secret: The 16 bytes of the key.

    Raises:
        UsageError: If the secret does not have 16 bytes.

    Examples:
        >>> HashKey(bytes(range(16)))
        <HashKey 2be4dfecbe6f3e1a>
    """

    __slots__ = ("_secret", "_source")

    @check_arguments
    def __init__(self, secret: bytes) -> None:
        self._source: str | None = None
        if len(secret) != SIZE:
            raise UsageError(
                f"a key is {SIZE} bytes (32 hexadecimal digits), not {len(secret)} bytes"
            )
        self._secret = secret

    @classmethod
    def generate(cls) -> tuple["HashKey", str]:
        """Generates a key. Returns the key and the line to store in a key file."""
        secret = secrets.token_bytes(SIZE)
        return cls(secret), secret.hex()

    @classmethod
    @check_arguments
    def read(cls, source: str) -> "HashKey":
        """Reads a key of 32 hexadecimal digits.

        Args:
            source: Path of a file, or `env:NAME` for an environment variable.

        Raises:
            UsageError: If the key is missing or not valid. The message does not contain the key.
        """
        if source.startswith(ENVIRONMENT):
            name = source.removeprefix(ENVIRONMENT)
            text = os.environ.get(name)
            if text is None:
                raise UsageError(f"the key's environment variable {name} is not set")
        else:
            try:
                with Path(source).open("rb") as file:
                    text = file.read(MAX_KEY_FILE + 1).decode("ascii")
            except OSError as error:
                raise UsageError(
                    f"the key file {source} cannot be read: {error.strerror}; correct the path or "
                    "its permissions"
                ) from error
            except UnicodeDecodeError:
                # the message below says what a key is
                text = ""
            if len(text) > MAX_KEY_FILE:
                text = ""
        try:
            key = cls(bytes.fromhex(text.strip()))
        except (ValueError, UsageError):
            raise UsageError(
                f"the key in {source} is not {2 * SIZE} hexadecimal digits; make one with: openssl "
                f"rand -hex {SIZE}"
            ) from None
        is_variable = source.startswith(ENVIRONMENT)
        key._source = source if is_variable else str(Path(source).absolute())
        return key

    @property
    def id(self) -> str:
        """The id of the key: 16 hexadecimal digits of the SHA-256 of a context and the key.

        It identifies the key without revealing it.
        """
        return hashlib.sha256(CONTEXT + self._secret).hexdigest()[:16]

    @property
    def reference(self) -> KeyReference | None:
        """The reference by which other processes read the key, or None if it was not read."""
        return None if self._source is None else KeyReference(self._source, self.id)

    def words(self) -> tuple[int, int]:
        """Returns the low and the high half of the key as integers (little-endian), for SipHash."""
        return int.from_bytes(self._secret[:8], "little"), int.from_bytes(
            self._secret[8:], "little"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashKey) and secrets.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<HashKey {self.id}>"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled; read it again where it is needed")
