"""Shingling: from texts to normalized tokens, shingle hashes and the frequency cut."""

from nearkin.shingle.frequency_cut import Cut
from nearkin.shingle.shingler import Shingler, Shingles, encode_texts, text_buffers

__all__ = ["Cut", "Shingler", "Shingles", "encode_texts", "text_buffers"]
