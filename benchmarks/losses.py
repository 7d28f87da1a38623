"""Counts what runs lose of two labelled corpora, with and without a condition.

python -m benchmarks.losses          prints the table of docs/reference/benchmarks.md

The corpora are those of `nearkin synth --losses`. The counts depend neither on the machine nor on
its load.
"""

import argparse
from typing import Any

import nearkin as nk
from nearkin.lab.loss_corpus import LossKind, LossScore, make_loss_corpus, score_losses

DOCUMENTS = 10_000
SETTINGS: dict[str, dict[str, Any]] = {
    "the default": {},
    "`--max-lost 0.05`": {"max_lost": 0.05},
    "`--accept contained`": {"accept": "contained"},
    "`--accept safe`": {"accept": "safe"},
}


def score_run(kind: LossKind, documents: int, options: dict[str, Any]) -> tuple[LossScore, float]:
    """Returns the score of a run over a corpus, and the mean information lost that it measured.

    Args:
        kind: Kind of the corpus.
        documents: Number of documents.
        options: Options of the run.
    """
    corpus = make_loss_corpus(kind, documents)
    ids = [document.id for document in corpus]
    table = {"id": ids, "text": [document.text for document in corpus]}
    result = nk.dedup(table, id="id", **options)
    kept = result.clusters["cluster"].to_pylist()
    lost = result.report_data.lost
    assert lost is not None
    return score_losses(corpus, dict(zip(ids, kept, strict=True))), lost.total.mean


def main() -> None:
    """Prints a row for each corpus and each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    documents = parser.parse_args().documents
    print("| corpus | setting | removed | of them lost | recall | mean information lost |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in LossKind:
        for name, options in SETTINGS.items():
            score, mean = score_run(kind, documents, options)
            print(
                f"| {kind} | {name} | {score.removed:,} | {score.lost:,} | {score.recall:.3f} | "
                f"{mean:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
