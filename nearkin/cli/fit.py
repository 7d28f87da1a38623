"""`nearkin fit`."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nearkin.cli import options as o
from nearkin.cli.fit_ask import ANSWERS, ask_for_settings, check_ask_options
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json, print_warnings
from nearkin.runtime.number_range import COUNT, UNSIGNED_64
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.settings.setting import OUTPUT, RUN, VERIFICATION, setting

if TYPE_CHECKING:
    from nearkin.corpus import Columns, FileCorpus
    from nearkin.engine.chosen_settings import ChosenSettings
    from nearkin.quality.fit.asking import AskedSettings
    from nearkin.quality.fit.result import FitResult


UseOfSettings: TypeAlias = Callable[[Mapping[str, object]], str]
"""Returns the command that uses chosen settings."""


@with_option_groups
def fit(
    *,
    given: GivenOptions,
    inputs: o.InputFiles,
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    across: str | None = None,
    labels: Path | None = setting(
        None,
        "Labels, CSV or parquet, with columns id_a, id_b, label; or id, cluster. With --ask, the "
        "file of answers (labels.csv).",
        VERIFICATION,
        common=True,
        metavar="FILE",
    ),
    ask: int | None = setting(
        None,
        "Ask about pairs until the file of --labels has so many answers.",
        VERIFICATION,
        common=True,
        metavar="ANSWERS",
        range=COUNT,
    ),
    objective: str = setting(
        "f1",
        "What is maximized: f1, or a minimum such as precision>=0.99 or recall>=0.95, or the "
        "share of clusters that may be lost, such as lost<=0.01.",
        VERIFICATION,
        common=True,
        metavar="SCORE",
    ),
    labelled: str = setting(
        "clusters",
        "What was chosen for labelling, if --labels has clusters: whole clusters, so that other "
        "documents are distinct from them, or documents.",
        VERIFICATION,
        metavar="clusters|documents",
        values=("clusters", "documents"),
    ),
    sample: int = setting(
        4000,
        "Number of documents of which all pairs are compared, if --labels has clusters.",
        VERIFICATION,
        range=COUNT,
    ),
    seed: int = setting(1, "Random seed of samples and folds.", RUN, range=UNSIGNED_64),
    workers: int | None = None,
    out: Path | None = setting(
        None,
        "Settings file to write, for --settings of dedup and pairs.",
        OUTPUT,
        common=True,
        short="-o",
        metavar="FILE",
    ),
    page: Path | None = setting(
        None,
        "HTML page to write, with precision-recall curves and wrong pairs.",
        OUTPUT,
        common=True,
        metavar="FILE",
    ),
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Choose settings from labels, answers, or the documents alone.

    With labels or answers, these are the shingle, the normalization, the measure and the threshold that score best.
    Without, they are the ones that remove most documents of which few are doubtful: --labels and --ask choose better.

    The scores to expect on other documents are measured in cross-validation: the whole choice is made on some clusters,
    and judged on the others.

    Examples:
        nearkin fit people.csv --id id --out settings.toml

        nearkin fit people.csv --id id --ask 50 --out settings.toml

        nearkin fit people.csv --text name,street,city --id id --labels clusters.csv --out settings.toml

        nearkin fit docs.parquet --id id --labels pairs.csv --objective "precision>=0.99"

        nearkin fit shops/ --text title --id id --across shop --labels links.csv --out settings.toml
    """  # noqa: E501
    with file_imports():
        from nearkin.corpus import FileCorpus, detect_dimensions
        from nearkin.quality.evaluate.golden import parse_labelled, read_golden_set
        from nearkin.quality.fit.fitting import FitRequest
        from nearkin.quality.fit.objective import Objective
        from nearkin.reports.run_warnings import warn_of_inputs
        from nearkin.runs.choose import choose_settings
        from nearkin.runs.fit import fit_corpus

    request = FitRequest(
        objective=Objective.parse(objective),
        labelled=parse_labelled(labelled),
        sample=sample,
        seed=seed,
        workers=workers_or_cores(workers),
        across=across,
    )
    requested_columns = columns.to_columns()
    if ask is not None:
        check_ask_options(given, requested_columns)
        labels = labels or ANSWERS
    if labels is None:
        given.require_unused(
            ("objective", "labelled", "sample", "seed", "page"), "without --labels and --ask"
        )
    golden = None if ask is not None or labels is None else read_golden_set(labels)
    if golden is not None and golden.clusters is None:
        given.require_unused(("labelled", "sample"), f"because {labels} has labelled pairs")
    if ask is not None and labels is not None:
        from nearkin.runtime.outputs import require_apart

        require_apart(labels, inputs, marked=False, option="labels")
    _check_outputs(out, page, [*inputs, *([] if labels is None else [labels])])
    corpus = FileCorpus.open(inputs, selection=reading.selection)
    requested_columns = detect_dimensions(corpus, requested_columns)
    print_warnings(warn_of_inputs(corpus, requested_columns))
    progress = o.open_progress(quiet=quiet)
    use = partial(_write_use, corpus, requested_columns, out)
    if labels is None:
        try:
            chosen = choose_settings(corpus, requested_columns, across, request.workers, progress)
        finally:
            progress.close()
        _write_settings(chosen, out)
        print_warnings(chosen.warnings)
        _print_chosen(chosen, use, prints_json=json)
        return
    if ask is not None:
        asked_fit = ask_for_settings(
            corpus,
            requested_columns,
            labels,
            ask,
            request.objective,
            seed=seed,
            workers=request.workers,
            progress=progress,
            prints_json=json,
        )
        _write_settings(asked_fit, out)
        _print_asked(asked_fit, use, prints_json=json)
        return
    assert golden is not None
    try:
        fitted = fit_corpus(corpus, requested_columns, golden, request, progress)
    finally:
        progress.close()
    _write_settings(fitted, out)
    if page is not None:
        _write_page(fitted, page, use, inputs)
    print_warnings(fitted.warnings)
    _print_fitted(fitted, use, prints_json=json)


def _write_use(
    corpus: "FileCorpus", columns: "Columns", out: Path | None, settings: Mapping[str, object]
) -> str:
    """Returns the command that removes duplicates with chosen settings, or with their file."""
    from nearkin.engine.advice import write_command

    if "text" in settings:
        columns = replace(columns, text="text", joined=())
    options = dict(settings)
    if out is not None:
        options = {"settings": out}
        if "across" in settings:
            # The column of sources is shown beside a settings file too: the inputs need it.
            options["across"] = settings["across"]
    return write_command("dedup", corpus, columns, {**options, "out": "deduped/"})


def _write_settings(fitted: "FitResult | AskedSettings | ChosenSettings", out: Path | None) -> None:
    """Writes the settings file, if one is wanted."""
    if out is None:
        return
    from nearkin.runtime.files import disk_errors

    with disk_errors(out.parent):
        fitted.write(out)


def _write_page(fitted: "FitResult", page: Path, use: UseOfSettings, inputs: list[str]) -> None:
    """Writes the HTML page of a fit."""
    from nearkin.corpus.file_names import hide_password
    from nearkin.reports.files import write_page
    from nearkin.reports.fit_page import render_fit
    from nearkin.runtime.files import SHARED_FILE, disk_errors

    command = use(fitted.settings)
    content = render_fit(fitted, ", ".join(map(hide_password, inputs)), command)
    with disk_errors(page.parent):
        write_page(page, content, SHARED_FILE)


def _print_fitted(fitted: "FitResult", use: UseOfSettings, *, prints_json: bool) -> None:
    """Prints the settings that were chosen from labels, and the command that uses them."""
    if prints_json:
        print_json(fitted.to_dict())
        return
    from rich.console import Console

    from nearkin.reports.terminal.fit import print_fit

    print_fit(fitted, Console())
    _print_command(use(fitted.settings))


def _print_asked(asked: "AskedSettings", use: UseOfSettings, *, prints_json: bool) -> None:
    """Prints the settings that were chosen from answers, and the command that uses them."""
    if prints_json:
        print_json(asked.to_dict())
        return
    from rich.console import Console

    from nearkin.reports.terminal.asking import print_asked

    print_asked(asked, Console())
    _print_command(use(asked.settings))


def _print_chosen(chosen: "ChosenSettings", use: UseOfSettings, *, prints_json: bool) -> None:
    """Prints the settings that were chosen without labels, and the command that uses them."""
    if prints_json:
        print_json(chosen.to_dict())
        return
    from rich.console import Console

    from nearkin.reports.terminal.fit import print_chosen

    print_chosen(chosen, Console())
    _print_command(use(chosen.settings))


def _print_command(command: str) -> None:
    sys.stdout.write(f"\nTo remove duplicates with these settings:\n{command}\n")


def _check_outputs(out: Path | None, page: Path | None, inputs: list[str | Path]) -> None:
    """Requires that the files that are to be written may be written."""
    if out is not None:
        require_settings_output(out, inputs)
    if page is not None:
        from nearkin.runtime.outputs import require_apart, require_page_output

        require_page_output(page, inputs, "page")
        if out is not None:
            require_apart(page, [out], option="page")


def require_settings_output(out: Path, inputs: list[str | Path]) -> None:
    """Requires that a settings file may be written: its path is free, or `nearkin fit` wrote it."""
    from nearkin.engine.settings_file import REMARK
    from nearkin.runtime.files import require_file_path
    from nearkin.runtime.outputs import (
        begins_with,
        require_apart,
        require_outside_work_folders,
        require_replaceable_file,
    )

    require_file_path(out)
    require_outside_work_folders(out)
    require_apart(out, inputs)
    if os.path.lexists(out):
        beginning = f"# {REMARK}".lower().encode()
        require_replaceable_file(
            out, lambda file: begins_with(file, (beginning,)), "a settings file"
        )
