"""Text to shingle hashes: normalise, tokenise (script-aware), n-grams, frequency cut (boilerplate)."""

from nearkin.shingle.frequency_cut import Cut
from nearkin.shingle.shingler import Shingler, Shingles, text_buffers

__all__ = ["Cut", "Shingler", "Shingles", "text_buffers"]
