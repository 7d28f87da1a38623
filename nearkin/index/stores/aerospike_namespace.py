"""The properties of an Aerospike namespace on which the store depends.

They are read from the server when the store is opened. The editions differ in their deletions. The
Community Edition deletes a record from its index in memory only. If the namespace keeps its data on
a device or in a file, a cold start restores deleted records from there. The Enterprise Edition has
durable deletes, which write a tombstone to the device.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nearkin.errors import StoreError, UsageError

RECORD_LIMIT = 1 << 20
"""The size of the largest record that the store writes, in bytes."""
SMALLEST_RECORD = 64 << 10
"""The smallest record size with which the store works, in bytes."""
FLUSH_SECONDS = 1.0
"""The default of `flush-max-ms`, in seconds."""
RECORD_SIZES = (
    "max-record-size",
    "storage-engine.max-record-size",
    "storage-engine.write-block-size",
)
BACKED = (
    "storage-engine.file",
    "storage-engine.device",
    "storage-engine.file[0]",
    "storage-engine.device[0]",
)


@dataclass(frozen=True)
class Namespace:
    """The properties of a namespace that the store depends on.

    Attributes:
        name: Name of the namespace.
        community: Whether the server is the Community Edition.
        strong: Whether the namespace is strongly consistent, so that reads may be linearizable.
        persistent: Whether its data outlives a restart of the server.
        record_size: Largest record in bytes.
        expires: Whether the server deletes records whose time to live is over.
        commits: Whether the server writes to the device before it acknowledges a write.
        flush_seconds: Longest time for which an acknowledged write is only in the server's memory.
    """

    name: str
    community: bool = True
    strong: bool = False
    persistent: bool = False
    record_size: int = RECORD_LIMIT
    expires: bool = True
    commits: bool = False
    flush_seconds: float = FLUSH_SECONDS

    @classmethod
    def read(cls, name: str, ask: Callable[[str], Mapping[str, str]], edition: str) -> "Namespace":
        """Reads the properties from a server."""
        described = ask(f"namespace/{name}")
        if "storage-engine" not in described and "objects" not in described:
            raise StoreError(
                f"the server has no namespace {name!r}; use one of its configuration in the URL"
            )
        # servers before 7.2 use `id`, later ones `namespace`; an unknown form returns no fields
        facts = {
            **ask(f"get-config:context=namespace;id={name}"),
            **ask(f"get-config:context=namespace;namespace={name}"),
            **described,
        }
        sizes = [int(facts[field]) for field in RECORD_SIZES if int(facts.get(field) or 0) > 0]
        record_size = min([RECORD_LIMIT, *sizes])
        if record_size < SMALLEST_RECORD:
            raise UsageError(
                f"records of the namespace {name} have at most {record_size:,} bytes, and an index "
                f"needs {SMALLEST_RECORD:,}: "
                "raise write-block-size (before server 7.1) or max-record-size"
            )
        engine = facts.get("storage-engine", "")
        flush = facts.get("storage-engine.flush-max-ms")
        return cls(
            name=name,
            community="community" in edition.lower(),
            strong=facts.get("strong-consistency") == "true",
            persistent=engine in ("device", "pmem") or any(facts.get(field) for field in BACKED),
            record_size=record_size,
            expires=int(facts.get("nsup-period") or 0) > 0
            or facts.get("allow-ttl-without-nsup") == "true",
            commits=facts.get("storage-engine.commit-to-device") == "true",
            flush_seconds=int(flush) / 1000 if flush else FLUSH_SECONDS,
        )

    def deletes_durably(self, requested: str) -> bool:
        """Returns whether deletions are durable."""
        if requested == "true" and self.community:
            raise UsageError(
                f"durable_delete=true: the server of the namespace {self.name} is the Community "
                f"Edition, which has no durable "
                "deletes; remove the option"
            )
        if requested == "auto":
            return self.persistent and not self.community
        return requested == "true"

    def require_expiry(self) -> None:
        """Checks that the namespace takes times to live."""
        if not self.expires:
            raise UsageError(
                f"record_ttl and bucket_ttl need a namespace that lets records expire: set "
                f"nsup-period of {self.name} above 0"
            )

    @property
    def durability(self) -> str:
        """The failures that an acknowledged write survives, in words."""
        if not self.persistent:
            return "kept in the server's memory: a restart of the server loses the index"
        if self.commits:
            return "written to the device before it is acknowledged: survives a power cut"
        return (
            f"written to the device within {self.flush_seconds:g} s: a killed server or a power "
            f"cut loses later "
            "acknowledged steps; a clean restart loses nothing"
        )
