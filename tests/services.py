"""Programs that some tests need besides Python: found, or their tests are skipped, or failed where they are required."""

import os
import shutil

import pytest

REQUIRE = "NEARKIN_REQUIRE_SERVICES"


def program(*names: str) -> str:
    """The path of the first of some programs that is installed."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        reason = f"{names[0]} is not installed (scripts/services.sh does that)"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, and {REQUIRE}=1")
        pytest.skip(reason)
    return found
