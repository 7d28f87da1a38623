"""Counts what runs lose of labelled corpora, with and without a condition.

python -m benchmarks.losses          prints the tables of docs/contributing/benchmarks.md

The corpora are those of `nearkin lab synth --losses`. The counts depend neither on the machine nor
on its load.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import nearkin as nk
from nearkin.quality.lab.loss_corpus import (
    TEXT_LENGTHS,
    Change,
    LabelledDocument,
    LossKind,
    LossScore,
    make_loss_corpus,
    score_losses,
)

DOCUMENTS = 10_000
SETTINGS: dict[str, dict[str, Any]] = {
    "the default": {},
    "`--max-lost 0.05`": {"max_lost": 0.05},
    "`--accept contained`": {"accept": "contained"},
    "`--accept safe`": {"accept": "safe"},
}
CHANGE_SETTINGS = {name: SETTINGS[name] for name in SETTINGS if "max-lost" not in name}
FAMILIES = 20
"""The number of pairs of texts of each kind of change and each length."""


def run_over(
    corpus: Sequence[LabelledDocument], options: dict[str, Any]
) -> tuple[dict[str, str], float]:
    """Returns the kept document of each, and the mean information lost that a run measured.

    Args:
        corpus: Documents of the corpus.
        options: Options of the run.
    """
    ids = [document.id for document in corpus]
    table = {"id": ids, "text": [document.text for document in corpus]}
    result = nk.dedup(table, id="id", max_removed=1.0, **options)
    kept = result.clusters["cluster"].to_pylist()
    lost = result.report_data.lost
    assert lost is not None
    return dict(zip(ids, kept, strict=True)), lost.total.mean


def print_corpora(documents: int) -> None:
    """Prints a row for each corpus and each setting.

    Args:
        documents: Number of documents of a corpus.
    """
    print("| corpus | setting | removed | of them lost | recall | mean information lost |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in (LossKind.FORMS, LossKind.ADDITIONS):
        corpus = make_loss_corpus(kind, documents)
        for name, options in SETTINGS.items():
            kept_of, mean = run_over(corpus, options)
            score = score_losses(corpus, kept_of)
            print(
                f"| {kind} | {name} | {score.removed:,} | {score.lost:,} | {score.recall:.3f} | "
                f"{mean:.1%} |",
                flush=True,
            )


def score_case(
    corpus: Sequence[LabelledDocument], kept_of: Mapping[str, str], change: Change, words: int
) -> LossScore:
    """Returns the score of the families of a kind of change in texts of a length."""
    of_case = [each for each in corpus if (each.change, each.words) == (change, words)]
    return score_losses(of_case, kept_of)


def print_changes() -> None:
    """Prints how much of each kind of change is lost, or removed, by the length of the texts."""
    corpus = make_loss_corpus(LossKind.CHANGES, 2 * FAMILIES * len(Change) * len(TEXT_LENGTHS))
    kept_of = {name: run_over(corpus, options)[0] for name, options in CHANGE_SETTINGS.items()}
    rows: dict[bool, list[str]] = {False: [], True: []}
    for change in Change:
        for name in CHANGE_SETTINGS:
            scores = [score_case(corpus, kept_of[name], change, words) for words in TEXT_LENGTHS]
            is_harmless = scores[0].removable > 0
            shares = [score.recall if is_harmless else score.lost / FAMILIES for score in scores]
            cells = " | ".join(f"{share:.0%}" for share in shares)
            rows[is_harmless].append(f"| {change} | {name} | {cells} |")
    for is_harmless, title in ((False, "what is lost"), (True, "what is removed without a loss")):
        print(f"\n| {title} | setting | {' | '.join(f'{words:,}' for words in TEXT_LENGTHS)} |")
        print("| --- " * (2 + len(TEXT_LENGTHS)) + "|")
        print("\n".join(rows[is_harmless]), flush=True)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    print_corpora(parser.parse_args().documents)
    print_changes()


if __name__ == "__main__":
    main()
