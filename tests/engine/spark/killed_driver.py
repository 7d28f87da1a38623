"""Runs a command of nearkin over Spark, and ends the process as a kill does.

A program of its own, because a driver that is killed takes its session along:
`python -m tests.engine.spark.killed_driver FOLDER LOG POINT ARGUMENT...`. POINT is the number of
the file operation of the driver below FOLDER before which the process ends, or a pattern of paths
below FOLDER; the process then ends while Spark works, when such a path exists. LOG gets the number
of operations, as `tests.killing` writes it.
"""

import os
import sys
import threading
import time
from pathlib import Path

from nearkin.cli.app import run
from tests.killing import KILLED, Struck

NEVER = 1 << 40


def end_when_path_exists(folder: Path, pattern: str) -> None:
    """Ends the process when a path that matches a pattern exists."""
    while next(folder.glob(pattern), None) is None:
        time.sleep(0.002)
    os._exit(KILLED)


def main() -> None:
    """Runs the command, and writes the number of operations if it is not killed."""
    folder, log = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    point, *arguments = sys.argv[3:]
    struck = Struck(folder, int(point) if point.isdigit() else NEVER, log)
    struck.install()
    if not point.isdigit():
        threading.Thread(target=end_when_path_exists, args=(folder, point), daemon=True).start()
    struck.finish(run(arguments))


if __name__ == "__main__":
    main()
