"""The result tables of a run, as batches that are small enough for any corpus."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.engine.clustering import Clustering, ExactGroupOrder, are_removed
from nearkin.engine.containment import Contained
from nearkin.engine.documents import take_values
from nearkin.engine.exact_groups import ExactGroups
from nearkin.engine.reference_matches import ReferenceMatches
from nearkin.engine.related_documents import iterate_related_pairs
from nearkin.engine.result_schema import (
    BLOCKED,
    BLOCKED_BY_COLUMN,
    CLUSTERS,
    CLUSTERS_AGAINST,
    CONTAINED,
    KINDS,
    MATCHED_IN,
    OUTCOME_COLUMN,
    OUTCOMES,
    PAIRS,
    PERSISTENT_COLUMN,
    RELATED,
    RELATED_AGAINST,
)
from nearkin.engine.run import Run
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.stages.packed_pairs import unpack_pairs

ROWS = 1 << 18
"""Largest number of rows in a batch, and number of rows in a row group."""
LEAST_ROWS = 1 << 10
"""Smallest number of rows in a batch of long ids."""
BATCH_BYTES = 16 << 20
"""Size of the ids in a column of a batch, in bytes."""


def contained_batches(contained: Contained, ids: pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    """Yields the table of contained documents, ordered by the numbers of the documents.

    Args:
        ids: Ids of all documents, large_string (n,).
    """
    for start in range(0, len(contained.a), ROWS):
        part = Contained._make(np.asarray(column[start : start + ROWS]) for column in contained)
        columns = [
            take_values(ids, part.a),
            take_values(ids, part.b),
            pa.array(part.containment),
            pa.array(part.jaccard),
        ]
        yield pa.record_batch(columns, schema=CONTAINED)


def clusters_schema(clustering: Clustering) -> pa.Schema:
    """Returns the schema of the clusters table.

    It has more columns if there was a reference or a blocklist, if related documents were asked
    for, or if the run extends another one.
    """
    schema = CLUSTERS if clustering.matches is None else CLUSTERS_AGAINST
    if clustering.linked is not None:
        schema = schema.append(OUTCOME_COLUMN)
    if clustering.persistent is not None:
        schema = schema.append(PERSISTENT_COLUMN)
    return schema if clustering.blocked is None else schema.append(BLOCKED_BY_COLUMN)


def cluster_batches(ids: pa.ChunkedArray, clustering: Clustering) -> Iterator[pa.RecordBatch]:
    """Yields the clusters table in corpus order.

    Args:
        ids: Ids of all documents, large_string (n,).
    """
    rows = rows_of_batch(ids)
    for start in range(0, len(clustering.kept), rows):
        yield cluster_rows(ids, clustering, start, start + rows)


def rows_of_batch(ids: pa.ChunkedArray) -> int:
    """Returns the number of rows of a batch: ROWS, or fewer if ids are long.

    It depends on the ids alone.
    """
    total = sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in iterate_portions(ids))
    return min(ROWS, max(LEAST_ROWS, BATCH_BYTES * len(ids) // max(total, 1)))


def cluster_rows(
    ids: pa.ChunkedArray, clustering: Clustering, start: int, end: int
) -> pa.RecordBatch:
    """Returns the clusters table of a range of documents.

    Args:
        ids: Ids of all documents, large_string (n,).
    """
    part = slice(start, end)
    columns = [
        _combine(ids[part]),
        take_values(ids, np.asarray(clustering.leader[part])),
        pa.array(np.asarray(clustering.kept[part])),
        pa.array(np.asarray(clustering.similarity[part]), from_pandas=True),
        pa.array(KINDS).take(pa.array(np.asarray(clustering.kind[part]))),
    ]
    batch = pa.record_batch(columns, schema=CLUSTERS)
    if clustering.matches is not None:
        batch = _add_matches(batch, clustering, clustering.matches, start)
    if clustering.linked is not None:
        numbers = clustering.outcomes(part)
        is_blocked = np.asarray(clustering.kind[part]) == BLOCKED
        outcomes = pa.array(OUTCOMES).take(pa.array(numbers, mask=is_blocked))
        batch = batch.append_column(OUTCOME_COLUMN, outcomes)
    if clustering.persistent is not None:
        batch = batch.append_column(PERSISTENT_COLUMN, clustering.persistent[part])
    if clustering.blocked is not None:
        entries = _name_entries(clustering.blocked, start, start + len(batch))
        batch = batch.append_column(BLOCKED_BY_COLUMN, entries)
    return batch


def _name_entries(blocked: ReferenceMatches, start: int, end: int) -> pa.Array:
    """Returns the entry of the blocklist that each of a range of documents is like, or null."""
    low, high = np.searchsorted(blocked.documents, [start, end])
    rows = np.full(end - start, -1)
    rows[blocked.documents[low:high] - start] = np.arange(low, high)
    return blocked.ids.take(pa.array(rows, mask=rows < 0))


def related_schema(run: Run) -> pa.Schema:
    """Returns the schema of the table of related documents. With a reference, it says where."""
    return RELATED_AGAINST if run.has_reference else RELATED


def related_batches(run: Run, clustering: Clustering) -> Iterator[pa.RecordBatch]:
    """Yields the table of related documents, ordered by the numbers of the documents.

    The pairs of the run come first, then those with documents of the reference.
    """
    ids = run.documents().ids
    most_rows = rows_of_batch(ids)
    leader = np.asarray(clustering.leader)
    kept = np.asarray(clustering.kept)
    for related in iterate_related_pairs(run, clustering):
        for start in range(0, len(related.pairs), most_rows):
            part = related.select(slice(start, start + most_rows))
            first, second = unpack_pairs(part.pairs)
            columns = [
                take_values(ids, first),
                take_values(ids, second),
                pa.array(part.similarity),
                pa.array(kept[first]),
                pa.array(kept[second]),
                take_values(ids, leader[first]),
                take_values(ids, leader[second]),
            ]
            if run.has_reference:
                columns.append(pa.array([MATCHED_IN[1]] * len(first), pa.string()))
            yield pa.record_batch(columns, schema=related_schema(run))
    in_reference = run.related_in_reference()
    for start in range(0, len(in_reference), most_rows):
        documents = in_reference.documents[start : start + most_rows]
        others = in_reference.ids[start : start + most_rows]
        columns = [
            take_values(ids, documents),
            others,
            pa.array(in_reference.similarity[start : start + most_rows]),
            pa.array(kept[documents]),
            pa.array(np.ones(len(documents), bool)),
            take_values(ids, leader[documents]),
            others,
            pa.array([MATCHED_IN[0]] * len(documents), pa.string()),
        ]
        yield pa.record_batch(columns, schema=RELATED_AGAINST)


def _add_matches(
    batch: pa.RecordBatch, clustering: Clustering, matches: ReferenceMatches, start: int
) -> pa.RecordBatch:
    """Adds what removed documents repeat, and where it is, to rows of the clusters table."""
    low, high = np.searchsorted(matches.documents, [start, start + len(batch)])
    is_matched = np.zeros(len(batch), bool)
    is_matched[matches.documents[low:high] - start] = True
    in_reference = pa.array(is_matched)
    in_run = pa.array(are_removed(clustering.kind[start : start + len(batch)]) & ~is_matched)
    cluster = pc.replace_with_mask(batch["cluster"], in_reference, matches.ids[low:high])
    null = pa.scalar(None, pa.large_string())
    duplicate_of = pc.if_else(pc.or_(in_reference, in_run), cluster, null)
    place = pc.if_else(in_run, MATCHED_IN[1], pa.scalar(None, pa.string()))
    matched_in = pc.if_else(in_reference, MATCHED_IN[0], place)
    columns = [*batch.columns, duplicate_of, matched_in]
    columns[batch.schema.get_field_index("cluster")] = cluster
    return pa.record_batch(columns, schema=CLUSTERS_AGAINST)


def pairs_schema(run: Run) -> pa.Schema:
    """Returns the schema of the pairs table. It has a Hamming distance if the run has one."""
    if run.options.distance is None:
        return PAIRS
    return PAIRS.append(pa.field("distance", pa.int32()))


def pair_batches(run: Run, rows: int = ROWS) -> Iterator[pa.RecordBatch]:
    """Yields the pairs table, ordered by the numbers of the documents."""
    scored = run.scored()
    ids = run.documents().ids
    rows = min(rows, rows_of_batch(ids))
    for start in range(0, len(scored.pairs), rows):
        part = scored.select(slice(start, start + rows))
        pairs = np.asarray(part.pairs)
        yield _pair_batch(run, ids, pairs, part.similarity, run.estimate(pairs))


def _pair_batch(
    run: Run,
    ids: pa.ChunkedArray,
    pairs: np.ndarray,
    similarity: np.ndarray,
    estimate: np.ndarray,
) -> pa.RecordBatch:
    """Returns rows of the pairs table. A similarity and an estimate that are NaN become null."""
    first, second = unpack_pairs(pairs)
    not_compared = np.isnan(similarity)
    columns = [
        take_values(ids, first),
        take_values(ids, second),
        pa.array(similarity, mask=not_compared),
        pa.array(estimate, pa.float32(), mask=not_compared | np.isnan(estimate)),
    ]
    if run.options.distance is not None:
        distance = run.measure.estimator.hamming_distances(np.where(not_compared, 1.0, similarity))
        columns.append(pa.array(distance, pa.int32(), mask=not_compared))
    return pa.record_batch(columns, schema=pairs_schema(run))


def expanded_pair_batches(run: Run) -> Iterator[pa.RecordBatch]:
    """Yields the pairs table with all members of exact groups, and the groups' own pairs.

    Pairs inside a group that equal values of a column make have no similarity, unless their
    contents are equal.
    """
    yield from _own_pair_batches(run)
    groups = ExactGroups.read(run.exact_representatives())
    scored = run.scored()
    ids = run.documents().ids
    most_rows = rows_of_batch(ids)
    for start in range(0, len(scored.pairs), ROWS):
        part = scored.select(slice(start, start + ROWS))
        similarity = part.similarity
        estimate = run.estimate(np.asarray(part.pairs))
        first, second = unpack_pairs(np.asarray(part.pairs))
        yield from _crossed_batches(
            run, ids, groups, first, second, similarity, estimate, most_rows
        )


def _own_pair_batches(run: Run) -> Iterator[pa.RecordBatch]:
    """Yields the pairs inside the groups of exact duplicates and of equal values."""
    grouped = ExactGroupOrder.load(run.documents(), run.work)
    ids = run.documents().ids
    most_rows = rows_of_batch(ids)
    for own_pairs in ExactGroups.read(grouped.representative).own_pairs():
        for start in range(0, len(own_pairs), most_rows):
            pairs = own_pairs[start : start + most_rows]
            similarity = np.where(grouped.are_copies(*unpack_pairs(pairs)), 1.0, np.nan)
            yield _pair_batch(run, ids, pairs, similarity, similarity)


def _crossed_batches(
    run: Run,
    ids: pa.ChunkedArray,
    groups: ExactGroups,
    first: np.ndarray,
    second: np.ndarray,
    similarity: np.ndarray,
    estimate: np.ndarray,
    most_rows: int,
) -> Iterator[pa.RecordBatch]:
    for pairs, sources in groups.cross_members(first, second):
        for start in range(0, len(pairs), most_rows):
            part = slice(start, start + most_rows)
            source = sources[part]
            yield _pair_batch(run, ids, pairs[part], similarity[source], estimate[source])


def _combine(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Returns a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    if not isinstance(combined, pa.ChunkedArray):
        return combined
    if not combined.num_chunks:
        return pa.array([], column.type)
    return pa.concat_arrays(combined.chunks)


def write_batches(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Writes batches to a parquet file, whose bytes depend on their content alone."""
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            if len(batch):
                writer.write_batch(batch, row_group_size=ROWS)
                rows += len(batch)
                # Memory that the writer freed is returned to the system, not kept by the allocator.
                pa.default_memory_pool().release_unused()
    return rows
