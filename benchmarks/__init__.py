"""Figures of nearkin and of its rivals, measured; docs/reference/benchmarks.md is written from them."""
