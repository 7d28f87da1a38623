"""Every command is ended at its file operations, and resumed: the result is that of a run that
nobody disturbed.

The quick form takes some of the points of some commands, every other one as a power cut; the full
form takes all points of all commands, each of them as a kill and as a power cut.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.cli.app import run

BANDED = ["--bands", "16", "--rows", "4"]
CASES: dict[str, list[str]] = {
    "dedup": ["dedup", "DOCS", "--out", "OUT", "--id", "id", *BANDED],
    "small": ["dedup", "DOCS", "--out", "OUT"],
    "repeated-ids": ["dedup", "DOCS", "--out", "OUT", "--id", "source", *BANDED],
    "save-signatures": ["dedup", "DOCS", "--out", "OUT", "--save-signatures", *BANDED],
    "save-hashes": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--save-signatures",
        "--save-hashes",
        *BANDED,
    ],
    "max-df": ["dedup", "DOCS", "--out", "OUT", "--max-df", "0.2", *BANDED],
    "annotate-components": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--annotate",
        "--cluster",
        "components",
        "--max-df",
        "0.2",
        *BANDED,
    ],
    "simhash": ["dedup", "DOCS", "--out", "OUT", "--measure", "simhash", "--distance", "3"],
    "probes": ["dedup", "DOCS", "--out", "OUT", "--probes", "2", "--save-signatures", *BANDED],
    "estimate": ["dedup", "DOCS", "--out", "OUT", "--verify", "estimate", *BANDED],
    "then": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--second-measure",
        "cosine:vector:0.9",
        "--max-removed",
        "1",
        *BANDED,
    ],
    "hot": ["dedup", "DOCS", "--out", "OUT", "--hot-bucket-size", "4", *BANDED],
    "saved": ["dedup", "SAVED", "--out", "OUT", "--threshold", "0.9", "--save-signatures"],
    "against-files": ["dedup", "DOCS", "--out", "OUT", "--against", "OLD", *BANDED],
    "against-saved": ["dedup", "OLD", "--out", "OUT", "--against", "SAVED", *BANDED],
    "against-accept": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--against",
        "OLD",
        "--accept",
        "containment >= 0.9 and witness >= 10 and numbers_equal",
        *BANDED,
    ],
    "against-same": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--against",
        "OLD",
        "--same",
        "source",
        *BANDED,
    ],
    "purge": ["purge", "SAVED", "--like", "OLD", "--id", "id", "--out", "OUT"],
    "overwrite": ["dedup", "DOCS", "--out", "OUT", "--overwrite"],
    "pairs": ["pairs", "DOCS", "--out", "OUT", *BANDED],
    "pairs-expanded": ["pairs", "DOCS", "--out", "OUT", "--expand-exact"],
    "containment": ["pairs", "DOCS", "--out", "OUT", "--relation", "containment"],
    "pairs-of-saved": ["pairs", "SAVED", "--out", "OUT"],
    "accept": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--accept",
        "containment >= 0.9 and witness >= 10 and numbers_equal",
        "--max-removed",
        "source:1",
        *BANDED,
    ],
    "same": ["dedup", "DOCS", "--out", "OUT", "--same", "source", "--sizes"],
    "passages": ["passages", "DOCS", "--out", "OUT", "--min", "10", "--source", "source"],
    "cut": ["passages", "DOCS", "--out", "OUT", "--min", "10", "--cut", "passage"],
    "cut-documents": ["passages", "DOCS", "--out", "OUT", "--cut", "document:0.5", "--min", "10"],
    "cut-lines": ["passages", "DOCS", "--out", "OUT", "--repeated-lines", "2"],
    "dedup-cut": ["dedup", "DOCS", "--out", "OUT", "--threshold", "0.99", "--passages", "10"],
    "decontaminate": [
        "decontaminate",
        "DOCS",
        "--out",
        "OUT",
        "--against",
        "SUITE",
        "--action",
        "cut",
    ],
    "decontaminate-drop": [
        "decontaminate",
        "DOCS",
        "--out",
        "OUT",
        "--against",
        "SUITE",
        "--action",
        "drop",
    ],
    "decisions": ["dedup", "DOCS", "--out", "OUT", "--id", "id", "--decisions", "DECISIONS"],
    "fields": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--field",
        "text:jaccard>=0.8",
        "--field",
        "vector:cosine>=0.9",
        "--accept",
        "text or vector",
    ],
    "related": ["dedup", "DOCS", "--out", "OUT", "--threshold", "0.99", "--related", "0.5"],
    "related-against": [
        "dedup",
        "OLD",
        "--out",
        "OUT",
        "--against",
        "SAVED",
        "--threshold",
        "0.99",
        "--related",
        "0.5",
    ],
    "across": ["dedup", "DOCS", "--out", "OUT", "--across", "source", *BANDED],
    "weights": ["dedup", "DOCS", "--out", "OUT", "--document-weights", "sqrt", *BANDED],
    "kept-file": ["dedup", "DOCS", "--out", "OUT", *BANDED],
    "split": ["split", "DOCS", "--out", "OUT", "--groups", "0.8,0.2"],
}
RESTARTED: dict[str, list[str]] = {
    "sketch": ["sketch", "DOCS", "--out", "OUT", "--max-df", "0.2"],
    "merge": ["merge", "SKETCH", "SKETCH", "--out", "OUT"],
    "frequencies": ["frequencies", "DOCS", "--out", "OUT"],
}
"""Commands that are not resumed but started again."""
MADE: dict[str, list[str]] = {
    "kept-file": ["kept.parquet", "kept.parquet.run"],
    "sketch": ["out", "out.cut.arrow"],
}
"""The files and folders of commands that write more than one; the first is their output."""
QUICK = (
    "save-signatures",
    "annotate-components",
    "then",
    "overwrite",
    "containment",
    "cut",
    "decontaminate",
    "sketch",
    "merge",
)
"""Those of which the quick form takes some points; the full form takes all of all."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """900 documents in three files: exact and near duplicates, repeated sources, vectors.

    A saved run and signatures.
    """
    folder = tmp_path_factory.mktemp("kills")
    rng = np.random.default_rng(5)
    (folder / "docs").mkdir()
    words = np.array([f"word{i}" for i in range(400)])
    texts = [" ".join(rng.choice(words, 30)) for _ in range(600)]
    texts += [f"{text} and more" for text in texts[:200]] + texts[200:300]
    vectors = rng.normal(size=(300, 8)).astype(np.float32)
    for part in range(3):
        rows = slice(part * 300, part * 300 + 300)
        columns = {
            "id": [f"d{i}" for i in range(900)][rows],
            "text": [*texts[rows][:-1], None],
            "source": [f"s{i % 280}" for i in range(900)][rows],
            "vector": list(vectors),
        }
        pq.write_table(pa.table(columns), folder / "docs" / f"part-{part}.parquet")
    names = {
        "DOCS": str(folder / "docs"),
        "SAVED": str(folder / "saved"),
        "OLD": str(folder / "old.parquet"),
        "SKETCH": str(folder / "sketch.arrow"),
        "SUITE": str(folder / "suite.parquet"),
        "DECISIONS": str(folder / "decisions.jsonl"),
    }
    pq.write_table(pa.table({"question": texts[100:140]}), names["SUITE"])
    old = {
        "id": [f"o{i}" for i in range(300)],
        "text": [f"{text} too" for text in texts[500:800]],
        "source": [f"s{i}" for i in range(0, 600, 2)],
    }
    pq.write_table(pa.table(old), names["OLD"])
    decisions = [
        {"id_a": f"d{i}", "id_b": f"d{i + other}", "decision": decision}
        for i in range(0, 100, 10)
        for other, decision in ((600, "different"), (400, "same"))
    ]
    lines = "".join(json.dumps(decision) + "\n" for decision in decisions)
    Path(names["DECISIONS"]).write_text(lines)
    saved = ["dedup", names["DOCS"], "--out", names["SAVED"], "--save-signatures", *BANDED]
    assert run([*saved, "--quiet"]) == 0
    assert run(["sketch", names["DOCS"], "--out", names["SKETCH"], "--quiet"]) == 0
    return names


@pytest.fixture(scope="module")
def killing(tmp_path_factory: pytest.TempPathFactory) -> Iterator["subprocess.Popen[str]"]:
    """The program that kills commands: `tests.killing`."""
    errors = tmp_path_factory.mktemp("killing") / "errors"
    with (
        errors.open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tests.killing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        yield process
        process.communicate()
    assert process.returncode == 0, errors.read_text()


def run_kills(
    killing: "subprocess.Popen[str]", folder: Path, case: dict[str, Any]
) -> dict[str, Any]:
    assert killing.stdin is not None
    assert killing.stdout is not None
    killing.stdin.write(json.dumps({"folder": str(folder), **case}) + "\n")
    killing.stdin.flush()
    answer = killing.stdout.readline()
    assert answer, "the program has ended; its errors follow where the fixture ends"
    record: dict[str, Any] = json.loads(answer)
    return record


def kill_case(
    line: list[str], corpus: dict[str, str], again: list[list[str]], full: bool, **other: Any
) -> dict[str, Any]:
    points = {"points": None, "last": 0} if full else {"points": 3, "last": 1}
    return {"line": [corpus.get(word, word) for word in line], "again": again, **points, **other}


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in CASES],
)
def test_a_run_that_is_killed_anywhere_can_be_resumed(
    name: str,
    corpus: dict[str, str],
    killing: "subprocess.Popen[str]",
    tmp_path: Path,
    full: bool,
    record_property: Callable[[str, object], None],
) -> None:
    other: dict[str, Any] = {}
    if name == "overwrite":
        other["before"] = [corpus.get(word, word) for word in CASES["dedup"]]
    if name in MADE:
        other.update(out=MADE[name][0], made=MADE[name])
    again = [["--resume"], []] if name == "overwrite" else [["--resume"]]
    record = run_kills(killing, tmp_path, kill_case(CASES[name], corpus, again, full, **other))
    record_property("attempts", record["tried"])
    assert record["operations"] > 10
    assert record["failures"] == []


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in RESTARTED],
)
def test_a_killed_command_can_be_started_again(
    name: str,
    corpus: dict[str, str],
    killing: "subprocess.Popen[str]",
    tmp_path: Path,
    full: bool,
    record_property: Callable[[str, object], None],
) -> None:
    """The leftovers of a killed run do not prevent the next one."""
    made = MADE.get(name, ["out"])
    record = run_kills(
        killing, tmp_path, kill_case(RESTARTED[name], corpus, [["--overwrite"]], full, made=made)
    )
    record_property("attempts", record["tried"])
    assert record["failures"] == []
