"""`nearkin passages`."""

from contextlib import closing
from typing import Annotated

from nearkin.cli import options as o
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_brief, print_json, require_documents
from nearkin.runtime.number_range import NumberRange
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.setting import INPUT, OUTPUT, SIMILARITY, Setting
from nearkin.settings.table import OutputSettings, varied

MinTokens = Annotated[
    int | None,
    Setting(
        "Smallest number of words of a passage, or of characters with --unit chars.",
        SIMILARITY,
        common=True,
        metavar="N",
        shown_default="50",
        range=NumberRange(2, 1048576),
    ),
]
Unit = Annotated[
    str | None,
    Setting(
        "Unit of a passage: words, or chars (the letters and digits, for scripts without spaces).",
        SIMILARITY,
        metavar="UNIT",
        shown_default="words",
    ),
]
Source = Annotated[
    str | None,
    varied("source", "Column of sources, whose repeated shares are listed.", panel=INPUT),
]
Keep = Annotated[
    str | None,
    varied(
        "keep",
        "Keep policy: order of the documents, of which the first one keeps a passage that is cut "
        "from the others, for example 'source:gold>web, length desc'.",
        panel=OUTPUT,
        shown_default="length desc",
    ),
]
RepeatedLines = Annotated[
    str | None,
    varied(
        "repeated_lines",
        "Find lines that occur in at least this number of documents, or this number of times "
        "(for example 3:places), instead of passages.",
        panel=SIMILARITY,
    ),
]
RepeatedParagraphs = Annotated[
    str | None,
    varied("repeated_paragraphs", "Find paragraphs in the same way.", panel=SIMILARITY),
]


@with_option_groups
def passages(
    *,
    inputs: o.InputFiles,
    columns: o.ColumnOptions,
    reading: o.RunReadOptions,
    output: OutputSettings,
    min_tokens: MinTokens = None,
    unit: Unit = None,
    source: Source = None,
    cut_unit: str | None = None,
    min_left: int = 0,
    repeated_lines: RepeatedLines = None,
    repeated_paragraphs: RepeatedParagraphs = None,
    lines_action: str | None = None,
    keep: Keep = None,
    normalise: str = "nfkc,lower",
    memory: str = AUTOMATIC,
    workers: int | None = None,
    resume: bool = False,
) -> None:
    """Find passages that occur at two or more places of a corpus.

    A passage is a run of words that two places have in common, and that continues at neither end in
    both. The output lists each with its bytes in both documents.

    Examples:
        nearkin passages docs.parquet --text body --min 50 --out passages/

        nearkin passages "crawl/*.jsonl.zst" --source site --out passages/

        nearkin passages docs.parquet --cut sentence --min-left 20 --out cut/

        nearkin passages pages.parquet --repeated-lines 10 --out lines/
    """
    with file_imports():
        from nearkin.engine.options import RunOptions
        from nearkin.engine.parameters import parse_steps
        from nearkin.runs.job import Job
        from nearkin.runs.passages import run_passages
        from nearkin.runtime.files import Readers
        from nearkin.runtime.sizes import parse_memory
        from nearkin.settings.spec import Spec
        from nearkin.texts.passages.cutting.request import CutRequest
        from nearkin.texts.passages.lines.request import LinesRequest
        from nearkin.texts.passages.run import PassageOptions

    _require_unit(unit)
    hash_inputs = reading.parse_hash_inputs()
    lines = LinesRequest.parse_options(repeated_lines, repeated_paragraphs, lines_action, keep)
    request = None
    if lines is not None:
        lines.require_alone(cut_unit=cut_unit, min_left=min_left, min_tokens=min_tokens, unit=unit)
    else:
        request = CutRequest.parse_options(cut_unit, min_left, keep)
    spec = Spec(unit=unit or "words", n=1, normalise=parse_steps(normalise))
    threads = workers_or_cores(workers)
    least = PassageOptions.least if min_tokens is None else min_tokens
    options = PassageOptions(spec, least, source, parse_memory(memory), threads)
    job = Job(
        tuple(inputs),
        output.out,
        columns.to_columns(memory=memory),
        RunOptions(spec=spec, memory=options.memory, workers=threads),
        resume=resume,
        overwrite=output.overwrite,
        on_error=reading.on_error,
        hash_inputs=hash_inputs,
        selection=reading.selection,
        readers=Readers(output.readable_by),
    )
    with closing(o.open_progress(quiet=output.quiet)) as progress:
        summary = run_passages(job, options, progress, request, lines)
    if output.json:
        print_json(summary.to_json())
    elif output.quiet:
        from nearkin.reports.terminal import passages as terminal

        counts = summary.counts
        if lines is None:
            headline = terminal.describe_passages(counts)
        else:
            repeated = terminal.report_lines(counts, lines)
            headline = terminal.describe_lines(repeated, counts["documents"])
        print_brief(headline, summary.warnings)
    elif lines is not None:
        from rich.console import Console

        from nearkin.reports.terminal.passages import print_repeated_lines

        print_repeated_lines(
            summary.counts, lines, summary.warnings, output.out, Console(stderr=True)
        )
    else:
        import pyarrow.parquet as pq
        from rich.console import Console

        from nearkin.reports.terminal.passages import print_passages

        print_passages(
            summary.counts,
            options.least,
            options.token,
            request,
            pq.read_table(output.out / "frequent.parquet").to_pylist(),
            summary.warnings,
            output.out,
            Console(stderr=True),
        )
    counts = summary.counts
    rejected = counts["rejected"]
    require_documents(counts["documents"], rejected, f"see {output.out / 'rejected.jsonl'}")


def _require_unit(unit: str | None) -> None:
    """Requires a known unit of passages."""
    from nearkin.runtime.suggestions import require_choice
    from nearkin.stages.winnowing import TOKEN_NAMES

    if unit is not None:
        require_choice("unit", unit, TOKEN_NAMES)
