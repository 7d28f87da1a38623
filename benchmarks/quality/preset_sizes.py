"""Measures what presets remove from generated populations of 1,000 to 100,000 rows.

python -m benchmarks.quality.preset_sizes                 all presets and sizes, to the terminal
python -m benchmarks.quality.preset_sizes --presets records --rows 1000 8000
python -m benchmarks.quality.preset_sizes --threshold 0.7 --presets records --rows 20000
python -m benchmarks.quality.preset_sizes --write         also writes preset_sizes.json, the presets
                                                          and the page of benchmarks

With --write, sizes and populations that were not measured stay as they were, so a preset can be
measured again in parts. All sizes take some minutes of processor time.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

import nearkin
from benchmarks.pages import write_pages
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.nearkin_runs import describe_settings, run_dedup
from benchmarks.quality.populations.population import POPULATIONS, make_population
from benchmarks.quality.scores import score_clusters, score_removals
from benchmarks.quality.size_tables import SIZES_RECORD, SizeRecord, SizesRecord
from nearkin.engine.settings_file import Settings, format_value
from nearkin.quality.lab.measurements import describe_machine
from nearkin.settings.presets import PRESETS

FOLDER = Path(nearkin.__file__).parent / "settings" / "presets"
"""The folder of the presets."""
REMARK = "# Written by `python -m benchmarks.quality.preset_sizes --write`."
SIZES = (1_000, 8_000, 20_000, 100_000)
DENSE_SIZE = 3_590
SEEDS = 3
"""The number of seeds, whose median is recorded."""
LARGE = 50_000
"""The number of rows from which on one seed suffices, because chance evens out."""


class MeasuredPopulation(NamedTuple):
    """A population that a preset is measured on.

    Attributes:
        name: Name of the population.
        rows: Numbers of rows.
        is_claimed: Whether the preset states that it was measured on such data. The others show
            where it removes distinct rows, or have one size only.
    """

    name: str
    rows: tuple[int, ...] = SIZES
    is_claimed: bool = True


MEASURED: Mapping[str, tuple[MeasuredPopulation, ...]] = {
    "web": (MeasuredPopulation("pages"),),
    "articles": (
        MeasuredPopulation("articles"),
        MeasuredPopulation("pages", is_claimed=False),
    ),
    "records": (
        MeasuredPopulation("people"),
        MeasuredPopulation("companies"),
        MeasuredPopulation("customers"),
        MeasuredPopulation("members"),
        MeasuredPopulation("dense people", (DENSE_SIZE,), is_claimed=False),
        MeasuredPopulation("products", is_claimed=False),
    ),
    "bibliography": (MeasuredPopulation("references"),),
    "logs": (MeasuredPopulation("log lines"),),
    "code": (MeasuredPopulation("functions"),),
    "titles": (MeasuredPopulation("paper titles"), MeasuredPopulation("headlines")),
}
"""The populations of each preset."""


@dataclass(frozen=True)
class SizeScores:
    """The scores of a preset over a population.

    Attributes:
        removed: Share of the rows that are removed.
        precision: Share of the removed rows that are duplicates of the kept one.
        recall: Share of the redundant rows that are removed in favour of a duplicate.
        pair_precision: Share of the pairs inside the clusters that are true pairs.
        pair_recall: Share of the true pairs that are inside the clusters.
        cpu: CPU time in seconds.
    """

    removed: float
    precision: float
    recall: float
    pair_precision: float
    pair_recall: float
    cpu: float


def score_settings(rows: LabelledSet, settings: Mapping[str, object]) -> SizeScores:
    """Returns the scores of settings over rows.

    Args:
        rows: Rows with their true clusters.
        settings: Arguments of `nearkin.dedup`.
    """
    clustering = run_dedup(rows, settings)
    clusters = score_clusters(rows.clusters, clustering.labels)
    removals = score_removals(rows.clusters, clustering.labels, clustering.kept)
    return SizeScores(
        removed=float(np.mean(~clustering.kept)),
        precision=removals.precision,
        recall=removals.recall,
        pair_precision=clusters.precision,
        pair_recall=clusters.recall,
        cpu=clustering.cpu,
    )


def measure_size(name: str, rows: int, seeds: int, settings: Mapping[str, object]) -> SizeRecord:
    """Measures settings over a population, with the medians of some seeds.

    Args:
        name: Name of the population.
        rows: Number of rows.
        seeds: Number of seeds. One is used for many rows.
        settings: Arguments of `nearkin.dedup`.
    """
    used = 1 if rows >= LARGE else seeds
    scores = [
        score_settings(make_population(name, rows, seed), settings) for seed in range(1, used + 1)
    ]
    medians = {
        field.name: median(getattr(one, field.name) for one in scores)
        for field in fields(SizeScores)
    }
    return {
        "population": name,
        "rows": rows,
        "seeds": used,
        "settings": describe_settings(settings),
        "scores": medians,
    }


def merge_sizes(previous: Sequence[SizeRecord], measured: Sequence[SizeRecord]) -> list[SizeRecord]:
    """Returns earlier measurements, of which those that were repeated are replaced.

    Args:
        previous: Earlier measurements of a preset.
        measured: New ones.
    """
    sizes = {(one["population"], one["rows"]): one for one in (*previous, *measured)}
    return [
        sizes[key]
        for key in sorted(sizes, key=lambda key: (list(POPULATIONS).index(key[0]), key[1]))
    ]


def write_sizes(measured: Mapping[str, Sequence[SizeRecord]]) -> None:
    """Writes measurements into the file of all presets, and into the presets themselves.

    Args:
        measured: New measurements by preset. Others stay as they were.
    """
    previous: Mapping[str, Sequence[SizeRecord]] = {}
    if SIZES_RECORD.exists():
        previous = json.loads(SIZES_RECORD.read_text("utf-8"))["presets"]
    presets = {
        name: merge_sizes(previous.get(name, ()), measured.get(name, ()))
        for name in PRESETS
        if name in previous or name in measured
    }
    record: SizesRecord = {"machine": describe_machine(), "presets": presets}
    SIZES_RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    for name, sizes in presets.items():
        write_measured(name, sizes)


def list_claims(preset: str) -> list[str]:
    """Returns the names of the populations that a preset states that it was measured on."""
    return [one.name for one in MEASURED[preset] if one.is_claimed]


def find_precision(preset: str, sizes: Sequence[SizeRecord]) -> dict[int, float]:
    """Returns the smallest precision of a preset over its populations at each number of rows.

    Args:
        preset: Name of the preset.
        sizes: Its measurements.
    """
    claims = list_claims(preset)
    precision: dict[int, float] = {}
    for one in sizes:
        if one["population"] in claims and one["rows"] in SIZES:
            share = round(one["scores"]["precision"], 3)
            precision[one["rows"]] = min(share, precision.get(one["rows"], 1.0))
    return precision


def write_measured(preset: str, sizes: Sequence[SizeRecord]) -> None:
    """Writes into the file of a preset what it was measured on.

    Args:
        preset: Name of the preset.
        sizes: Its measurements.
    """
    *others, last = list_claims(preset)
    precision = find_precision(preset, sizes)
    path = FOLDER / f"{preset}.toml"
    settings = path.read_text("utf-8").partition("[measured]\n")[0]
    measured = {
        "data": f"{', '.join(others)} and {last}" if others else last,
        "rows": list(precision),
        "precision": list(precision.values()),
    }
    lines = [f"{name} = {format_value(value)}" for name, value in measured.items()]
    path.write_text("\n".join([f"{settings}[measured]", REMARK, *lines, ""]), "utf-8")


def print_sizes(preset: str, record: SizeRecord) -> None:
    """Prints a measurement as a line."""
    scores = record["scores"]
    print(
        f"{preset:13} {record['population']:13} {record['rows']:9,} {record['settings']:28} "
        f"removed {scores['removed']:.3f}, precision {scores['precision']:.3f}, recall "
        f"{scores['recall']:.3f}, of pairs {scores['pair_precision']:.3f} and "
        f"{scores['pair_recall']:.3f}, {scores['cpu']:.1f} CPU s",
        flush=True,
    )


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--presets", nargs="*", choices=PRESETS, default=PRESETS)
    parser.add_argument("--populations", nargs="*", choices=POPULATIONS, default=POPULATIONS)
    parser.add_argument("--rows", nargs="*", type=int, help="of the sizes that are measured")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--threshold", type=float, help="in place of that of the preset")
    parser.add_argument("--shingle", help="in place of that of the preset")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    given = {"threshold": options.threshold, "shingle": options.shingle}
    replaced = {name: value for name, value in given.items() if value is not None}
    if options.write and (replaced or options.seeds != SEEDS):
        parser.error("--write records the presets as they are; leave out the other settings")
    measured: dict[str, list[SizeRecord]] = {}
    for preset in options.presets:
        settings = {**Settings.of_preset(preset).values, **replaced}
        measured[preset] = []
        for population in MEASURED[preset]:
            if population.name not in options.populations:
                continue
            for rows in options.rows or population.rows:
                if options.write and rows not in population.rows:
                    continue
                record = measure_size(population.name, rows, options.seeds, settings)
                measured[preset].append(record)
                print_sizes(preset, record)
    if options.write:
        write_sizes(measured)
        write_pages()


if __name__ == "__main__":
    main()
