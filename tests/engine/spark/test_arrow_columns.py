"""Tests of the columns of Spark's rows. They need no session."""

import numpy as np
import pytest

from nearkin.engine.spark.arrow_columns import to_binary_slices
from nearkin.errors import RunError


def test_columns_larger_than_spark_counts_are_refused() -> None:
    """Their offsets would wrap around to negative numbers."""
    starts = np.array([0, 1 << 28])
    with pytest.raises(RunError, match="a batch of 1 document is compared by 2,147,483,648 bytes"):
        to_binary_slices(np.zeros(1, np.uint64), starts)
