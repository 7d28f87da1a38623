"""`nearkin tune`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options as o


def tune(
    inputs: Annotated[list[str] | None, typer.Argument(help="A corpus to learn the similarities of pairs from.")] = None,
    text: o.Text = None,
    tokens: o.Tokens = None,
    vector: o.Vector = None,
    measure: o.Measure = None,
    threshold: o.Threshold = 0.8,
    recall: o.Recall = 0.95,
    shingle: o.Shingle = "words:3",
    k: o.K = None,
    slot_bits: o.SlotBits = None,
    budget: Annotated[int | None, typer.Option(help="Bytes of a document's signature, instead of --k.")] = None,
    documents: Annotated[int, typer.Option(help="Corpus size, for the expected candidates.")] = 1_000_000,
    tables: Annotated[str, typer.Option(help="Numbers of independent tables to try, as 1,2.")] = "1",
    probes: Annotated[str, typer.Option(help="Numbers of probes to try, as 0,3.")] = "0",
    at_most: Annotated[
        list[str] | None, typer.Option(help="Largest P(candidate) at a similarity, as 0.05:0.006; may be repeated.")
    ] = None,
    sample: Annotated[int, typer.Option(help="Documents of the corpus that are compared each with each.")] = 2000,
    show: Annotated[int, typer.Option(help="Operating points to show.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Draw the S-curves into an .svg or .png file.", metavar="FILE")] = None,
    json: o.Json = False,
) -> None:
    """Bands, rows, tables and probes for a threshold and a recall: what each finds and what it costs.

    Expected candidates follow from how many pairs there are at each similarity: those of unrelated documents, or of a
    sample of a corpus.

    Examples:

        nearkin tune --threshold 0.8 --recall 0.95

        nearkin tune "crawl/*.parquet" --threshold 0.7 --plot curves.svg

        nearkin tune --measure cosine --threshold 0.9 --documents 10000000
    """
    from nearkin.plan.tune import tune as find

    if plot is not None:
        from nearkin.runtime.outputs import require_picture_output

        require_picture_output(plot, inputs or [])
    distribution, spec = observed(inputs, text, tokens, vector, measure, shingle, k, slot_bits, sample)
    found = find(
        threshold, recall, spec=spec, budget=budget, documents=documents, distribution=distribution,
        tables=o.numbers(tables, "--tables"), probes=o.numbers(probes, "--probes"), at_most=limits(at_most or []),
    )  # fmt: skip
    if plot is not None:
        from nearkin.report.curves import draw_file

        draw_file(found, found.points[:6], plot)
    if json:
        o.print_json(found.to_dict())
        return
    from rich.console import Console

    from nearkin.report.curves import draw_text
    from nearkin.report.terminal.planning import tuning_table

    console = Console()
    console.print(tuning_table(found, show))
    console.print(draw_text(found, found.points[:3]), highlight=False, markup=False)


def limits(texts: list[str]) -> dict[float, float]:
    """Similarities and the largest P(candidate) there."""
    from nearkin.errors import UsageError

    try:
        return {float(similarity): float(most) for similarity, most in (text.split(":") for text in texts)}
    except ValueError as error:
        raise UsageError(f"--at-most {' '.join(texts)!r} is not of the form 0.05:0.006") from error


def observed(
    inputs: list[str] | None,
    text: str | None,
    tokens: str | None,
    vector: str | None,
    measure: str | None,
    shingle: str,
    k: int | None,
    slot_bits: int | None,
    sample: int,
) -> tuple[Any, Any]:
    """(distribution of a corpus or None, Spec)."""
    from dataclasses import replace

    from nearkin.corpus import FileCorpus, detect_dimensions
    from nearkin.corpus.inputs import describe_skipped
    from nearkin.engine.options import parse_size
    from nearkin.measures import measure_of
    from nearkin.plan.observe import observe_corpus
    from nearkin.runs.spec_request import resolve_spec
    from nearkin.spec import parse_shingle

    unit, n = parse_shingle(shingle)
    given = {"unit": unit, "n": n, "k": k, "slot_bits": slot_bits}
    fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    columns = o.columns(text, tokens, vector, None, ()).with_memory(parse_size(o.MEMORY))
    if not inputs:
        if measure == "cosine":
            columns = replace(columns, vector="vector", text=None, dimensions=1)
        return None, resolve_spec(columns, measure, **fields)
    corpus = FileCorpus.open(inputs)
    o.show_warnings(describe_skipped(corpus.skipped))
    columns = detect_dimensions(corpus, columns)
    spec = resolve_spec(columns, measure, **fields)
    return observe_corpus(corpus, columns, measure_of(spec), sample, workers=o.workers_or_cores(None)), spec
