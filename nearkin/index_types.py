"""The types of the documents, settings and answers of `Index` and `Client`."""

from nearkin.index.changes import Change, ChangePage
from nearkin.index.description import IndexStats
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
from nearkin.index.index_facts import IndexFacts
from nearkin.index.passage_matches import MatchedPassage, PassageMatch, PassageMatches
from nearkin.index.scope_settings import ScopeSettings, ScopeStatus
from nearkin.index.settings import IndexSettings, VectorEvidence
from nearkin.service.client.clients import Retries
from nearkin.service.client.models import ClusterPage, NewDocument, StoredDocument, TuningResult
from nearkin.settings.decisions.decision import Decision, Decisions, Verdict

__all__ = [
    "Change",
    "ChangePage",
    "Cluster",
    "ClusterPage",
    "ClusterPart",
    "Decision",
    "Decisions",
    "Entry",
    "Evidence",
    "IndexFacts",
    "IndexSettings",
    "IndexStats",
    "Layer",
    "Match",
    "MatchedPassage",
    "NewDocument",
    "Outcome",
    "OutcomeKind",
    "PassageMatch",
    "PassageMatches",
    "RelatedDocument",
    "Retries",
    "ScopeSettings",
    "ScopeStatus",
    "StoredDocument",
    "TuningResult",
    "VectorEvidence",
    "Verdict",
]
