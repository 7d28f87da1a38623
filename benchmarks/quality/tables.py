"""The tables of the page of benchmarks about quality, from benchmarks/quality.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypedDict

RECORD = Path(__file__).parents[1] / "quality.json"
OWN_METHODS = ("default", "preset", "asked", "fitted")
TEXT_TOOLS = ("datasketch", "rensa", "gaoya", "text-dedup")
RECORD_TOOLS = ("splink", "dedupe", "recordlinkage")
LEVELS = ("verbatim", "light", "heavy", "paraphrase")


class MethodRecord(TypedDict):
    """A method over a set."""

    scores: Mapping[str, float] | None
    settings: Sequence[str]
    levels: Sequence[float]
    failed: str


class SearchRecord(TypedDict):
    """The best F1 of all single measures over a set."""

    transferred: float
    best: float
    settings: Sequence[str]


class SetRecord(TypedDict):
    """A set with all that was measured over it."""

    name: str
    kind: str
    documents: int
    clusters: int
    methods: dict[str, MethodRecord]
    search: SearchRecord | None
    search_with_containment: SearchRecord | None
    found_pairs: tuple[int, int] | None


class QualityRecord(TypedDict):
    """The file of all measured sets."""

    machine: dict[str, Any]
    sets: list[SetRecord]


ABOUT = """How well the clusters agree with true ones, measured by `make bench-quality`
(`benchmarks/quality/`). The sets are made from seeds or found on the machine. Licence texts are
labelled by the words that `difflib` aligns in order, without the owners of the copyright. The other
labels are known from how the sets were made.

Each set is split at random into two halves of its clusters. Every method runs over each half alone,
and the tables show the mean of the two scores, so a small difference over one set says little.
*Fitted* settings, and dedupe, learn from the labels of the other half.

- **default**: `nearkin dedup` without options.
- **preset**: `--preset` of the kind of data. Its threshold is chosen for
  [large files](#presets-by-the-number-of-rows). These sets are small, and half of their documents
  are copies.
- **asked**: `nearkin fit --ask 50`, without labels: a simulated user answers 50 questions.
- **fitted**: `nearkin fit`, with the labels of the other half.
- **search**: the best single measure of an exhaustive search over the other half.
- **best**: the best single measure over the scored half itself, also with containment. It saw the
  labels, so it is a bound and not a score to expect.
- datasketch, rensa, gaoya and text-dedup: three words, threshold 0.8, as in the comparison above.
- splink and recordlinkage (no labels), and dedupe (100 pairs of duplicates, 200 others) compare
  fields. They do not apply to sets without fields.

In the sets of two sources (products and libraries), nearkin runs with `--across`. The scores are
explained in the [glossary](../glossary.md#evaluation). *CPU s* is the processor time for one half;
for *fitted*, that of the fit and of the run.
"""
NO_SCORE = ""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _score(record: SetRecord, method: str, name: str) -> float | None:
    """Returns a score of a method over a set, or None if it was not measured."""
    measured = record["methods"].get(method)
    if measured is None or measured["scores"] is None:
        return None
    return measured["scores"][name]


def _format(value: float | None) -> str:
    """Returns a score with two digits, or an empty cell."""
    return NO_SCORE if value is None else f"{value:.2f}"


def f1_table(sets: Sequence[SetRecord]) -> str:
    """Returns a table of F1 for all sets and methods, with the means of those of nearkin."""
    tools = (*TEXT_TOOLS, *RECORD_TOOLS)
    rows = []
    own_scores: list[list[float | None]] = []
    for record in sets:
        search = record["search"]
        every = record["search_with_containment"]
        own = [
            *(_score(record, method, "f1") for method in OWN_METHODS),
            search["transferred"] if search else None,
            every["best"] if every else None,
        ]
        own_scores.append(own)
        others = [_format(_score(record, tool, "f1")) for tool in tools]
        failed = [
            "fails" if tool in record["methods"] and record["methods"][tool]["failed"] else cell
            for tool, cell in zip(tools, others, strict=True)
        ]
        rows.append([record["name"], f"{record['documents']:,}", *map(_format, own), *failed])
    blank = [""] * len(tools)
    methods = len(OWN_METHODS)
    measured = [own[:methods] for own in own_scores if None not in own[:methods]]
    searched = [own for own in own_scores if None not in own]
    if measured and len(searched) < len(measured):
        rows.append([f"mean of {len(measured)} sets", "", *_mean_cells(measured), "", "", *blank])
    if searched:
        rows.append([f"mean of {len(searched)} searched sets", "", *_mean_cells(searched), *blank])
    return _table(["set", "documents", *OWN_METHODS, "search", "best", *tools], rows)


def _mean_cells(rows: Sequence[Sequence[float | None]]) -> list[str]:
    """Returns the mean of each column of rows without empty cells, in bold."""
    columns = zip(*rows, strict=True)
    return [
        f"**{fmean(value for value in column if value is not None):.2f}**" for column in columns
    ]


def summarize_quality(record: QualityRecord) -> str:
    """Returns the sentences of the README about the choice of settings, with the mean F1.

    Args:
        record: What was measured.
    """
    scores = [
        [_score(labelled, method, "f1") for method in OWN_METHODS] for labelled in record["sets"]
    ]
    measured = [row for row in scores if None not in row]
    default, preset, asked, fitted = _mean_cells(measured)
    return (
        "The defaults suit long texts with few changes. For short texts, a run "
        "[chooses settings](docs/explanation/doubtful-removals.md#a-choice-without-labels) by "
        "itself.\nTo decide them, choose a "
        "[preset](docs/how-to/settings-for-my-data.md#presets), or let\n`nearkin fit` "
        "[choose settings](docs/how-to/settings-for-my-data.md#fit-settings-to-labels) "
        "from labels or from your answers. Over "
        f"{len(measured)} labelled sets,\n"
        f"from records to web pages, the mean F1 of the clusters is {default} with the defaults, "
        f"{preset} with presets,\n{asked} with settings from 50 answers, and {fitted} with "
        "settings fitted to other labels "
        f"([each set](docs/contributing/benchmarks.md#quality-on-labelled-sets)).\n"
        "The presets are chosen for few wrong removals in large files, and miss copies with many "
        "changes in these small sets."
    )


def detail_table(sets: Sequence[SetRecord]) -> str:
    """Returns a table of all measures of the fitted settings."""
    rows = []
    for record in sets:
        fitted = record["methods"].get("fitted")
        if fitted is None or fitted["scores"] is None:
            continue
        scores = fitted["scores"]
        settings = " / ".join(dict.fromkeys(fitted["settings"]))
        names = ("precision", "recall", "f1", "rand", "b_cubed")
        rows.append(
            [
                record["name"],
                settings,
                *(_format(scores[name]) for name in names),
                f"{scores['cpu']:.1f}",
            ]
        )
    header = ["set", "fitted settings", "precision", "recall", "F1", "ARI", "B³", "CPU s"]
    return _table(header, rows)


def cost_table(sets: Sequence[SetRecord]) -> str:
    """Returns a table of the CPU time of all methods, and their mean ARI and B³."""
    rows = []
    for method in (*OWN_METHODS, *TEXT_TOOLS, *RECORD_TOOLS):
        measured = [
            record["methods"][method]["scores"]
            for record in sets
            if method in record["methods"] and record["methods"][method]["scores"]
        ]
        scores = [one for one in measured if one is not None]
        if not scores:
            continue
        means = [
            sum(one[name] for one in scores) / len(scores)
            for name in ("precision", "recall", "f1", "rand", "b_cubed")
        ]
        cpu = [one["cpu"] for one in scores]
        rows.append(
            [
                method,
                str(len(scores)),
                *map(_format, means),
                f"{sum(cpu) / len(cpu):.1f}",
                f"{max(cpu):.1f}",
            ]
        )
    header = ["method", "sets", "precision", "recall", "F1", "ARI", "B³", "CPU s", "most CPU s"]
    return _table(header, rows)


def order_methods(record: SetRecord) -> list[tuple[str, MethodRecord]]:
    """Returns the methods of a set, those of nearkin first."""
    tools = (*TEXT_TOOLS, *RECORD_TOOLS)
    return sorted(
        record["methods"].items(),
        key=lambda entry: (entry[0] in tools, entry[0] not in OWN_METHODS),
    )


def licence_table(record: SetRecord) -> str:
    """Returns a table of what methods do to the licence texts, which must not lose a licence."""
    rows = []
    for method, measured in order_methods(record):
        scores = measured["scores"]
        if scores:
            settings = " / ".join(one for one in dict.fromkeys(measured["settings"]) if one)
            rows.append(
                [
                    method,
                    settings,
                    f"{100 * scores['lost']:.1f} %",
                    f"{100 * scores['removed']:.0f} %",
                ]
            )
    return _table(["method", "settings", "licences lost", "redundancy removed"], rows)


def level_table(record: SetRecord) -> str:
    """Returns a table of the share of planted copies that are found, by their level."""
    rows = [
        [method, *(f"{share:.2f}" for share in measured["levels"])]
        for method, measured in order_methods(record)
        if measured["levels"]
    ]
    return _table(["method", *LEVELS], rows)


def quality_section(record: QualityRecord, machine: str) -> str:
    """Returns the section of the page of benchmarks about quality.

    Args:
        record: What was measured.
        machine: A sentence about the machine.
    """
    sets = record["sets"]
    by_name = {one["name"]: one for one in sets}
    parts = ["## Quality on labelled sets", ABOUT, machine, "F1 of the pairs inside clusters:"]
    parts += [f1_table(sets), "Fitted settings in detail, with those of both halves:"]
    parts += [
        detail_table(sets),
        "Means over the sets to which a method applies, with the CPU time of a half:",
    ]
    parts += [cost_table(sets)]
    licences = by_name.get("licence texts")
    if licences:
        parts += [
            "Licence texts: the share of licences of which no text is kept, and the share of "
            "redundant texts that are removed.",
            licence_table(licences),
        ]
        if licences["found_pairs"]:
            found, every = licences["found_pairs"]
            parts.append(
                f"`nearkin pairs` without options lists {found:,} of the {every:,} pairs of "
                f"licence texts at 0.8 and above ({100 * found / every:.1f} %).\n"
            )
    plagiarism = by_name.get("plagiarism")
    if plagiarism:
        parts += ["Share of the planted copies that are in the cluster of their original:"]
        parts += [level_table(plagiarism)]
    parts.append(LOSSES)
    return "\n" + "\n".join(part if part.endswith("\n") else f"{part}\n" for part in parts)


LOSSES = """### Where nearkin loses, and why

- **Records with many errors**: presets and 50 answers compare the joined text of all fields, in
  which relatives at one address share more than two copies with several errors. Fitted settings
  leave the address out.
- **Products**: models of one family differ in one digit, and both sources use other words.
- **Titles, headlines and libraries**: venues and added words change half of a short line.
- **The default** finds copies of long texts, and misses nearly all variants of short texts and of
  lines of logs, as do the tools with the same shingles.
- **Licence texts**: components of thousands of pairs reach a higher F1 than leaders. Read it with
  the table of lost licences: a threshold of 0.9 loses at most one in a hundred, and the objective
  `lost<=0.01` counts licences instead of pairs.
- **Logs with few templates, revisions of code**: a half has a dozen clusters, too few to choose
  from. `nearkin fit` warns of this.
- **Plagiarism**: a paraphrase shares few shingles of three words. Fitted settings use single words
  or short shingles of characters.
- **Answers instead of labels**: 50 answers leave the threshold uncertain; `nearkin fit --ask` says
  how much.
"""
