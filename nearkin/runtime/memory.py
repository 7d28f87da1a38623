"""The peak memory of a run, measured by another process."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

INTERVAL = 0.02
"""The number of seconds between two samples."""
STATUS = Path("/proc/self/status")
SAMPLER = Path(__file__).with_name("memory_sampler.py")


def anonymous_bytes() -> int:
    """Returns the anonymous resident memory in bytes: heaps and stacks without mapped files.

    Without /proc, the result is the whole resident set.
    """
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    # only systems without /proc need it
    import psutil

    return int(psutil.Process(os.getpid()).memory_info().rss)


class PeakMemory:
    """A context manager that measures the peak anonymous memory of this process and its children.

    Another process takes the samples. A thread would wait for the interpreter lock while a single
    library call allocates and frees gigabytes. A thread is used only if there is no /proc or no
    process can be started.
    """

    def __init__(self) -> None:
        self._peak = 0
        self._sampler: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if STATUS.exists():
            self._sampler = _start_sampler()
        if self._sampler is None:
            self._thread = threading.Thread(target=self._sample, name="nearkin-memory", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._peak = self.peak
        if self._sampler is not None:
            self._sampler.communicate()
            self._sampler = None
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    @property
    def peak(self) -> int:
        """The peak memory in bytes so far."""
        self._peak = max(self._peak, anonymous_bytes())
        if self._sampler is not None:
            try:
                self._peak = max(self._peak, _read_peak(self._sampler))
            except (OSError, ValueError):  # the sampler was killed; earlier samples stay valid
                self._sampler.kill()
        return self._peak

    def _sample(self) -> None:
        while not self._stop.wait(INTERVAL):
            self._peak = max(self._peak, anonymous_bytes())


def _start_sampler() -> "subprocess.Popen[bytes] | None":
    line = [sys.executable, "-I", "-S", str(SAMPLER), str(os.getpid()), str(INTERVAL)]
    try:
        # In a separate session, the sampler is not stopped by Ctrl-C. It ends when its input ends.
        return subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError:
        return None


def _read_peak(sampler: "subprocess.Popen[bytes]") -> int:
    assert sampler.stdin is not None
    assert sampler.stdout is not None
    sampler.stdin.write(b"?\n")
    sampler.stdin.flush()
    return int(sampler.stdout.readline())
