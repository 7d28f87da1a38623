"""A script that samples the anonymous memory of a process and its children.

It answers each line of its input with the peak. It imports no module of nearkin and few of Python,
so that it starts in milliseconds and needs little memory.
"""

import os
import select
import sys

PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    """A process whose files in /proc stay open, because opening them takes most of the time."""

    def __init__(self, number: int) -> None:
        self._memory = os.open(f"/proc/{number}/statm", os.O_RDONLY)
        self._children: int | None
        try:
            self._children = os.open(f"/proc/{number}/task/{number}/children", os.O_RDONLY)
        except OSError:  # not every kernel lists children
            self._children = None

    def anonymous_bytes(self) -> int:
        """Returns the resident memory without files and shared memory (RssAnon), in bytes."""
        fields = os.pread(self._memory, 4096, 0).split()
        return (int(fields[1]) - int(fields[2])) * PAGE

    def children(self) -> list[int]:
        """Returns the ids of the child processes, without the sampler."""
        if self._children is None:
            return []
        listing = b""
        while part := os.pread(self._children, 4096, len(listing)):
            listing += part
        return [number for number in map(int, listing.split()) if number != os.getpid()]

    def close(self) -> None:
        """Closes the files."""
        os.close(self._memory)
        if self._children is not None:
            os.close(self._children)


def tree_bytes(process: Process) -> int:
    """Returns the anonymous memory of a process and its descendants, or 0 if it has ended."""
    try:
        size = process.anonymous_bytes()
        children = process.children()
    except (OSError, IndexError):
        return 0
    for number in children:
        try:
            child = Process(number)
        except OSError:
            continue
        size += tree_bytes(child)
        child.close()
    return size


def main(number: int, interval: float) -> None:
    """Samples a process until the input ends.

    Args:
        interval: Number of seconds between two samples.
    """
    try:
        process = Process(number)
    except OSError:
        return
    peak = 0
    while True:
        peak = max(peak, tree_bytes(process))
        if select.select([0], [], [], interval)[0]:
            requests = os.read(0, 4096)
            if not requests:
                return
            os.write(1, b"%d\n" % peak * requests.count(b"\n"))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
