import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nearkin
from nearkin.quality.lab.kernels import start_stream
from nearkin.runtime.cache_folder import UntrustedFolderError, trusted_folder
from nearkin.runtime.jit import KERNEL_FILES, _Locator
from tests.runtime.all_kernels import files_of_kernels

DRAW = (
    "from numpy import uint64; from nearkin.quality.lab.kernels import start_stream; "
    "print(start_stream(uint64(1), uint64(2), uint64(3)))"
)
"""Code that calls a small kernel, which calls a kernel of another file: `mix64`."""
DRAWN = f"{start_stream(np.uint64(1), np.uint64(2), np.uint64(3))}\n"
"""The output of DRAW."""
LOAD_ALL = """
import sys
from nearkin.runtime.jit import COMPILATION
from tests.runtime.all_kernels import all_kernels

loaded = 0
for kernel in all_kernels():
    here = kernel.targetctx.codegen().magic_tuple()
    for signature, machine, _ in kernel._cache._cache_file._load_index():
        if machine == here:
            kernel.compile(signature)
            loaded += 1
print(loaded > 0, COMPILATION.compiled, "numba.core.typing.cffi_utils" in sys.modules)
"""
"""Code that loads all machine code in the cache. It ends with a crash if a symbol is missing."""


NUMBERS = """
import os
from numba.core.bytecode import FunctionIdentity
import nearkin.runtime.jit

def number():
    return FunctionIdentity.from_function(number).unique_id

for _ in range(2):
    if os.fork() == 0:
        print(number(), flush=True)
        os._exit(0)
    os.wait()
print(number())
"""
"""Code that prints the numbers of one function in a process and in two forks of it."""

CHECKED = (
    "engine/blocklist/test_kernels.py",
    "stages/cluster",
    "texts/decontamination/test_run.py",
    "engine/test_containment.py",
    "quality/evaluate/test_kernels.py",
    "quality/fit/test_labels.py::test_scores_at_each_threshold_are_those_of_runs[words:1 jaccard]",
    "stages/hashing",
    "index/stores/test_bucket_table.py",
    "index/test_word_preparation.py::test_a_preparer_gives_the_same_results_again_after_other_texts",
    "quality/lab/test_kernels.py",
    "quality/lab/test_synth.py::test_documents_have_the_requested_fields",
    "stages/lsh",
    "texts/passages/cutting/test_run.py::test_documents_are_removed_from_the_given_share_on",
    "texts/passages/cutting/test_run.py::test_cuts_of_characters_never_divide_graphemes",
    "texts/passages/cutting/test_run.py::test_passages_of_characters_are_cut_and_nothing_vanishes",
    "texts/passages/test_run.py::test_result_does_not_depend_on_pieces_partitions_table_size_and_threads",
    "service/server/http/test_kernels.py",
    "stages/shingle/test_comments.py",
    "stages/shingle/test_frequency_cut.py::test_kernel_removes_listed_shingles",
    "stages/shingle/test_shingler.py",
    "stages/shingle/tokens",
    "index/signatures",
    "stages/sketch",
    "test_lance.py::test_signatures_are_those_of_the_oracle",
    "stages/verify",
    "stages/winnowing/test_kernels.py",
    "stages/wording",
)
"""The tests that run with bounds checking: those of the kernels, or small ones that call them."""
NOT_CHECKED = (
    # commands, statistics over many draws, and large inputs
    "command",
    "match_random_hashing",
    "probing_finds_more_pairs",
    "unbiased",
    "within_its_error",
    "simulation",
    "linear_time",
    "bounded_work",
    "many_signatures",
    # all of Unicode, all points of a file, and faults
    "assigned_code_point",
    "copy_with_other_comments",
    "mutated",
    # the same kernels as in other tests
    "threads_add",
    "parts_and_threads",
    "rows_and_threads",
    "any_order",
    "pickled",
    "test_keep_types",
    "test_dates",
    "hot_buckets",
    "test_shared_passages",
    "test_thresholds",
)
"""Parts of names of tests in these files that are left out."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package, as in site-packages."""
    site = tmp_path / "site"
    shutil.copytree(
        Path(nearkin.__file__).parent,
        site / "nearkin",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return site


def python(code: str, site: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    line = [sys.executable, "-B", "-c", code]
    ended = subprocess.run(
        line,
        env={**kept, "PYTHONPATH": str(site), **environment},
        capture_output=True,
        text=True,
        cwd=site,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_changed_callee_takes_effect_in_callers(installed: Path, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    before = python(DRAW, installed, HOME=home)
    assert python(DRAW, installed, HOME=home) == before
    path = installed / "nearkin/stages/hashing/kernels.py"
    changed = path.read_text().replace("U64(0xBF58476D1CE4E5B9)", "U64(0xBF58476D1CE4E5BB)")
    assert changed != path.read_text()
    status = path.stat()
    path.write_text(changed)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = python(DRAW, installed, HOME=home)
    assert after != before
    assert len(list((tmp_path / "home/.cache/nearkin").iterdir())) == 2


def test_kernels_are_in_files_that_name_the_cache_folder() -> None:
    """After a change of another file, outdated machine code would be used."""
    assert {path.name for path in files_of_kernels()} <= set(KERNEL_FILES)


def test_machine_code_of_two_processes_has_different_names(installed: Path) -> None:
    """Equal names would let a kernel sort by the code of another one, from the cache."""
    numbers = [line for _ in range(2) for line in python(NUMBERS, installed).split()]
    assert len(set(numbers)) == len(numbers) == 6


def test_read_only_installation_without_home_works(installed: Path, tmp_path: Path) -> None:
    """The folder of the code is read-only, and there is no cache folder of a user."""
    for path in [installed, *installed.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    first = python(DRAW, installed, TMPDIR=str(temporary))
    assert python(DRAW, installed, TMPDIR=str(temporary)) == first == DRAWN
    cached = [path.name for path in temporary.rglob("*.nbi")]
    assert cached
    for path in [installed, *installed.rglob("*")]:
        path.chmod(0o755)


@pytest.mark.promise("The cache of another user is not used.")
def test_cache_folder_of_another_user_is_not_used(installed: Path, tmp_path: Path) -> None:
    """Cached machine code is run, so a folder that others may write is passed over."""
    shared = tmp_path / f"nearkin-jit-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    python(DRAW, installed, TMPDIR=str(tmp_path))
    assert not list(shared.rglob("*.nbi"))


@pytest.mark.promise("Machine code in a folder that others can write to is not run.")
@pytest.mark.parametrize(
    "variable",
    [
        "NEARKIN_CACHE_DIR",
        pytest.param("XDG_CACHE_HOME", marks=pytest.mark.full),
        pytest.param("HOME", marks=pytest.mark.full),
    ],
)
def test_code_in_writable_cache_folder_is_not_run(
    installed: Path, tmp_path: Path, variable: str
) -> None:
    """Numba's index files are pickles: whoever can write one runs code in the processes that load
    it. Without other users, the folder of each variable is made and used."""
    shared, mark = tmp_path / "shared", tmp_path / "code-has-run"
    python(DRAW, installed, **{variable: str(shared)})
    planted = pickle.dumps(Planted(str(mark)))
    indexes = list(shared.rglob("*.nbi"))
    assert indexes
    for path in indexes:
        path.write_bytes(planted)
    for path in [shared, *shared.rglob("*")]:
        path.chmod(0o777)
    private = tmp_path / "private"
    private.mkdir()
    python(DRAW, installed, **{variable: str(shared), "TMPDIR": str(private)})
    assert not mark.exists()
    assert list(private.rglob("*.nbi"))


class Planted:
    """A pickle that leaves a mark when it is loaded."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self.mark, "w")


def test_trusted_volume_of_pod_is_used(installed: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    python(DRAW, installed, NEARKIN_CACHE_DIR=str(volume), TMPDIR=str(volume))
    assert not list(volume.rglob("*.nbi"))
    python(
        DRAW,
        installed,
        NEARKIN_CACHE_DIR=str(volume),
        NEARKIN_CACHE_TRUSTED="1",
        TMPDIR=str(volume),
    )
    assert list(volume.rglob("*.nbi"))
    next(iter(volume.glob("*/*.nbi"))).parent.chmod(0o777)
    with pytest.raises(UntrustedFolderError, match="writable by other users"):
        trusted_folder(next(iter(volume.glob("*/*.nbi"))).parent, verify_above=False)


def test_kernels_run_without_trusted_cache_folder(installed: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    try:
        found = python(DRAW, installed, TMPDIR=str(tmp_path), HOME=str(tmp_path / "home"))
    finally:
        tmp_path.chmod(0o700)
    assert found == DRAWN
    assert not list(tmp_path.glob("*/**/*.nbi"))


def test_machine_code_of_every_kernel_is_loaded_without_the_registries_of_the_compiler() -> None:
    nearkin.sketch(["one two three four"])
    assert python(LOAD_ALL, Path(nearkin.__file__).parents[1], **os.environ) == "True 0 False\n"


def test_kernels_pass_bounds_checking() -> None:
    """Tests of all kernels again, every index checked; a kernel that they leave out is named.

    Most of the time is the compilation of all kernels, which takes half as long without
    optimisation.
    """
    folder = Path(__file__).parent.parent
    line = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.runtime.require_all_kernels"]
    line += ["-k", " and ".join(f"not {name}" for name in NOT_CHECKED)]
    line += [str(folder / tests) for tests in CHECKED]
    ended = subprocess.run(
        line,
        cwd=folder.parent,
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]


def test_locator_names_file_and_line_of_function() -> None:
    """Numba reads it for the warning about a function that it cannot cache, for example with
    NUMBA_OPT=0."""

    def function() -> None: ...

    locator = _Locator(function, __file__)
    assert (locator._py_file, locator._lineno) == (__file__, function.__code__.co_firstlineno)
