"""Peak memory of the process, measured while it runs."""

import os
import threading
from pathlib import Path
from typing import Self

import psutil

INTERVAL = 0.05
STATUS = Path("/proc/self/status")


def anonymous_bytes() -> int:
    """Anonymous resident memory: heaps and stacks, not mapped files (the whole resident set where /proc is missing)."""
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return int(psutil.Process(os.getpid()).memory_info().rss)


class PeakMemory:
    """Samples anonymous memory in a thread between `with` and its end."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="nearkin-memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.peak = max(self.peak, anonymous_bytes())
        self.peak = max(self.peak, anonymous_bytes())
