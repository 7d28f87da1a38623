"""Figures of nearkin and of its rivals, measured.

Docs/contributing/benchmarks.md is written from them.
"""
