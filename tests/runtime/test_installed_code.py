"""Tests of machine code that is installed with nearkin: when it is used, and when it is not."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from numba.core import config, types

import nearkin
from nearkin.runtime import installed_code
from nearkin.runtime.installed_code import (
    LEVELS,
    V2,
    V3,
    describe_types,
    find_installed_code,
    read_machine_code,
)
from nearkin.runtime.jit import source_hash
from nearkin.runtime.kernel_list import LIST
from tests.runtime.test_compilation import cut, flip
from tests.runtime.test_jit import DRAWN

ROOT = Path(nearkin.__file__).parents[1]
DRAW = (
    "from numpy import uint64; from nearkin.quality.lab.kernels import start_stream; "
    "from nearkin.runtime.compilation import COMPILATION; "
    "print(start_stream(uint64(1), uint64(2), uint64(3))); print(COMPILATION.compiled)"
)
"""Code that calls a small kernel, and prints how many kernels were compiled."""
ONE_KERNEL = '{"nearkin.quality.lab.kernels.start_stream": {"uint64, uint64, uint64": ["dedup"]}}'
INSTALLED = f"{DRAWN}0\n"
"""The output of DRAW if the machine code is installed."""


def python(site: Path, home: Path, *arguments: str, **variables: str) -> str:
    """Runs Python with an installation of nearkin, and returns what it prints."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    environment = {**kept, "PYTHONPATH": str(site), "HOME": str(home), **variables}
    command = [sys.executable, "-B", *arguments]
    ended = subprocess.run(
        command, env=environment, cwd=site, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of nearkin that contains the machine code of one kernel."""
    site = tmp_path_factory.mktemp("built") / "site"
    ignored = shutil.ignore_patterns("__pycache__", "compiled_kernels")
    shutil.copytree(ROOT / "nearkin", site / "nearkin", ignore=ignored)
    (site / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "compile_kernels.py", site / "scripts")
    (site / "nearkin" / "runtime" / LIST.name).write_text(ONE_KERNEL)
    python(site, site.parent, "scripts/compile_kernels.py")
    return site


@pytest.fixture
def site(built: Path, tmp_path: Path) -> Path:
    """A copy of that installation, which a test may change."""
    return Path(shutil.copytree(built, tmp_path / "site"))


def code_files(site: Path) -> list[Path]:
    files = list((site / "nearkin" / "compiled_kernels").glob("*/*.z"))
    assert len(files) == 1
    return files


def test_installed_code_is_used_without_a_cache_and_a_compilation(
    built: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert python(built, home, "-c", DRAW) == INSTALLED
    assert not list(home.rglob("*.nbi"))


def test_read_only_installation_is_used(site: Path, tmp_path: Path) -> None:
    folders = [site, *site.rglob("*")]
    for path in folders:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert python(site, tmp_path / "missing", "-c", DRAW) == INSTALLED
    finally:
        for path in folders:
            path.chmod(0o755)


@pytest.mark.parametrize(
    "damage", [cut, flip, pytest.param(lambda content: b"", marks=pytest.mark.full)]
)
def test_damaged_code_is_compiled_again(
    site: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    for path in code_files(site):
        path.write_bytes(damage(path.read_bytes()))
    result, compiled = python(site, tmp_path / "home", "-c", DRAW).split()
    assert f"{result}\n" == DRAWN
    assert int(compiled) > 0


def test_code_of_other_sources_is_not_used(site: Path, tmp_path: Path) -> None:
    """The kernel calls one of another file, which is changed."""
    path = site / "nearkin" / "stages" / "hashing" / "kernels.py"
    changed = path.read_text().replace("U64(0xBF58476D1CE4E5B9)", "U64(0xBF58476D1CE4E5BB)")
    assert changed != path.read_text()
    path.write_text(changed)
    result, compiled = python(site, tmp_path / "home", "-c", DRAW).split()
    assert f"{result}\n" != DRAWN
    assert int(compiled) > 0


def test_kernels_are_compiled_for_a_processor_that_is_named(site: Path, tmp_path: Path) -> None:
    named = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    result, compiled = python(site, tmp_path / "home", "-c", DRAW, **named).split()
    assert f"{result}\n" == DRAWN
    assert int(compiled) > 0


def test_other_python_and_other_numba_have_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {source_hash.__wrapped__()}
    with monkeypatch.context() as changed:
        changed.setattr("numba.__version__", "0.1.0")
        hashes.add(source_hash.__wrapped__())
    with monkeypatch.context() as changed:
        changed.setattr("sys.implementation.cache_tag", "cpython-399")
        hashes.add(source_hash.__wrapped__())
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("machine", "features", "level"),
    [
        ("x86_64", V3 | {"avx512f"}, "x86-64-v3"),
        ("x86_64", V3 - {"avx2"}, None),
        ("x86_64", V2, None),
        ("aarch64", {"neon"}, "armv8"),
        ("arm64", {"neon"}, "armv8"),
        ("riscv64", V3, None),
    ],
)
def test_level_is_one_that_the_processor_has(
    machine: str,
    features: set[str],
    level: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in {level.name for level in LEVELS}:
        (tmp_path / f"{name}-abc").mkdir()
    monkeypatch.setattr(installed_code, "CODE_FOLDER", tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(config, "CPU_NAME", None)
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    monkeypatch.setattr(
        "llvmlite.binding.get_host_cpu_features", lambda: dict.fromkeys(features, True)
    )
    folder = find_installed_code.__wrapped__("abc")
    assert (None if folder is None else folder.name.removesuffix("-abc")) == level
    assert find_installed_code.__wrapped__("other") is None


def test_missing_file_is_no_code(tmp_path: Path) -> None:
    assert read_machine_code(tmp_path, code_files, [types.int64]) is None


def test_types_that_differ_have_different_descriptions() -> None:
    arrays = [
        types.Array(dtype, dimensions, layout, readonly=readonly, aligned=aligned)
        for dtype in (types.uint8, types.int8)
        for dimensions in (1, 2)
        for layout in "CFA"
        for readonly in (True, False)
        for aligned in (True, False)
    ]
    assert len({describe_types([array]) for array in arrays}) == len(arrays)
