"""The wording of documents: their words, numbers and symbols, which conditions compare.

It does not depend on the normalization of a Spec. White space, the case of letters and the
punctuation of sentences are no part of it.
"""

from nearkin.stages.wording.wording import WordingHashes, hash_wordings, read_wordings

__all__ = ["WordingHashes", "hash_wordings", "read_wordings"]
