"""Measures: how documents become signatures, what an agreeing slot means, and how similar two documents are exactly."""

from nearkin.measures.base import Measure, Payload, Request
from nearkin.measures.registry import measure_of

__all__ = ["Measure", "Payload", "Request", "measure_of"]
