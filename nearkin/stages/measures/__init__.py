"""Measures of similarity: how documents become signatures and how pairs are compared exactly."""

from nearkin.stages.measures.base import BandingRequest, Measure, Payload
from nearkin.stages.measures.registry import measure_of

__all__ = ["BandingRequest", "Measure", "Payload", "measure_of"]
