"""Preparation of the kernels that an index calls, before the first document waits for them.

The kernels depend on the Spec and the settings. So they are called on a temporary index of the same
settings, which loads their machine code, or compiles it.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable
from typing import Any

from llvmlite import binding

from nearkin.errors import UsageError
from nearkin.index.documents import Document, TextAndVector
from nearkin.index.opening import new_header
from nearkin.index.settings import IndexSettings
from nearkin.index.telemetry import without_telemetry
from nearkin.runtime import jit
from nearkin.stages.sketch.resources import SpecResources

PREPARED: set[str] = set()
"""The kinds of indexes that this process has prepared."""
MARK = "prepared-{kind}"
"""The name of an empty file in the cache: the kernels of a kind of index are compiled."""


def prepare_upserts(
    settings: IndexSettings, resources: SpecResources, open_index: Callable[..., Any]
) -> None:
    """Compiles the kernels that upserts and queries of an index call, if that was never done.

    A file in the cache says that it was done on this machine. Then the kernels are loaded when they
    are called, which takes less than a second.

    Args:
        open_index: `Index.open`.
    """
    kind = _name_kind(settings)
    if kind in PREPARED:
        return
    PREPARED.add(kind)
    folder = jit.cache_folder()
    mark = None if folder is None else folder / MARK.format(kind=kind)
    if mark is not None and mark.exists():
        return
    try:
        call_kernels(settings, resources, open_index)
    except UsageError:
        # the settings do not accept the sample documents, for example because they are too large
        return
    if mark is not None:
        # without space on the disk, the next process does this again
        with contextlib.suppress(OSError):
            mark.touch(mode=0o600)


def call_kernels(
    settings: IndexSettings, resources: SpecResources, open_index: Callable[..., Any]
) -> None:
    """Calls the kernels that requests use, on a temporary index.

    Args:
        open_index: `Index.open`.
    """
    with (
        without_telemetry(),
        open_index(
            "memory://", settings=settings, resources=resources, max_memory=None, warm_up=False
        ) as temporary,
    ):
        documents = _sample_documents(temporary)
        for batch in (documents, documents[:1]):
            temporary.upsert_many("warm", batch)
        temporary.query("warm", documents[0])
        with contextlib.suppress(UsageError):
            ids = [outcome.id for outcome in temporary.upsert_many("warm", documents)]
            temporary.explain("warm", ids[0], ids[1])


def _name_kind(settings: IndexSettings) -> str:
    """Returns a name of all indexes that call the same kernels, for this kind of processor."""
    facts = [binding.get_host_cpu_name(), new_header(settings)]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=10).hexdigest()


def _sample_documents(index: Any) -> list[Document]:
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
