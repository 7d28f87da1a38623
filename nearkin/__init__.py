"""Near-duplicate detection for files, for streams of documents, and for vectors.

Data is a pandas or Polars frame, an Arrow table, a dataset, a list of texts, or the path of files.
What is kept has the type of the data.

Examples:
    >>> import nearkin as nk
    >>> news = (
    ...     "the city council voted on tuesday evening to build a second bridge over the river "
    ...     "after ten years of debate about its cost and its route through the old town"
    ... )
    >>> texts = [news, f"{news} today", "a storm closed the harbour for two days"]
    >>> nk.dedup(texts).kept_rows == texts[1:]
    True
    >>> nk.pairs(texts)
    <PairsResult: 1 pairs of 3 documents>
    >>> nk.check([news], texts)
    <CheckResult: 2 pairs, 2 of 3 documents (66.7%) affected>

The functions, in the order of use:
    profile: Describes the texts of a corpus, and which settings fit them.
    dedup: Removes exact and near-duplicates. `result.examples()` shows some of them.
    pairs: Lists the verified pairs of near-duplicates.
    check: Finds the near-duplicates between two corpora, such as training and test data.
    split: Divides a corpus into groups without near-duplicates between them.
    explain: Says why two documents are near-duplicates, or are not.
    choose, fit: Choose settings from the texts, or from labelled pairs.
    passages: Finds passages and lines that documents repeat, and cuts them.
    decontaminate: Finds the items of benchmarks that documents hold.
    extend: Extends a finished run over files by new, changed and withdrawn documents.
    diff: Compares two runs over a collection that grows or changes.
    sync: Lets an index have the documents of a folder or a table.
    report: Writes the report of a result as a page.
    tune, plan, observe: Calculate bands and rows, capacity, and similarities.
    sketch, simhash, estimate, frequencies: Make and compare signatures.
    synth: Makes a corpus with known duplicates.

`Index` finds near-duplicates of one document at a time, and `Client` those of a server. Data frames
have the methods `frame.nearkin.dedup()`, `pairs()` and `cluster_ids()`. Types of results are in
`nearkin.results`, and all errors in `nearkin.errors`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearkin.runtime.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nearkin import (
        duckdb,
        errors,
        index_types,
        lance,
        pandas,
        polars,
        results,
        signatures,
        sklearn,
        spark,
    )
    from nearkin.engine.blocklist.blocklist import Blocklist
    from nearkin.errors import NearkinError, RunError, ServiceError, StoreError, UsageError
    from nearkin.index.async_index import AsyncIndex
    from nearkin.index.documents import TextAndVector
    from nearkin.index.index import Index
    from nearkin.index.signatures.hamming_index import HammingIndex
    from nearkin.index.signatures.signature import Signature
    from nearkin.index.signatures.signature_index import SignatureIndex
    from nearkin.quality.evaluate.explain import explain
    from nearkin.quality.lab.synth import synth
    from nearkin.quality.plan.capacity import plan
    from nearkin.quality.plan.tune import tune
    from nearkin.runs.api import (
        check,
        decontaminate,
        dedup,
        frequencies,
        observe,
        pairs,
        passages,
        report,
        sketch,
        split,
    )
    from nearkin.runs.choose import choose
    from nearkin.runs.diff import diff
    from nearkin.runs.extend import extend
    from nearkin.runs.fit import fit
    from nearkin.runs.profile import profile
    from nearkin.runs.sync import sync
    from nearkin.runtime.progress import Progress
    from nearkin.runtime.warm_up import warm_up
    from nearkin.service.client.clients import AsyncClient, Client
    from nearkin.settings.keys import HashKey
    from nearkin.settings.spec import Spec
    from nearkin.stages.measures.estimates import estimate
    from nearkin.stages.sketch.bottom_k import BottomK
    from nearkin.stages.sketch.builder import MinHashBuilder
    from nearkin.stages.sketch.resources import SpecResources
    from nearkin.stages.sketch.simhash import SimHash, simhash

# Type checkers read only a list of literals. A test compares it with _HOMES and the imports above.
__all__ = [
    "AsyncClient",
    "AsyncIndex",
    "Blocklist",
    "BottomK",
    "Client",
    "HammingIndex",
    "HashKey",
    "Index",
    "MinHashBuilder",
    "NearkinError",
    "Progress",
    "RunError",
    "ServiceError",
    "Signature",
    "SignatureIndex",
    "SimHash",
    "Spec",
    "SpecResources",
    "StoreError",
    "TextAndVector",
    "UsageError",
    "__version__",
    "check",
    "choose",
    "decontaminate",
    "dedup",
    "diff",
    "duckdb",
    "errors",
    "estimate",
    "explain",
    "extend",
    "fit",
    "frequencies",
    "index_types",
    "lance",
    "observe",
    "pairs",
    "pandas",
    "passages",
    "plan",
    "polars",
    "profile",
    "report",
    "results",
    "signatures",
    "simhash",
    "sketch",
    "sklearn",
    "spark",
    "split",
    "sync",
    "synth",
    "tune",
    "warm_up",
]

_HOMES = {
    "dedup": "nearkin.runs.api",
    "pairs": "nearkin.runs.api",
    "split": "nearkin.runs.api",
    "passages": "nearkin.runs.api",
    "decontaminate": "nearkin.runs.api",
    "check": "nearkin.runs.api",
    "sketch": "nearkin.runs.api",
    "report": "nearkin.runs.api",
    "frequencies": "nearkin.runs.api",
    "observe": "nearkin.runs.api",
    "Spec": "nearkin.settings.spec",
    "Signature": "nearkin.index.signatures.signature",
    "SignatureIndex": "nearkin.index.signatures.signature_index",
    "MinHashBuilder": "nearkin.stages.sketch.builder",
    "BottomK": "nearkin.stages.sketch.bottom_k",
    "HammingIndex": "nearkin.index.signatures.hamming_index",
    "simhash": "nearkin.stages.sketch.simhash",
    "SimHash": "nearkin.stages.sketch.simhash",
    "HashKey": "nearkin.settings.keys",
    "SpecResources": "nearkin.stages.sketch.resources",
    "estimate": "nearkin.stages.measures.estimates",
    "tune": "nearkin.quality.plan.tune",
    "plan": "nearkin.quality.plan.capacity",
    "explain": "nearkin.quality.evaluate.explain",
    "fit": "nearkin.runs.fit",
    "profile": "nearkin.runs.profile",
    "choose": "nearkin.runs.choose",
    "diff": "nearkin.runs.diff",
    "extend": "nearkin.runs.extend",
    "sync": "nearkin.runs.sync",
    "Progress": "nearkin.runtime.progress",
    "Index": "nearkin.index.index",
    "AsyncIndex": "nearkin.index.async_index",
    "TextAndVector": "nearkin.index.documents",
    "Blocklist": "nearkin.engine.blocklist.blocklist",
    "Client": "nearkin.service.client.clients",
    "AsyncClient": "nearkin.service.client.clients",
    "synth": "nearkin.quality.lab.synth",
    "NearkinError": "nearkin.errors",
    "RunError": "nearkin.errors",
    "ServiceError": "nearkin.errors",
    "StoreError": "nearkin.errors",
    "UsageError": "nearkin.errors",
    "warm_up": "nearkin.runtime.warm_up",
}
"""The modules of the public names."""

_MODULES = (
    "duckdb",
    "errors",
    "index_types",
    "lance",
    "pandas",
    "polars",
    "results",
    "signatures",
    "sklearn",
    "spark",
)


if not TYPE_CHECKING:
    # Type checkers would accept any name of a module that has this function.
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


def _pandas_methods(frame: Any) -> Any:
    return import_module("nearkin.pandas").PandasMethods(frame)


def _polars_methods(frame: Any) -> Any:
    return import_module("nearkin.polars").PolarsMethods(frame)


def _register_accessor(library: str) -> None:
    """Adds `frame.nearkin` to a library of data frames.

    It costs nothing: the methods are imported at their first use.
    """
    accessors = import_module("nearkin.integrations.frame_accessors")
    if library == "pandas":
        accessors.register_pandas(sys.modules[library], _pandas_methods)
    else:
        accessors.register_polars(sys.modules[library], _polars_methods)


class _FrameLibraryFinder:
    """A finder of modules that registers `frame.nearkin` when a library of frames is imported."""

    libraries = ("pandas", "polars")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Returns the spec that the other finders have, with a loader that also registers."""
        if name not in self.libraries:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                break
        else:
            return None
        if spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_register(module: Any) -> None:
            load(module)
            _register_accessor(name)

        spec.loader.exec_module = load_and_register
        return spec


def _register_libraries() -> None:
    """Registers `frame.nearkin` for the libraries of frames that are or will be imported."""
    for library in _FrameLibraryFinder.libraries:
        # A library that is being imported has no frames yet.
        if hasattr(sys.modules.get(library), "DataFrame"):
            _register_accessor(library)
    sys.meta_path.insert(0, _FrameLibraryFinder())


_register_libraries()
