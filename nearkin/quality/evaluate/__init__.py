"""Audits, golden sets, explanations and shadow comparisons of runs."""
