"""Runs datatrove's deduplication of sentences: three in a row that occurred before are removed."""

import sys
from pathlib import Path

import pyarrow.parquet as pq
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.dedup import SentenceDedupFilter, SentenceDedupSignature, SentenceFindDedups
from datatrove.pipeline.dedup.sentence_dedup import SentDedupConfig
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import ParquetWriter
from shared import files, find_removed, read, write_spans


def main(corpus: str, out: str, work: str) -> None:
    """Writes the spans of the sentences that are removed.

    Args:
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of spans.
        work: Folder for temporary files.
    """
    tasks = len(files(corpus))
    config = SentDedupConfig(
        n_sentences=3, split_sentences=True, min_doc_words=0, min_num_sentences=0
    )
    stages = (
        (
            tasks,
            [ParquetReader(corpus), SentenceDedupSignature(f"{work}/signatures", config=config)],
        ),
        (1, [SentenceFindDedups(f"{work}/signatures", f"{work}/repeated", config=config)]),
        (
            tasks,
            [
                ParquetReader(corpus),
                SentenceDedupFilter(f"{work}/repeated", config=config),
                ParquetWriter(f"{work}/kept"),
            ],
        ),
    )
    for number, (count, pipeline) in enumerate(stages):
        LocalPipelineExecutor(
            pipeline,
            tasks=count,
            workers=2,
            start_method="fork",
            logging_dir=f"{work}/logs/{number}",
        ).run()
    kept = {}
    for path in Path(work, "kept").glob("*.parquet"):
        table = pq.read_table(path, columns=["id", "text"])
        kept.update(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    ids, texts = read(corpus)
    write_spans(
        out,
        (
            (name, start, end)
            for name, text in zip(ids, texts, strict=True)
            for start, end in find_removed(text.encode(), kept.get(name, "").encode())
        ),
    )


main(*sys.argv[1:])
