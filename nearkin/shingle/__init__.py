"""Text to shingle hashes: normalise, tokenise (script-aware), n-grams."""

from nearkin.shingle.shingler import Shingler, Shingles, text_buffers

__all__ = ["Shingler", "Shingles", "text_buffers"]
