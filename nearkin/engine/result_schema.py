"""The columns of the result tables, and the kinds of documents."""

import pyarrow as pa

KINDS = ("unique", "kept", "exact", "near", "empty", "vector", "same", "further", "blocked")
"""The kinds of documents. `vector` is a near-duplicate by the second measure. `same` is a duplicate
by the value of a column, whose text was not compared, so that it has no similarity. `blocked` is
like an entry of the blocklist."""
UNIQUE = KINDS.index("unique")
KEPT = KINDS.index("kept")
EXACT = KINDS.index("exact")
NEAR = KINDS.index("near")
EMPTY = KINDS.index("empty")
VECTOR = KINDS.index("vector")
SAME = KINDS.index("same")
FURTHER = KINDS.index("further")
BLOCKED = KINDS.index("blocked")
NONE_LABEL = "(none)"
"""The label of documents without a value in a column, for example of sources."""

CLUSTERS = pa.schema(
    [
        ("id", pa.large_string()),
        ("cluster", pa.large_string()),
        ("kept", pa.bool_()),
        ("similarity", pa.float64()),
        ("kind", pa.string()),
    ]
)
"""The clusters table: one row for each document. `cluster` is the id of the kept document."""
MATCHED_IN = ("reference", "this run")
"""The places of the document that a removed document repeats."""
CLUSTERS_AGAINST = CLUSTERS.append(pa.field("duplicate_of", pa.large_string())).append(
    pa.field("matched_in", pa.string())
)
"""The clusters table of a run with a reference. `duplicate_of` is the id of the document that a
removed document repeats, and `matched_in` says where this document is. `cluster` is the same id, or
that of a kept document itself. An id can occur both in the reference and in the run."""
BLOCKED_BY_COLUMN = pa.field("blocked_by", pa.large_string())
"""The column of the clusters table that a run with a blocklist adds: the name of the entry that a
removed document is like. The similarity is that to the entry, and `cluster` the document's own id.
"""
PERSISTENT_COLUMN = pa.field("persistent_cluster", pa.large_string())
"""The column of the clusters table that a run which extends another one adds: the id that a cluster
keeps while it grows."""
PAIRS = pa.schema(
    [
        ("id_a", pa.large_string()),
        ("id_b", pa.large_string()),
        ("similarity", pa.float64()),
        ("estimate", pa.float32()),
    ]
)
"""The pairs table: one row for each scored pair."""
CONTAINED = pa.schema(
    [
        ("id_a", pa.large_string()),
        ("id_b", pa.large_string()),
        ("containment", pa.float64()),
        ("jaccard", pa.float64()),
    ]
)
"""The table of `--relation containment`: document a is contained in document b."""
OUTCOMES = ("same", "related", "new")
"""The outcome of a document in a run with the option `related`: removed or kept as a duplicate,
similar to a document of another cluster, or neither."""
SAME_OUTCOME = OUTCOMES.index("same")
RELATED_OUTCOME = OUTCOMES.index("related")
NEW_OUTCOME = OUTCOMES.index("new")
OUTCOME_COLUMN = pa.field("outcome", pa.string())
"""The column of the clusters table that a run with the option `related` adds."""
RELATED = pa.schema(
    [
        ("id_a", pa.large_string()),
        ("id_b", pa.large_string()),
        ("similarity", pa.float64()),
        ("kept_a", pa.bool_()),
        ("kept_b", pa.bool_()),
        ("cluster_a", pa.large_string()),
        ("cluster_b", pa.large_string()),
    ]
)
"""The table of related documents: one row for each scored pair of different clusters."""
RELATED_AGAINST = RELATED.append(pa.field("matched_in", pa.string()))
"""The table of related documents of a run with a reference. `matched_in` says where document b is.
A document of the reference is kept, and its cluster is its own id."""
RELATED_FILE = "related.parquet"
GROUPS = pa.schema(
    [
        ("id", pa.large_string()),
        ("group", pa.string()),
        ("cluster", pa.large_string()),
    ]
)
"""The table of a split: one row for each document. Documents of one cluster are in one group."""
