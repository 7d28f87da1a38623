"""`nearkin explain`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.command_line import decode_text
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.settings.setting import INPUT, OUTPUT, Need, setting
from nearkin.settings.table import varied

if TYPE_CHECKING:
    from nearkin.engine.keywords import RunParameters
    from nearkin.settings.keys import HashKey
    from nearkin.stages.measures.explanation import Explanation

TEXT_SUFFIXES = (".txt", ".md", ".rst", ".html", ".xml", ".json", ".csv", ".py")
"""Suffixes of arguments that are files. If there is no such file, the name was mistyped."""


@with_option_groups
def explain(
    *,
    given: GivenOptions,
    a: Annotated[str, typer.Argument(help="File or text; with --run or --index an id.")],
    b: Annotated[str, typer.Argument(help="Another file, text or id.")],
    run: Path | None = setting(
        None,
        "Output folder of the run that contains both documents.",
        INPUT,
        metavar="DIR",
        excludes={"index": "two documents are looked up in one place"},
    ),
    index: str | None = setting(
        None, "URL of the index that contains both documents.", INPUT, metavar="URL"
    ),
    scope: str = setting(
        "default", "Scope of both documents in the index.", INPUT, need=Need("index")
    ),
    spec_resources: Annotated[Path | None, varied("spec_resources", need=Need("index"))] = None,
    measure: str | None = None,
    threshold: float = 0.8,
    recall: float = 0.95,
    shingle: str = "words:3",
    k: int | None = None,
    bands: int | None = None,
    rows: int | None = None,
    key_file: str | None = None,
    html: Path | None = setting(
        None, "Write the differences into an HTML page.", OUTPUT, metavar="FILE"
    ),
    json: bool = False,
) -> None:
    """Explain why two documents are matched or not.

    The explanation shows their similarity, their shared bands and shingles, their differences, and the stage that decided.

    Args:
        k: Number of slots or bits of a signature, or None for the default.

    Examples:
        nearkin explain left.txt right.txt

        nearkin explain "the cat sat on the mat" "the cat sat on the mat today"

        nearkin explain doc-17 doc-42 --run deduped/

        nearkin explain doc-17 doc-42 --index sqlite:///kin.db
    """  # noqa: E501
    with file_imports():
        from nearkin.engine.options import RunOptions
        from nearkin.engine.parameters import spec_of
        from nearkin.errors import UsageError
        from nearkin.quality.evaluate.explain_fields import FieldsExplanation
        from nearkin.runs.reopen import explain_in_run
        from nearkin.stages.sketch.resources import SpecResources

    secret = o.read_key(key_file)
    explanation: Explanation | FieldsExplanation
    if run is not None or index is not None:
        own = ("measure", "threshold", "recall", "shingle", "k", "bands", "rows")
        option = "--run" if index is None else "--index"
        given.require_unused(own, f"with {option}, which has its own")
    if html is not None:
        from nearkin.runtime.outputs import require_page_output

        files = [path for path in (a, b) if _is_file(path)]
        require_page_output(html, files if run is None else [*files, run], "html")
    if index is not None:
        explanation = _explain_in_index(
            index, scope, decode_text(a), decode_text(b), secret, spec_resources
        )
    elif run is not None:
        explanation = explain_in_run(run, decode_text(a), decode_text(b), secret)
    else:
        from nearkin.corpus import Columns
        from nearkin.quality.evaluate.explain import explain as explain_texts

        parameters: RunParameters = {"measure": measure, "shingle": shingle, "k": k, "key": secret}
        spec = spec_of(parameters, Columns())
        explanation = explain_texts(
            read_text(a),
            read_text(b),
            settings=RunOptions(
                spec=spec, threshold=threshold, recall=recall, bands=bands, rows=rows
            ),
            resources=SpecResources(secret),
            names=(_shorten(a), _shorten(b)),
        )
    if html is not None:
        from nearkin.reports.explanation import render_explanation
        from nearkin.reports.files import write_page
        from nearkin.runtime.files import SHARED_FILE, disk_errors

        if isinstance(explanation, FieldsExplanation):
            raise UsageError(
                "--html shows the differences of one text, and the run compared several fields; "
                "leave it out"
            )
        with disk_errors(html.parent):
            write_page(html, render_explanation(explanation), SHARED_FILE)
    if json:
        print_json(explanation.to_dict())
        return
    from rich.console import Console

    from nearkin.reports.explanation import print_explanation

    print_explanation(explanation, Console())


def _explain_in_index(
    url: str, scope: str, a: str, b: str, secret: "HashKey | None", spec_resources: Path | None
) -> "Explanation":
    from nearkin.index.index import Index
    from nearkin.stages.sketch.resources import SpecResources

    with Index.open(
        url,
        resources=SpecResources(secret),
        spec_resources=spec_resources,
        must_exist=True,
        warm_up=False,
    ) as index:
        return index.explain(scope, a, b)


def read_text(argument: str) -> str:
    """Returns the content of the file that an argument names, or the argument itself."""
    from nearkin.errors import UsageError

    try:
        path = Path(argument)
        if path.is_file():
            return path.read_text("utf-8")
        if path.suffix in TEXT_SUFFIXES and len(argument.split()) == 1:
            raise UsageError(f"no such file: {argument}")
        return decode_text(argument)
    except OSError:
        return decode_text(argument)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{argument} is not UTF-8 text: {error.reason} at byte {error.start}"
        ) from error


def _is_file(argument: str) -> bool:
    """Returns whether an argument names a file. A long text is not a path."""
    try:
        return Path(argument).is_file()
    except OSError:
        return False


def _shorten(argument: str) -> str:
    """Returns an argument as a name of at most 60 characters on one line."""
    line = " ".join(argument.split())
    if len(line) <= 60:
        return line
    return line[:57] + "…"
