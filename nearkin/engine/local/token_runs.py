"""The tokens of documents in mapped files, for the longest run that two documents share.

They are read from the texts, and only if an acceptance asks for such runs.
"""

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


def build_token_runs(
    corpus: Corpus,
    columns: Columns,
    wanted: np.ndarray,
    places: np.ndarray,
    work: WorkFolder,
    spec: Spec,
    resources: SpecResources,
    workers: int,
) -> TokenRuns:
    """Reads some documents of a corpus and stores their tokens.

    Args:
        corpus: Documents.
        columns: Columns of the corpus that are read.
        wanted: Numbers of the documents, sorted, int64 (m,).
        places: Places of the documents, uint64 (m,).
        work: Folder of the files.
        spec: Spec of the run.
        resources: Data that the Spec refers to.
        workers: Number of threads.
    """
    shinglers = ObjectPool(lambda: token_shingler(spec, resources))

    def read(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        content = batch.documents[columns.content]
        return shinglers.use(lambda shingler: hash_tokens(shingler, content))

    sizes = [np.zeros(1, np.int64)]
    with (work.path / TOKENS).open("wb") as file:
        for hashes, counts in ordered_map(read, read_content(corpus, columns, places), workers):
            file.write(hashes.data)
            sizes.append(counts)
    place = np.zeros(int(wanted[-1]) + 1 if len(wanted) else 0, np.uint32)
    place[wanted] = np.arange(len(wanted), dtype=np.uint32)
    work.save(TOKEN_PLACES, place)
    work.save(TOKEN_STARTS, np.cumsum(np.concatenate(sizes)))
    return load_token_runs(work)


def load_token_runs(work: WorkFolder) -> TokenRuns:
    """Returns the tokens that `build_token_runs` stored, mapped from disk.

    Args:
        work: Folder of the files.
    """
    place = np.asarray(work.load(TOKEN_PLACES))
    starts = np.asarray(work.load(TOKEN_STARTS))
    return TokenRuns(place, starts, map_file(work.path / TOKENS, np.uint64))
