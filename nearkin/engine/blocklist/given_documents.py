"""Documents without shingles that others are compared with, in place of a blocklist.

They have several fields, fingerprints or vectors.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from nearkin.engine.blocklist.search import EntrySearch
from nearkin.errors import UsageError
from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import Payload, concatenate_payloads


class NamedDocuments(NamedTuple):
    """A batch of documents with their ids."""

    documents: pa.Array
    """The documents: a struct of their fields, fingerprints or vectors."""
    ids: list[str]


@dataclass(frozen=True)
class GivenDocuments:
    """Documents with several fields, fingerprints or vectors. A blocklist holds texts only.

    Attributes:
        ids: Ids of the documents.
        payload: What is compared of the documents.
        fingerprint: First 16 hexadecimal digits of a hash of the ids and the contents.
    """

    ids: tuple[str, ...]
    payload: Payload
    fingerprint: str

    @classmethod
    def read(cls, batches: Iterable[NamedDocuments], measure: Measure) -> Self:
        """Reads documents."""
        builder = measure.payload_builder()
        sketcher = measure.sketcher()
        digest = hashlib.sha256()
        ids: list[str] = []
        payloads = [_no_documents(measure)]
        for batch in batches:
            sketches = sketcher.sketch(batch.documents)
            is_empty = np.flatnonzero(sketches.shingles == 0)
            if len(is_empty):
                raise UsageError(
                    f"no document can be like {batch.ids[is_empty[0]]!r}, which lacks fields that "
                    "must be similar; complete the row, or delete it from the file"
                )
            for name in batch.ids:
                digest.update(f"{len(name)} {name}".encode())
            digest.update(np.ascontiguousarray(sketches.fingerprints).tobytes())
            ids.extend(batch.ids)
            payloads.append(builder.build(batch.documents))
        return cls(tuple(ids), concatenate_payloads(payloads), digest.hexdigest()[:16])

    def __len__(self) -> int:
        return len(self.ids)

    def search(self, measure: Measure, *, truncates_hashes: bool = False) -> EntrySearch:
        """Returns a search among the documents."""
        return EntrySearch(measure, self.payload)


def _no_documents(measure: Measure) -> Payload:
    """Returns the payload of no documents."""
    columns = (
        np.empty(0 if width is None else (0, width), kind) for kind, width in measure.column_types
    )
    return Payload(np.empty(0, np.int64), tuple(columns))
