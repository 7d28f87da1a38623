"""Grids of settings: runs over the same documents with each combination of some settings.

Work is shared between the cells of a grid. Cells with the same Spec share the signatures. Cells
that compare the same pairs exactly, and differ in the threshold or in the clustering only, share
the comparison too. The clusters of each cell are those of a run with its settings alone.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from nearkin.engine.containment import find_contained
from nearkin.engine.keywords import RunParameters
from nearkin.engine.options import RunOptions
from nearkin.engine.parameters import OPTIONS_OF_SPEC, make_run_options
from nearkin.engine.run import Run
from nearkin.engine.second_measure import to_final_clusters
from nearkin.engine.settings_file import VALID_KEYS, Settings
from nearkin.engine.stats import Stage
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runs.pairs import Relation, with_pair_budget
from nearkin.runs.saved import delete_folder
from nearkin.runs.temporary_runs import prepare_run
from nearkin.runtime.progress import Progress
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.spec import Spec
from nearkin.stages.cluster import kernels

PARTS_OF_SHINGLE = ("unit", "n")
"""Settings of a grid that make a shingle: its unit and its length."""
NAMES = tuple(sorted({*VALID_KEYS, *PARTS_OF_SHINGLE} - {"text"}))
"""The settings that a grid may vary."""
LISTS = ("normalise", "keep", "same")
"""Settings whose values are lists. A plus sign stands for the comma in them."""
NONE = "none"
"""The value that stands for a setting that is not given."""
SKETCHING = OPTIONS_OF_SPEC | {"measure", "max_df"}
"""Settings that decide the signatures."""
KEYING = ("threshold", "distance", "recall", "bands", "rows", "tables", "probes")
"""Settings that decide the band keys that are built while sketching, if there are any."""


@dataclass(frozen=True)
class GridCell:
    """One combination of settings.

    Attributes:
        settings: The settings as the grid names them.
        values: The same settings by keyword, checked together.
        error: Why they contradict each other, or None.
    """

    settings: Mapping[str, object]
    values: Mapping[str, Any]
    error: str | None = None

    @property
    def label(self) -> str:
        """The settings as text."""
        return describe_settings(self.settings)

    @property
    def relation(self) -> Relation:
        """The relation of the pairs that make clusters."""
        return Relation(self.values.get("relation", Relation.SIMILARITY))

    def with_parameters(self, parameters: RunParameters) -> RunParameters:
        """Returns the parameters of the cell's run."""
        values = {name: value for name, value in self.values.items() if name != "relation"}
        return cast(RunParameters, {**parameters, **values})


def describe_settings(settings: Mapping[str, object]) -> str:
    """Returns settings as text, for example `threshold=0.8, cluster=leaders`."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def parse_grid(grid: str) -> list[dict[str, object]]:
    """Parses a grid of settings and returns all of its combinations in order.

    Examples:
        >>> parse_grid("threshold=0.7,0.8;normalise=nfkc+lower")[1]
        {'threshold': 0.8, 'normalise': 'nfkc+lower'}
    """
    axes: dict[str, list[object]] = {}
    for part in grid.split(";"):
        name, _, values = part.partition("=")
        name = name.strip()
        texts = [value.strip() for value in values.split(",")]
        if not name or not all(texts):
            raise UsageError(f"grid {grid!r} is not of the form threshold=0.7,0.8;recall=0.9,0.95")
        if name not in NAMES:
            raise UsageError(
                f"unknown setting {name!r} of the grid{did_you_mean(name, NAMES)}; valid settings "
                f"are {', '.join(NAMES)}"
            )
        if name in axes:
            raise UsageError(f"the grid has the setting {name!r} twice; list its values once")
        # 0.8 and 0.80 are one setting, and not two runs.
        axes[name] = list(dict.fromkeys(map(_parse_value, texts)))
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _parse_value(text: str) -> object:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        # A number that is not equal to itself is found in no cell. As a text, it is refused.
        return text if isinstance(number, float) and math.isnan(number) else number
    return text


def check_grid(grid: str, common: Mapping[str, object]) -> list[GridCell]:
    """Parses a grid, and checks each cell before the first run.

    A cell whose settings contradict each other has an error.
    """
    cells = [_check_cell(settings, common) for settings in parse_grid(grid)]
    if all(cell.error for cell in cells):
        raise UsageError(f"no cell of the grid is possible: {cells[0].error}")
    for name, values in _values_by_name(cells).items():
        for value in values:
            errors = [cell.error for cell in cells if cell.settings[name] == value]
            if all(errors):
                raise UsageError(f"{name}={value} of the grid is not possible: {errors[0]}")
    return cells


def _values_by_name(cells: Iterable[GridCell]) -> dict[str, list[object]]:
    values: dict[str, list[object]] = {}
    for cell in cells:
        for name, value in cell.settings.items():
            if value not in values.setdefault(name, []):
                values[name].append(value)
    return values


def _check_cell(settings: Mapping[str, object], common: Mapping[str, object]) -> GridCell:
    values: dict[str, object] = dict(common)
    for name, value in settings.items():
        if name in common:
            raise UsageError(f"{name} is in the grid and given for all its cells; give it once")
        if name in PARTS_OF_SHINGLE or value == NONE:
            continue
        is_list = name in LISTS and isinstance(value, str)
        values[name] = str(value).replace("+", ",") if is_list else value
    try:
        if any(name in settings for name in PARTS_OF_SHINGLE):
            if "shingle" in values:
                raise UsageError("shingle excludes unit and n, which make a shingle")
            default = Spec()
            unit = settings.get("unit", default.unit)
            values["shingle"] = f"{unit}:{settings.get('n', default.n)}"
        checked = Settings(values, describe_settings(settings)).values
        if checked.get("relation") == Relation.CONTAINMENT and "max_lost" in checked:
            raise UsageError(
                f"max_lost={checked['max_lost']} decides which documents dedup removes, and "
                "relation=containment finds pairs; write it as a condition, for example "
                "accept=containment >= 0.95"
            )
    except UsageError as error:
        return GridCell(settings, values, str(error))
    return GridCell(settings, checked)


@dataclass(frozen=True)
class CellClusters:
    """The clusters of one cell.

    Attributes:
        position: Position of the cell in the grid.
        clusters: Id of the kept document of each document, by id. For contained documents, the id
            of the first one of each connected component.
    """

    position: int
    clusters: dict[str, str]


def run_grid(
    cells: Iterable[GridCell],
    data: Any,
    id: str | None,
    parameters: RunParameters,
    progress: Progress,
) -> Iterator[CellClusters]:
    """Runs each cell without an error, in an order in which work is shared."""
    groups: dict[str, list[tuple[int, GridCell]]] = {}
    for position, cell in enumerate(cells):
        if cell.error is None:
            groups.setdefault(_signature_key(cell.values), []).append((position, cell))
    for group in groups.values():
        yield from _run_group(group, data, id, parameters, progress)


def _signature_key(values: Mapping[str, Any]) -> str:
    """Returns a text that is equal for cells that have the same signatures and band keys."""
    keys_are_sketched = values.get("slot_bits", 32) != 32 or values.get("probes", 0) > 0
    names = SKETCHING | set(KEYING) if keys_are_sketched else SKETCHING
    # An acceptance may read further facts of the documents.
    names = names | {"accept"}
    return repr(sorted((name, value) for name, value in values.items() if name in names))


def _run_group(
    group: list[tuple[int, GridCell]],
    data: Any,
    id: str | None,
    parameters: RunParameters,
    progress: Progress,
) -> Iterator[CellClusters]:
    """Runs cells that have the same signatures."""
    first = prepare_run(data, id, None, progress, group[0][1].with_parameters(parameters))
    spec = first.run.options.spec
    options = {
        position: make_run_options(spec, cell.with_parameters(parameters))
        for position, cell in group
    }
    carried = dict.fromkeys(name for cell in options.values() for name in cell.carried_columns)
    first.run.columns = replace(first.run.columns, carried_columns=tuple(carried))
    first.run.sketch()
    sketched = _SketchedDocuments(first.run, first.folder.path)
    comparisons: dict[str, list[int]] = {}
    for position, cell in group:
        if cell.relation == Relation.SIMILARITY and sketched.compares_all(options[position]):
            comparisons.setdefault(_comparison_key(options[position]), []).append(position)
            continue
        run = sketched.open_run(options[position], f"cell-{position}")
        yield CellClusters(position, _run_alone(run, cell))
        delete_folder(run.work.path)
    for positions in comparisons.values():
        lowest = min(positions, key=lambda position: options[position].threshold)
        compared = sketched.open_run(options[lowest], f"compared-{lowest}")
        compared.to_pairs()
        for position in positions:
            run = replace(compared, options=options[position])
            yield CellClusters(position, _name_clusters(run, run.elect().leader))
        delete_folder(compared.work.path)
    first.folder.remove()


def _comparison_key(options: RunOptions) -> str:
    """Returns a text that is equal for cells whose pairs are compared exactly once for all."""
    values = (options.same, options.url, options.empty) if options.groups_by_value else ()
    blocks = (options.block_by, options.missing_block)
    return repr((options.keep, blocks, options.across, values))


@dataclass(frozen=True)
class _SketchedDocuments:
    """The signatures that the runs of a group share.

    Attributes:
        run: The run that made them.
        folder: Folder in which the work folders of the other runs are created.
    """

    run: Run
    folder: Path

    def compares_all(self, options: RunOptions) -> bool:
        """Returns whether all pairs are compared exactly, and clusters follow from them alone."""
        if options.distance is not None or options.second_measure is not None:
            return False
        if options.acceptance is not None:
            return False
        return replace(self.run, options=options).brute_force

    def open_run(self, options: RunOptions, name: str) -> Run:
        """Returns a run over the same signatures."""
        work = WorkFolder.create(self.folder / name, {}, durable=False)
        (work.path / "sketch").symlink_to(self.run.work.path / "sketch", target_is_directory=True)
        with work.stage(Stage.SKETCH) as facts:
            facts.update(self.run.stages[Stage.SKETCH])
        base = self.run
        return Run(
            base.corpus,
            base.columns,
            options,
            work,
            base.progress,
            base.resources,
            shared_hashes=base.kept_hashes,
        )


def _run_alone(run: Run, cell: GridCell) -> dict[str, str]:
    """Returns the clusters of a cell that shares nothing but signatures."""
    if cell.relation == Relation.CONTAINMENT:
        run.options = with_pair_budget(run.options)
        return _name_clusters(run, _join_contained(run))
    return _name_clusters(run, to_final_clusters(run).leader)


def _join_contained(run: Run) -> np.ndarray:
    """Returns the first document of each document's component of contained documents, uint32."""
    run.to_exact_groups()
    contained = find_contained(run)
    representative = np.asarray(run.work.load("representative"))
    own = np.arange(len(representative), dtype=np.uint32)
    first = np.concatenate([contained.a.astype(np.uint32), own])
    second = np.concatenate([contained.b.astype(np.uint32), representative])
    parent = own.copy()
    kernels.unite(np.maximum(first, second), np.minimum(first, second), parent)
    kernels.flatten(parent)
    return parent


def _name_clusters(run: Run, leader: np.ndarray) -> dict[str, str]:
    """Returns the id of the leader of each document, by the document's id."""
    ids = run.documents().ids.to_pylist()
    return {name: ids[at] for name, at in zip(ids, np.asarray(leader).tolist(), strict=True)}
