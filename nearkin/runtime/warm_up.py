"""Preparation of all kernels before anybody waits for one: on a machine, in an image, in a service.

A process compiles one kernel at a time, so several processes compile the kernels of the list.
They store the machine code in the cache, from which this process loads it.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.kernel_list import ALL, USES, ListedKernel, list_kernels
from nearkin.runtime.process_limits import available_cores
from nearkin.runtime.progress import Progress, Silent
from nearkin.runtime.threads import require_workers

STAGE = "kernels"
ANSWER = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from nearkin.runtime.warm_up import answer_requests; answer_requests()"
)
"""The code of a process that compiles kernels. It imports modules from where this one does."""


class WarmUp(NamedTuple):
    """The numbers of kernels that `warm_up` has prepared.

    Examples:
        >>> print(WarmUp(kernels=120, compiled=0, seconds=1.4))
        120 kernels are ready; none had to be compiled (1.4 s)
    """

    kernels: int
    """Number of kernels that are ready."""
    compiled: int
    """Number of kernels that were compiled, because they were neither installed nor in the
    cache."""
    seconds: float
    """Wall-clock time in seconds."""

    def __str__(self) -> str:
        compiled = f"{self.compiled:,} of them were" if self.compiled else "none had to be"
        return f"{self.kernels:,} kernels are ready; {compiled} compiled ({self.seconds:,.1f} s)"


@check_arguments
def warm_up(
    use: str = ALL, *, workers: int | None = None, progress: Progress | None = None
) -> WarmUp:
    """Loads the kernels of nearkin into this process, and compiles those that are missing.

    A process that has called it never waits for a compiler, for example a web application before
    its first request. Machine code that is compiled is kept in the cache of this machine, so the
    next call takes a second or two.

    Args:
        use: What is prepared: `dedup` for runs over files and data, `index` for online indexes, or
            `all`.
        workers: Maximum number of processes that compile. By default, and at most, the number of
            cores.
        progress: Receives the number of kernels that are done and the total. Silent by default.

    Returns:
        The numbers of kernels, and the time.

    Raises:
        UsageError: If `use` is unknown, or `workers` is not positive.

    Examples:
        >>> import nearkin as nk
        >>> warmed = nk.warm_up("index")
        >>> warmed.kernels > 0
        True
    """
    if use not in USES:
        raise UsageError(f"unknown use {use!r}; valid uses are {', '.join(USES)}")
    cores = available_cores()
    processes = cores if workers is None else workers
    require_workers(processes)
    began = time.perf_counter()
    display = Silent() if progress is None else progress
    kernels = list_kernels(use)
    display.stage(STAGE, len(kernels))
    missing = [kernel for kernel in kernels if not kernel.is_compiled]
    display.advance(len(kernels) - len(missing))
    left = _compile_in_processes(missing, min(processes, cores, len(missing)), display)
    for kernel in kernels:
        kernel.load()
    display.advance(left)
    return WarmUp(len(kernels), len(missing), time.perf_counter() - began)


def _compile_in_processes(kernels: list[ListedKernel], processes: int, display: Progress) -> int:
    """Compiles kernels into the cache, and returns how many of them are left for this process."""
    if processes < 2:
        return len(kernels)
    queue: SimpleQueue[ListedKernel] = SimpleQueue()
    for kernel in kernels:
        queue.put(kernel)
    with ThreadPoolExecutor(processes, "nearkin") as pool:
        done = pool.map(lambda _: _feed_process(queue, display), range(processes))
        return len(kernels) - sum(done)


def _feed_process(queue: "SimpleQueue[ListedKernel]", display: Progress) -> int:
    """Lets a new process compile kernels of a queue, and returns how many it has compiled.

    A process that cannot start, or that ends, leaves its kernels to the others.
    """
    done = 0
    with suppress(OSError, Empty), _start_process() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            kernel = queue.get_nowait()
            process.stdin.write(f"{kernel.name}\t{kernel.types}\n")
            process.stdin.flush()
            if not process.stdout.readline():
                break
            display.advance(1)
            done += 1
    return done


def _start_process() -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", ANSWER, *sys.path]
    pipe = subprocess.PIPE
    # its kernels are compiled by others if it fails, so nobody needs its messages
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, bufsize=1
    )


def answer_requests() -> None:
    """Compiles the kernels that are named on standard input, and confirms each of them."""
    for line in sys.stdin:
        name, _, types = line.rstrip("\n").partition("\t")
        ListedKernel(name, types).load()
        sys.stdout.write("\n")
        sys.stdout.flush()
