"""`nearkin eval`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json, print_warnings
from nearkin.settings.setting import RUN, VERIFICATION, Setting, setting

if TYPE_CHECKING:
    from nearkin.quality.evaluate.golden import GoldenSet, Labelled, Scores
    from nearkin.runs.grid import GridCell

ScoredSettings: TypeAlias = "list[tuple[Mapping[str, object], Scores]]"
"""Settings by name, or the folder of a run, with the scores of their clusters."""


@with_option_groups
def eval(
    *,
    given: GivenOptions,
    inputs: Annotated[
        list[str], typer.Argument(help="Output folder of a run; or files, with --grid.")
    ],
    golden: Annotated[
        Path,
        Setting(
            "Labelled documents, CSV or parquet, with columns id_a, id_b (label); or id, cluster.",
            VERIFICATION,
            metavar="FILE",
        ),
    ],
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    grid: str | None = setting(
        None,
        "Settings to try, for example 'threshold=0.7,0.8;shingle=words:1,chars:3'. Every "
        "combination is run. In a value, + stands for a comma: 'normalise=nfkc+lower,nfkc'.",
        RUN,
        metavar="SETTINGS",
    ),
    measure: str | None = None,
    labelled: str = setting(
        "clusters",
        "What was chosen for labelling, if --golden has clusters: whole clusters, so that a "
        "document that a cluster does not list is distinct from it; or single documents.",
        VERIFICATION,
        metavar="clusters|documents",
        values=("clusters", "documents"),
    ),
    closure: bool = setting(
        False,
        "Take duplicates of duplicates to be duplicates and, in a file without labels, all other "
        "pairs to be distinct.",
        VERIFICATION,
    ),
    plot: Annotated[Path | None, o.picture_of("precision over recall")] = None,
    json: bool = False,
) -> None:
    """Measure a run, or a grid of settings, against labels.

    Labelled pairs are judged as pairs: precision, recall and F1. For labelled clusters, and with
    --closure, the adjusted Rand index and B-cubed are listed too.

    Examples:
        nearkin eval deduped/ --golden labels.csv

        nearkin eval deduped/ --golden pairs.csv --closure

        nearkin eval docs.parquet --id id --golden labels.csv --grid "threshold=0.6,0.7,0.8,0.9"

        nearkin eval docs.parquet --id id --golden labels.csv --grid "shingle=words:1,chars:3;threshold=0.4,0.5"
    """  # noqa: E501
    with file_imports():
        from nearkin.errors import UsageError
        from nearkin.quality.evaluate.golden import parse_labelled, read_golden_set

    if plot is not None:
        from nearkin.reports.curves import require_plotting
        from nearkin.runtime.outputs import require_picture_output

        require_plotting(plot)
        require_picture_output(plot, [*inputs, golden], "plot")
    kind_of_labels = parse_labelled(labelled)
    labels = read_golden_set(golden, closure=closure)
    if labels.clusters is None or labels.is_closed:
        given.require_unused(("labelled",), f"because {golden} has labelled pairs")
    if plot is not None and not labels.measures_precision:
        raise UsageError(
            f"{golden} labels no pair as distinct, so there is no precision to draw; label some "
            "pairs with 0, or pass --closure"
        )
    left_out: list[GridCell] = []
    if grid is None:
        if len(inputs) != 1:
            raise UsageError(f"{len(inputs)} inputs without --grid: give the folder of one run")
        of_files = (*vars(columns), *vars(reading), "measure")
        given.require_unused(of_files, "without --grid")
        scored = _score_run(inputs[0], labels, kind_of_labels)
    else:
        from nearkin.runs.grid import check_grid

        if measure is None and columns.vector is not None:
            measure = "cosine"
        cells = check_grid(grid, {} if measure is None else {"measure": measure})
        scored = _score_cells(cells, inputs, columns, reading, labels, kind_of_labels)
        left_out = [cell for cell in cells if cell.error is not None]
    if plot is not None:
        from nearkin.reports.curves import draw_scores

        draw_scores(scored, plot)
    if json:
        listed = [{"settings": settings, **scores.to_dict()} for settings, scores in scored]
        errors = [{"settings": cell.settings, "error": cell.error} for cell in left_out]
        print_json({"results": listed, "left_out": errors} if errors else {"results": listed})
        return
    print_warnings([f"left out: {cell.error}" for cell in left_out])
    from rich.console import Console

    from nearkin.reports.terminal.evaluation import print_scores

    print_scores(scored, Console())


def _score_run(folder: str, labels: "GoldenSet", kind_of_labels: "Labelled") -> "ScoredSettings":
    """Scores the clusters of a finished run."""
    from nearkin.quality.evaluate.golden import read_clusters, score_clusters

    clusters = read_clusters(Path(folder) / "clusters.parquet")
    scores = score_clusters(labels, clusters, labelled=kind_of_labels)
    print_warnings(filter(None, [labels.describe_unknown(clusters)]))
    return [({"run": folder}, scores)]


def _score_cells(
    cells: "Sequence[GridCell]",
    inputs: Sequence[str],
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    labels: "GoldenSet",
    kind_of_labels: "Labelled",
) -> "ScoredSettings":
    """Runs the settings of a grid over files, and scores the clusters of each run."""
    from nearkin.quality.evaluate.golden import score_clusters
    from nearkin.runs.grid import run_grid
    from nearkin.runtime.progress import Silent

    parameters = o.parameters_of(columns, reading)
    paths = [Path(name) for name in inputs]
    scores: dict[int, Scores] = {}
    for cell_run in run_grid(cells, paths, columns.id_column, parameters, Silent()):
        scores[cell_run.position] = score_clusters(
            labels, cell_run.clusters, labelled=kind_of_labels
        )
        if len(scores) == 1:
            print_warnings(filter(None, [labels.describe_unknown(cell_run.clusters)]))
    return [(cells[position].settings, scores[position]) for position in sorted(scores)]
