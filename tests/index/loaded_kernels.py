"""Loads nearkin and the kernels of an index when it is imported.

`processes.py` imports it in the process that others are forked from.
"""

import nearkin as nk
from tests.index.conftest import corpus

TEXTS = corpus(30)

with nk.Index.open("memory://", threshold=0.7) as index:
    index.upsert_many("a", TEXTS, [str(number) for number in range(30)])
    index.upsert("a", f"{TEXTS[0]} more", "0")
    index.query("a", TEXTS[1])
    index.remove("a", "0")
