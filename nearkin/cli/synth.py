"""`nearkin synth`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o


def synth(
    out: o.Out,
    documents: Annotated[int, typer.Option(help="Documents.")] = 100_000,
    length: Annotated[
        str, typer.Option(help="Bytes: fixed:1500, uniform:500:3000, lognormal:1500:0.5 (median, sigma).")
    ] = "lognormal:1500:0.5",
    vocabulary: Annotated[Path | None, typer.Option(help="A text file whose words are used, as frequent as there.")] = None,
    clustered: Annotated[float, typer.Option(help="Share of documents in clusters of near-duplicates.")] = 0.25,
    copies: Annotated[float, typer.Option(help="Mean copies of an original.")] = 1.5,
    similarity: Annotated[str, typer.Option(help="Range LOW:HIGH of a copy's similarity to its original.")] = "0.6:1.0",
    edits: Annotated[
        str, typer.Option(help="Weights of the edit operations.", metavar="NAME=WEIGHT,…")
    ] = "substitute=4,delete=1,insert=1,swap=0.25,typo=1",
    exact: Annotated[float, typer.Option(help="Share of copies that are exact.")] = 0.1,
    boilerplate: Annotated[float, typer.Option(help="Share of documents that end in a standard paragraph.")] = 0.0,
    hot_clusters: Annotated[int, typer.Option(help="Clusters of --hot-size documents.")] = 0,
    hot_size: Annotated[int, typer.Option(help="Documents of a hot cluster.")] = 1000,
    hostile: Annotated[int, typer.Option(help="Documents made to break things.")] = 0,
    files: Annotated[int, typer.Option(help="Files the documents are spread over.")] = 1,
    format_: Annotated[str, typer.Option("--format", help="parquet or jsonl.")] = "parquet",
    seed: o.Seed = 1,
    shingle: o.Shingle = "words:3",
    workers: o.Workers = None,
    json: o.Json = False,
) -> None:
    """Write a corpus with known truth: documents, and the exact similarity of every planted pair.

    Examples:

        nearkin synth --documents 1000000 --out synth/

        nearkin synth --documents 50000 --similarity 0.75:0.95 --hot-clusters 2 --boilerplate 0.1 --hostile 50 --out hard/
    """
    from nearkin.lab.synth import SynthSettings
    from nearkin.lab.synth import synth as write
    from nearkin.spec import Spec

    settings = SynthSettings(
        documents, length, clustered, copies, _range(similarity), _weights(edits), exact, boilerplate, hot_clusters, hot_size,
        hostile, files, format_, seed,
    )  # fmt: skip
    shown = o.progress()
    shown.stage("synth", documents)
    try:
        facts = write(
            out, settings, vocabulary=_text(vocabulary), spec=Spec.for_shingle(shingle), workers=o.workers_or_cores(workers),
            advance=shown.advance,
        )  # fmt: skip
    finally:
        shown.close()
    if json:
        o.print_json(facts)
    else:
        sys.stderr.write(
            f"{documents:,} documents ({facts['text_bytes']:,} bytes) and {facts['planted_pairs']:,} pairs in {out}\n"
        )


def _range(text: str) -> tuple[float, float]:
    from nearkin.errors import UsageError

    low, _, high = text.partition(":")
    try:
        return float(low), float(high or low)
    except ValueError as error:
        raise UsageError(f"similarity {text!r} is not of the form 0.6:1.0") from error


def _weights(text: str) -> dict[str, float]:
    from nearkin.errors import UsageError

    try:
        return {name.strip(): float(weight) for name, weight in (part.split("=") for part in text.split(",") if part.strip())}
    except ValueError as error:
        raise UsageError(f"edits {text!r} is not of the form substitute=4,typo=1") from error


def _text(path: Path | None) -> str | None:
    from nearkin.errors import UsageError

    if path is None:
        return None
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the vocabulary {path}: {error}") from error
