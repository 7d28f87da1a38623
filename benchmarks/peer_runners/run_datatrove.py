"""Runs datatrove: signatures, 14 buckets of 8 and clusters, with one task for each file."""

import struct
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets, MinhashDedupCluster
from datatrove.pipeline.readers import ParquetReader
from shared import WORDS, clustered, files, write

ENTRY = struct.Struct("<II")


def main(corpus: str, out: str, work: str) -> None:
    """Finds clusters in raw texts, and writes the pairs inside each cluster.

    Args:
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of pairs.
        work: Folder for temporary files.
    """
    paths = files(corpus)
    config = MinhashConfig(n_grams=WORDS)
    stages = (
        (len(paths), [ParquetReader(corpus), MinhashDedupSignature(f"{work}/signatures", config)]),
        (
            config.num_buckets,
            [MinhashDedupBuckets(f"{work}/signatures", f"{work}/buckets", config=config)],
        ),
        (
            1,
            [
                MinhashDedupCluster(
                    f"{work}/buckets", f"{work}/clusters", config, save_cluster_id=True
                )
            ],
        ),
    )
    for number, (tasks, pipeline) in enumerate(stages):
        LocalPipelineExecutor(
            pipeline,
            tasks=tasks,
            workers=2,
            start_method="fork",
            logging_dir=f"{work}/logs/{number}",
        ).run()
    members = defaultdict(list)
    for number, path in enumerate(paths):
        ids = pq.read_table(path, columns=["id"])["id"].to_pylist()
        record = Path(work, "clusters", f"{number:06d}.clusters")
        for row, cluster in ENTRY.iter_unpack(record.read_bytes() if record.exists() else b""):
            members[cluster].append(ids[row])
    write(out, clustered(members.values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
