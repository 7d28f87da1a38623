"""Runs a suffix array (pydivsufsort) over all texts, and lists the bytes that occur twice.

A place is listed if its longest common prefix with a neighbour in the array is long enough, as the
tools do that cut exact substrings.
"""

import sys

import numpy as np
from pydivsufsort import divsufsort, kasai
from shared import read, write_spans


def main(corpus: str, out: str, work: str, least: str) -> None:
    """Writes the spans of bytes that occur at two or more places.

    Args:
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of spans.
        work: Not used.
        least: Smallest number of bytes of a span.
    """
    ids, texts = read(corpus)
    contents = [text.encode() for text in texts]
    sizes = np.array([len(content) + 1 for content in contents])
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    data = b"\0".join(contents) + b"\0"
    order = divsufsort(data)
    shared = kasai(data, order)
    longest = np.maximum(shared, np.concatenate([[0], shared[:-1]]))
    is_repeated = longest >= int(least)
    places = order[is_repeated].astype(np.int64)
    ends = places + longest[is_repeated]
    documents = np.searchsorted(firsts, places, side="right") - 1
    rows = zip(
        documents.tolist(),
        (places - firsts[documents]).tolist(),
        (np.minimum(ends, firsts[documents + 1] - 1) - firsts[documents]).tolist(),
        strict=True,
    )
    write_spans(out, ((ids[document], start, end) for document, start, end in rows))


main(*sys.argv[1:])
