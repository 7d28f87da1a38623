"""The tables of presets by the number of rows, from benchmarks/preset_sizes.json."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.quality.populations.planting import CHANGES, COPIED_SHARE
from benchmarks.quality.populations.population import POPULATIONS
from nearkin.settings.presets import Preset

SIZES_RECORD = Path(__file__).parents[1] / "preset_sizes.json"


class SizeRecord(TypedDict):
    """The scores of a preset over a population of a number of rows.

    `SizeScores` documents the scores. `settings` are those that the preset had.
    """

    population: str
    rows: int
    seeds: int
    settings: str
    scores: Mapping[str, float]


class SizesRecord(TypedDict):
    """The file of all measured presets."""

    machine: dict[str, Any]
    presets: dict[str, list[SizeRecord]]


ABOUT = f"""## Presets by the number of rows

Distinct rows resemble each other by chance, and a row of a larger file has more of them. So what a
preset removes wrongly depends on the number of rows, and on how small the vocabulary is. Here the
presets run over generated populations of 1,000 to 100,000 rows, measured by `make bench-presets`
(a part of `make bench-quality`). `benchmarks/quality/populations/` holds the generator.

Names, streets and words come from lists of a few hundred, and are drawn by Zipf's law.
{100 * COPIED_SHARE:.0f} % of the originals have one or two copies, so that a tenth of the rows are
copies, with {CHANGES[0][0]} to {CHANGES[-1][0]} changes each: typing errors, abbreviations, missing
values, other formats, or swapped fields. References have another style instead, articles are
revised, shortened or quoted, and functions are later revisions. Of log lines, those of one template
are duplicates. Other rows are alike, but distinct:
"""
COLUMNS = """A removal is right if the removed row is a duplicate of the row that is kept in its
place. *Precision* is the share of the removals that are right, *recall* the share of the redundant
rows that are removed rightly. *Pairs* are those inside of the clusters: one wrong cluster of 100
rows has 4,950 wrong pairs, and 99 wrong removals. Figures are medians of as many seeds as the
column says. *CPU s* is the processor time of one run.
"""
LIMITS = """- **What grows with the size** is the number of distinct rows that come close to a row
  by chance. With pairs of letters at a threshold of 0.42, one removal of five was wrong at 1,000
  *customers*, and four of five at 20,000. Longer shingles and a higher threshold avoid this.
- **The weights of `idf-jaccard`**, ln((1 + N) / (1 + df)) + 1 for N documents of which df have the
  shingle, depend on the content more than on the size. To compare a part of a corpus as the whole,
  give the document frequencies of the whole (`--frequencies`).
- **Households, series, variants and templates** resemble each other at any size. If digits tell
  rows apart, require equal ones: with `--accept "idf_jaccard >= 0.68 and numbers_equal"`, all
  removals of 20,000 *products* were right, and 49 % of the redundant rows were removed.
- **More rows**: in one run over 1,000,000 *members*, 96.6 % of the removals were right.
- **Fewer copies** leave a larger share of wrong removals: the right ones become fewer, the wrong
  ones do not.
"""


def describe_populations() -> str:
    """Returns a list of the populations, as Markdown."""
    return "".join(f"- *{name}*: {population.about}\n" for name, population in POPULATIONS.items())


def sizes_table(presets: Mapping[str, Sequence[SizeRecord]]) -> str:
    """Returns a table with a row for each preset, population and number of rows."""
    header = (
        "preset", "population", "rows", "seeds", "removed", "precision", "recall",
        "precision of pairs", "recall of pairs", "CPU s",
    )  # fmt: skip
    lines = [header, ("---",) * len(header)]
    for preset, records in presets.items():
        for record in records:
            scores = record["scores"]
            lines.append(
                (
                    f"`{preset}`",
                    record["population"],
                    f"{record['rows']:,}",
                    str(record["seeds"]),
                    f"{100 * scores['removed']:.1f} %",
                    f"**{scores['precision']:.3f}**",
                    f"{scores['recall']:.3f}",
                    f"{scores['pair_precision']:.3f}",
                    f"{scores['pair_recall']:.3f}",
                    f"{scores['cpu']:.1f}",
                )
            )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def precision_table(record: SizesRecord) -> str:
    """Returns a table of the precision of the removals at each number of rows, for the guide.

    Args:
        record: What was measured.
    """
    counts = Counter(one["rows"] for records in record["presets"].values() for one in records)
    sizes = sorted(rows for rows, populations in counts.items() if populations > 1)
    lines = [["preset", "rows of", *(f"{rows:,}" for rows in sizes)], ["---"] * (len(sizes) + 2)]
    for preset, records in record["presets"].items():
        for population in dict.fromkeys(one["population"] for one in records):
            shares = {
                one["rows"]: f"{one['scores']['precision']:.2f}"
                for one in records
                if one["population"] == population
            }
            if shares.keys() & set(sizes):
                cells = [shares.get(rows, "") for rows in sizes]
                lines.append([f"`{preset}`", population, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def summarize_sizes(record: SizesRecord) -> str:
    """Returns the sentences of the README about the number of rows.

    Args:
        record: What was measured.
    """
    precision = [min(Preset.read(name).precision) for name in record["presets"]]
    rows = Preset.read("records").measured_rows
    return (
        f"Over {rows} of generated data of its kind, at least {min(precision):.0%} of the removals "
        f"of each\npreset were right "
        f"([each size](docs/contributing/benchmarks.md#presets-by-the-number-of-rows)). "
        "A run over more rows says that it is beyond that.\n"
        "Products, series and pages of one template resemble each other as copies do: read some of "
        "the removed rows."
    )


def sizes_section(record: SizesRecord, machine: str) -> str:
    """Returns the section of the page of benchmarks about the number of rows.

    Args:
        record: What was measured.
        machine: A sentence about the machine.
    """
    parts = [ABOUT + "\n" + describe_populations(), COLUMNS, machine]
    parts += [sizes_table(record["presets"]), LIMITS]
    return "\n" + "\n".join(part if part.endswith("\n") else f"{part}\n" for part in parts)
