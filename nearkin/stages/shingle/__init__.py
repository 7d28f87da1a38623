"""Shingling: from texts to normalized tokens, shingle hashes and the frequency cut."""

from nearkin.stages.shingle.frequency_cut import Cut
from nearkin.stages.shingle.shingler import Shingler, Shingles, encode_texts, text_buffers

__all__ = ["Cut", "Shingler", "Shingles", "encode_texts", "text_buffers"]
