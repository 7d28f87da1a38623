"""Near-duplicate detection for files, for streams of documents, and for vectors."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nearkin.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nearkin import duckdb, lance, pandas, polars, sklearn, spark
    from nearkin.api import (
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
    from nearkin.blocklist.blocklist import BlockedMatch, Blocklist
    from nearkin.client.clients import AsyncClient, Client, Retries
    from nearkin.client.models import (
        ClusterPage,
        IndexFacts,
        NewDocument,
        StoredDocument,
        TuningResult,
    )
    from nearkin.decisions.decision import Decision, Decisions, Verdict
    from nearkin.engine.short_documents import ShortTextSettings
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
    from nearkin.evaluate.explain import explain
    from nearkin.evaluate.golden import GoldenSet
    from nearkin.fit.fit import fit
    from nearkin.fit.result import FitRecord, FitResult
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
    from nearkin.index.passage_matches import MatchedPassage, PassageMatch, PassageMatches
    from nearkin.index.settings import IndexSettings, VectorEvidence
    from nearkin.keys import HashKey
    from nearkin.lab.synth import SynthSettings, synth
    from nearkin.measures.estimates import estimate
    from nearkin.measures.explanation import Explanation
    from nearkin.plan.capacity import Plan, PlannedSettings, plan
    from nearkin.plan.distribution import Distribution
    from nearkin.plan.tune import (
        OperatingPoint,
        OperatingPointRecord,
        Tuning,
        TuningRecord,
        tune,
    )
    from nearkin.plan.workload import Workload
    from nearkin.report.model import ReportData
    from nearkin.results import (
        CheckResult,
        DecontaminationResult,
        DedupResult,
        PairsResult,
        PassagesResult,
        ResultTable,
        SplitResult,
    )
    from nearkin.runtime.progress import Progress
    from nearkin.signatures.hamming_index import HammingIndex, Neighbour
    from nearkin.signatures.signature import Signature
    from nearkin.signatures.signature_index import SignatureIndex, SignatureMatch, SignatureMatches
    from nearkin.sketch.bottom_k import BottomK
    from nearkin.sketch.builder import MinHashBuilder
    from nearkin.sketch.counting import CountingMinHash
    from nearkin.sketch.resources import DocumentFrequencies, SpecResources
    from nearkin.sketch.simhash import SimHash, simhash, simhash_of
    from nearkin.spec import SignatureLimits, Spec

# Type checkers read only a list of literals. A test compares it with _HOMES and the imports above.
__all__ = [
    "AsyncClient",
    "AsyncIndex",
    "BlockedMatch",
    "Blocklist",
    "BottomK",
    "CheckResult",
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
    "ShortTextSettings",
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
    "dedup": "nearkin.api",
    "pairs": "nearkin.api",
    "split": "nearkin.api",
    "passages": "nearkin.api",
    "decontaminate": "nearkin.api",
    "check": "nearkin.api",
    "sketch": "nearkin.api",
    "report": "nearkin.api",
    "frequencies": "nearkin.api",
    "observe": "nearkin.api",
    "DedupResult": "nearkin.results",
    "PairsResult": "nearkin.results",
    "PassagesResult": "nearkin.results",
    "DecontaminationResult": "nearkin.results",
    "ResultTable": "nearkin.results",
    "SplitResult": "nearkin.results",
    "CheckResult": "nearkin.results",
    "Spec": "nearkin.spec",
    "SignatureLimits": "nearkin.spec",
    "Signature": "nearkin.signatures.signature",
    "SignatureIndex": "nearkin.signatures.signature_index",
    "SignatureMatch": "nearkin.signatures.signature_index",
    "SignatureMatches": "nearkin.signatures.signature_index",
    "MinHashBuilder": "nearkin.sketch.builder",
    "CountingMinHash": "nearkin.sketch.counting",
    "BottomK": "nearkin.sketch.bottom_k",
    "HammingIndex": "nearkin.signatures.hamming_index",
    "Neighbour": "nearkin.signatures.hamming_index",
    "simhash": "nearkin.sketch.simhash",
    "simhash_of": "nearkin.sketch.simhash",
    "SimHash": "nearkin.sketch.simhash",
    "HashKey": "nearkin.keys",
    "DocumentFrequencies": "nearkin.sketch.resources",
    "SpecResources": "nearkin.sketch.resources",
    "estimate": "nearkin.measures.estimates",
    "Explanation": "nearkin.measures.explanation",
    "tune": "nearkin.plan.tune",
    "Distribution": "nearkin.plan.distribution",
    "Tuning": "nearkin.plan.tune",
    "TuningRecord": "nearkin.plan.tune",
    "OperatingPointRecord": "nearkin.plan.tune",
    "PlannedSettings": "nearkin.plan.capacity",
    "ShortTextSettings": "nearkin.engine.short_documents",
    "OperatingPoint": "nearkin.plan.tune",
    "plan": "nearkin.plan.capacity",
    "Plan": "nearkin.plan.capacity",
    "Workload": "nearkin.plan.workload",
    "explain": "nearkin.evaluate.explain",
    "GoldenSet": "nearkin.evaluate.golden",
    "fit": "nearkin.fit.fit",
    "FitResult": "nearkin.fit.result",
    "FitRecord": "nearkin.fit.result",
    "ReportData": "nearkin.report.model",
    "Progress": "nearkin.runtime.progress",
    "Index": "nearkin.index.index",
    "AsyncIndex": "nearkin.index.async_index",
    "IndexSettings": "nearkin.index.settings",
    "VectorEvidence": "nearkin.index.settings",
    "TextAndVector": "nearkin.index.documents",
    "IndexStats": "nearkin.index.description",
    "BlockedMatch": "nearkin.blocklist.blocklist",
    "Blocklist": "nearkin.blocklist.blocklist",
    "Decision": "nearkin.decisions.decision",
    "Decisions": "nearkin.decisions.decision",
    "Verdict": "nearkin.decisions.decision",
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
    "Client": "nearkin.client.clients",
    "AsyncClient": "nearkin.client.clients",
    "Retries": "nearkin.client.clients",
    "ClusterPage": "nearkin.client.models",
    "IndexFacts": "nearkin.client.models",
    "NewDocument": "nearkin.client.models",
    "StoredDocument": "nearkin.client.models",
    "TuningResult": "nearkin.client.models",
    "synth": "nearkin.lab.synth",
    "SynthSettings": "nearkin.lab.synth",
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


class _Package(ModuleType):
    """A module type that keeps the functions `nearkin.sketch` and `nearkin.report`.

    Importing a subpackage would replace them, because it sets an attribute with its own name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if "pandas" in sys.modules or "polars" in sys.modules:
    import_module("nearkin.frame_accessors").register_loaded_libraries()
