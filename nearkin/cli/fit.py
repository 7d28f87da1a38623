"""`nearkin fit`."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.option_groups import OUTPUT, RUN, VERIFICATION, GivenOptions, with_option_groups
from nearkin.cli.printing import print_json, print_warnings
from nearkin.runtime.loading import paused_collector

COMMON_OPTIONS = (
    "labels",
    "text",
    "id_column",
    "vector",
    "objective",
    "labelled",
    "sample",
    "out",
    "json",
    "workers",
)
COLUMN_OPTIONS = ("text", "tokens", "vector", "id_column", "delimiter", "encoding")
"""The options of columns that a run needs as well."""


@partial(with_option_groups, common=COMMON_OPTIONS)
def fit(
    *,
    given: GivenOptions,
    inputs: o.InputFiles,
    labels: Annotated[
        Path,
        typer.Option(
            help="Labelled documents, CSV or parquet, with columns id_a, id_b, label; or id, "
            "cluster.",
            metavar="FILE",
            rich_help_panel=VERIFICATION,
        ),
    ],
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    objective: Annotated[
        str,
        typer.Option(
            help="What is maximized: f1, or a minimum such as precision>=0.99 or recall>=0.95.",
            metavar="SCORE",
            rich_help_panel=VERIFICATION,
        ),
    ] = "f1",
    labelled: Annotated[
        str,
        typer.Option(
            help="What was chosen for labelling, if --labels has clusters: whole clusters, so that "
            "other documents are distinct from them, or documents.",
            metavar="clusters|documents",
            rich_help_panel=VERIFICATION,
        ),
    ] = "clusters",
    sample: Annotated[
        int,
        typer.Option(
            help="Number of documents of which all pairs are compared, if --labels has clusters.",
            rich_help_panel=VERIFICATION,
        ),
    ] = 4000,
    seed: Annotated[
        int, typer.Option(help="Random seed of samples and folds.", rich_help_panel=RUN)
    ] = 1,
    workers: o.Workers = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Settings file to write, for --settings of dedup and pairs.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Choose settings from labels: the shingle, the normalization, the measure and the threshold.

    The scores to expect on other documents are measured in cross-validation: the whole choice is made on some clusters,
    and judged on the others.

    Args:
        given: Names of the options that were given on the command line.
        inputs: Files, globs, folders or URLs.
        labels: File of labelled documents.
        columns: Options for the columns that are read.
        reading: Options for the selection of files.
        objective: What is maximized.
        labelled: What was chosen for labelling.
        sample: Number of documents of which all pairs are compared.
        seed: Random seed of samples and folds.
        workers: Number of threads.
        out: Settings file to write, or None.
        json: Whether the result is printed as JSON, without texts.
        quiet: Whether no progress is shown.

    Raises:
        UsageError: If an option has no effect, or the labels do not suffice.

    Examples:
        nearkin fit people.csv --text name,street,city --id id --labels clusters.csv --out settings.toml

        nearkin fit docs.parquet --id id --labels pairs.csv --objective "precision>=0.99"
    """  # noqa: E501
    with paused_collector():
        from nearkin.corpus import FileCorpus, detect_dimensions
        from nearkin.corpus.inputs import describe_skipped
        from nearkin.evaluate.golden import parse_labelled, read_golden_set
        from nearkin.fit.fitting import FitRequest, fit_settings
        from nearkin.fit.objective import Objective

    request = FitRequest(
        objective=Objective.parse(objective),
        labelled=parse_labelled(labelled),
        sample=sample,
        seed=seed,
        workers=o.workers_or_cores(workers),
    )
    golden = read_golden_set(labels)
    if golden.clusters is None:
        given.require_unused(("labelled", "sample"), f"because {labels} has labelled pairs")
    if out is not None:
        require_settings_output(out, [*inputs, labels])
    corpus = FileCorpus.open(inputs, selection=reading.selection)
    requested_columns = detect_dimensions(corpus, columns.to_columns())
    print_warnings([*describe_skipped(corpus.skipped), *corpus.describe_doubts(requested_columns)])
    progress = o.open_progress(quiet=quiet)
    try:
        fitted = fit_settings(corpus, requested_columns, golden, request, progress)
    finally:
        progress.close()
    if out is not None:
        from nearkin.runtime.files import disk_errors

        with disk_errors(out.parent):
            fitted.write(out)
    print_warnings(fitted.warnings)
    if json:
        print_json(fitted.to_dict())
        return
    from rich.console import Console

    from nearkin.fit.terminal import describe_command, print_fit

    print_fit(fitted, Console())
    named = [
        part
        for name in COLUMN_OPTIONS
        if name in given
        for part in (f"--{name.removesuffix('_column')}", str(vars(columns)[name]))
    ]
    command = describe_command(fitted, inputs, named, out)
    sys.stdout.write(f"\nTo remove duplicates with these settings:\n{command}\n")


def require_settings_output(out: Path, inputs: list[str | Path]) -> None:
    """Requires that a settings file may be written: its path is free, or has one of `nearkin fit`.

    Args:
        out: Path of the settings file.
        inputs: Inputs of the command, which it must not replace.

    Raises:
        UsageError: If it must not be written. The message says why.
    """
    from nearkin.fit.result import REMARK
    from nearkin.runtime.outputs import (
        begins_with,
        require_apart,
        require_outside_work_folders,
        require_replaceable_file,
    )

    require_outside_work_folders(out)
    require_apart(out, inputs)
    if os.path.lexists(out):
        beginning = f"# {REMARK}".lower().encode()
        require_replaceable_file(
            out, lambda file: begins_with(file, (beginning,)), "a settings file"
        )
