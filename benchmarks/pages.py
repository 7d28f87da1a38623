"""docs/reference/benchmarks.md and the README's figure, written from benchmarks/figures.json and benchmarks/peers.json."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
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
    "nearkin dedup, 100 documents, warm": "< 2",
    "nearkin dedup, 100 documents, empty JIT cache": "< 20",
}
HEADER = """# Benchmarks

This page has measured times, memory and accuracy of nearkin, and a comparison with other tools. It is written by
`python -m benchmarks.run --full --write` (`make bench` for quick sizes) and `make bench-peers`. Figures are medians of the runs
beside them. They are those of whole processes with a warm JIT cache, unless the name says otherwise. Corpora come from
`nearkin synth` with seed 1.

"""


def described(machine: dict[str, Any]) -> str:
    """One sentence."""
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", "numba", "numpy", "pyarrow"))
    return f"Machine: {machine['cores']} cores of {machine['processor']}; {versions}.\n"


def figures_table(record: dict[str, Any]) -> str:
    """A row for each figure."""
    rows = ["| figure | median | runs | goal |", "| --- | --- | --- | --- |"]
    for one in record["figures"]:
        runs = ", ".join(f"{run:.3g}" for run in one["runs"])
        rows.append(f"| {one['name']} | **{one['value']:.3g}** {one['unit']} | {runs} | {TARGETS.get(one['name'], '')} |")
    return "\n".join(rows) + "\n"


def peers_table(record: dict[str, Any]) -> str:
    """Side by side."""
    own = record["systems"][0]["seconds"]
    rows = [
        "| system | version | wall s | times nearkin | CPU s | memory GB | recall | precision |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in record["systems"]:
        if "failed" in one:
            rows.append(f"| {one['name']} | {one.get('version', '')} | {one['failed']} | | | | | |")
            continue
        rows.append(
            f"| {one['name']} | {one['version']} | {one['seconds']:.1f} | {one['seconds'] / own:.1f} | {one['cpu']:.1f} | "
            f"{one['memory'] / 1e9:.2f} | {one['recall']:.3f} | {one['precision']:.3f} |"
        )
    return "\n".join(rows) + "\n"


def write_pages() -> None:
    """Both pages."""
    text = HEADER
    figures = json.loads((HERE / "figures.json").read_text("utf-8"))
    text += described(figures["machine"]) + "\n" + figures_table(figures)
    peers = HERE / "peers.json"
    if peers.exists():
        record = json.loads(peers.read_text("utf-8"))
        text += f"\n## Side by side\n\n{record['about']}\n\n{described(record['machine'])}\n{peers_table(record)}"
    (ROOT / "docs" / "reference" / "benchmarks.md").write_text(text, "utf-8")
    values = {one["name"]: one["value"] for one in figures["figures"]}
    pairs, dedup = (values.get(f"nearkin {name}, 400,000 documents of 1.5 kB") for name in ("pairs", "dedup"))
    if pairs and dedup:
        figure = (
            f"Measured on {figures['machine']['cores']} cores as whole processes ([benchmarks](docs/reference/benchmarks.md)):"
            f"\n400,000 documents of 1.5 kB from parquet to all verified pairs in {pairs:.1f} s, to kept files,\n"
            f"clusters and report in {dedup:.1f} s."
        )
        page = (ROOT / "README.md").read_text("utf-8")
        before, _, rest = page.partition("<!-- figure -->\n")
        _, _, after = rest.partition("<!-- /figure -->")
        (ROOT / "README.md").write_text(f"{before}<!-- figure -->\n{figure}\n<!-- /figure -->{after}", "utf-8")


if __name__ == "__main__":
    write_pages()
