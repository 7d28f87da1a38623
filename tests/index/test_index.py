"""Tests of the interface of an index: what it loads, and the parameters that it accepts."""

import json
import subprocess
import sys

import nearkin as nk
from nearkin.index.settings import IndexSettings, SettingsFields

MAX_MODULES = 37
"""The number of modules that importing the index may load, without packages."""


def test_importing_the_index_loads_no_stage_and_no_store() -> None:
    program = (
        "import json, sys, nearkin.index.index; "
        "print(json.dumps({name: hasattr(module, '__path__') for name, module in "
        "sys.modules.items() if name.startswith('nearkin')}))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    modules: dict[str, bool] = json.loads(run.stdout)
    assert "nearkin.stages" not in modules
    assert "nearkin.index.stores.memory" not in modules
    assert "nearkin.index.backup" not in modules
    assert sum(not is_package for is_package in modules.values()) <= MAX_MODULES


def test_settings_passed_by_name_are_the_fields_of_index_settings() -> None:
    fields = set(IndexSettings.__dataclass_fields__)
    assert set(SettingsFields.__annotations__) == fields - {"spec", "threshold"}


def test_stats_name_the_counts_of_the_store_and_the_parameters() -> None:
    with nk.Index.open("memory://", threshold=0.5) as index:
        index.upsert("a", "the cat sat on the mat")
        stats = index.stats()
    assert (stats["records"], stats["leaders"], stats["evicted"]) == (1, 1, 0)
    assert (stats["threshold"], stats["url"], stats["cached"]) == (0.5, "memory://", 1)
    assert "bucket_bytes" not in stats
