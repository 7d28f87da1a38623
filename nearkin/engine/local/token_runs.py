"""The tokens of documents in mapped files, for the longest run that two documents share.

They are read from the texts, and only if an acceptance asks for such runs.
"""

from dataclasses import dataclass

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.corpus.batches import read_content
from nearkin.engine.local.work_folder import WorkFolder, map_file
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.shingle import Shingler
from nearkin.sketch.resources import SpecResources
from nearkin.sketch.sketcher import iterate_streams
from nearkin.spec import Spec
from nearkin.verify.shared_runs import longest_shared_runs

TOKENS = "tokens"
"""The file of the hashes of tokens."""
TOKEN_PLACES = "token-places"
TOKEN_STARTS = "token-starts"


def token_shingler(spec: Spec, resources: SpecResources) -> Shingler:
    """Returns a shingler of single tokens: words or characters, as the shingles have them.

    Args:
        spec: Spec of the run.
        resources: Data that the Spec refers to.
    """
    single = Spec(
        unit=spec.unit,
        n=1,
        normalise=spec.normalise,
        stem=spec.stem,
        base_hash=spec.base_hash,
        hash_seed=spec.hash_seed,
        key_id=spec.key_id,
    )
    return Shingler(single, resources.secret)


@dataclass(frozen=True)
class TokenRuns:
    """The tokens of some documents.

    Attributes:
        place: Position of each document among the stored ones, uint32 (documents,).
        starts: First token of each stored document, and the end, int64 (stored + 1,).
        tokens: Hashes of the tokens, uint64.
    """

    place: np.ndarray
    starts: np.ndarray
    tokens: np.ndarray

    @classmethod
    def build(
        cls,
        corpus: Corpus,
        columns: Columns,
        wanted: np.ndarray,
        places: np.ndarray,
        work: WorkFolder,
        spec: Spec,
        resources: SpecResources,
        workers: int,
    ) -> "TokenRuns":
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

        def read(batch: Batch) -> list[tuple[np.ndarray, np.ndarray]]:
            documents = batch.documents[columns.content]
            return shinglers.use(
                lambda shingler: [
                    (stream.hashes.copy(), np.diff(stream.offsets))
                    for _, stream in iterate_streams(shingler, documents)
                ]
            )

        sizes = [np.zeros(1, np.int64)]
        with (work.path / TOKENS).open("wb") as file:
            for slices in ordered_map(read, read_content(corpus, columns, places), workers):
                for hashes, counts in slices:
                    file.write(hashes.data)
                    sizes.append(counts)
        place = np.zeros(int(wanted[-1]) + 1 if len(wanted) else 0, np.uint32)
        place[wanted] = np.arange(len(wanted), dtype=np.uint32)
        work.save(TOKEN_PLACES, place)
        work.save(TOKEN_STARTS, np.cumsum(np.concatenate(sizes)))
        return cls.load(work)

    @classmethod
    def load(cls, work: WorkFolder) -> "TokenRuns":
        """Returns the tokens that `build` stored, mapped from disk.

        Args:
            work: Folder of the files.
        """
        place = np.asarray(work.load(TOKEN_PLACES))
        starts = np.asarray(work.load(TOKEN_STARTS))
        return cls(place, starts, map_file(work.path / TOKENS, np.uint64))

    def longest_shared(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Returns the number of tokens of the longest run that both documents of a pair share.

        Args:
            first: Number of one document of each pair, int64 (m,).
            second: Number of the other document of each pair, int64 (m,).

        Returns:
            int64 (m,).
        """
        lengths = np.empty(len(first), np.int64)
        a = self.place[first].astype(np.int64)
        b = self.place[second].astype(np.int64)
        longest_shared_runs(a, b, self.starts, self.tokens, lengths)
        return lengths
