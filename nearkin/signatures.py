"""The types and functions that belong to signatures, beside the builders and indexes of nearkin."""

from nearkin.index.signatures.hamming_index import Neighbour
from nearkin.index.signatures.signature_index import SignatureMatch, SignatureMatches
from nearkin.settings.spec import SignatureLimits
from nearkin.stages.sketch.counting import CountingMinHash
from nearkin.stages.sketch.resources import DocumentFrequencies
from nearkin.stages.sketch.simhash import simhash_of

__all__ = [
    "CountingMinHash",
    "DocumentFrequencies",
    "Neighbour",
    "SignatureLimits",
    "SignatureMatch",
    "SignatureMatches",
    "simhash_of",
]
