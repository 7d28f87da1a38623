"""Near-duplicate detection for files, for streams of documents, and for vectors."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearkin.runtime.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nearkin import duckdb, lance, pandas, polars, sklearn, spark
    from nearkin.engine.blocklist.blocklist import BlockedMatch, Blocklist
    from nearkin.engine.chosen_settings import ChosenSettings, TriedSettings
    from nearkin.errors import (
        ClockError,
        IncompatibleError,
        IndexFullError,
        KeyRequiredError,
        LargeClusterError,
        MissingExtraError,
        MissingIndexError,
        MovedError,
        NearkinError,
        OutcomeUnknownError,
        RacedError,
        RebuildDueError,
        RunError,
        ServiceError,
        StoreError,
        UsageError,
        WireError,
    )
    from nearkin.index.async_index import AsyncIndex
    from nearkin.index.description import IndexStats
    from nearkin.index.documents import TextAndVector
    from nearkin.index.entry import (
        Cluster,
        ClusterPart,
        Entry,
        Evidence,
        Layer,
        Match,
        Outcome,
        OutcomeKind,
        RelatedDocument,
    )
    from nearkin.index.index import Index
    from nearkin.index.index_facts import IndexFacts
    from nearkin.index.passage_matches import MatchedPassage, PassageMatch, PassageMatches
    from nearkin.index.settings import IndexSettings, VectorEvidence
    from nearkin.index.signatures.hamming_index import HammingIndex, Neighbour
    from nearkin.index.signatures.signature import Signature
    from nearkin.index.signatures.signature_index import (
        SignatureIndex,
        SignatureMatch,
        SignatureMatches,
    )
    from nearkin.quality.evaluate.explain import explain
    from nearkin.quality.evaluate.golden import GoldenSet
    from nearkin.quality.fit.result import FitRecord, FitResult
    from nearkin.quality.lab.synth import SynthSettings, synth
    from nearkin.quality.plan.capacity import Plan, PlannedSettings, plan
    from nearkin.quality.plan.distribution import Distribution
    from nearkin.quality.plan.tune import (
        OperatingPoint,
        OperatingPointRecord,
        Tuning,
        TuningRecord,
        tune,
    )
    from nearkin.quality.plan.workload import Workload
    from nearkin.reports.model import ReportData
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
    from nearkin.runs.fit import fit
    from nearkin.runs.results import (
        CheckResult,
        DecontaminationResult,
        DedupResult,
        PairsResult,
        PassagesResult,
        ResultTable,
        SplitResult,
    )
    from nearkin.runtime.progress import Progress
    from nearkin.service.client.clients import AsyncClient, Client, Retries
    from nearkin.service.client.models import (
        ClusterPage,
        NewDocument,
        StoredDocument,
        TuningResult,
    )
    from nearkin.settings.decisions.decision import Decision, Decisions, Verdict
    from nearkin.settings.keys import HashKey
    from nearkin.settings.spec import SignatureLimits, Spec
    from nearkin.stages.measures.estimates import estimate
    from nearkin.stages.measures.explanation import Explanation
    from nearkin.stages.sketch.bottom_k import BottomK
    from nearkin.stages.sketch.builder import MinHashBuilder
    from nearkin.stages.sketch.counting import CountingMinHash
    from nearkin.stages.sketch.resources import DocumentFrequencies, SpecResources
    from nearkin.stages.sketch.simhash import SimHash, simhash, simhash_of

# Type checkers read only a list of literals. A test compares it with _HOMES and the imports above.
__all__ = [
    "AsyncClient",
    "AsyncIndex",
    "BlockedMatch",
    "Blocklist",
    "BottomK",
    "CheckResult",
    "ChosenSettings",
    "Client",
    "ClockError",
    "Cluster",
    "ClusterPage",
    "ClusterPart",
    "CountingMinHash",
    "Decision",
    "Decisions",
    "DecontaminationResult",
    "DedupResult",
    "Distribution",
    "DocumentFrequencies",
    "Entry",
    "Evidence",
    "Explanation",
    "FitRecord",
    "FitResult",
    "GoldenSet",
    "HammingIndex",
    "HashKey",
    "IncompatibleError",
    "Index",
    "IndexFacts",
    "IndexFullError",
    "IndexSettings",
    "IndexStats",
    "KeyRequiredError",
    "LargeClusterError",
    "Layer",
    "Match",
    "MatchedPassage",
    "MinHashBuilder",
    "MissingExtraError",
    "MissingIndexError",
    "MovedError",
    "NearkinError",
    "Neighbour",
    "NewDocument",
    "OperatingPoint",
    "OperatingPointRecord",
    "Outcome",
    "OutcomeKind",
    "OutcomeUnknownError",
    "PairsResult",
    "PassageMatch",
    "PassageMatches",
    "PassagesResult",
    "Plan",
    "PlannedSettings",
    "Progress",
    "RacedError",
    "RebuildDueError",
    "RelatedDocument",
    "ReportData",
    "ResultTable",
    "Retries",
    "RunError",
    "ServiceError",
    "Signature",
    "SignatureIndex",
    "SignatureLimits",
    "SignatureMatch",
    "SignatureMatches",
    "SimHash",
    "Spec",
    "SpecResources",
    "SplitResult",
    "StoreError",
    "StoredDocument",
    "SynthSettings",
    "TextAndVector",
    "TriedSettings",
    "Tuning",
    "TuningRecord",
    "TuningResult",
    "UsageError",
    "VectorEvidence",
    "Verdict",
    "WireError",
    "Workload",
    "__version__",
    "check",
    "choose",
    "decontaminate",
    "dedup",
    "duckdb",
    "estimate",
    "explain",
    "fit",
    "frequencies",
    "lance",
    "observe",
    "pairs",
    "pandas",
    "passages",
    "plan",
    "polars",
    "report",
    "simhash",
    "simhash_of",
    "sketch",
    "sklearn",
    "spark",
    "split",
    "synth",
    "tune",
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
    "DedupResult": "nearkin.runs.results",
    "PairsResult": "nearkin.runs.results",
    "PassagesResult": "nearkin.runs.results",
    "DecontaminationResult": "nearkin.runs.results",
    "ResultTable": "nearkin.runs.results",
    "SplitResult": "nearkin.runs.results",
    "CheckResult": "nearkin.runs.results",
    "Spec": "nearkin.settings.spec",
    "SignatureLimits": "nearkin.settings.spec",
    "Signature": "nearkin.index.signatures.signature",
    "SignatureIndex": "nearkin.index.signatures.signature_index",
    "SignatureMatch": "nearkin.index.signatures.signature_index",
    "SignatureMatches": "nearkin.index.signatures.signature_index",
    "MinHashBuilder": "nearkin.stages.sketch.builder",
    "CountingMinHash": "nearkin.stages.sketch.counting",
    "BottomK": "nearkin.stages.sketch.bottom_k",
    "HammingIndex": "nearkin.index.signatures.hamming_index",
    "Neighbour": "nearkin.index.signatures.hamming_index",
    "simhash": "nearkin.stages.sketch.simhash",
    "simhash_of": "nearkin.stages.sketch.simhash",
    "SimHash": "nearkin.stages.sketch.simhash",
    "HashKey": "nearkin.settings.keys",
    "DocumentFrequencies": "nearkin.stages.sketch.resources",
    "SpecResources": "nearkin.stages.sketch.resources",
    "estimate": "nearkin.stages.measures.estimates",
    "Explanation": "nearkin.stages.measures.explanation",
    "tune": "nearkin.quality.plan.tune",
    "Distribution": "nearkin.quality.plan.distribution",
    "Tuning": "nearkin.quality.plan.tune",
    "TuningRecord": "nearkin.quality.plan.tune",
    "OperatingPointRecord": "nearkin.quality.plan.tune",
    "PlannedSettings": "nearkin.quality.plan.capacity",
    "OperatingPoint": "nearkin.quality.plan.tune",
    "plan": "nearkin.quality.plan.capacity",
    "Plan": "nearkin.quality.plan.capacity",
    "Workload": "nearkin.quality.plan.workload",
    "explain": "nearkin.quality.evaluate.explain",
    "GoldenSet": "nearkin.quality.evaluate.golden",
    "fit": "nearkin.runs.fit",
    "choose": "nearkin.runs.choose",
    "ChosenSettings": "nearkin.engine.chosen_settings",
    "TriedSettings": "nearkin.engine.chosen_settings",
    "FitResult": "nearkin.quality.fit.result",
    "FitRecord": "nearkin.quality.fit.result",
    "ReportData": "nearkin.reports.model",
    "Progress": "nearkin.runtime.progress",
    "Index": "nearkin.index.index",
    "AsyncIndex": "nearkin.index.async_index",
    "IndexSettings": "nearkin.index.settings",
    "VectorEvidence": "nearkin.index.settings",
    "TextAndVector": "nearkin.index.documents",
    "IndexStats": "nearkin.index.description",
    "BlockedMatch": "nearkin.engine.blocklist.blocklist",
    "Blocklist": "nearkin.engine.blocklist.blocklist",
    "Decision": "nearkin.settings.decisions.decision",
    "Decisions": "nearkin.settings.decisions.decision",
    "Verdict": "nearkin.settings.decisions.decision",
    "Cluster": "nearkin.index.entry",
    "ClusterPart": "nearkin.index.entry",
    "Entry": "nearkin.index.entry",
    "Evidence": "nearkin.index.entry",
    "Layer": "nearkin.index.entry",
    "Match": "nearkin.index.entry",
    "Outcome": "nearkin.index.entry",
    "OutcomeKind": "nearkin.index.entry",
    "RelatedDocument": "nearkin.index.entry",
    "MatchedPassage": "nearkin.index.passage_matches",
    "PassageMatch": "nearkin.index.passage_matches",
    "PassageMatches": "nearkin.index.passage_matches",
    "Client": "nearkin.service.client.clients",
    "AsyncClient": "nearkin.service.client.clients",
    "Retries": "nearkin.service.client.clients",
    "ClusterPage": "nearkin.service.client.models",
    "IndexFacts": "nearkin.index.index_facts",
    "NewDocument": "nearkin.service.client.models",
    "StoredDocument": "nearkin.service.client.models",
    "TuningResult": "nearkin.service.client.models",
    "synth": "nearkin.quality.lab.synth",
    "SynthSettings": "nearkin.quality.lab.synth",
    "ClockError": "nearkin.errors",
    "IncompatibleError": "nearkin.errors",
    "IndexFullError": "nearkin.errors",
    "KeyRequiredError": "nearkin.errors",
    "LargeClusterError": "nearkin.errors",
    "MissingExtraError": "nearkin.errors",
    "MissingIndexError": "nearkin.errors",
    "MovedError": "nearkin.errors",
    "NearkinError": "nearkin.errors",
    "OutcomeUnknownError": "nearkin.errors",
    "RacedError": "nearkin.errors",
    "RebuildDueError": "nearkin.errors",
    "RunError": "nearkin.errors",
    "ServiceError": "nearkin.errors",
    "StoreError": "nearkin.errors",
    "UsageError": "nearkin.errors",
    "WireError": "nearkin.errors",
}
"""The modules of the public names."""

_MODULES = ("duckdb", "lance", "pandas", "polars", "sklearn", "spark")


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


def _register_loaded_libraries() -> None:
    """Adds `frame.nearkin` to the libraries of data frames that the process has imported.

    It costs nothing: the methods are imported at their first use.
    """
    # A library that is being imported has no frames yet.
    loaded = [name for name in ("pandas", "polars") if hasattr(sys.modules.get(name), "DataFrame")]
    if loaded:
        accessors = import_module("nearkin.integrations.frame_accessors")
        if "pandas" in loaded:
            accessors.register_pandas(sys.modules["pandas"], _pandas_methods)
        if "polars" in loaded:
            accessors.register_polars(sys.modules["polars"], _polars_methods)


_register_loaded_libraries()
