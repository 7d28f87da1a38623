"""Figures of nearkin and of its rivals, measured; docs/benchmarks.md is written from them."""
