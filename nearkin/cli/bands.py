"""`nearkin lab bands`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json, print_warnings
from nearkin.runtime.number_format import format_count, format_percent
from nearkin.runtime.number_range import COUNT, COUNT_OR_NONE, UNSIGNED_64, NumberRange
from nearkin.settings.setting import CANDIDATES, INPUT, MOST_DOCUMENTS, RUN, VERIFICATION, setting

if TYPE_CHECKING:
    from rich.table import Table

    from nearkin.quality.lab.experiment import BandSettings, Experiment


@with_option_groups
def bands(
    *,
    given: GivenOptions,
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Files of up to 10,000 documents, which replace the generated corpus."),
    ] = None,
    bands_rows: str = setting(
        "5x20,10x10,20x5,25x4,50x2",
        "Bands and rows to compare, separated by commas.",
        CANDIDATES,
        metavar="BxR",
    ),
    threshold: float = 0.5,
    shingle: str = "chars:3",
    documents: int = setting(
        100, "Number of generated documents.", INPUT, range=NumberRange(1, MOST_DOCUMENTS)
    ),
    words: int = setting(80, "Number of words of a generated document.", INPUT, range=COUNT),
    similar_pairs: int | None = setting(
        None,
        "Number of generated documents that are edited copies of others.",
        INPUT,
        shown_default="a quarter of the documents",
        range=COUNT_OR_NONE,
    ),
    golden: Path | None = setting(
        None,
        "Labelled documents of the files, as nearkin eval reads them.",
        VERIFICATION,
        metavar="FILE",
        shown_default="pairs that reach the threshold are similar",
    ),
    largest: int = setting(
        1_000_000,
        "Number of documents of the largest corpus of the growth table. More than 3,000 documents "
        "are projected.",
        RUN,
        range=NumberRange(100, MOST_DOCUMENTS),
    ),
    seed: int = setting(1, "Random seed for the generated texts.", RUN, range=UNSIGNED_64),
    json: bool = False,
) -> None:
    """Compare bands and rows with brute force on a small corpus.

    Candidates are verified exactly, as in a run. The corpus is generated from common words, or read from files.

    The table has precision, recall, F1, candidates and the share of the comparisons that are saved, and the best
    choice below. With generated texts, the candidates of a published case study stand beside the measured ones, and a
    second table shows how candidates and time grow with the corpus.

    Examples:
        nearkin lab bands

        nearkin lab bands --bands-rows 8x16,16x8 --documents 200 --words 50 --threshold 0.6

        nearkin lab bands docs.jsonl --id id --golden labels.csv --shingle words:3

        nearkin lab bands --largest 1000 --json
    """  # noqa: E501
    from nearkin.quality.lab.experiment import (
        SIZES,
        BandSettings,
        GeneratedTexts,
        parse_bandings,
        run_experiment,
    )
    from nearkin.settings.spec import parse_shingle

    settings = BandSettings(parse_bandings(bands_rows), threshold, parse_shingle(shingle))
    if inputs:
        generating = ("documents", "words", "similar_pairs", "seed", "largest")
        given.require_unused(generating, "with files, whose documents are not generated")
        result = _compare_files(inputs, columns, reading, settings, golden)
    else:
        of_files = ("golden", *vars(columns), *vars(reading))
        given.require_unused(of_files, "without files")
        pairs = documents // 4 if similar_pairs is None else similar_pairs
        texts = GeneratedTexts(documents, words, pairs, seed)
        sizes = tuple(size for size in SIZES if size <= largest)
        result = run_experiment(texts, settings, sizes)
    if json:
        print_json(result.to_dict())
        return
    from rich.console import Console

    console = Console()
    console.print(_bands_table(result))
    console.print(_optimum_text(result))
    if result.growth:
        console.print(_growth_table(result))


def _compare_files(
    inputs: list[str],
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    settings: "BandSettings",
    golden: Path | None,
) -> "Experiment":
    """Compares bandings on the documents of files."""
    from nearkin.corpus import FileCorpus
    from nearkin.errors import UsageError
    from nearkin.quality.evaluate.golden import read_golden_set
    from nearkin.quality.lab.experiment import compare_bandings, label_pairs, read_all_documents
    from nearkin.reports.run_warnings import warn_of_inputs

    requested = columns.to_columns()
    if requested.vector is not None:
        raise UsageError(
            f"--vector {requested.vector} has no bands of slots; give texts or tokens, or use "
            "nearkin tune"
        )
    golden_set = None if golden is None else read_golden_set(golden)
    corpus = FileCorpus.open(inputs, selection=reading.selection)
    corpus.check(requested)
    print_warnings(warn_of_inputs(corpus, requested))
    own = read_all_documents(corpus, requested)
    labels = None if golden_set is None else label_pairs(golden_set, own.ids)
    return compare_bandings(own.contents, settings, labels)


def _bands_table(result: "Experiment") -> "Table":
    from nearkin.reports.terminal.tables import text_table

    rows = [
        [
            f"{row.bands} × {row.rows}" if row.bands else "every pair",
            f"{row.threshold:.3f}",
            f"{row.precision:.3f}",
            f"{row.recall:.3f}",
            f"{row.f1:.3f}",
            f"{row.candidates:,}",
            format_percent(row.reduction),
        ]
        for row in result.rows
    ]
    names = ["b × r", "threshold", "precision", "recall", "F1", "candidates", "saved"]
    if any(row.published is not None for row in result.rows):
        names.append("published")
        for cells, row in zip(rows, result.rows, strict=True):
            cells.append("" if row.published is None else f"{row.published:,}")
    title = (
        f"{format_count(result.documents, 'document')}, "
        f"{format_count(result.similar_pairs, 'similar pair')}, verified exactly at "
        f"{result.threshold:g}"
    )
    return text_table(title, names, rows)


def _optimum_text(result: "Experiment") -> str:
    best = result.optimum
    pairs = result.rows[-1].candidates
    text = (
        f"Highest F1: {best.bands} bands of {best.rows} rows, with {best.candidates:,} instead of "
        f"{pairs:,} comparisons ({format_percent(best.reduction)} saved)"
    )
    if result.growth and result.growth[-1].is_projected:
        largest = result.growth[-1]
        text += (
            f"; they are projected to compare {largest.candidates:,} instead of {largest.pairs:,} "
            f"pairs of {largest.documents:,} documents"
        )
    return text + "."


def _growth_table(result: "Experiment") -> "Table":
    from nearkin.reports.terminal.tables import text_table

    rows = [
        (
            f"{row.documents:,}",
            f"{row.pairs:,}",
            f"{row.candidates:,}",
            format_percent(1 - row.candidates / row.pairs),
            "projected" if row.seconds is None else f"{row.seconds:.3f} s",
            "" if row.brute is None else f"{row.brute:.3f} s",
        )
        for row in result.growth
    ]
    best = result.optimum
    candidates = f"candidates of {best.bands} × {best.rows}"
    names = ("documents", "pairs", candidates, "saved", "time", "every pair")
    return text_table("Growth with as large a share of similar pairs", names, rows)
