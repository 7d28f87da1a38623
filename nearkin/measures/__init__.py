"""Measures of similarity: how documents become signatures and how pairs are compared exactly."""

from nearkin.measures.base import BandingRequest, Measure, Payload
from nearkin.measures.registry import measure_of

__all__ = ["BandingRequest", "Measure", "Payload", "measure_of"]
