"""A script: samples the anonymous memory of a process and its children, and answers each line of its input with the peak.

It imports nothing of nearkin and little of Python, so that it starts in milliseconds and adds little to what it measures.
"""

import os
import select
import sys


def anonymous_bytes(process: int) -> int:
    """Returns RssAnon of a process in bytes, 0 if it has ended."""
    try:
        with open(f"/proc/{process}/status", "rb") as file:  # noqa: PTH123  (pathlib would double the time to start)
            for line in file:
                if line.startswith(b"RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def children(process: int) -> list[int]:
    """Returns the processes that a process has started, but for this one."""
    try:
        with open(f"/proc/{process}/task/{process}/children", "rb") as file:  # noqa: PTH123
            found = [int(number) for number in file.read().split()]
    except OSError:
        return []
    return [number for number in found if number != os.getpid()]


def tree_bytes(process: int) -> int:
    """Returns the anonymous memory of a process and everything below it."""
    return anonymous_bytes(process) + sum(tree_bytes(child) for child in children(process))


def main(process: int, interval: float) -> None:
    """Samples until the input ends."""
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
