"""Commands of all kinds over one small corpus, for tests that repeat, kill or compare them."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.cli.app import run

NO_LIMIT = ["--max-removed", "1"]
"""Lets a run remove most of its documents."""
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
    "merge-fields": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--merge-fields",
        "source:union, vector:first-non-empty",
        "--merge-sources",
        *BANDED,
    ],
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
    "against-files": ["dedup", "DOCS", "--out", "OUT", "--against", "OLD", *NO_LIMIT, *BANDED],
    "against-saved": ["dedup", "OLD", "--out", "OUT", "--against", "SAVED", *NO_LIMIT, *BANDED],
    "against-accept": [
        "dedup",
        "DOCS",
        "--out",
        "OUT",
        "--against",
        "OLD",
        "--accept",
        "containment >= 0.9 and witness >= 10 and numbers_equal",
        *NO_LIMIT,
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
    "extend": ["dedup", "NEW", "--extend", "GROWING", "--removed", "WITHDRAWN", "--out", "OUT"],
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
        *NO_LIMIT,
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
    "sketch": ["lab", "sketch", "DOCS", "--out", "OUT", "--max-df", "0.2"],
    "merge": ["lab", "merge", "SKETCH", "SKETCH", "--out", "OUT"],
    "frequencies": ["lab", "frequencies", "DOCS", "--out", "OUT"],
}
"""Commands that are not resumed but started again."""
MADE: dict[str, list[str]] = {
    "kept-file": ["kept.parquet", "kept.parquet.run"],
    "sketch": ["out", "out.cut.arrow"],
}
"""The files and folders of commands that write more than one; the first is their output."""


def make_corpus(folder: Path) -> dict[str, str]:
    """Makes 900 documents in three files: exact and near duplicates, repeated sources, vectors.

    Makes a reference, a suite, decisions, a saved run and signatures, too.

    Returns:
        The paths by the words that stand for them in the commands.
    """
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
        "GROWING": str(folder / "growing"),
        "NEW": str(folder / "new.parquet"),
        "WITHDRAWN": str(folder / "withdrawn.txt"),
    }
    pq.write_table(pa.table({"question": texts[100:140]}), names["SUITE"])
    old = {
        "id": [f"o{i}" for i in range(300)],
        "text": [f"{text} too" for text in texts[500:800]],
        "source": [f"s{i}" for i in range(0, 600, 2)],
    }
    pq.write_table(pa.table(old), names["OLD"])
    new = {
        "id": [f"d{i}" for i in range(880, 940)],
        "text": [f"{text} again" for text in texts[400:460]],
        "source": ["new"] * 60,
    }
    pq.write_table(pa.table(new), names["NEW"])
    Path(names["WITHDRAWN"]).write_text("".join(f"d{i}\n" for i in range(0, 600, 40)))
    decisions = [
        {"id_a": f"d{i}", "id_b": f"d{i + other}", "decision": decision}
        for i in range(0, 100, 10)
        for other, decision in ((600, "different"), (400, "same"))
    ]
    lines = "".join(json.dumps(decision) + "\n" for decision in decisions)
    Path(names["DECISIONS"]).write_text(lines)
    saved = ["dedup", names["DOCS"], "--out", names["SAVED"], "--save-signatures", *BANDED]
    assert run([*saved, "--quiet"]) == 0
    growing = [names["GROWING"] if word == names["SAVED"] else word for word in saved]
    assert run([*growing, "--id", "id", "--save-hashes", "--quiet"]) == 0
    assert run(["lab", "sketch", names["DOCS"], "--out", names["SKETCH"], "--quiet"]) == 0
    return names
