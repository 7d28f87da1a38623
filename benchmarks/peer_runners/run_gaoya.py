"""Runs gaoya: its text index on all cores, with 16 bands of 8 and estimated similarities."""

import sys

from gaoya.minhash import MinHashStringIndex
from shared import SLOTS, THRESHOLD, WORDS, read, write

BANDS = 16


def main(corpus: str, out: str, _work: str) -> None:
    """Finds pairs in raw texts.

    Args:
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of pairs.
        _work: Not used.
    """
    ids, texts = read(corpus)
    index = MinHashStringIndex(
        32,
        THRESHOLD,
        BANDS,
        SLOTS // BANDS,
        None,
        "word",
        True,  # noqa: FBT003  (its parameters have no names)
        (WORDS, WORDS),
        "smallvec",
    )
    index.par_bulk_insert_docs(list(range(len(ids))), texts)
    found = set()
    for row, others in enumerate(index.par_bulk_query(texts)):
        found.update((ids[row], ids[other]) for other in others if other > row)
    write(out, found)


main(*sys.argv[1:])
