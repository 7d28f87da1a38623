"""Runs datasketch as its guide does: MinHashLSH and estimated similarities.

The bands are those that it chooses for the threshold, or given numbers of bands and rows.
"""

import sys

from datasketch import MinHash, MinHashLSH
from shared import SLOTS, THRESHOLD, read, shingles, write


def main(corpus: str, out: str, _work: str, bands: str = "", rows: str = "") -> None:
    """Finds pairs in raw texts.

    Args:
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of pairs.
        _work: Not used.
        bands: Number of bands. By default the library chooses it.
        rows: Rows of a band, if `bands` is given.
    """
    ids, texts = read(corpus)
    sketches = list(
        MinHash.generator(
            ([one.encode() for one in shingles(text)] for text in texts), num_perm=SLOTS
        )
    )
    params = (int(bands), int(rows)) if bands else None
    index = MinHashLSH(threshold=THRESHOLD, num_perm=SLOTS, params=params)
    with index.insertion_session() as session:
        for row, sketch in enumerate(sketches):
            session.insert(row, sketch)
    found = set()
    candidates = 0
    for row, sketch in enumerate(sketches):
        for other in index.query(sketch):
            candidates += other > row
            if other > row and sketch.jaccard(sketches[other]) >= THRESHOLD:
                found.add((ids[row], ids[other]))
    write(out, found, candidates)


main(*sys.argv[1:])
