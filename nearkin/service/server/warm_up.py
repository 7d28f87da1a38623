"""Preparation of a process before it answers requests."""

import contextlib
import gc
import sys

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.documents import Document, TextAndVector
from nearkin.index.index import Index
from nearkin.service.server.http.kernels import json_shape

COLLECTOR_THRESHOLDS = (50_000, 50, 1000)
"""Thresholds of the garbage collector's generations."""
THREAD_SWITCH_SECONDS = 0.001
"""Seconds after which a thread that processes a batch yields to the event loop."""


def compile_kernels(index: Index) -> None:
    """Compiles the kernels that requests use, by calling them on a temporary index."""
    json_shape(np.zeros(1, np.uint8))
    with Index.open(
        "memory://", settings=index.settings, resources=index.resources, max_memory=None
    ) as temporary:
        documents = _sample_documents(temporary)
        for batch in (documents, documents[:1]):
            temporary.upsert_many("warm", batch)
        temporary.query("warm", documents[0])
        with contextlib.suppress(UsageError):
            ids = [outcome.id for outcome in temporary.upsert_many("warm", documents)]
            temporary.explain("warm", ids[0], ids[1])


def configure_interpreter() -> None:
    """Excludes the objects that exist now from garbage collection, and makes collections rare.

    A full collection stops all requests, and requests create few reference cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)


def _sample_documents(index: Index) -> list[Document]:
    if index.holds_vectors:
        return [[1.0] * index.spec.n, [1.0] * (index.spec.n - 1) + [0.9]]
    if index.settings.vector is not None:
        vector = [1.0] * index.settings.vector.spec.n
        return [
            TextAndVector(" ".join(f"word{number}" for number in range(first, 50)), vector)
            for first in range(3)
        ]
    words = " ".join(f"word{number}" for number in range(50))
    return [words, f"{words} more", f"{words} été"]
