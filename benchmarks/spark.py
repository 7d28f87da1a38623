"""Measures the Spark engine: its growth, and a comparison with MLlib and with the local engine.

python -m benchmarks.spark                                   quick sizes, to the terminal
python -m benchmarks.spark --sizes 100000 1000000 4000000 --beside 400000 --mllib 100000 400000
--write

Whole processes run over local[2]. Memory is sampled over the process tree: the resident set of the
Java process, which is driver and worker here, and the sum of the Python workers. The script writes
spark.json and the tables of docs/explanation/spark.md.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from benchmarks.pages import describe
from benchmarks.tables import Table, write_page
from nearkin.quality.lab.measurements import describe_machine
from nearkin.quality.lab.synth import SynthSettings, synth

HERE = Path(__file__).parent
PAGE, RECORD = HERE.parent / "docs" / "explanation" / "spark.md", HERE / "spark.json"
HEAP = "3g"
MLLIB_SECONDS = 1200
MLLIB_RECALL = 0.995
"""The options of the engine in the comparison with MLlib."""
MLLIB_TABLES = 3
"""The number of hash tables of one hash each. P(candidate) at 0.8 is 1 − 0.2³ = 0.992."""


def corpus_of(documents: int, folder: Path, length: str, files: int = 8) -> Path:
    """Returns a synthetic corpus, which is generated once.

    Args:
        documents: Number of documents.
        folder: Folder of all corpora.
        length: Distribution of the lengths, as `SynthSettings` takes it.
        files: Number of files.
    """
    path = folder / f"{documents}-{length.replace(':', '-')}"
    if not (path / "truth.parquet").exists():
        synth(
            path,
            SynthSettings(
                documents=documents, length=length, similarity=(0.6, 1.0), files=files, seed=1
            ),
        )
    return path


class Watched:
    """A whole process: its time, its CPU time, its memory, and the load of the machine."""

    def __init__(self, line: list[str], limit: float) -> None:
        began, load = time.perf_counter(), os.getloadavg()[0]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.java = self.python = self.cpu = 0.0
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(process.pid, stop))
        watcher.start()
        try:
            self.out = process.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            for child in psutil.ProcessUsage(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            self.out = b""
        self.seconds = time.perf_counter() - began
        stop.set()
        watcher.join()
        self.code = process.wait()
        self.load = [round(load, 1), round(os.getloadavg()[0], 1)]

    def _watch(self, pid: int, stop: threading.Event) -> None:
        while not stop.wait(0.2):
            java = python = cpu = 0.0
            try:
                for process in [
                    psutil.ProcessUsage(pid),
                    *psutil.ProcessUsage(pid).children(recursive=True),
                ]:
                    times = process.cpu_times()
                    cpu += times.user + times.system + times.children_user + times.children_system
                    if "java" in process.name():
                        java += process.memory_info().rss
                    else:
                        python += process.memory_info().rss
            except psutil.Error:
                continue
            self.java = max(self.java, java)
            self.python = max(self.python, python)
            self.cpu = max(self.cpu, cpu)

    def facts(self) -> dict[str, Any]:
        """Returns the values in the form of the record."""
        memory = {"java_gb": round(self.java / 1e9, 2), "python_gb": round(self.python / 1e9, 2)}
        return {
            "seconds": round(self.seconds, 1),
            "cpu": round(self.cpu, 1),
            **memory,
            "load": self.load,
        }


def dedup(corpus: Path, out: Path, engine: str, recall: float = 0.95) -> dict[str, Any]:
    """Runs `nearkin dedup` with an engine.

    Args:
        corpus: Folder of the corpus.
        out: Output folder of the run.
        engine: `local` or `spark`.
        recall: Share of the pairs at the threshold that must be found, in (0, 1).

    Returns:
        The stages of run.json and the measured process.
    """
    line = [
        sys.executable,
        "-m",
        "nearkin",
        "dedup",
        str(corpus / "documents"),
        "--id",
        "id",
        "--out",
        str(out),
        "--overwrite",
    ]
    line += ["--recall", str(recall)]
    if engine == "spark":
        line += [
            "--engine",
            "spark",
            "--master",
            "local[2]",
            "--conf",
            f"spark.driver.memory={HEAP}",
        ]
        line += ["--conf", "spark.sql.shuffle.partitions=8"]
    watched = Watched(line, 7200)
    if watched.code:
        raise SystemExit(f"{' '.join(line)} failed")
    stages = json.loads((out / "run.json").read_bytes())["stages"]
    return {
        **watched.facts(),
        "stages": {name: facts["seconds"] for name, facts in stages.items()},
        "shuffle_gb": round(
            sum(facts.get("shuffle_bytes", 0) for facts in stages.values()) / 1e9, 3
        ),
        "recall": recall_of(
            pq.read_table(out / "pairs.parquet", columns=["id_a", "id_b"]),
            corpus,
            out / "clusters.parquet",
        ),
    }


def recall_of(pairs: Any, corpus: Path, clusters: Path | None = None) -> float:
    """Returns the share of the planted pairs at 0.8 or above that is listed, exact copies excluded.

    Args:
        pairs: Table of the columns id_a and id_b.
        corpus: Folder of the corpus with its truth.
        clusters: Clusters table of a run that lists one document of each exact group. Pairs of the
            other documents are not expected.
    """
    found = set(
        map(frozenset, zip(pairs["id_a"].to_pylist(), pairs["id_b"].to_pylist(), strict=True))
    )
    truth = pq.read_table(corpus / "truth.parquet").to_pylist()
    wanted = [
        frozenset((row["id_a"], row["id_b"])) for row in truth if 0.8 <= row["similarity"] < 1.0
    ]
    if clusters is not None:
        table = pq.read_table(clusters, columns=["id", "kept"])
        listed = {name for pair in found for name in pair} | set(
            table.filter(table["kept"])["id"].to_pylist()
        )
        wanted = [pair for pair in wanted if pair <= listed]
    return round(sum(pair in found for pair in wanted) / max(len(wanted), 1), 4)


def mllib(corpus: Path, out: Path) -> dict[str, Any]:
    """Runs MinHashLSH of MLlib on the same files in another process."""
    line = [sys.executable, "-m", "benchmarks.spark", "--run-mllib", str(corpus), str(out)]
    watched = Watched(line, MLLIB_SECONDS)
    if watched.code:
        return {**watched.facts(), "finished": False}
    pairs = pq.read_table(out).rename_columns(["id_a", "id_b"])
    return {**watched.facts(), "finished": True, "recall": recall_of(pairs, corpus)}


def run_mllib(corpus: str, out: str) -> None:
    """Finds pairs with MLlib: word 3-grams, sparse vectors and a join at distance 0.2."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import HashingTF, MinHashLSH, NGram, RegexTokenizer
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", HEAP)
    spark = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    documents = (
        spark.read.parquet(f"{corpus}/documents").where("text is not null").select("id", "text")
    )
    steps = [
        RegexTokenizer(inputCol="text", outputCol="words", pattern=r"\w+", gaps=False),
        NGram(inputCol="words", outputCol="grams", n=3),
        HashingTF(inputCol="grams", outputCol="features", numFeatures=1 << 20, binary=True),
    ]
    vectors = (
        Pipeline(stages=steps)
        .fit(documents)
        .transform(documents)
        .where(f.size("grams") > 0)
        .select("id", "features")
    )
    model = MinHashLSH(
        inputCol="features", outputCol="hashes", numHashTables=MLLIB_TABLES, seed=1
    ).fit(vectors)
    joined = model.approxSimilarityJoin(vectors, vectors, 0.2 + 1e-9).where(
        "datasetA.id < datasetB.id"
    )
    joined.select(
        f.col("datasetA.id").alias("id_a"), f.col("datasetB.id").alias("id_b")
    ).write.parquet(out)
    spark.stop()


def exponent(rows: list[dict[str, Any]]) -> float | None:
    """Returns the exponent of the growth of the time, between the two largest sizes.

    The start of Spark dominates smaller sizes.
    """
    if len(rows) < 2:
        return None
    first, last = rows[-2:]
    return round(
        math.log(last["seconds"] / first["seconds"])
        / math.log(last["documents"] / first["documents"]),
        3,
    )


def tables_of(record: dict[str, Any]) -> list[Table]:
    """Returns the tables of the page."""
    growth, beside = [], []
    for row in record["growth"]:
        each = round(1e6 * row["seconds"] / row["documents"])
        names = ("seconds", "cpu", "shuffle_gb", "java_gb", "python_gb", "recall")
        growth.append(
            (
                f"{row['documents']:,}",
                str(each),
                *(str(row[name]) for name in names),
                between(row["load"]),
            )
        )
    for row in record["beside"]:
        recall = str(row.get("recall", f"not finished in {MLLIB_SECONDS} s"))
        cells = [str(row[name]) for name in ("seconds", "cpu", "java_gb", "python_gb")]
        beside.append(
            (row["system"], f"{row['documents']:,}", *cells, recall, between(row["load"]))
        )
    grown = f"growth exponent of the wall time between the two largest sizes: {record['exponent']}"
    note = f"Documents of about 500 bytes, a heap of {HEAP}; {grown}."
    shown = (
        "documents",
        "µs a document",
        "wall s",
        "CPU s",
        "shuffle GB",
        "Java GB",
        "Python GB",
        "recall",
        "load",
    )
    sides = ("system", "documents", "wall s", "CPU s", "Java GB", "Python GB", "recall", "load")
    return [
        Table("growth", note, shown, growth),
        Table(
            "beside", f"Documents of 1.5 kB; MLlib with {MLLIB_TABLES} hash tables.", sides, beside
        ),
    ]


def between(load: list[float]) -> str:
    """Returns the load of the machine before and after."""
    return f"{load[0]}–{load[1]}"


def others(rows: list[dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of other sizes or systems."""
    return [
        other
        for other in rows
        if any(other.get(name) != row.get(name) for name in ("documents", "system"))
    ]


def show(record: dict[str, Any], to_page: bool) -> None:
    """Writes the record after each figure, because the run may be stopped."""
    tables = tables_of(record)
    for table in tables:
        print(table.markdown(), flush=True)
    if to_page:
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
        write_page(PAGE, tables, describe(record["machine"]))


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 20_000])
    parser.add_argument(
        "--beside",
        type=int,
        default=20_000,
        help="documents of 1.5 kB for both engines; 0 for none",
    )
    parser.add_argument(
        "--mllib",
        type=int,
        nargs="*",
        default=[5_000],
        help="documents of 1.5 kB for MLlib and the engine",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "nearkin-spark-bench"
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--run-mllib", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run_mllib:
        run_mllib(*asked.run_mllib)
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"growth": [], "exponent": None, "beside": []}
    if asked.write and RECORD.exists():
        # Sizes and systems that are not measured now keep their figures.
        record = json.loads(RECORD.read_bytes())
    record["machine"] = describe_machine()
    for size in asked.sizes:
        corpus = corpus_of(size, asked.folder, "lognormal:500:0.5")
        row = {"documents": size, **dedup(corpus, asked.folder / "out", "spark")}
        record["growth"] = sorted(
            [row, *others(record["growth"], row)], key=lambda row: int(row["documents"])
        )
        record["exponent"] = exponent(record["growth"])
        show(record, asked.write)
    for size, systems in [(asked.beside, ("local", "spark"))] * bool(asked.beside) + [
        (n, ("mllib", "spark")) for n in asked.mllib
    ]:
        corpus = corpus_of(size, asked.folder, "fixed:1500")
        for system in systems:
            out = asked.folder / f"{system}-{size}-{time.time():.0f}"
            # beside MLlib at no less than its recall
            recall = MLLIB_RECALL if "mllib" in systems else 0.95
            facts = (
                mllib(corpus, out)
                if system == "mllib"
                else dedup(corpus, asked.folder / "out", system, recall)
            )
            named = (
                f"spark, recall {MLLIB_RECALL} asked"
                if system == "spark" and "mllib" in systems
                else system
            )
            row = {"system": named, "documents": size, **facts}
            record["beside"] = [*others(record["beside"], row), row]
            show(record, asked.write)


if __name__ == "__main__":
    main()
