"""The tokens of documents in mapped files, whose order an acceptance compares.

They are read from the texts, and only if an acceptance needs them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.corpus.batches import read_content
from nearkin.engine.local.work_folder import WorkFolder, map_file
from nearkin.engine.token_runs import TokenKind, TokenRuns, create_token_reader
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import SpecResources

PLACES = "-places"
"""The end of the name of the file of the place of each document, after the kind of tokens."""
STARTS = "-starts"
"""The end of the name of the file of the first token of each document."""


class DocumentTokens(NamedTuple):
    """The tokens of some documents."""

    tokens: np.ndarray
    """All tokens, uint64."""
    counts: np.ndarray
    """The number of tokens of each document, int64 (n,)."""


def read_tokens(
    kind: TokenKind,
    corpus: Corpus,
    columns: Columns,
    places: np.ndarray,
    spec: Spec,
    resources: SpecResources,
    workers: int,
) -> Iterator[DocumentTokens]:
    """Yields the tokens of some documents of a corpus, in batches.

    Args:
        places: Places of the documents, uint64 (m,).
    """
    readers = ObjectPool(lambda: create_token_reader(kind, spec, resources))

    def read(batch: Batch) -> DocumentTokens:
        content = batch.documents[columns.content]
        tokens, counts = readers.use(lambda reader: reader(content))
        return DocumentTokens(tokens, counts)

    return ordered_map(read, read_content(corpus, columns, places), workers)


def store_token_runs(
    kind: TokenKind, wanted: np.ndarray, batches: Iterator[DocumentTokens], work: WorkFolder
) -> None:
    """Stores the tokens of some documents.

    Args:
        wanted: Numbers of the documents, sorted, int64 (m,).
    """
    sizes = [np.zeros(1, np.int64)]
    with (work.path / kind).open("wb") as file:
        for batch in batches:
            file.write(batch.tokens.data)
            sizes.append(batch.counts)
    place = np.zeros(int(wanted[-1]) + 1 if len(wanted) else 0, np.uint32)
    place[wanted] = np.arange(len(wanted), dtype=np.uint32)
    work.save(f"{kind}{PLACES}", place)
    work.save(f"{kind}{STARTS}", np.cumsum(np.concatenate(sizes)))


def load_token_runs(kind: TokenKind, work: WorkFolder) -> TokenRuns:
    """Returns the tokens that `store_token_runs` stored, mapped from disk."""
    place = np.asarray(work.load(f"{kind}{PLACES}"))
    starts = np.asarray(work.load(f"{kind}{STARTS}"))
    return TokenRuns(place, starts, map_file(work.path / kind, np.uint64))
