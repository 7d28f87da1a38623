"""Runs dedupe as its examples do: text fields, trained with labelled pairs of other records.

The labels come from the records of the other half of the set: pairs of the same cluster, and twice
as many pairs of different ones, half of which are similar.
"""

import difflib
import random
import sys

import dedupe
from record_pairs import field_names, parent_folder, read_column, read_records
from shared import clustered, write

TRAINING_PAIRS = 100
"""The largest number of pairs of the same cluster that it learns from."""
THRESHOLD = 0.5
SAMPLE = 500
SEED = 1


def choose_training_pairs(
    records: dict[str, dict[str, str | None]], clusters: dict[str, str]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Returns ids of pairs of the same cluster, and of different clusters.

    Args:
        records: Labelled records by their ids.
        clusters: Cluster of each record.
    """
    rng = random.Random(SEED)
    members: dict[str, list[str]] = {}
    for id, cluster in clusters.items():
        members.setdefault(cluster, []).append(id)
    same = [
        (group[place - 1], group[place])
        for group in members.values()
        for place in range(1, len(group))
    ]
    same = rng.sample(same, min(TRAINING_PAIRS, len(same)))
    ids = list(records)
    texts = {
        id: " ".join(value for value in record.values() if value) for id, record in records.items()
    }
    distinct = []
    while len(distinct) < len(same):
        a, b = rng.sample(ids, 2)
        if clusters[a] != clusters[b]:
            distinct.append((a, b))
    for a, _ in same:
        others = [id for id in rng.sample(ids, min(40, len(ids))) if clusters[id] != clusters[a]]
        nearest = max(
            others, key=lambda id: difflib.SequenceMatcher(None, texts[a], texts[id]).quick_ratio()
        )
        distinct.append((a, nearest))
    return same, distinct


def main(corpus: str, out: str, _work: str) -> None:
    """Finds clusters in records, and writes the pairs inside each cluster.

    Args:
        corpus: Folder of Parquet files with an id and fields. Its sibling `labelled` has the
            records of the other half with their clusters.
        out: Path of the Parquet file of pairs.
        _work: Not used.
    """
    random.seed(SEED)
    records = read_records(corpus)
    labelled = read_records(parent_folder(corpus))
    clusters = read_column(parent_folder(corpus), "cluster")
    same, distinct = choose_training_pairs(labelled, clusters)
    fields = [dedupe.variables.String(name, has_missing=True) for name in field_names(labelled)]
    trained = dedupe.Dedupe(fields, num_cores=1)
    trained.prepare_training(labelled, sample_size=SAMPLE)
    trained.mark_pairs(
        {
            "match": [(labelled[a], labelled[b]) for a, b in same],
            "distinct": [(labelled[a], labelled[b]) for a, b in distinct],
        }
    )
    trained.train(index_predicates=False)
    groups = trained.partition(records, THRESHOLD)
    write(out, clustered([list(ids) for ids, _ in groups]))


if __name__ == "__main__":
    main(*sys.argv[1:])
