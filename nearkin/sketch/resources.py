"""What a Spec names but does not hold: the secret key, the document frequencies behind tf-idf, the frequency cut."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.errors import IncompatibleError, UsageError
from nearkin.keys import HashKey
from nearkin.shingle import Cut, Shingler
from nearkin.spec import Spec

ONE = 1 << 16
"""Weights of tf-idf are whole numbers of 1/65536, so that sums do not depend on their order."""
FREQUENCIES, CUT = "frequencies.arrow", "cut.arrow"
"""Files of a run whose Spec names them."""
DOCUMENTS = b"nearkin.documents"
SHINGLE = b"nearkin.shingle"
BASE = b"nearkin.base"


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many of a corpus' documents each shingle occurs; what tf-idf weights are made of, and cut lists.

    Attributes:
        documents: How many documents were counted.
        hashes: uint64 (m,), sorted: shingles that occur in two documents or more, for weights any other one counts as occurring
            in one; of a cut list, the shingles that are left out.
        counts: uint32 (m,).

    Examples:
        >>> found = DocumentFrequencies(3, np.array([5, 9], np.uint64), np.array([2, 3], np.uint32))
        >>> (found.weights_of(np.array([9, 5, 7], np.uint64)) / ONE).round(3).tolist()
        [1.0, 1.288, 1.693]
    """

    documents: int
    hashes: np.ndarray
    counts: np.ndarray

    @cached_property
    def fingerprint(self) -> str:
        """First 16 hex digits of SHA-256 over the counts: what a Spec names."""
        digest = hashlib.sha256(self.documents.to_bytes(8, "little"))
        digest.update(self.hashes.astype("<u8").tobytes())
        digest.update(self.counts.astype("<u4").tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def weights(self) -> np.ndarray:
        """int64 (m,): round(65536 · (ln((1 + N) / (1 + df)) + 1)), the smoothed inverse document frequency."""
        return idf(self.documents, self.counts)

    @cached_property
    def rare(self) -> int:
        """Weight of every shingle that is not listed: as of one that occurs in one document."""
        return int(idf(self.documents, np.ones(1, np.uint32))[0])

    def weights_of(self, hashes: np.ndarray) -> np.ndarray:
        """int64 (n,): the weight of each shingle."""
        out = np.full(len(hashes), self.rare, np.int64)
        if len(self.hashes):
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            known = self.hashes[at] == hashes
            out[known] = self.weights[at[known]]
        return out

    def above(self, share: float) -> "DocumentFrequencies":
        """Those of more than this share of the documents: a cut list.

        Examples:
            >>> DocumentFrequencies(10, np.array([5, 9], np.uint64), np.array([2, 3], np.uint32)).above(0.2).hashes.tolist()
            [9]
        """
        often = self.counts > share * self.documents
        return replace(self, hashes=self.hashes[often], counts=self.counts[often])

    def write(self, path: Path, spec: Spec) -> None:
        """As an Arrow file that says of which shingles it speaks."""
        facts = {DOCUMENTS: str(self.documents), SHINGLE: spec.shingle, BASE: shingle_facts(spec)}
        schema = pa.schema([("hash", pa.uint64()), ("documents", pa.uint32())], facts)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(pa.table([self.hashes, self.counts], schema=schema))

    @classmethod
    def read(cls, path: Path, spec: Spec) -> "DocumentFrequencies":
        """From a file, if it counts the shingles of this Spec.

        Raises:
            UsageError: It cannot be read, or is something else.
            IncompatibleError: It counts other shingles.
        """
        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
            facts = table.schema.metadata or {}
            documents = int(facts[DOCUMENTS])
        except FileNotFoundError as error:
            raise UsageError(f"no such file: {path}") from error
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise UsageError(f"{path} holds no document frequencies, or is damaged") from error
        if facts.get(BASE, b"").decode() != shingle_facts(spec):
            raise IncompatibleError(f"{path} counts other shingles ({facts.get(SHINGLE, b'').decode()}) than this Spec makes")
        return cls(documents, table["hash"].to_numpy(), table["documents"].to_numpy())


def is_frequencies_file(path: Path) -> bool:
    """Returns whether a file was written by `DocumentFrequencies.write`."""
    try:
        with pa.memory_map(str(path)) as source:
            return DOCUMENTS in (pa.ipc.open_file(source).schema.metadata or {})
    except pa.ArrowException:
        return False


def shingle_facts(spec: Spec) -> str:
    """Everything of a Spec that decides what a shingle's hash is, as text."""
    names = ("unit", "n", "normalise", "stem", "base_hash", "hash_seed", "key_id", "unicode", "version")
    return repr([getattr(spec, name) for name in names])


def idf(documents: int, counts: np.ndarray) -> np.ndarray:
    """int64: the weights of shingles that occur in so many of the documents."""
    return np.rint(ONE * (np.log((1 + documents) / (1 + counts.astype(np.float64))) + 1)).astype(np.int64)


@dataclass(frozen=True)
class SpecResources:
    """The key and the tables that a Spec names, given beside it; none is part of it."""

    secret: HashKey | None = None
    frequencies: DocumentFrequencies | None = None
    cut: DocumentFrequencies | None = None

    @classmethod
    def read(cls, folder: Path, spec: Spec, secret: HashKey | None = None) -> "SpecResources":
        """The tables of a Spec that `write` left in a folder, and the key."""
        frequencies = DocumentFrequencies.read(folder / FREQUENCIES, spec) if spec.frequencies else None
        return cls(secret, frequencies, DocumentFrequencies.read(folder / CUT, spec) if spec.cut else None)

    def write(self, folder: Path, spec: Spec) -> None:
        """The tables that the Spec names; never the key."""
        for table, name in ((self.frequencies, FREQUENCIES), (self.cut, CUT)):
            if table is not None:
                table.write(folder / name, spec)

    def weights(self, spec: Spec) -> DocumentFrequencies | None:
        """The document frequencies, if they are those that the Spec names; None where it names none.

        Raises:
            IncompatibleError: They are missing, or others.
        """
        return named(self.frequencies, spec.frequencies, "weights come from the document frequencies")

    def shingler(self, spec: Spec) -> Shingler:
        """Of a Spec of text, with its key and its cut.

        Raises:
            KeyRequiredError: The key is missing, or another one.
            IncompatibleError: The cut list is missing, or another one.
        """
        found = named(self.cut, spec.cut, "shingles are cut by the list")
        return Shingler(spec, self.secret, None if found is None or not len(found.hashes) else Cut(found.hashes))


def named(given: DocumentFrequencies | None, wanted: str | None, what: str) -> DocumentFrequencies | None:
    """The table that a Spec names by its fingerprint, if it is the given one; None where it names none."""
    if wanted is None:
        return None
    fingerprint = given.fingerprint if given else None
    if fingerprint != wanted:
        raise IncompatibleError(f"this Spec's {what} {wanted}, not {fingerprint}: give it beside the Spec")
    return given


NO_RESOURCES = SpecResources()
