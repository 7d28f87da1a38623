import subprocess
import sys

import pytest

import nearkin as nk


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("name", [name for name in nk.__all__ if name != "__version__"])
def test_public_names_exist(name: str) -> None:
    # a module has its whole name
    assert getattr(nk, name).__name__.removeprefix("nearkin.") == name


def test_functions_are_not_hidden_by_subpackages_of_their_name() -> None:
    shown = python(
        "import nearkin.sketch.minhash, nearkin.report.page, nearkin; "
        "print(callable(nearkin.sketch), callable(nearkin.report))"
    )
    assert shown == "True True\n"


def test_import_is_light() -> None:
    """Neither compiler nor Arrow is loaded before they are needed."""
    shown = python(
        "import sys, nearkin; print([m for m in ('numba', 'pyarrow', 'numpy', 'matplotlib', "
        "'rich') if m in sys.modules])"
    )
    assert shown == "[]\n"


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'dedupe'; valid names are .*dedup"):
        nk.dedupe  # noqa: B018
