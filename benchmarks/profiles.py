"""Profiles each workload: the CPU time of its stages, and the functions in which it is spent.

python -m benchmarks.profiles                          all workloads, 20,000 documents
python -m benchmarks.profiles --documents 400000       the size of the benchmarks
python -m benchmarks.profiles --workloads pairs index  some of them
python -m benchmarks.profiles --out profile.json       also writes the figures as JSON

Each workload runs in a process of its own, with warm kernels. docs/contributing/performance.md says
how to read the tables.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

INTERVAL = 0.005
"""The time between two samples, in seconds."""
TOP = 5
"""The number of functions that are listed for a stage."""
SMALL = 100
"""The number of documents of the workload that is mostly start-up."""
BATCH = 500
"""The number of documents that the index receives at once."""
PACKAGE = str(Path(__file__).parents[1] / "nearkin")
WAITING = ("threading.py", "queue.py", "selectors.py")
"""Files of functions in which a thread waits."""
LANGUAGES = {
    "english": (0x61, 26),
    "french": (0xE0, 24),
    "russian": (0x430, 32),
    "greek": (0x3B1, 25),
    "arabic": (0x628, 35),
    "hebrew": (0x5D0, 27),
    "hindi": (0x905, 48),
    "thai": (0xE01, 46),
    "korean": (0xAC00, 2000),
    "chinese": (0x4E00, 3000),
}
"""The first code point and the number of letters of the texts of a language."""


@dataclass
class StageProfile:
    """The cost of a stage.

    Attributes:
        name: Name of the stage.
        cpu: CPU time of all threads, user and system, in seconds.
        megabytes: Size of the texts of the stage in MB of UTF-8, or 0 for those of the workload.
        samples: Number of samples by function.
    """

    name: str
    cpu: float = 0.0
    megabytes: float = 0.0
    samples: dict[str, int] = field(default_factory=dict)

    def top_causes(self) -> list[tuple[str, float]]:
        """Returns the functions that were seen most, and their shares of the samples."""
        total = sum(self.samples.values())
        return [(name, count / total) for name, count in Counter(self.samples).most_common(TOP)]


@dataclass(frozen=True)
class WorkloadProfile:
    """The profile of a workload.

    Attributes:
        name: Name of the workload.
        megabytes: Size of the texts in MB of UTF-8.
        stages: Its stages in their order. The first one is the start of the process.
    """

    name: str
    megabytes: float
    stages: list[StageProfile]

    @property
    def cpu(self) -> float:
        """The CPU time of all stages, in seconds."""
        return sum(stage.cpu for stage in self.stages)

    def to_markdown(self) -> str:
        """Returns the profile as a table."""
        lines = [
            f"## {self.name}: {self.cpu:.2f} CPU s, {self.megabytes:,.1f} MB",
            "",
            "| stage | CPU s | ms/MB | top causes |",
            "| --- | --- | --- | --- |",
        ]
        for stage in self.stages:
            rate = 1000 * stage.cpu / (stage.megabytes or self.megabytes)
            causes = ", ".join(f"{name} {share:.0%}" for name, share in stage.top_causes())
            lines.append(f"| {stage.name} | {stage.cpu:.3f} | {rate:.2f} | {causes} |")
        return "\n".join([*lines, ""])


class StageSampler:
    """A receiver of progress updates that samples all threads, and measures the CPU time of stages.

    Kernels release the GIL, so a sample names the function of nearkin that called the kernel.
    """

    def __init__(self) -> None:
        self.stages = [StageProfile("start")]
        self._began = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stage(self, name: str, total: int | None = None) -> None:
        """Begins a stage.

        Args:
            name: Name of the stage.
            total: Number of documents, which is not used.
        """
        now = time.process_time()
        self.stages[-1].cpu += now - self._began
        self._began = now
        if self.stages[-1].name != name:
            self.stages.append(StageProfile(name))

    def advance(self, count: int) -> None:
        """Does nothing.

        Args:
            count: Number of documents.
        """

    def close(self) -> None:
        """Ends the last stage."""
        self.stage(self.stages[-1].name)
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        own = threading.get_ident()
        while not self._ended.wait(INTERVAL):
            samples = self.stages[-1].samples
            for identifier, frame in sys._current_frames().items():
                if identifier != own and (name := name_of_function(frame)):
                    samples[name] = samples.get(name, 0) + 1


def name_of_function(frame: FrameType) -> str:
    """Returns the innermost function of nearkin in a stack, or an empty string.

    Args:
        frame: Innermost frame of a thread. A thread that waits has no function.
    """
    if frame.f_code.co_filename.endswith(WAITING):
        return ""
    caller: FrameType | None = frame
    while caller is not None:
        path = caller.f_code.co_filename
        if path.startswith(PACKAGE):
            module = path.removeprefix(PACKAGE).removesuffix(".py").strip("/").replace("/", ".")
            return f"{module}.{caller.f_code.co_name}"
        caller = caller.f_back
    return ""


def profile_files(inputs: Path, out: Path, sampler: StageSampler) -> None:
    """Profiles `nearkin pairs` if the output is a file, and else `nearkin dedup`.

    Args:
        inputs: File or folder of documents.
        out: Output file or folder.
        sampler: Receives the stages.
    """
    from nearkin.corpus import Columns
    from nearkin.engine.options import RunOptions
    from nearkin.runs.dedup import run_dedup
    from nearkin.runs.job import Job
    from nearkin.runs.pairs import run_pairs
    from nearkin.runtime.loading import load_arrow_without_pandas

    load_arrow_without_pandas()
    job = Job((str(inputs),), out, Columns(id="id"), RunOptions())
    if out.suffix:
        run_pairs(job, sampler)
    else:
        run_dedup(job, sampler)


def profile_languages(folder: Path, sampler: StageSampler) -> None:
    """Profiles the sketching of texts of ten languages, each as a stage.

    Args:
        folder: Folder with a Parquet file for each language.
        sampler: Receives the stages.
    """
    import nearkin as nk

    for language in LANGUAGES:
        sampler.stage(f"read {language}")
        texts = read_texts(folder / f"{language}.parquet")
        nk.sketch(texts[:10])
        sampler.stage(language)
        sampler.stages[-1].megabytes = megabytes_of(texts)
        nk.sketch(texts)


def profile_index(inputs: Path, sampler: StageSampler) -> None:
    """Profiles upserts into an index in memory, in batches.

    Args:
        inputs: Folder of documents.
        sampler: Receives the stages.
    """
    import nearkin as nk

    texts = read_texts(inputs)
    with nk.Index.open("memory://", threshold=0.8) as index:
        index.upsert_many("warm", texts[:BATCH])
        sampler.stage("upsert")
        for first in range(0, len(texts), BATCH):
            index.upsert_many("profile", texts[first : first + BATCH])


def read_texts(path: Path) -> list[str]:
    """Returns the texts of a Parquet file, or of a folder of them."""
    import pyarrow.parquet as pq

    texts: list[str] = pq.read_table(path, columns=["text"])["text"].to_pylist()
    return texts


def megabytes_of(texts: list[str]) -> float:
    """Returns the size of texts in MB of UTF-8."""
    return sum(len(text.encode()) for text in texts) / 1e6


def write_inputs(folder: Path, documents: int) -> None:
    """Writes the inputs of all workloads.

    Args:
        folder: Folder for parquet files, a compressed file of JSON lines and a small file.
        documents: Number of documents.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from nearkin.quality.lab.synth import SynthSettings, synth

    synth(folder / "synth", SynthSettings(documents=documents, length="lognormal:1500:0.3"))
    (folder / "synth" / "documents").rename(folder / "parquet")
    table = pq.read_table(folder / "parquet", columns=["id", "text"])
    pq.write_table(table.slice(0, SMALL), folder / "small.parquet")
    with pa.CompressedOutputStream(str(folder / "docs.jsonl.zst"), "zstd") as stream:
        for row in table.to_pylist():
            stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    random = Random(1)
    for language, (first, letters) in LANGUAGES.items():
        alphabet = [chr(first + letter) for letter in range(letters)]
        words = ["".join(random.choices(alphabet, k=random.randint(2, 8))) for _ in range(2000)]
        texts = [" ".join(random.choices(words, k=200)) for _ in range(documents // len(LANGUAGES))]
        pq.write_table(pa.table({"text": texts}), folder / f"{language}.parquet")


@dataclass(frozen=True)
class Workload:
    """A workload.

    Attributes:
        run: Runs it over the folder of inputs.
        texts: Parquet file or folder of its texts, in the folder of inputs.
    """

    run: Callable[[Path, StageSampler], None]
    texts: str = "parquet"


WORKLOADS = {
    "pairs": Workload(
        lambda folder, sampler: profile_files(
            folder / "parquet", folder / "all-pairs.parquet", sampler
        )
    ),
    "dedup": Workload(
        lambda folder, sampler: profile_files(folder / "parquet", folder / "out", sampler)
    ),
    "jsonl.zst": Workload(
        lambda folder, sampler: profile_files(folder / "docs.jsonl.zst", folder / "out", sampler)
    ),
    "languages": Workload(profile_languages, texts=f"{next(iter(LANGUAGES))}.parquet"),
    "100 documents": Workload(
        lambda folder, sampler: profile_files(
            folder / "small.parquet", folder / "few-pairs.parquet", sampler
        ),
        texts="small.parquet",
    ),
    "index": Workload(lambda folder, sampler: profile_index(folder / "parquet", sampler)),
}


def run_workload(name: str, folder: Path) -> WorkloadProfile:
    """Profiles a workload in this process, which must be new.

    Args:
        name: Name of the workload.
        folder: Folder of the inputs and outputs.
    """
    workload = WORKLOADS[name]
    sampler = StageSampler()
    workload.run(folder, sampler)
    sampler.close()
    return WorkloadProfile(name, megabytes_of(read_texts(folder / workload.texts)), sampler.stages)


def profile_in_new_process(name: str, documents: int) -> WorkloadProfile:
    """Profiles a workload over new inputs, in a process of its own.

    Args:
        name: Name of the workload.
        documents: Number of documents.
    """
    with tempfile.TemporaryDirectory(prefix="nearkin-profile-") as folder:
        write_inputs(Path(folder), documents)
        line = [sys.executable, "-m", "benchmarks.profiles"]
        line += ["--workloads", name, "--inputs", folder]
        output = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout
    values = json.loads(output)
    stages = [StageProfile(**stage) for stage in values["stages"]]
    return WorkloadProfile(name, values["megabytes"], stages)


def main() -> None:
    """Runs the workloads and prints a table for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000, help="number of documents")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--out", type=Path, help="JSON file of the figures")
    parser.add_argument("--inputs", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inputs is not None:
        profile = run_workload(arguments.workloads[0], arguments.inputs)
        print(json.dumps(asdict(profile)))
        return
    profiles = []
    for name in arguments.workloads:
        # The first run compiles the kernels of the workload. The second one is the profile.
        profile_in_new_process(name, arguments.documents)
        profiles.append(profile_in_new_process(name, arguments.documents))
        print(profiles[-1].to_markdown(), flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps([asdict(profile) for profile in profiles], indent=1))


if __name__ == "__main__":
    main()
