"""The types of what the functions of nearkin return, and of what describes a request to them.

Most programs need them for annotations only, for example `nk.results.DedupResult`.
"""

from nearkin.engine.advice import Advice
from nearkin.engine.blocklist.blocklist import BlockedMatch
from nearkin.engine.changed_settings import SettingChange
from nearkin.engine.chosen_settings import ChosenSettings, TriedSettings
from nearkin.quality.evaluate.golden import GoldenSet
from nearkin.quality.fit.result import FitRecord, FitResult
from nearkin.quality.lab.synth import SynthSettings
from nearkin.quality.plan.capacity import Plan, PlannedSettings
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.tune import OperatingPoint, OperatingPointRecord, Tuning, TuningRecord
from nearkin.quality.plan.workload import Workload
from nearkin.reports.examples import PairExample, PairExamples
from nearkin.reports.model import ReportData
from nearkin.runs.diff import DiffResult
from nearkin.runs.profile import Profile
from nearkin.runs.results import (
    CheckResult,
    DecontaminationResult,
    DedupResult,
    PairsResult,
    PassagesResult,
    ResultTable,
    SplitResult,
)
from nearkin.runs.sync import SyncResult
from nearkin.runtime.warm_up import WarmUp
from nearkin.stages.measures.explanation import Explanation

__all__ = [
    "Advice",
    "BlockedMatch",
    "CheckResult",
    "ChosenSettings",
    "DecontaminationResult",
    "DedupResult",
    "DiffResult",
    "Distribution",
    "Explanation",
    "FitRecord",
    "FitResult",
    "GoldenSet",
    "OperatingPoint",
    "OperatingPointRecord",
    "PairExample",
    "PairExamples",
    "PairsResult",
    "PassagesResult",
    "Plan",
    "PlannedSettings",
    "Profile",
    "ReportData",
    "ResultTable",
    "SettingChange",
    "SplitResult",
    "SyncResult",
    "SynthSettings",
    "TriedSettings",
    "Tuning",
    "TuningRecord",
    "WarmUp",
    "Workload",
]
