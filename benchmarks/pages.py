"""Writes docs/contributing/benchmarks.md and the figures of the README from the recorded results.

The results are in benchmarks/figures.json, benchmarks/stages.json, benchmarks/readings.json,
benchmarks/reference.json, benchmarks/extend.json, benchmarks/peers.json, benchmarks/index.json,
benchmarks/quality.json and benchmarks/preset_sizes.json.

Run: python -m benchmarks.pages    (a test compares the pages with the records)
"""

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.quality.size_tables import (
    SizesRecord,
    precision_table,
    sizes_section,
    summarize_sizes,
)
from benchmarks.quality.tables import QualityRecord, quality_section, summarize_quality

HERE = Path(__file__).parent
ROOT = HERE.parent
READINGS = HERE / "readings.json"
REFERENCE = HERE / "reference.json"
EXTENSION = HERE / "extend.json"
PRESETS_PAGE = ROOT / "docs" / "contributing" / "measured-presets.md"
TARGETS = {
    "text to signatures, 1.5 kB ASCII": "≥ 350",
    "text to signatures, 15 kB ASCII": "≥ 600",
    "text to signatures, 1.5 kB non-ASCII": "≥ 80",
    "nearkin pairs, 400,000 documents of 1.5 kB": "< 6",
    "nearkin pairs, 400,000 documents of 1.5 kB: memory": "≤ 1.5",
    "nearkin dedup, 400,000 documents of 1.5 kB": "< 9",
    "nearkin dedup, 400,000 documents of 1.5 kB: memory": "≤ 2",
    "nearkin dedup --memory 4GB, 10,000,000 documents of 200 B: anonymous memory": "≤ 4.4",
    "import nearkin, over a bare Python": "< 0.15",
    "nearkin --help": "< 0.4",
    "nearkin pairs, 100 documents, warm: CPU time": "≤ 0.7",
    "nearkin dedup, 100 documents, warm": "< 2",
    "nearkin dedup, 100 documents, empty JIT cache": "< 20",
}
INDEX_LIMITS = """Of the time that a batch takes for a text of 500 B, about a fifth are shingles,
signature and band keys, a sixth buckets, and a twentieth the digest; the rest is Python. Over
SQLite, statements take as long as all the rest. A single upsert consists of about 300 calls of
Python, so that the goal of 60 µs is not reached. A document in `memory://` takes its text, a
signature of 512 bytes, 40 bytes for each of its 13 postings, and about 250 bytes for names, times
and objects.
"""
STAGES_NOTE = """Japanese, Chinese and Vietnamese have the shortest tokens (3.4 to 6 bytes). There,
hashes of tokens, shingles and slots take more than half of the time.
"""
HEADER = """# Benchmarks

This page has measured times, memory and accuracy of nearkin, and a comparison with other tools. The
scripts of `benchmarks/` write it, for example `python -m benchmarks.run --full --write`
(`make bench` for quick sizes). Figures are medians of the runs beside them, of whole processes with
a warm JIT cache unless the name says otherwise. *Goal* is the limit that the project set itself.
Corpora come from `nearkin lab synth` with seed 1.

"""


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table as Markdown, without a line break at the end."""
    all_rows = (columns, ["---"] * len(columns), *rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in all_rows)


def describe(machine: Mapping[str, Any]) -> str:
    """Returns a sentence about a machine."""
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("python", "numba", "numpy", "pyarrow")
    )
    return f"Machine: {machine['cores']} cores of {machine['processor']}; {versions}.\n"


def figures_table(record: dict[str, Any]) -> str:
    """Returns a table with a row for each result."""
    rows = ["| figure | median | runs | goal |", "| --- | --- | --- | --- |"]
    for result in record["figures"]:
        runs = ", ".join(f"{run:.3g}" for run in result["runs"])
        rows.append(
            f"| {result['name']} | **{result['value']:.3g}** {result['unit']} | {runs} | "
            f"{TARGETS.get(result['name'], '')} |"
        )
    return "\n".join(rows) + "\n"


def peers_table(record: dict[str, Any]) -> str:
    """Returns a table that compares nearkin with other tools."""
    own = record["systems"][0]["seconds"]
    rows = [
        "| system | version | wall s | times nearkin | CPU s | memory GB | recall | precision "
        "| candidates |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in record["systems"]:
        if "failed" in result:
            rows.append(
                f"| {result['name']} | {result.get('version', '')} | {result['failed']} "
                "| | | | | | |"
            )
            continue
        candidates = result.get("candidates")
        rows.append(
            f"| {result['name']} | {result['version']} | {result['seconds']:.1f} | "
            f"{result['seconds'] / own:.1f} | "
            f"{result['cpu']:.1f} | "
            f"{result['memory'] / 1e9:.2f} | {result['recall']:.3f} | {result['precision']:.3f} | "
            f"{'' if candidates is None else format(candidates, ',')} |"
        )
    return "\n".join(rows) + "\n"


def summarize_peers(record: Mapping[str, Any]) -> str:
    """Returns the table of measured tools with their versions for the README.

    Args:
        record: The content of benchmarks/peers.json.
    """
    columns = ("measured", "version", "wall seconds", "recall", "precision of reported pairs")
    rows = [
        (
            result["name"],
            result["version"],
            f"{result['seconds']:.1f}",
            f"{result['recall']:.3f}",
            f"{result['precision']:.3f}",
        )
        for result in record["systems"]
        if "failed" not in result
    ]
    return (
        f"{table_lines(columns, rows)}\n\n"
        "`make bench-peers` measured them over 400,000 documents, and the table above follows from "
        "the sources and\ndocumentation of these versions. "
        "[Benchmarks](docs/contributing/benchmarks.md#side-by-side) has the details and the "
        "machine."
    )


def summarize_figures(record: Mapping[str, Any]) -> str:
    """Returns the sentence with the figures of nearkin for the README.

    Args:
        record: The content of benchmarks/figures.json.
    """
    values = {result["name"]: result["value"] for result in record["figures"]}
    pairs, dedup = (
        values[f"nearkin {name}, 400,000 documents of 1.5 kB"] for name in ("pairs", "dedup")
    )
    return (
        f"Measured on {record['machine']['cores']} cores as whole processes "
        f"([benchmarks](docs/contributing/benchmarks.md)):"
        f"\n400,000 documents of 1.5 kB from parquet to all verified pairs in {pairs:.1f} s, "
        f"to kept files,\n"
        f"clusters and report in {dedup:.1f} s."
    )


def index_section(record: Mapping[str, Any]) -> str:
    """Returns the section about the online index, or nothing if its batches were not measured.

    Args:
        record: The content of benchmarks/index.json.
    """
    for table in record["tables"]:
        if table["name"] == "batches":
            rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
            lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
            return f"\n## Online index\n\n{table['note']}\n\n{lines}\n\n{INDEX_LIMITS}"
    return ""


def stages_section(record: dict[str, Any]) -> str:
    """Returns the section about single stages, with a table for each of them."""
    text = f"\n## Stages\n\n{describe(record['machine'])}\n{STAGES_NOTE}"
    for table in record["tables"]:
        lines = table_lines(table["columns"], table["rows"])
        text += f"\n{table['name'].capitalize()}. {table['note']}\n\n{lines}\n"
    return text


def readings_section(record: dict[str, Any]) -> str:
    """Returns the section about kept hashes, with a row for each mode and corpus."""
    rows = [
        "| corpus | text GB | mode | `--memory` | processor | CPU s | runs | MB/s per core "
        "| peak memory GB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for figure in record["figures"]:
        runs = ", ".join(f"{run:.1f}" for run in figure["cpu_runs"])
        rows.append(
            f"| {figure['corpus']} | {figure['text'] / 1e9:.2f} | {figure['mode']} | "
            f"{figure['memory']} | {figure['machine']['processor']} | **{figure['cpu']:.1f}** | "
            f"{runs} | {figure['text'] / 1e6 / figure['cpu']:.0f} | "
            f"{figure['peak_memory'] / 1e9:.2f} |"
        )
    table = "\n".join(rows)
    return f"""
## Reading once

`nearkin pairs` keeps [shingle hashes](../explanation/why-verify.md#what-it-costs) of the first
reading. Here it is compared with reading the texts of candidates again
(`python -m benchmarks.readings --full --write`). The pairs are equal byte for byte. Peak memory is
anonymous memory.

{table}
"""


def reference_section(record: dict[str, Any]) -> str:
    """Returns the section about references, with a row for each saved run."""
    rows = [
        "| new documents | reference | length | saved | saved GB | compared | alone | against | "
        "pass over the keys | ratio | ratio without the pass |",
        f"| {' | '.join(['---'] * 11)} |",
    ]
    for figure in record["figures"]:
        alone, against, key_pass = (
            statistics.median(figure[f"{name}_runs"]) for name in ("alone", "against", "pass")
        )
        saved = "signatures and hashes" if figure["hashes"] else "signatures"
        rows.append(
            f"| {figure['new']:,} | {figure['new'] * figure['times']:,} | {figure['length']} | "
            f"{saved} | {figure['saved_bytes'] / 1e9:.2f} | {figure['compared']:,} | {alone:.1f} | "
            f"{against:.1f} | {key_pass:.1f} | {against / alone:.2f} | "
            f"**{(against - key_pass) / alone:.2f}** |"
        )
    table = "\n".join(rows)
    first = record["figures"][0]
    load = max(figure["load"] for figure in record["figures"])
    return f"""
## Against a saved reference

New documents are deduplicated alone, and [against a saved
run](../how-to/against-what-you-have.md#sketch-the-reference-once), by
`python -m benchmarks.reference --write`. Figures are CPU seconds, medians of three runs. Without
saved hashes, the texts of the reference are read again. The pass over the keys is measured with 100
new documents that resemble no other. The goal for 1,000,000 against 10,000,000 documents, 1.5 times
the new documents alone plus that pass, is not reached. The load average was up to {load:.0f}.

{describe(first["machine"])}
{table}
"""


def extension_section(record: dict[str, Any]) -> str:
    """Returns the section about runs that extend a finished one."""
    rows = [
        "| documents | new | whole run | extended | share of the whole | with --stable | share |",
        f"| {' | '.join(['---'] * 7)} |",
    ]
    for figure in record["figures"]:
        whole, extended, stable = (
            statistics.median(figure[name]) for name in ("whole", "extended", "stable")
        )
        rows.append(
            f"| {figure['documents']:,} | {figure['share']:.0%} | {whole:.1f} | {extended:.1f} | "
            f"**{extended / whole:.0%}** | {stable:.1f} | **{stable / whole:.0%}** |"
        )
    table = "\n".join(rows)
    first = record["figures"][0]
    load = max(figure["load"] for figure in record["figures"])
    return f"""
## Extending a finished run

New documents [extend a finished run](../how-to/against-what-you-have.md#a-collection-that-grows),
which is compared with a run over all documents, by `python -m benchmarks.extend --write`. Figures
are CPU seconds of whole processes, medians of three runs. The goal, 10 % of the whole run for 1 %
of new documents, is not reached. About 4 seconds are the start of the program and the report, whose
samples have a fixed size. Most of the others are copies: of signatures and hashes, with their
checksums, and of `kept/`. A file is copied as it is if the same documents of it are kept, which is
frequent with `--stable`; the others are read and written again.
The load average was up to {load:.0f}.

{describe(first["machine"])}
{table}
"""


def formats_section(record: dict[str, Any]) -> str:
    """Returns the section about reading and copying files."""
    table = record["tables"][0]
    lines = table_lines(table["columns"], table["rows"])
    return (
        f"\n## Reading and copying files\n\n{table['note']}\n\n{describe(record['machine'])}\n"
        f"{lines}\n\n"
        "Parquet is limited by its codec: snappy alone takes 4.7 ms/MB to decompress and\n"
        "compress. `--codec none` saves the compression, and `--output ids` the copies.\n"
    )


def decontamination_section(record: dict[str, Any]) -> str:
    """Returns the section about the items of suites in a corpus."""
    text = f"\n## Decontamination\n\n{describe(record['machine']).strip()}\n"
    for table in record["tables"]:
        lines = table_lines(table["columns"], table["rows"])
        text += f"\n{table['note']}\n\n{lines}\n"
    return text


def mark_block(name: str, text: str) -> str:
    """Returns a text between the marks `<!-- name -->` and `<!-- /name -->`.

    Args:
        name: Name of the marks.
        text: The text, without a line break at its end.
    """
    return f"<!-- {name} -->\n{text}\n<!-- /{name} -->"


def replace_block(page: Path, name: str, text: str) -> None:
    """Replaces the text between the marks of a block of a page.

    Args:
        page: The page, which has both marks.
        name: Name of the marks.
        text: The text, without a line break at its end.
    """
    before, _, rest = page.read_text("utf-8").partition(f"<!-- {name} -->\n")
    _, _, after = rest.partition(f"<!-- /{name} -->")
    page.write_text(before + mark_block(name, text) + after, "utf-8")


def readme_blocks() -> dict[str, str]:
    """Returns the blocks of the README that follow from records, by the names of their marks."""
    quality: QualityRecord = _read("quality")
    sizes: SizesRecord = _read("preset_sizes")
    return {
        "figure": summarize_figures(_read("figures")),
        "quality": f"{summarize_quality(quality)}\n{summarize_sizes(sizes)}",
        "peers": summarize_peers(_read("peers")),
    }


def _read(name: str) -> Any:
    """Returns the content of a record."""
    return json.loads((HERE / f"{name}.json").read_text("utf-8"))


def mark_tables(text: str) -> str:
    """Returns a page with marks around its tables, which tell them from text that people write."""
    return re.sub(
        r"(?:^\|.*\n)+",
        lambda rows: mark_block("table", rows[0].rstrip("\n")) + "\n",
        text,
        flags=re.M,
    )


def benchmarks_page() -> str:
    """Returns the page of benchmarks."""
    figures = _read("figures")
    peers = _read("peers")
    quality: QualityRecord = _read("quality")
    sizes: SizesRecord = _read("preset_sizes")
    return mark_tables(
        f"{HEADER}{describe(figures['machine'])}\n{figures_table(figures)}"
        f"{stages_section(_read('stages'))}"
        f"{readings_section(_read('readings'))}"
        f"{reference_section(_read('reference'))}"
        f"{extension_section(_read('extend'))}"
        f"\n## Side by side\n\n{peers['about']}\n\n{describe(peers['machine'])}\n"
        f"{peers_table(peers)}"
        f"{index_section(_read('index'))}"
        f"{formats_section(_read('formats'))}"
        f"{decontamination_section(_read('decontamination'))}"
        f"{quality_section(quality, describe(quality['machine']))}"
        f"{sizes_section(sizes, describe(sizes['machine']))}"
        f"\n{(HERE / 'losses.md').read_text('utf-8')}"
    )


def write_pages() -> None:
    """Writes the page of benchmarks and the figures of the README."""
    (ROOT / "docs" / "contributing" / "benchmarks.md").write_text(benchmarks_page(), "utf-8")
    for name, text in readme_blocks().items():
        replace_block(ROOT / "README.md", name, text)
    replace_block(PRESETS_PAGE, "sizes", precision_table(_read("preset_sizes")))


if __name__ == "__main__":
    write_pages()
