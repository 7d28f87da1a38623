"""A script: samples the anonymous memory of a process and its children, and answers each line of its input with the peak.

It imports nothing of nearkin and little of Python, so that it starts in milliseconds and adds little to what it measures.
"""

import os
import select
import sys

PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    """A process whose files in /proc stay open, because opening them is most of the work of a sample.

    Raises:
        OSError: If the process has ended.
    """

    def __init__(self, number: int) -> None:
        self._memory = os.open(f"/proc/{number}/statm", os.O_RDONLY)
        self._children: int | None
        try:
            self._children = os.open(f"/proc/{number}/task/{number}/children", os.O_RDONLY)
        except OSError:  # not every kernel lists children
            self._children = None

    def anonymous_bytes(self) -> int:
        """Returns RssAnon in bytes: the resident pages without those of files and of shared memory."""
        fields = os.pread(self._memory, 4096, 0).split()
        return (int(fields[1]) - int(fields[2])) * PAGE

    def children(self) -> list[int]:
        """Returns the numbers of the processes that this one has started, without the sampler."""
        if self._children is None:
            return []
        found = b""
        while part := os.pread(self._children, 4096, len(found)):
            found += part
        return [number for number in map(int, found.split()) if number != os.getpid()]

    def close(self) -> None:
        """Closes the files."""
        os.close(self._memory)
        if self._children is not None:
            os.close(self._children)


def tree_bytes(process: Process) -> int:
    """Returns the anonymous memory of a process and everything below it; 0 if the process has ended."""
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
    """Samples until the input ends."""
    try:
        process = Process(number)
    except OSError:
        return
    peak = 0
    while True:
        peak = max(peak, tree_bytes(process))
        if select.select([0], [], [], interval)[0]:
            asked = os.read(0, 4096)
            if not asked:
                return
            os.write(1, b"%d\n" % peak * asked.count(b"\n"))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
