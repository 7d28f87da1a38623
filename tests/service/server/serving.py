"""`nearkin serve` as a process that a test starts and ends."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services import free_port, start_serving

LINE = [sys.executable, "-m", "nearkin", "serve"]


@contextmanager
def server(
    folder: Path, *flags: str, scheme: str = "http"
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A running server and its process."""
    port = free_port()
    process = start_serving(
        folder,
        port,
        "--log-level",
        "info",
        "--source-rate",
        "1000000/second",
        *flags,
        scheme=scheme,
    )
    try:
        yield f"{scheme}://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(60)
