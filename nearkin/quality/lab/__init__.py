"""Tools to try nearkin out: synthetic corpora, benchmarks, calibration and experiments."""
