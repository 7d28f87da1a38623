"""Figures of nearkin and of its rivals, measured.

Docs/reference/benchmarks.md is written from them.
"""
