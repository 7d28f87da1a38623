"""The memory of other processes, read from /proc."""

from pathlib import Path

import psutil


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Returns the descendants of a process, or none if it has ended."""
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def anonymous_bytes_of(process: int) -> int:
    """Returns the anonymous memory of a process in bytes, or 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
