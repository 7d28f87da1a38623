"""Runs text-dedup: its MinHash command with its own tuning.

The clusters are in its union-find file.
"""

import os
import pickle
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from shared import SLOTS, THRESHOLD, WORDS, clustered, write


def main(corpus: str, out: str, work: str) -> None:
    """Finds clusters in raw texts, and writes the pairs inside each cluster.

    Args:
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of pairs.
        work: Folder for temporary files.
    """
    options = {
        "path": "parquet",
        "data_files": f"{corpus}/*.parquet",
        "split": "train",
        "cache_dir": f"{work}/cache",
        "output": f"{work}/output",
        "column": "text",
        "idx_column": "id",
        "ngram": WORDS,
        "num_perm": SLOTS,
        "threshold": THRESHOLD,
        "num_proc": 2,
    }
    line = [sys.executable, "-m", "text_dedup.minhash", "--debug"]
    line += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    subprocess.run(line, check=True, env={**os.environ, "HF_HOME": f"{work}/home"})
    union = pickle.loads(Path(work, "output", "uf.pkl").read_bytes())  # the command above wrote it
    members = defaultdict(list)
    for name in list(union.parent):
        members[union.find(name)].append(name)
    write(out, clustered(members.values()))


main(*sys.argv[1:])
