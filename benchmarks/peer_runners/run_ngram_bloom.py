"""Runs a Bloom filter (rbloom) of runs of words over all texts, as bff does.

A run of words that the filter has seen in an earlier document is listed. The filter is made for one
error in 10,000 runs.
"""

import sys

from rbloom import Bloom
from shared import WORD, read, write_spans


def main(corpus: str, out: str, work: str, least: str) -> None:
    """Writes the spans of runs of words that occurred before.

    Args:
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of spans.
        work: Not used.
        least: Number of words of a run.
    """
    width = int(least)
    ids, texts = read(corpus)
    seen = Bloom(sum(map(len, texts)) // 5, 1e-4)
    spans = []
    for name, text in zip(ids, texts, strict=True):
        places = [match.span() for match in WORD.finditer(text)]
        words = [text[start:end].lower() for start, end in places]
        runs = [" ".join(words[at : at + width]) for at in range(len(words) - width + 1)]
        for at, run in enumerate(runs):
            if run in seen:
                ends = (places[at][0], places[at + width - 1][1])
                start, end = (len(text[:place].encode()) for place in ends)
                spans.append((name, start, end))
        seen.update(runs)
    write_spans(out, spans)


main(*sys.argv[1:])
