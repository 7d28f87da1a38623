"""Tools to try nearkin out: synthetic corpora, calibration, and the table of the case study."""
