"""Near-duplicate detection for files, for streams of documents, and for vectors."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nearkin.version import VERSION

__version__ = VERSION

_HOMES = {
    "dedup": "nearkin.api",
    "pairs": "nearkin.api",
    "sketch": "nearkin.api",
    "report": "nearkin.api",
    "DedupResult": "nearkin.api",
    "PairsResult": "nearkin.api",
    "Spec": "nearkin.spec",
    "MinHashBuilder": "nearkin.sketch.builder",
    "CountingMinHash": "nearkin.sketch.counting",
    "BottomK": "nearkin.sketch.bottom_k",
    "HammingIndex": "nearkin.lsh.hamming",
    "simhash": "nearkin.sketch.simhash",
    "HashKey": "nearkin.keys",
    "DocumentFrequencies": "nearkin.sketch.resources",
    "SpecResources": "nearkin.sketch.resources",
    "estimate": "nearkin.measures.estimates",
    "frequencies": "nearkin.api",
    "tune": "nearkin.plan.tune",
    "plan": "nearkin.plan.capacity",
    "explain": "nearkin.evaluate.explain",
    "Index": "nearkin.index.index",
    "AsyncIndex": "nearkin.index.async_index",
    "IndexSettings": "nearkin.index.settings",
    "Client": "nearkin.client.clients",
    "AsyncClient": "nearkin.client.clients",
    "NewDocument": "nearkin.client.requests",
    "Retries": "nearkin.client.clients",
    "synth": "nearkin.lab.synth",
    "SynthSettings": "nearkin.lab.synth",
    "NearkinError": "nearkin.errors",
    "UsageError": "nearkin.errors",
    "RunError": "nearkin.errors",
    "IncompatibleError": "nearkin.errors",
    "KeyRequiredError": "nearkin.errors",
    "RebuildDueError": "nearkin.errors",
    "WireError": "nearkin.errors",
    "ServiceError": "nearkin.errors",
}

_MODULES = ("spark",)

__all__ = [*_HOMES, *_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use, so that `import nearkin` is fast."""
    if name in _MODULES:
        return import_module(f"nearkin.{name}")
    if name not in _HOMES:
        raise AttributeError(
            f"module 'nearkin' has no attribute {name!r}; valid names are "
            f"{', '.join(sorted(_HOMES))}"
        )
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """A module type that keeps the functions `nearkin.sketch` and `nearkin.report`.

    Importing a subpackage would replace them, because it sets an attribute with its own name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


if TYPE_CHECKING:
    from nearkin.api import DedupResult, PairsResult, dedup, frequencies, pairs, report, sketch
    from nearkin.client.clients import AsyncClient, Client, Retries
    from nearkin.client.requests import NewDocument
    from nearkin.errors import (
        IncompatibleError,
        KeyRequiredError,
        NearkinError,
        RebuildDueError,
        RunError,
        ServiceError,
        UsageError,
        WireError,
    )
    from nearkin.evaluate.explain import explain
    from nearkin.index.async_index import AsyncIndex
    from nearkin.index.index import Index
    from nearkin.index.settings import IndexSettings
    from nearkin.keys import HashKey
    from nearkin.lab.synth import SynthSettings, synth
    from nearkin.lsh.hamming import HammingIndex
    from nearkin.measures.estimates import estimate
    from nearkin.plan.capacity import plan
    from nearkin.plan.tune import tune
    from nearkin.sketch.bottom_k import BottomK
    from nearkin.sketch.builder import MinHashBuilder
    from nearkin.sketch.counting import CountingMinHash
    from nearkin.sketch.resources import DocumentFrequencies, SpecResources
    from nearkin.sketch.simhash import simhash
    from nearkin.spec import Spec
