"""Runs datasketch as its guide does: MinHashLSH with its own tuning and estimated similarities."""

import sys

from datasketch import MinHash, MinHashLSH
from shared import SLOTS, THRESHOLD, read, shingles, write


def main(corpus: str, out: str, _work: str) -> None:
    """Finds pairs in raw texts."""
    ids, texts = read(corpus)
    sketches = list(
        MinHash.generator(
            ([one.encode() for one in shingles(text)] for text in texts), num_perm=SLOTS
        )
    )
    index = MinHashLSH(threshold=THRESHOLD, num_perm=SLOTS)
    with index.insertion_session() as session:
        for row, sketch in enumerate(sketches):
            session.insert(row, sketch)
    found = set()
    for row, sketch in enumerate(sketches):
        for other in index.query(sketch):
            if other > row and sketch.jaccard(sketches[other]) >= THRESHOLD:
                found.add((ids[row], ids[other]))
    write(out, found)


main(*sys.argv[1:])
