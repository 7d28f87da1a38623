"""Options that several commands share, and how they become a Job."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nearkin.engine.progress import Progress

Inputs = Annotated[
    list[str], typer.Argument(help="Files, globs, folders, URLs (s3://, gs://, file://), or a run saved with signatures.")
]
Text = Annotated[str | None, typer.Option("--text", help="Text column.  [default: text]", metavar="COL")]
Tokens = Annotated[str | None, typer.Option("--tokens", help="Column of token lists, instead of text.", metavar="COL")]
Id = Annotated[str | None, typer.Option("--id", help="Id column; without one an id is PATH:ROW.", metavar="COL")]
Measure = Annotated[str, typer.Option("--measure", help="Similarity: jaccard.")]
Threshold = Annotated[float, typer.Option("--threshold", help="Similarity from which two documents are near-duplicates.")]
Recall = Annotated[float, typer.Option("--recall", help="Asked share of the pairs at the threshold to be found.")]
Shingle = Annotated[str, typer.Option("--shingle", help="words:N or chars:N.")]
Normalise = Annotated[
    str, typer.Option("--normalise", help="Comma-separated: nfkc, lower, digits, punctuation, marks, markup.", metavar="STEPS")
]
Stem = Annotated[str | None, typer.Option("--stem", help="Snowball language whose stems replace words.", metavar="LANGUAGE")]
Scheme = Annotated[str, typer.Option("--scheme", help="binned or classic.")]
K = Annotated[int, typer.Option("--k", help="Slots of a signature, a multiple of 8.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the signature's hash functions.")]
Bands = Annotated[int | None, typer.Option("--bands", help="Bands; with --rows. Both are solved for unless given.")]
Rows = Annotated[int | None, typer.Option("--rows", help="Rows of a band.")]
Verify = Annotated[str, typer.Option("--verify", help="exact, estimate or none.")]
BlockBy = Annotated[
    str | None, typer.Option("--block-by", help="Compare only documents with the same value here.", metavar="COL")
]
MaxBucket = Annotated[int, typer.Option("--max-bucket", help="A bucket larger than this is clustered inside itself.")]
Fanout = Annotated[int, typer.Option("--fanout", help="Leaders a member of such a bucket is compared with.")]
Memory = Annotated[str, typer.Option("--memory", help="Anonymous memory of the whole run.", metavar="SIZE")]
Workers = Annotated[int | None, typer.Option("--workers", help="Threads.  [default: the machine's cores]")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what a killed run left.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")]
OnError = Annotated[str, typer.Option("--on-error", help="quarantine or fail, for rows and files that cannot be read.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, the only thing on standard output.")]
Out = Annotated[Path, typer.Option("--out", help="Where the result goes.")]

NORMALISE = "nfkc,lower"
MEMORY = "4GB"


@dataclass(frozen=True)
class SpecOptions:
    """The options that make a Spec."""

    shingle: str
    normalise: str
    stem: str | None
    scheme: str
    k: int
    seed: int
    measure: str = "jaccard"

    def spec(self) -> Any:
        """The Spec they name."""
        from nearkin.spec import Spec

        steps = tuple(step.strip() for step in self.normalise.split(",") if step.strip())
        other = {"normalise": steps, "stem": self.stem, "scheme": self.scheme, "k": self.k, "seed": self.seed}
        return Spec.for_shingle(self.shingle, measure=self.measure, **other)


def columns(text: str | None, tokens: str | None, id_column: str | None, extra: tuple[str, ...]) -> Any:
    """What of the inputs is read."""
    from nearkin.corpus import Columns
    from nearkin.errors import UsageError

    if text is not None and tokens is not None:
        raise UsageError(f"--text {text} and --tokens {tokens} exclude each other")
    return Columns(text=None if tokens else text or "text", tokens=tokens, id=id_column, extra=extra)


def workers_or_cores(workers: int | None) -> int:
    """Asked threads, else one for each core this process may use."""
    return workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def progress() -> "Progress":
    """A display on standard error, silent when that is not a terminal."""
    from nearkin.engine.progress import Silent

    if not sys.stderr.isatty():
        return Silent()
    from nearkin.report.progress import TerminalProgress

    return TerminalProgress()


def print_json(summary: dict[str, Any]) -> None:
    """The summary as the only thing on standard output."""
    import json

    sys.stdout.write(json.dumps(summary, sort_keys=True, ensure_ascii=False) + "\n")
