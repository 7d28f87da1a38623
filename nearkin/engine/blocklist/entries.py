"""The entries of a blocklist: what is known of blocked documents."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import Payload, concatenate_payloads, select_documents

DIGEST_TYPE = np.dtype(("V", 16))
"""The digest of a document as one value, so that digests can be compared and sorted."""


@dataclass(frozen=True)
class BlockedEntries:
    """The entries of n blocked documents.

    Attributes:
        ids: Names of the entries.
        digests: Content hashes of the documents, uint64 (n, 2). They are equal for documents whose
            normalised texts have the same shingles and symbols.
        signatures: Signatures, (n, w), of the Spec's signature type.
        payload: What exact comparison needs of the documents.
    """

    ids: tuple[str, ...]
    digests: np.ndarray
    signatures: np.ndarray
    payload: Payload

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def empty(cls, measure: Measure) -> "BlockedEntries":
        """Returns no entries, of a measure."""
        spec = measure.spec
        return cls(
            ids=(),
            digests=np.empty((0, 2), np.uint64),
            signatures=np.empty((0, spec.signature_width), spec.signature_type),
            payload=Payload(
                np.empty(0, np.int64), tuple(np.empty(0, kind) for kind, _ in measure.column_types)
            ),
        )

    @classmethod
    def of_documents(
        cls, documents: pa.Array, ids: Sequence[str] | None, measure: Measure
    ) -> "BlockedEntries":
        """Returns the entries of documents. Those without a shingle to compare have none."""
        sketches = measure.sketcher().sketch(documents)
        payload = measure.payload_builder().build(documents)
        names = name_digests(sketches.fingerprints) if ids is None else list(ids)
        entries = cls(tuple(names), sketches.fingerprints, sketches.signatures, payload)
        return entries.select(np.flatnonzero(payload.sizes > 0))

    def select(self, rows: np.ndarray) -> "BlockedEntries":
        """Returns some of the entries, in the given order.

        Args:
            rows: Positions of the entries, int64 (m,).
        """
        return BlockedEntries(
            ids=tuple(self.ids[row] for row in rows.tolist()),
            digests=self.digests[rows],
            signatures=self.signatures[rows],
            payload=select_documents(self.payload, rows),
        )

    def extend(self, others: "BlockedEntries") -> "BlockedEntries":
        """Returns these entries, and then others."""
        return BlockedEntries(
            ids=(*self.ids, *others.ids),
            digests=np.concatenate([self.digests, others.digests]),
            signatures=np.concatenate([self.signatures, others.signatures]),
            payload=concatenate_payloads([self.payload, others.payload]),
        )

    def distinct(self) -> "BlockedEntries":
        """Returns the first entry of each digest."""
        _, first = np.unique(self.digest_values, return_index=True)
        return self if len(first) == len(self) else self.select(np.sort(first))

    @property
    def digest_values(self) -> np.ndarray:
        """The digests as one value each, (n,)."""
        digests = np.ascontiguousarray(self.digests.astype("<u8"))
        return digests.view(DIGEST_TYPE).reshape(len(digests))


def name_digests(digests: np.ndarray) -> list[str]:
    """Returns the names of entries that have no name of their own: 32 hexadecimal digits each.

    Args:
        digests: Digests, uint64 (n, 2).

    Examples:
        >>> name_digests(np.array([[1, 0]], np.uint64))
        ['01000000000000000000000000000000']
    """
    return [digest.tobytes().hex() for digest in np.ascontiguousarray(digests.astype("<u8"))]
