"""What every suite shares: `--full` runs the full sizes."""

import pytest
from hypothesis import settings

# A kernel compiles at its first call, so the first example of a property takes as long as it takes.
settings.register_profile("nearkin", deadline=None, derandomize=True)
settings.load_profile("nearkin")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the full-size form of the suites")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        skip = pytest.mark.skip(reason="full-size form; run make test-full")
        for item in items:
            if "full" in item.keywords:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether this run wants full sizes."""
    return bool(request.config.getoption("--full"))
