"""`nearkin eval`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.option_groups import (
    RUN,
    VERIFICATION,
    GivenOptions,
    with_option_groups,
)
from nearkin.cli.printing import print_json


@with_option_groups
def eval(
    *,
    given: GivenOptions,
    inputs: Annotated[
        list[str], typer.Argument(help="Output folder of a run; or files, with --grid.")
    ],
    golden: Annotated[
        Path,
        typer.Option(
            help="Labelled documents, CSV or parquet, with columns id_a, id_b (label); or id, "
            "cluster.",
            metavar="FILE",
            rich_help_panel=VERIFICATION,
        ),
    ],
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    grid: Annotated[
        str | None,
        typer.Option(
            help="Settings to try, for example 'threshold=0.7,0.8;cluster=leaders'.",
            metavar="SETTINGS",
            rich_help_panel=RUN,
        ),
    ] = None,
    measure: o.Measure = None,
    labelled: Annotated[
        str,
        typer.Option(
            help="What was chosen for labelling, if --golden has clusters: whole clusters, so that "
            "a document that a cluster does not list is distinct from it; or single documents.",
            metavar="clusters|documents",
            rich_help_panel=VERIFICATION,
        ),
    ] = "clusters",
    closure: Annotated[
        bool,
        typer.Option(
            "--closure",
            help="Take duplicates of duplicates to be duplicates and, in a file without labels, "
            "all other pairs to be distinct.",
            rich_help_panel=VERIFICATION,
        ),
    ] = False,
    plot: Annotated[Path | None, o.picture_option("precision over recall")] = None,
    json: o.Json = False,
) -> None:
    """Measure a run, or a grid of settings, against labelled documents.

    Labelled pairs are judged as pairs: precision, recall and F1. For labelled clusters, and with
    --closure, the adjusted Rand index and B-cubed are listed too.

    Args:
        given: Names of the options that were given on the command line.
        inputs: Output folder of one run; or files of documents, with a grid.
        golden: File of labelled documents.
        columns: Options for the columns that are read.
        reading: Options for the selection of files.
        grid: Settings to try, or None to measure a run.
        measure: Measure of similarity, or None for the default.
        labelled: What was chosen for labelling.
        closure: Whether duplicates of duplicates count as duplicates.
        plot: Picture file into which curves are drawn, or None.
        json: Whether the result is printed as JSON.

    Raises:
        UsageError: If an option has no effect, or an input cannot be evaluated.

    Examples:
        nearkin eval deduped/ --golden labels.csv

        nearkin eval deduped/ --golden pairs.csv --closure

        nearkin eval docs.parquet --id id --golden labels.csv --grid "threshold=0.6,0.7,0.8,0.9"
    """
    from nearkin.errors import UsageError
    from nearkin.evaluate.golden import (
        Scores,
        parse_grid,
        parse_labelled,
        read_clusters,
        read_golden_set,
        score_clusters,
    )

    if plot is not None:
        from nearkin.report.curves import require_plotting
        from nearkin.runtime.outputs import require_picture_output

        require_plotting(plot)
        require_picture_output(plot, [*inputs, golden])
    kind_of_labels = parse_labelled(labelled)
    labels = read_golden_set(golden, closure=closure)
    if labels.clusters is None or labels.is_closed:
        given.require_unused(("labelled",), f"because {golden} has labelled pairs")
    if plot is not None and not labels.measures_precision:
        raise UsageError(
            f"{golden} labels no pair as distinct, so there is no precision to draw; label some "
            "pairs with 0, or pass --closure"
        )
    results: list[tuple[Mapping[str, object], Scores]] = []
    if grid is None:
        if len(inputs) != 1:
            raise UsageError(f"{len(inputs)} inputs without --grid: give the folder of one run")
        of_files = (*vars(columns), *vars(reading), "measure")
        given.require_unused(of_files, "without --grid")
        clusters = read_clusters(Path(inputs[0]) / "clusters.parquet")
        results.append(
            ({"run": inputs[0]}, score_clusters(labels, clusters, labelled=kind_of_labels))
        )
    else:
        from nearkin.api import dedup
        from nearkin.runs.parameters import OPTIONS_OF_RUN, OPTIONS_OF_SPEC

        for settings in parse_grid(grid, OPTIONS_OF_RUN | OPTIONS_OF_SPEC):
            table = dedup(
                [Path(name) for name in inputs],
                text=columns.text_columns or None,
                tokens=columns.tokens,
                vector=columns.vector,
                id=columns.id_column,
                delimiter=columns.delimiter,
                encoding=columns.encoding,
                hidden=reading.hidden,
                follow_links=reading.follow_links,
                include=reading.include or (),
                exclude=reading.exclude or (),
                measure=measure,
                **settings,
            ).clusters
            ids = table["id"].to_pylist()
            clusters = dict(zip(ids, table["cluster"].to_pylist(), strict=True))
            results.append((settings, score_clusters(labels, clusters, labelled=kind_of_labels)))
    if plot is not None:
        from nearkin.report.curves import draw_scores

        draw_scores(results, plot)
    if json:
        listed = [{"settings": settings, **scores.to_dict()} for settings, scores in results]
        print_json({"results": listed})
        return
    from rich.console import Console

    from nearkin.report.terminal.evaluation import print_scores

    print_scores(results, Console())
