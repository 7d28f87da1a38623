"""Tests of the settings of an index: from the environment, and invalid ones."""

from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import UsageError


def test_texts_and_vectors_have_variables_of_their_own() -> None:
    environment = {
        "NEARKIN_TEXT_BANDS": "16",
        "NEARKIN_TEXT_ROWS": "8",
        "NEARKIN_TEXT_SHINGLE": "chars:5",
        "NEARKIN_TEXT_SEED": "7",
        "NEARKIN_TEXT_MAX_CANDIDATES": "50",
        "NEARKIN_TEXT_CACHE": "1000",
        "NEARKIN_TEXT_STORE_TEXT": "false",
        "NEARKIN_TEXT_RECORD_TTL": "",
        "NEARKIN_VECTOR_DIMENSIONS": "384",
        "NEARKIN_VECTOR_THRESHOLD": "0.95",
        "NEARKIN_VECTOR_K": "256",
        "HOME": "/nowhere",
    }
    text = nk.index_types.IndexSettings.from_env("NEARKIN_TEXT_", environment)
    assert text.spec is not None
    assert (text.bands, text.rows, text.max_candidates, text.cache, text.store_text) == (
        16,
        8,
        50,
        1000,
        False,
    )
    assert (text.spec.shingle, text.spec.seed, text.record_ttl) == ("chars:5", 7, None)
    vector = nk.index_types.IndexSettings.from_env("NEARKIN_VECTOR_", environment)
    assert vector.spec is not None
    assert (vector.spec.measure, vector.spec.n, vector.spec.k, vector.threshold) == (
        "cosine",
        384,
        256,
        0.95,
    )
    assert (
        nk.index_types.IndexSettings.from_env("NOTHING_", environment)
        == nk.index_types.IndexSettings()
    )


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARKIN_TEXT_THRESHOLD", "0.7")
    assert nk.index_types.IndexSettings.from_env().threshold == 0.7


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("BANDZ", "1", "unknown setting T_BANDZ"),
        ("BANDS", "many", "is not a number"),
        ("STORE_TEXT", "maybe", "neither true nor false"),
        ("MAX_MEMORY", "2 cows", "T_MAX_MEMORY '2 cows' is not a size"),
    ],
)
def test_an_error_names_the_invalid_variable(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nk.index_types.IndexSettings.from_env("T_", {f"T_{name}": value})


def test_sizes_are_numbers_of_bytes_or_texts() -> None:
    settings = nk.index_types.IndexSettings(
        max_memory="2GB", cache_bytes="64MiB", max_document="5 MB"
    )
    assert settings == nk.index_types.IndexSettings(
        max_memory=2_000_000_000, cache_bytes=64 << 20, max_document=5_000_000
    )
    assert settings.max_document_bytes == 5_000_000
    assert settings.max_cache_bytes == 64 << 20
    variables = {"T_MAX_MEMORY": "2GB", "T_CACHE_BYTES": "64MiB", "T_MAX_DOCUMENT": "5MB"}
    assert nk.index_types.IndexSettings.from_env("T_", variables) == settings
    with nk.Index.open("memory://", max_memory="2MB") as index:
        assert index.settings.max_memory == 2_000_000


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("2 cows", "max_memory '2 cows' is not a size; write it like 4GB"),
        ("1KB", "max_memory=1000 is out of range; it must be at least 1,048,576"),
        (1e9, r"max_memory=1000000000\.0 is of type float; give a whole number, a text or None"),
    ],
)
def test_a_size_that_is_not_valid_is_refused(size: Any, message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.Index.open("memory://", max_memory=size)


@pytest.mark.parametrize(
    "fields",
    [
        {"postings": "some"},
        {"threshold": 1.5},
        {"bands": 4},
        {"max_candidates": 0},
        {"max_candidates": 1.5},
        {"lookup_probes": True},
        {"lookup_probes": float("nan")},
        {"lookup_probes": "2"},
        {"record_ttl": 0.0},
        {"window": -1.0},
        {"no_such": 1},
    ],
)
def test_invalid_settings_are_usage_errors(fields: dict) -> None:
    with pytest.raises(UsageError):
        nk.Index.open("memory://", **fields)
