"""Signatures as objects, and indexes of signatures in memory.

The package stands beside `nearkin.index`. Both search bands for similar documents, but an index of
signatures has no store, no texts and no clusters: it returns every stored signature with its
estimate, and knows nothing that the signatures do not contain.
"""
