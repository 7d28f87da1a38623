"""Reads or deduplicates one file, and prints the CPU and wall seconds as JSON.

python benchmarks/format_task.py read FILE
python benchmarks/format_task.py dedup FILE OUT OPTION...

It imports the nearkin that PYTHONPATH names, so that benchmarks.formats can measure two versions.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path


def read(path: str) -> None:
    """Reads the documents of a file.

    Args:
        path: The file.
    """
    from nearkin.corpus import Columns, FileCorpus

    for _ in FileCorpus.open([path]).read_slices(0, Columns()):
        pass


def cpu_seconds(who: int) -> float:
    """Returns the user and system seconds of this process or of its children.

    Args:
        who: `resource.RUSAGE_SELF` or `resource.RUSAGE_CHILDREN`.
    """
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Runs the task that the command line names."""
    task, path, *rest = sys.argv[1:]
    who = resource.RUSAGE_CHILDREN
    if task == "read":
        # The imports are not a part of reading.
        import nearkin.corpus  # noqa: F401

        who = resource.RUSAGE_SELF
    cpu, wall = cpu_seconds(who), time.perf_counter()
    if task == "read":
        read(path)
    else:
        out, *options = rest
        command = [sys.executable, "-m", "nearkin", "dedup", path, "--out", out, "--quiet"]
        subprocess.run([*command, *options], check=True, capture_output=True, cwd=Path(path).parent)
    print(json.dumps([cpu_seconds(who) - cpu, time.perf_counter() - wall]))


if __name__ == "__main__":
    main()
