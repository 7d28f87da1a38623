"""The stages over arrays: shingles, sketches, bands, verification and clusters."""
