"""The result tables: clusters and pairs, as batches small enough for any corpus."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.engine.exact_groups import ExactGroups
from nearkin.engine.local.clustering import Clustering
from nearkin.engine.local.containment import Contained
from nearkin.engine.local.documents import portions, take
from nearkin.engine.local.run import LocalRun
from nearkin.engine.result_schema import CLUSTERS, CONTAINED, KINDS, PAIRS
from nearkin.packed_pairs import ScoredPairs, unpack_pairs

ROWS = 1 << 18
LEAST_ROWS = 1 << 10
BATCH_BYTES = 16 << 20
"""Bytes of the ids in a column of a batch."""


def contained_batches(found: Contained, ids: pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    """Contained documents (a) and those that contain them (b), ordered by ordinals."""
    for start in range(0, len(found.a), ROWS):
        part = Contained(*(np.asarray(column[start : start + ROWS]) for column in found))
        names = [take(ids, ordinals) for ordinals in (part.a, part.b)]
        yield pa.record_batch(
            [*names, pa.array(part.containment), pa.array(part.jaccard)], schema=CONTAINED
        )


def cluster_batches(ids: pa.ChunkedArray, result: Clustering) -> Iterator[pa.RecordBatch]:
    """The clusters table in corpus order."""
    rows = rows_of(ids)
    for start in range(0, len(result.kept), rows):
        yield cluster_rows(ids, result, start, start + rows)


def rows_of(ids: pa.ChunkedArray) -> int:
    """Returns the rows of a batch of ids: ROWS, or fewer if ids are long. It depends on the ids alone."""
    total = sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in portions(ids))
    return min(ROWS, max(LEAST_ROWS, BATCH_BYTES * len(ids) // max(total, 1)))


def cluster_rows(ids: pa.ChunkedArray, result: Clustering, start: int, end: int) -> pa.RecordBatch:
    """The clusters table of a range of ordinals."""
    part = slice(start, end)
    columns = [
        _whole(ids[part]),
        take(ids, np.asarray(result.leader[part])),
        pa.array(np.asarray(result.kept[part])),
        pa.array(np.asarray(result.similarity[part]), from_pandas=True),
        pa.array(KINDS).take(pa.array(np.asarray(result.kind[part]))),
    ]
    return pa.record_batch(columns, schema=CLUSTERS)


def pairs_schema(run: LocalRun) -> pa.Schema:
    """Of the pairs table: with the Hamming distance where that is what was asked for."""
    return PAIRS if run.options.distance is None else PAIRS.append(pa.field("distance", pa.int32()))


def pair_batches(run: LocalRun, rows: int = ROWS) -> Iterator[pa.RecordBatch]:
    """The pairs table, ordered by ordinals."""
    scored, ids = run.scored(), run.documents().ids
    rows = min(rows, rows_of(ids))
    for start in range(0, len(scored.pairs), rows):
        part = scored.select(slice(start, start + rows))
        yield _pair_batch(run, ids, part, part.similarity, run.estimate(np.asarray(part.pairs)))


def _pair_batch(
    run: LocalRun,
    ids: pa.ChunkedArray,
    part: ScoredPairs,
    similarity: np.ndarray,
    estimate: np.ndarray,
) -> pa.RecordBatch:
    a, b = unpack_pairs(np.asarray(part.pairs))
    columns = [
        take(ids, a),
        take(ids, b),
        pa.array(similarity),
        pa.array(estimate, pa.float32()),
    ]
    if (distance := run.measure.estimator.hamming_distances(similarity)) is not None:
        columns.append(pa.array(distance, pa.int32()))
    return pa.record_batch(columns, schema=pairs_schema(run))


def expanded_pair_batches(run: LocalRun) -> Iterator[pa.RecordBatch]:
    """As `pair_batches`, with every member of an exact group in the place of its representative, and the groups' own pairs."""
    groups = ExactGroups.read(np.asarray(run.work.load("representative")))
    alone = np.zeros(0, np.int64)
    scored, ids = run.scored(), run.documents().ids
    most = rows_of(ids)
    for own in groups.own_pairs():
        for at in range(0, len(own), most):
            some = own[at : at + most]
            ones = np.ones(len(some))
            yield _pair_batch(run, ids, ScoredPairs(some, alone, alone), ones, ones)
    for start in range(0, len(scored.pairs), ROWS):
        part = scored.select(slice(start, start + ROWS))
        similarity, estimate = part.similarity, run.estimate(np.asarray(part.pairs))
        for pairs, rows in groups.crossed(*unpack_pairs(np.asarray(part.pairs))):
            for at in range(0, len(pairs), most):
                some, which = pairs[at : at + most], rows[at : at + most]
                yield _pair_batch(
                    run, ids, ScoredPairs(some, alone, alone), similarity[which], estimate[which]
                )


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    return whole


def write_batches(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """A parquet file of the batches; its bytes depend on their content alone. Returns the rows."""
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            if len(batch):
                writer.write_batch(batch, row_group_size=ROWS)
                rows += len(batch)
                # what the writer has freed goes back to the system, not into the allocator's reserve
                pa.default_memory_pool().release_unused()
    return rows
