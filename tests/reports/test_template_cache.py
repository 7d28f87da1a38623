from collections.abc import Iterator
from pathlib import Path

import pytest

from nearkin.reports import page, template_cache
from nearkin.reports.model import ReportData
from nearkin.reports.page import make_environment, render_page
from nearkin.reports.template_cache import open_template_cache
from nearkin.runtime import cache_folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("NEARKIN_CACHE_DIR", str(folder))
    forget_environments()
    yield folder
    forget_environments()


def forget_environments() -> None:
    """Makes this process read the templates and the cache again, as a new process would."""
    make_environment.cache_clear()
    cache_folder.find_cache_folder.cache_clear()


def test_compiled_templates_are_kept_in_the_cache_folder(cache: Path, data: ReportData) -> None:
    first = render_page(data)
    written = {path: path.stat().st_mtime_ns for path in cache.glob("templates-*/*")}
    assert len(written) == 2
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    forget_environments()
    assert render_page(data) == first
    assert {path: path.stat().st_mtime_ns for path in cache.glob("templates-*/*")} == written


def test_templates_in_the_cache_are_not_compiled_again(
    cache: Path, data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = render_page(data)
    forget_environments()
    monkeypatch.setattr(page.Environment, "compile", fail_compilation)
    assert render_page(data) == first


def fail_compilation(*_arguments: object, **_options: object) -> None:
    """Stands for the compiler of templates."""
    raise AssertionError("a template of the cache was compiled")


def test_page_is_the_same_without_a_cache_folder(
    cache: Path, data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = render_page(data)
    forget_environments()
    cache.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    try:
        assert open_template_cache() is None
        assert render_page(data) == expected
    finally:
        cache.chmod(0o700)


@pytest.mark.parametrize("length", [0, 1, 20, 40, 1000])
def test_truncated_template_is_compiled_again(cache: Path, data: ReportData, length: int) -> None:
    expected = render_page(data)
    for path in cache.glob("templates-*/*"):
        path.write_bytes(path.read_bytes()[:length])
    forget_environments()
    assert render_page(data) == expected
    assert all(path.stat().st_size > 1000 for path in cache.glob("templates-*/*"))


def test_template_that_cannot_be_written_is_not_needed(
    cache: Path, data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jinja2.bccache.os.replace", fail_on_full_disk)
    monkeypatch.setattr("jinja2.bccache.tempfile.NamedTemporaryFile", fail_on_full_disk)
    assert "</html>" in render_page(data)


def fail_on_full_disk(*_arguments: object, **_options: object) -> None:
    """Stands for a function that writes."""
    raise OSError(28, "No space left on device")


def test_versions_use_different_template_folders(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = open_template_cache()
    monkeypatch.setattr(template_cache, "VERSION", "0.0.1")
    other = open_template_cache()
    assert own is not None
    assert other is not None
    assert own.directory != other.directory
