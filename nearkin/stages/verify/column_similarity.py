"""The similarity of the values of a column in pairs of documents."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.settings.spec import Spec
from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.sketch.resources import NO_RESOURCES
from nearkin.stages.verify.jaccard import SetBuilder, compare_sets

SHINGLE = Spec(unit="chars", n=2)
"""The shingles of values: pairs of characters, which short values have, too."""
BELOW_EQUAL = float(np.nextafter(1.0, 0.0))
"""The similarity of values that are not equal and have the same pairs of characters."""


def compare_values(values: pa.Array, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compares values by the Jaccard similarity of their pairs of characters.

    Letter case and surrounding white space do not count. The similarity is 1 only if the values are
    equal then.

    Args:
        values: Values of a column, large_string (n,).
        first: Position of one value of each pair, int64 (m,).
        second: Position of the other value of each pair, int64 (m,).

    Returns:
        float64 (m,), NaN if a value is missing or empty.

    Examples:
        >>> values = pa.array(["Smith", "smith ", "Smithe", None], pa.large_string())
        >>> compare_values(values, np.array([0, 0, 0]), np.array([1, 2, 3])).tolist()
        [1.0, 0.8, nan]
    """
    texts = pc.fill_null(pc.utf8_lower(pc.utf8_trim_whitespace(values)), "")
    sets = SetBuilder(NO_RESOURCES.shingler(SHINGLE)).build(texts)
    starts = np.concatenate([[0], np.cumsum(sets.sizes)])
    pairs = pack_pairs(first, second)
    scored = compare_sets(pairs, np.arange(len(texts), dtype=np.uint32), starts, sets.hashes)
    similarities = np.minimum(scored.intersection / np.maximum(scored.union, 1), BELOW_EQUAL)
    codes = texts.dictionary_encode().indices.to_numpy()
    similarities[codes[first] == codes[second]] = 1.0
    is_missing = pc.equal(texts, "").to_numpy(zero_copy_only=False)
    similarities[is_missing[first] | is_missing[second]] = np.nan
    return similarities
