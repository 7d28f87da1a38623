"""People's decisions about pairs of documents: facts that later runs and indexes honour."""

from nearkin.settings.decisions.decision import Decision, Decisions, Verdict
from nearkin.settings.decisions.files import read_decisions

__all__ = ["Decision", "Decisions", "Verdict", "read_decisions"]
