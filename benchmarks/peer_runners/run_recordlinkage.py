"""Runs recordlinkage as its guide does: Jaro-Winkler similarities and its unsupervised classifier.

All pairs are compared. Fields agree from a similarity of 0.85 on, as in its guide.
"""

import sys

import pandas as pd
import recordlinkage
from record_pairs import field_names, has_two_sources, read_column, read_records
from shared import write

AGREEMENT = 0.85


def main(corpus: str, out: str, _work: str) -> None:
    """Finds pairs in records.

    Args:
        corpus: Folder of Parquet files with an id and fields.
        out: Path of the Parquet file of pairs.
        _work: Not used.
    """
    records = read_records(corpus)
    fields = field_names(records)
    frame = pd.DataFrame.from_dict(records, orient="index")
    indexer = recordlinkage.Index()
    indexer.full()
    candidates = indexer.index(frame)
    if has_two_sources(corpus):
        sources = read_column(corpus, "source")
        candidates = candidates[[sources[a] != sources[b] for a, b in candidates]]
    comparison = recordlinkage.Compare()
    for name in fields:
        comparison.string(name, name, method="jarowinkler", threshold=AGREEMENT, label=name)
    vectors = comparison.compute(candidates, frame)
    matches = recordlinkage.ECMClassifier().fit_predict(vectors)
    write(out, list(matches))


main(*sys.argv[1:])
