"""The versions that `nearkin --version` prints."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import numba
import pytest

from nearkin.cli.versions import (
    COMPILERS,
    VERSIONS,
    describe_compiled_kernels,
    describe_installed_kernels,
    describe_versions,
)
from nearkin.runtime.version import VERSION


def test_first_line_is_the_version_of_nearkin_alone() -> None:
    assert describe_versions().splitlines()[0] == f"nearkin {VERSION}"


def test_versions_of_libraries_are_those_that_are_imported() -> None:
    rows = [line.split(None, 1) for line in describe_versions().splitlines()]
    assert ["numba", numba.__version__] in rows


def test_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.cli.versions.LIBRARIES", ("no-such-library",))
    assert re.search(r"^no-such-library +not installed$", describe_versions(), re.MULTILINE)


def test_levels_of_installed_kernels_are_named(tmp_path: Path) -> None:
    assert describe_installed_kernels(tmp_path).startswith("none")
    (tmp_path / "x86-64-v3-0123456789abcdef").mkdir()
    versions = {name: version(name) for name in COMPILERS}
    (tmp_path / VERSIONS).write_text(json.dumps(versions))
    assert describe_installed_kernels(tmp_path) == "x86-64-v3"
    (tmp_path / VERSIONS).write_text(json.dumps({**versions, "numba": "0.1.0"}))
    expected = "x86-64-v3, not used, because they need numba 0.1.0"
    assert describe_installed_kernels(tmp_path) == expected


def test_compiled_kernels_are_counted(tmp_path: Path) -> None:
    assert "the first run compiles them" in describe_compiled_kernels(tmp_path)
    (tmp_path / "hash").mkdir()
    (tmp_path / "hash" / "kernel.1.nbc").write_bytes(bytes(300_000))
    (tmp_path / "hash" / "kernel.nbi").write_bytes(b"index")
    assert describe_compiled_kernels(tmp_path) == f"1 in {tmp_path} (0.3 MB)"
    assert "HOME" in describe_compiled_kernels(None)
