"""Fixtures of all suites: options of pytest, and a browser."""

import gc
import logging
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from nearkin.runtime.compilation import COMPILATION
from tests.services import log_tails, program

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from xdist.scheduler import LoadFileScheduling

# A kernel compiles at its first call, so the first example of a property takes as long as it takes.
settings.register_profile("nearkin", deadline=None, derandomize=True)
settings.load_profile("nearkin")


PATIENCE = 300_000
"""Milliseconds that a browser waits for an element; only a failing test waits that long."""


SPARK_TESTS = "tests/spark/"
"""The folder whose files share a Spark session, which takes ten seconds to start."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadFileScheduling | None":
    """Gives whole files to a worker, and all files with Spark to the same one."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SPARK_TESTS if nodeid.startswith(SPARK_TESTS) else super()._split_scope(nodeid)

    return Scheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the full-size form of the suites")
    parser.addoption(
        "--points",
        type=int,
        help="with --full, kill each command at this many of its file operations (default: all)",
    )
    parser.addoption("--seed", type=int, help="run the random tests with this seed alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        skip = pytest.mark.skip(reason="full-size form; run make test-full")
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hides modules and collected tests from the garbage collector.

    They live as long as the process. While they grow, every full collection would visit them all
    again, which takes a third of the collection of tests; later, each `gc.collect` of a test would.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Lets the interpreter collect at its end what libraries would report as leaked."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the ends of the logs of servers to the report of a test that fails."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {server}", tail) for server, tail in log_tails()]
    return report


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Returns whether the suites run at full size."""
    return bool(request.config.getoption("--full"))


@pytest.fixture
def restored_process() -> Iterator[None]:
    """Restores the logging and the umask, which `nearkin serve` sets for its whole process.

    Its log handler would write to a stream of this test during later tests.
    """
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    listener = COMPILATION.listener
    umask = os.umask(0o077)
    os.umask(umask)
    yield
    os.umask(umask)
    COMPILATION.listener = listener
    root.setLevel(level)
    root.handlers[:] = handlers


# of a module: as long as it runs, its thread has an event loop, which others could not have
@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    path = program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
