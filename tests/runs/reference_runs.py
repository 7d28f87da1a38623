"""Runs of all kinds whose results are fixed: what a change of the structure must not change.

`python -m tests.runs.reference_runs FOLDER` makes all runs below a folder, and compares them with
the digests that the repository keeps. `--write` keeps those of these runs instead. To see what
differs, make the runs with both versions and compare their folders.
"""

import argparse
import contextlib
import gzip
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq

from nearkin.cli.app import run
from tests.killing import UNCOMPARED
from tests.runs.commands import BANDED, CASES, RESTARTED, make_corpus

DIGESTS = Path(__file__).with_suffix(".json")
RECORDED = ("counts", "parameters", "spec", "spec_fingerprint", "information_lost")
"""The parts of `run.json` that hold no times, sizes and paths."""
CLUSTERED = ["dedup", "GRADED", "--out", "OUT", "--id", "id"]
"""The beginning of a run over documents of many degrees of similarity."""
KEEP_POLICY = "most-complete, source:s1>s2, newest:date"
TWO_FIELDS = ["--field", "title:jaccard>=0.9", "--field", "fingerprint:hamming/64<=4"]
OTHER_CASES = {
    "graded": CLUSTERED,
    "components": [*CLUSTERED, "--cluster", "components", "--floor", "0.5"],
    "low-threshold": [*CLUSTERED, "--threshold", "0.5", *BANDED],
    "characters": [*CLUSTERED, "--shingle", "chars:5"],
    "normalized": [*CLUSTERED, "--normalise", "nfkc,lower,marks,symbols"],
    "stemmed": [*CLUSTERED, "--stem", "english"],
    "weighted-jaccard": [*CLUSTERED, "--measure", "weighted-jaccard"],
    "idf-jaccard": [*CLUSTERED, "--measure", "idf-jaccard"],
    "cosine": ["dedup", "DOCS", "--out", "OUT", "--vector", "vector", "--max-removed", "1"],
    "fingerprints": [
        *["dedup", "GRADED", "--out", "OUT", "--fingerprint", "fingerprint", "--distance", "3"],
        *["--max-removed", "1"],
    ],
    "slots-of-8-bits": [*CLUSTERED, "--slot-bits", "8", *BANDED],
    "keep-policy": [*CLUSTERED, "--keep", KEEP_POLICY],
    "keep-central": [*CLUSTERED, "--keep", "central"],
    "keep-two": [*CLUSTERED, "--keep-up-to", "2"],
    "safe": [*CLUSTERED, "--accept", "safe"],
    "blocks": [*CLUSTERED, "--block-by", "source"],
    "two-fields": [
        *CLUSTERED,
        *TWO_FIELDS,
        "--accept",
        "title or fingerprint",
        "--max-removed",
        "1",
    ],
    "preset-titles": [*CLUSTERED, "--preset", "titles", "--max-removed", "1"],
    "csv": ["dedup", "CSV", "--out", "OUT/kept.csv"],
    "json-lines": ["dedup", "JSON", "--out", "OUT"],
    "orc": ["dedup", "ORC", "--out", "OUT"],
    "feather": ["dedup", "FEATHER", "--out", "OUT", "--output", "ids"],
    "lines": ["dedup", "LINES", "--lines", "--out", "OUT"],
    "check": ["check", "OLD", "DOCS", "--out", "OUT/pairs.csv", "--max", "500"],
}
REFERENCE = {
    name: line
    for name, line in {**CASES, **RESTARTED, **OTHER_CASES}.items()
    if name != "overwrite"
}


def make_graded(folder: Path) -> dict[str, str]:
    """Makes documents of which many lack some words of another one, in several formats.

    Returns:
        The paths by the words that stand for them in the commands.
    """
    rng = np.random.default_rng(11)
    words = np.array([f"Wörd{i}" if i % 7 == 0 else f"term-{i}" for i in range(900)])
    rows = []
    for number in range(400):
        text = list(rng.choice(words, 40))
        for copy in range(number % 3 + 1):
            rows.append(
                {
                    "id": f"g{number}-{copy}",
                    "text": " ".join(text[copy * (number % 11) // 4 :]),
                    "title": " ".join(text[:6]) if copy < 2 else None,
                    "source": f"s{number % 5}",
                    "date": f"2024-0{1 + copy}-{1 + number % 28:02}",
                    "fingerprint": f"{(number * 0x9E3779B97F4A7C15 + (1 << copy)) % 2**64:016x}",
                }
            )
    order = rng.permutation(len(rows))
    table = pa.Table.from_pylist([rows[position] for position in order])
    names = {
        "GRADED": str(folder / "graded.parquet"),
        "CSV": str(folder / "graded.csv"),
        "JSON": str(folder / "graded.jsonl.gz"),
        "ORC": str(folder / "graded.orc"),
        "FEATHER": str(folder / "graded.feather"),
        "LINES": str(folder / "graded.txt"),
    }
    pq.write_table(table, names["GRADED"], row_group_size=300)
    pyarrow.csv.write_csv(table, names["CSV"])
    with gzip.open(names["JSON"], "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in table.to_pylist())
    pyarrow.orc.write_table(table, names["ORC"])
    pyarrow.feather.write_feather(table, names["FEATHER"])
    Path(names["LINES"]).write_text("\n".join(table["text"].to_pylist()), encoding="utf-8")
    return names


def digest_file(path: Path) -> str:
    """Returns a digest of what a file holds; that of a table does not depend on its writer."""
    if path.suffix == ".parquet":
        table = pq.read_table(path).replace_schema_metadata()
        content = f"{table.schema}\n{table.to_pylist()}".encode()
    elif path.suffix == ".orc":
        table = pyarrow.orc.read_table(path)
        content = f"{table.schema}\n{table.to_pylist()}".encode()
    elif path.suffix == ".gz":
        content = gzip.decompress(path.read_bytes())
    elif path.name == "run.json":
        record = json.loads(path.read_bytes())
        content = json.dumps({part: record.get(part) for part in RECORDED}).encode()
    else:
        content = path.read_bytes()
    return hashlib.sha256(content).hexdigest()[:16]


def make_runs(folder: Path, names: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Makes runs below an empty folder, and yields the digests of the files of each.

    The inputs are named by relative paths, which ids and results contain.
    """
    with contextlib.chdir(folder):
        inputs = Path("inputs")
        inputs.mkdir()
        paths = make_corpus(inputs) | make_graded(inputs)
        for name in names:
            out = Path("runs", name)
            out.parent.mkdir(exist_ok=True)
            words = paths | {
                "OUT": str(out),
                "OUT/kept.csv": f"{out}.csv",
                "OUT/pairs.csv": f"{out}.csv",
            }
            code = run([words.get(word, word) for word in REFERENCE[name]])
            files = {
                path.relative_to("runs").as_posix(): digest_file(path)
                for path in sorted(out.parent.rglob("*"))
                if path.is_file()
                and path.relative_to("runs").parts[0].startswith(name)
                and (path.name == "run.json" or path.name not in UNCOMPARED)
            }
            yield name, {"exit code": str(code), **files}


def read_digests() -> dict[str, dict[str, str]]:
    """Returns the digests that the repository keeps."""
    digests: dict[str, dict[str, str]] = json.loads(DIGESTS.read_text())
    return digests


def main() -> int:
    """Makes all runs; returns how many of them differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    made = dict(make_runs(folder, list(REFERENCE)))
    if arguments.write:
        DIGESTS.write_text(json.dumps(made, indent=1) + "\n")
        return 0
    kept = read_digests()
    different = [name for name in REFERENCE if made[name] != kept.get(name)]
    for name in different:
        files = sorted(
            file for file, _ in set(made[name].items()) ^ set(kept.get(name, {}).items())
        )
        sys.stdout.write(f"{name}: {', '.join(files)}\n")
    return len(different)


if __name__ == "__main__":
    raise SystemExit(main())
