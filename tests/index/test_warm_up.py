"""Tests of the preparation of the kernels of an index."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import nearkin as nk
from nearkin.index import warm_up
from nearkin.runtime.compilation import COMPILATION


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without marks, in a process that has prepared nothing."""
    monkeypatch.setattr(warm_up, "PREPARED", set())
    monkeypatch.setattr(warm_up, "jit", SimpleNamespace(cache_folder=lambda: tmp_path))
    return tmp_path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The settings for which kernels are called."""
    called: list[object] = []
    monkeypatch.setattr(
        warm_up, "call_kernels", lambda settings, resources, opener: called.append(settings)
    )
    return called


def test_first_upsert_after_the_opening_compiles_nothing(cache: Path) -> None:
    with nk.Index.open("memory://", threshold=0.7) as index:
        assert list(cache.iterdir())
        before = COMPILATION.compiled
        index.upsert("a", "the cat sat on the mat", "one")
        index.upsert("a", "the cat sat on the mat today", "two")
        index.query("a", "the cat sat on the mat")
    assert COMPILATION.compiled == before


def test_kernels_are_prepared_once_on_a_machine(
    calls: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        nk.Index.open("memory://").close()
    monkeypatch.setattr(warm_up, "PREPARED", set())
    nk.Index.open("memory://").close()
    assert len(calls) == 1
    nk.Index.open("memory://", shingle="chars:5").close()
    assert len(calls) == 2


def test_each_process_prepares_them_without_a_cache(
    calls: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_up, "jit", SimpleNamespace(cache_folder=lambda: None))
    for _ in range(2):
        nk.Index.open("memory://").close()
    assert len(calls) == 1


def test_opening_without_preparation_calls_no_kernel(calls: list[object]) -> None:
    nk.Index.open("memory://", warm_up=False).close()
    assert calls == []


def test_settings_that_refuse_the_sample_documents_are_no_error(cache: Path) -> None:
    with nk.Index.open("memory://", max_document=10) as index:
        assert index.upsert("a", "a b c d", "one").kind == "new"
    assert list(cache.iterdir()) == []


def test_preparation_records_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application would count documents that nobody stored."""
    made: list[str] = []
    monkeypatch.setitem(sys.modules, "opentelemetry", ModuleType("opentelemetry"))
    monkeypatch.setattr("nearkin.index.telemetry.IndexTelemetry", made.append)
    with nk.Index.open("memory://", warm_up=False) as index:
        assert made == ["jaccard"]
        warm_up.call_kernels(index.settings, index.resources, nk.Index.open)
    assert made == ["jaccard"]
