"""Tests of lengths of vectors that are found in a corpus."""

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import UsageError

FIELDS = ["title:jaccard>=0.5"]
TABLE = pa.table(
    {"title": ["a b", "a b c"], "vector": pa.array([None, None], pa.list_(pa.float32()))}
)


def test_length_of_a_field_of_missing_vectors_is_asked_for() -> None:
    with pytest.raises(UsageError, match=r"name it in .*vector:cosine/384>="):
        nk.dedup(TABLE, fields=[*FIELDS, "vector:cosine>=0.9"], accept="title or vector")
    result = nk.dedup(
        TABLE,
        fields=[*FIELDS, "vector:cosine/3>=0.9"],
        accept="title or vector",
        shingle="words:1",
    )
    assert result.kept.sum() == 1
