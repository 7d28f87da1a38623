"""Collects doctests of the modules that have some: pytest would import and search every module."""

from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leaves out the doctests of a file without examples."""
    collectors = yield
    if not collectors or b">>>" in file_path.read_bytes():
        return collectors
    return [collector for collector in collectors if type(collector) is pytest.Module]
