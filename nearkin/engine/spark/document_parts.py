"""Documents in parts: rows of one id, whose signatures are merged.

A slot of MinHash is a minimum over the elements of a set. So the minimum over the parts is the slot
of the whole document (Broder 1997). Shingles across the border of two parts are in neither part.
The result is exact for sets (tokens that are shingles, words:1). Exact duplicates are documents
with equal parts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.engine.spark.arrow_columns import (
    from_binary_rows,
    make_batch,
    to_binary_rows,
    to_numbers,
    to_signed,
    to_unsigned,
)
from nearkin.engine.spark.keep_order import keep_order
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec
from nearkin.stages.measures import Payload


def require_mergeable(spec: Spec, probes: int) -> None:
    """Checks that the signatures of parts can be merged."""
    if spec.measure != "jaccard" or spec.truncated or probes:
        raise UsageError(
            f"merge_parts needs measure jaccard with whole slots and without probes, and the "
            f"request has measure {spec.measure}, {name_setting('slot_bits', spec.slot_bits)} "
            f"and {name_setting('probes', probes)}"
        )


@dataclass(frozen=True)
class Merging:
    """The tasks that merge the parts of a document into one row.

    Attributes:
        request: Request of the run.
    """

    request: TaskRequest

    @property
    def schema(self) -> str:
        """The schema of the documents."""
        return self.request.schema

    def group(self) -> Callable[[pa.Table], pa.Table]:
        """Returns a function that merges all parts of some documents."""

        def merge(parts: pa.Table) -> pa.Table:
            return pa.Table.from_batches(list(self._merge_parts(parts)))

        return merge

    def _merge_parts(self, parts: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yields one batch with a row for each document."""
        order = np.lexsort((to_numbers(parts["doc"]), to_numbers(parts["head"])))
        parts = parts.take(pa.array(order))
        heads = to_numbers(parts["head"])
        starts = np.flatnonzero(np.concatenate([[True], heads[1:] != heads[:-1]]))
        spec = self.request.options.spec
        slots = from_binary_rows(parts["signature"], spec.signature_type, spec.signature_width)
        first = parts.take(pa.array(starts)).combine_chunks()
        lengths = np.add.reduceat(to_numbers(parts["length"]), starts)
        columns = {
            "doc": heads[starts],
            "fp0": to_signed(_sum_by_document(to_unsigned(parts["fp0"]), starts)),
            "fp1": to_signed(_sum_by_document(to_unsigned(parts["fp1"]), starts)),
            "shingles": np.add.reduceat(to_numbers(parts["shingles"]), starts),
            "length": lengths,
            "signature": to_binary_rows(np.minimum.reduceat(slots, starts, axis=0)),
        }
        riding = [f"riding{i}" for i in range(len(self.request.carried))]
        columns |= {
            name: _to_array(first[name])
            for name in (
                "id",
                "block",
                *self.request.across_columns,
                *self.request.value_keys,
                "source",
                "split",
                *riding,
            )
        }
        if not riding:
            columns["sort"] = keep_order(
                self.request.options.keep_policy, pa.table({}), lengths, columns["id"]
            )
        yield make_batch(self.schema, **columns)


def _sum_by_document(words: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns the sum over the parts of each document, which does not depend on their order."""
    with np.errstate(over="ignore"):
        return np.asarray(np.add.reduceat(words, starts))


def _to_array(column: pa.ChunkedArray) -> pa.Array:
    """Returns a column as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def unite_parts(docs: np.ndarray, payload: Payload) -> Payload:
    """Returns one set of distinct hashes for each document in parts.

    Args:
        docs: Document of each part, int64 (parts,).

    Returns:
        Payloads of the documents in ascending order, with sorted hashes.
    """
    owners = np.repeat(docs, payload.sizes)
    hashes = payload.columns[0]
    order = np.lexsort((hashes, owners))
    owners = owners[order]
    hashes = hashes[order]
    is_new = np.ones(len(owners), bool)
    is_new[1:] = (owners[1:] != owners[:-1]) | (hashes[1:] != hashes[:-1])
    documents = np.unique(docs)
    places = np.searchsorted(documents, owners[is_new])
    return Payload(np.bincount(places, minlength=len(documents)), (hashes[is_new],))
