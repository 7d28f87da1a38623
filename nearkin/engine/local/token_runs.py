"""The tokens of documents in mapped files, for the longest run that two documents share.

They are read from the texts, and only if an acceptance asks for such runs.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.corpus.batches import read_content
from nearkin.engine.local.work_folder import WorkFolder, map_file
from nearkin.engine.token_runs import TokenRuns, hash_tokens, token_shingler
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.sketch.resources import SpecResources
from nearkin.spec import Spec

TOKENS = "tokens"
"""The file of the hashes of tokens."""
TOKEN_PLACES = "token-places"
TOKEN_STARTS = "token-starts"


class DocumentTokens(NamedTuple):
    """The tokens of some documents."""

    hashes: np.ndarray
    """The hashes of all tokens, uint64."""
    counts: np.ndarray
    """The number of tokens of each document, int64 (n,)."""


def read_tokens(
    corpus: Corpus,
    columns: Columns,
    places: np.ndarray,
    spec: Spec,
    resources: SpecResources,
    workers: int,
) -> Iterator[DocumentTokens]:
    """Yields the tokens of some documents of a corpus, in batches.

    Args:
        corpus: Documents.
        columns: Columns of the corpus that are read.
        places: Places of the documents, uint64 (m,).
        spec: Spec of the run.
        resources: Data that the Spec refers to.
        workers: Number of threads.
    """
    shinglers = ObjectPool(lambda: token_shingler(spec, resources))

    def read(batch: Batch) -> DocumentTokens:
        content = batch.documents[columns.content]
        hashes, counts = shinglers.use(lambda shingler: hash_tokens(shingler, content))
        return DocumentTokens(hashes, counts)

    return ordered_map(read, read_content(corpus, columns, places), workers)


def store_token_runs(
    wanted: np.ndarray, batches: Iterator[DocumentTokens], work: WorkFolder
) -> TokenRuns:
    """Stores the tokens of some documents.

    Args:
        wanted: Numbers of the documents, sorted, int64 (m,).
        batches: Tokens of these documents, in order.
        work: Folder of the files.
    """
    sizes = [np.zeros(1, np.int64)]
    with (work.path / TOKENS).open("wb") as file:
        for tokens in batches:
            file.write(tokens.hashes.data)
            sizes.append(tokens.counts)
    place = np.zeros(int(wanted[-1]) + 1 if len(wanted) else 0, np.uint32)
    place[wanted] = np.arange(len(wanted), dtype=np.uint32)
    work.save(TOKEN_PLACES, place)
    work.save(TOKEN_STARTS, np.cumsum(np.concatenate(sizes)))
    return load_token_runs(work)


def load_token_runs(work: WorkFolder) -> TokenRuns:
    """Returns the tokens that `store_token_runs` stored, mapped from disk.

    Args:
        work: Folder of the files.
    """
    place = np.asarray(work.load(TOKEN_PLACES))
    starts = np.asarray(work.load(TOKEN_STARTS))
    return TokenRuns(place, starts, map_file(work.path / TOKENS, np.uint64))
