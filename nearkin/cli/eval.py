"""`nearkin eval`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options as o


def eval(
    context: typer.Context,
    inputs: Annotated[list[str], typer.Argument(help="The folder of a run; or files, with --grid.")],
    golden: Annotated[Path, typer.Option(help="Labels, CSV or parquet: id_a, id_b (label); or id, cluster.")],
    grid: Annotated[str | None, typer.Option(help="Settings to try, as 'threshold=0.7,0.8;cluster=leaders'.")] = None,
    text: o.Text = None,
    tokens: o.Tokens = None,
    vector: o.Vector = None,
    id_column: o.Id = None,
    measure: o.Measure = None,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 1,
    plot: Annotated[Path | None, typer.Option(help="Draw precision over recall into an .svg or .png.", metavar="FILE")] = None,
    json: o.Json = False,
) -> None:
    """Precision, recall, F1, adjusted Rand index and B-cubed of a run, or of a grid of settings, against labelled documents.

    Examples:

        nearkin eval deduped/ --golden labels.csv

        nearkin eval docs.parquet --id id --golden labels.csv --grid "threshold=0.6,0.7,0.8,0.9"
    """
    from nearkin.errors import UsageError
    from nearkin.evaluate.golden import parse_grid, read_clusters, read_golden_set, score_clusters

    if plot is not None:
        from nearkin.runtime.outputs import require_picture_output

        require_picture_output(plot, [*inputs, golden])
    labels = read_golden_set(golden)
    found: list[tuple[dict[str, Any], Any]] = []
    if grid is None:
        if len(inputs) != 1:
            raise UsageError(f"{len(inputs)} inputs without --grid: give the folder of one run")
        o.require_unused(context, ("text", "tokens", "vector", "id_column", "measure"), "without --grid")
        found.append(({"run": inputs[0]}, score_clusters(labels, read_clusters(Path(inputs[0]) / "clusters.parquet"), seed)))
    else:
        from nearkin.api import dedup

        columns: dict[str, Any] = {"text": text, "tokens": tokens, "vector": vector, "id": id_column, "measure": measure}
        for settings in parse_grid(grid):
            table = dedup([Path(name) for name in inputs], **columns, **settings).clusters
            clusters = dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))
            found.append((settings, score_clusters(labels, clusters, seed)))
    if plot is not None:
        from nearkin.report.curves import draw_scores

        draw_scores(found, plot)
    if json:
        o.print_json({"results": [{"settings": settings, **scores.to_dict()} for settings, scores in found]})
        return
    from rich.console import Console

    from nearkin.report.terminal.evaluation import scores_table

    Console().print(scores_table(found))
