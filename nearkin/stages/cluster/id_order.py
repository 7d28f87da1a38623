"""The order of ids, by which all engines and stores decide between documents that are equal.

Ids that are whole numbers come first, in the order of their values: 9 is smaller than 10. The other
ids follow in the order of their UTF-8 bytes. A number may have a minus sign and leading zeros.
Numbers of equal value, such as 7 and 007, follow each other in the order of their bytes. So does a
repeated id, to which `#` and its place were appended, follow its number.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.runtime.arrow_portions import iterate_portions

WHOLE_NUMBER = r"^-?[0-9]+(?:#|$)"
"""The beginning of an id that is a whole number, also of one with an appended place."""
DIGITS = r"(?s)^-?0*([0-9]*).*$"
"""The digits of a whole number without leading zeros."""
LEAD = 19
"""The number of digits that fit into 64 bits. A longer number is compared by so many digits first,
and then by the bytes of the id. A longer one with a minus sign is not compared as a number."""
NO_NUMBER = np.iinfo(np.int32).max
"""The size of an id that is not a whole number."""


class NumbersOfIds(NamedTuple):
    """The numbers by which ids are compared before their bytes. They are equal for other ids."""

    sizes: np.ndarray
    """The number of digits of each id, or its complement for a negative number, int32 (n,)."""
    leads: np.ndarray
    """The first digits of each id as a number, or its complement, uint64 (n,)."""

    @classmethod
    def of(cls, ids: pa.Array) -> "NumbersOfIds":
        """Returns the numbers of ids, text (n,)."""
        sizes = np.full(len(ids), NO_NUMBER, np.int32)
        leads = np.zeros(len(ids), np.uint64)
        rows = np.flatnonzero(are_numbers(ids))
        numbers = ids.take(pa.array(rows))
        digits = pc.replace_substring_regex(numbers, DIGITS, r"\1")
        lengths = pc.binary_length(digits).to_numpy().astype(np.int32)
        first = pc.if_else(pc.equal(digits, ""), "0", pc.utf8_slice_codeunits(digits, 0, LEAD))
        values = first.cast(pa.uint64()).to_numpy()
        is_negative = pc.starts_with(numbers, "-").to_numpy(zero_copy_only=False)
        is_short = ~is_negative | (lengths <= LEAD)
        sizes[rows[is_short]] = np.where(is_negative, ~lengths, lengths)[is_short]
        leads[rows[is_short]] = np.where(is_negative, ~values, values)[is_short]
        return cls(sizes, leads)


def are_numbers(ids: pa.Array) -> np.ndarray:
    """Returns which ids are whole numbers, bool (n,). A null is not one."""
    matches = pc.match_substring_regex(ids, WHOLE_NUMBER)
    return np.asarray(pc.fill_null(matches, False).to_numpy(zero_copy_only=False))


def sort_ids(ids: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Returns the positions of ids in ascending order, int64 (n,). Equal ids keep their order.

    Examples:
        >>> ids = pa.array(["100", "b", "20", "3", "-5", "a", "3#x"], pa.large_string())
        >>> ids.take(pa.array(sort_ids(ids))).to_pylist()
        ['-5', '3', '3#x', '20', '100', 'a', 'b']
    """
    count = len(ids)
    if not any(are_numbers(portion).any() for portion in iterate_portions(ids)):
        # Ids that are made of the places of rows are sorted.
        if count < 2 or pc.all(pc.less(ids[:-1], ids[1:])).as_py():
            return np.arange(count)
        return np.asarray(pc.sort_indices(ids).to_numpy()).astype(np.int64)
    parts = [NumbersOfIds.of(portion) for portion in iterate_portions(ids)]
    sizes = np.concatenate([part.sizes for part in parts])
    leads = np.concatenate([part.leads for part in parts])
    order = np.lexsort((leads, sizes))
    is_tie = (sizes[order[1:]] == sizes[order[:-1]]) & (leads[order[1:]] == leads[order[:-1]])
    if not is_tie.any():
        return order
    table = pa.table({"size": sizes, "lead": leads, "id": ids})
    keys = [(name, "ascending") for name in table.column_names]
    return np.asarray(pc.sort_indices(table, sort_keys=keys).to_numpy()).astype(np.int64)


def rank_ids(ids: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Returns the rank of each id, uint32 (n,)."""
    ranks = np.empty(len(ids), np.uint32)
    ranks[sort_ids(ids)] = np.arange(len(ids), dtype=np.uint32)
    return ranks


def list_in_order(ids: Iterable[str]) -> list[str]:
    """Returns ids in ascending order.

    Examples:
        >>> list_in_order(["10", "b", "9"])
        ['9', '10', 'b']
    """
    array = pa.array(list(ids), pa.large_string())
    return [str(id) for id in array.take(pa.array(sort_ids(array))).to_pylist()]
