"""Runs rensa: its LSH index with 16 bands of 8, and estimated similarities.

Its default of fewer bands would miss most pairs.
"""

import sys

from rensa import RMinHash, RMinHashLSH
from shared import SLOTS, THRESHOLD, read, shingles, write

BANDS = 16
SEED = 42


def main(corpus: str, out: str, _work: str) -> None:
    """Finds pairs in raw texts.

    Args:
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of pairs.
        _work: Not used.
    """
    ids, texts = read(corpus)
    sketches = RMinHash.from_token_sets((list(shingles(text)) for text in texts), SLOTS, SEED)
    index = RMinHashLSH(THRESHOLD, SLOTS, BANDS)
    index.insert_many(sketches)
    found = set()
    for row, others in enumerate(index.query_all(sketches)):
        for other in others:
            if other > row and sketches[row].jaccard(sketches[other]) >= THRESHOLD:
                found.add((ids[row], ids[other]))
    write(out, found)


main(*sys.argv[1:])
