"""Tests of the labels of the most frequent values."""

import numpy as np
import pyarrow as pa
import pytest

from nearkin.quality.evaluate.labels import MAX_LABEL_CHARACTERS, most_frequent_labels


def test_long_values_are_cut_in_names_and_counted_apart() -> None:
    long = ["x" * 5_000 + end for end in "ab"]
    labels = most_frequent_labels(pa.chunked_array([[*long, long[0]], ["y"]]), 10)
    assert [len(name) for name in labels.names] == [
        MAX_LABEL_CHARACTERS + 1,
        MAX_LABEL_CHARACTERS + 1,
        1,
    ]
    assert labels.codes.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("most", [1, 2, 5, 300])
def test_labels_are_the_most_frequent_values(most: int) -> None:
    rng = np.random.default_rng(most)
    values = [None if x == 7 else f"v{x}" for x in rng.integers(0, 200, 2_000).tolist()]
    labels = most_frequent_labels(
        pa.chunked_array([values[:700], [], values[700:]], pa.large_string()), most
    )
    texts = ["(none)" if value is None else value for value in values]
    ranked = sorted(set(texts), key=lambda value: (-texts.count(value), value))
    names = ranked if len(ranked) <= most else [*ranked[: most - 1], "(others)"]
    assert list(labels.names) == names
    assert [names[code] for code in labels.codes] == [
        text if text in names else "(others)" for text in texts
    ]
