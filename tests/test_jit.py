import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nearkin

HASHES = "from nearkin.hashing.families import *; print(int(hash_values([b'near'], key_of('xxh3', 0))[0]))"
SKETCH = "import nearkin as nk; print(nk.sketch(['one two three four'], nk.Spec(k=8)).tolist())"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package, as in site-packages."""
    site = tmp_path / "site"
    shutil.copytree(Path(nearkin.__file__).parent, site / "nearkin", ignore=shutil.ignore_patterns("__pycache__"))
    return site


def python(code: str, site: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    line = [sys.executable, "-B", "-c", code]
    ended = subprocess.run(line, env={**kept, "PYTHONPATH": str(site), **environment}, capture_output=True, text=True, cwd=site)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_an_edited_callee_takes_effect_in_its_callers(installed: Path, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    before = python(SKETCH, installed, HOME=home)
    assert python(SKETCH, installed, HOME=home) == before
    path = installed / "nearkin/hashing/kernels.py"
    changed = path.read_text().replace("U64(0x9FB21C651E98DF25)", "U64(0x9FB21C651E98DF27)")
    assert changed != path.read_text()
    status = path.stat()
    path.write_text(changed)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = python(SKETCH, installed, HOME=home)
    assert after != before
    assert len(list((tmp_path / "home/.cache/nearkin").iterdir())) == 2


def test_read_only_installation_without_a_home(installed: Path, tmp_path: Path) -> None:
    """As in a container: nothing can be written beside the code, and there is no user's cache folder."""
    for path in [installed, *installed.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    first = python(HASHES, installed, TMPDIR=str(temporary))
    assert python(HASHES, installed, TMPDIR=str(temporary)) == first
    assert int(first) == 0xDC94C9F9B7E0FA92
    cached = [path.name for path in temporary.rglob("*.nbi")]
    assert cached
    for path in [installed, *installed.rglob("*")]:
        path.chmod(0o755)


def test_a_cache_folder_that_is_somebody_elses_is_not_used(installed: Path, tmp_path: Path) -> None:
    """Cached machine code is run, so a folder that others may write is passed over."""
    shared = tmp_path / f"nearkin-jit-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    python(HASHES, installed, TMPDIR=str(tmp_path))
    assert not list(shared.rglob("*.nbi"))


def test_named_cache_folder(installed: Path, tmp_path: Path) -> None:
    python(HASHES, installed, NEARKIN_CACHE_DIR=str(tmp_path / "mine"))
    assert list((tmp_path / "mine").rglob("*.nbi"))


def test_kernels_under_bounds_checking() -> None:
    """The suites of the kernels again, every index checked."""
    folder = Path(__file__).parent
    suites = ["hashing", "lsh", "verify", "cluster", "sketch", "shingle/test_shingler.py"]
    suites += ["engine/test_containment.py", "evaluate/test_hashlab.py"]
    left_out = (
        "not each_assigned and not within_its_bound and not four_threads and not command and not good_as_random and not fuzz"
    )
    line = [sys.executable, "-m", "pytest", "-q", "-x", "-k", left_out, *(str(folder / suite) for suite in suites)]
    ended = subprocess.run(line, env={**os.environ, "NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-3000:]
