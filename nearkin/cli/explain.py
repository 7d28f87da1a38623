"""`nearkin explain`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options as o

TEXTS = (".txt", ".md", ".rst", ".html", ".xml", ".json", ".csv", ".py")
"""Names that end so are meant as files, and mistyped if there is none."""


def explain(
    context: typer.Context,
    a: Annotated[str, typer.Argument(help="A file, a text, or with --run or --index an id.")],
    b: Annotated[str, typer.Argument(help="Another one.")],
    run: Annotated[Path | None, typer.Option(help="Two documents of this run.", metavar="DIR")] = None,
    index: Annotated[str | None, typer.Option(help="Two documents of this index.", metavar="URL")] = None,
    scope: Annotated[str, typer.Option(help="Of the index.")] = "default",
    tables: o.SpecTables = None,
    measure: o.Measure = None,
    threshold: o.Threshold = 0.8,
    recall: o.Recall = 0.95,
    shingle: o.Shingle = "words:3",
    k: o.K = None,
    bands: o.Bands = None,
    rows: o.Rows = None,
    key_file: o.KeyFile = None,
    html: Annotated[Path | None, typer.Option(help="Write the differences as a page.", metavar="FILE")] = None,
    json: o.Json = False,
) -> None:
    """Why two documents are matched or not: similarity, shared bands and shingles, differences, and the stage that decided.

    Examples:

        nearkin explain left.txt right.txt

        nearkin explain "the cat sat on the mat" "the cat sat on the mat today"

        nearkin explain doc-17 doc-42 --run deduped/

        nearkin explain doc-17 doc-42 --index sqlite:///kin.db
    """
    from nearkin.engine.options import RunOptions
    from nearkin.errors import UsageError
    from nearkin.keys import HashKey
    from nearkin.runs.reopen import explain_in_run
    from nearkin.runs.spec_request import SpecRequest
    from nearkin.sketch.resources import SpecResources
    from nearkin.spec import parse_shingle

    secret = None if key_file is None else HashKey.read(key_file)
    if run is not None and index is not None:
        raise UsageError(f"--run {run} and --index {index} exclude each other")
    if run is not None or index is not None:
        own = ("measure", "threshold", "recall", "shingle", "k", "bands", "rows")
        o.require_unused(context, own, f"with --{'run' if index is None else 'index'}, which has its own")
    if html is not None:
        from nearkin.runtime.outputs import require_page_output

        require_page_output(html, [path for path in (a, b) if is_file(path)])
    if index is not None:
        from nearkin.index.index import Index

        with Index.open(index, resources=SpecResources(secret), tables=tables) as opened:
            found = opened.explain(scope, a, b)
    elif run is not None:
        found = explain_in_run(run, a, b, secret)
    else:
        from nearkin.corpus import Columns
        from nearkin.evaluate.explain import explain as explained

        unit, n = parse_shingle(shingle)
        fields: dict[str, Any] = {"unit": unit, "n": n} | ({} if k is None else {"k": k})
        spec = SpecRequest(measure, fields, secret=secret).to_spec(Columns())
        settings = RunOptions(spec=spec, threshold=threshold, recall=recall, bands=bands, rows=rows)
        names = (short(a), short(b))
        found = explained(text_of(a), text_of(b), settings=settings, resources=SpecResources(secret), names=names)
    if html is not None:
        from nearkin.report.explanation import render_explanation

        html.write_text(render_explanation(found), "utf-8")
    if json:
        o.print_json(found.to_dict())
        return
    from rich.console import Console

    from nearkin.report.explanation import print_explanation

    print_explanation(found, Console())


def text_of(argument: str) -> str:
    """The content of a file of that name, else the argument itself."""
    from nearkin.errors import UsageError

    try:
        path = Path(argument)
        if path.is_file():
            return path.read_text("utf-8")
        if path.suffix in TEXTS and len(argument.split()) == 1:
            raise UsageError(f"no such file: {argument}")
        return argument
    except OSError:
        return argument
    except UnicodeDecodeError as error:
        raise UsageError(f"{argument} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def is_file(argument: str) -> bool:
    """Returns whether an argument names a file; a long text is not a path."""
    try:
        return Path(argument).is_file()
    except OSError:
        return False


def short(argument: str) -> str:
    """A name for it."""
    line = " ".join(argument.split())
    return line if len(line) <= 60 else line[:57] + "…"
