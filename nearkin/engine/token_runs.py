"""The tokens of documents whose order acceptances compare, in mapped files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.corpus.batches import read_content
from nearkin.engine.work_folder import WorkFolder, map_file
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.shingle import Shingler
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.sketch.sketcher import iterate_streams
from nearkin.stages.verify.kernels import longest_shared_runs
from nearkin.stages.wording import read_wordings
from nearkin.stages.wording.kernels import find_said
from nearkin.stages.wording.negations import negation_tokens

TokenReader: TypeAlias = Callable[[pa.Array], tuple[np.ndarray, np.ndarray]]
"""A function of the contents of n documents. It returns all their tokens, uint64, and the number of
tokens of each document, int64 (n,)."""


class TokenKind(StrEnum):
    """The kinds of tokens. The values name files and columns."""

    SHINGLED = "tokens"
    """Words or characters, of which the shingles of the Spec consist."""
    WORDING = "wording-tokens"
    """Words, numbers and symbols of the original texts, whatever the Spec is."""


def create_token_reader(kind: TokenKind, spec: Spec, resources: SpecResources) -> TokenReader:
    """Returns a function that reads tokens. Each thread needs its own."""
    if kind == TokenKind.WORDING:
        return read_wordings
    shingler = token_shingler(spec, resources)
    return lambda content: hash_tokens(shingler, content)


def token_shingler(spec: Spec, resources: SpecResources) -> Shingler:
    """Returns a shingler of single tokens: words or characters, as the shingles have them."""
    single = Spec(
        unit=spec.unit,
        n=1,
        normalise=spec.normalise,
        stem=spec.stem,
        base_hash=spec.base_hash,
        hash_seed=spec.hash_seed,
        key_id=spec.key_id,
        version=spec.version,
    )
    return Shingler(single, resources.secret)


def hash_tokens(shingler: Shingler, content: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns the tokens of documents.

    Returns:
        The hashes of all tokens, uint64, and the number of tokens of each document, int64 (n,).
    """
    hashes = [np.empty(0, np.uint64)]
    counts = [np.empty(0, np.int64)]
    for _, stream in iterate_streams(shingler, content):
        hashes.append(stream.hashes.copy())
        counts.append(np.diff(stream.offsets))
    return np.concatenate(hashes), np.concatenate(counts)


@dataclass(frozen=True)
class TokenRuns:
    """The tokens of some documents.

    Attributes:
        place: Position of each document among the stored ones, uint32 (documents,).
        starts: First token of each stored document, and the end, int64 (stored + 1,).
        tokens: The tokens, uint64.
    """

    place: np.ndarray
    starts: np.ndarray
    tokens: np.ndarray

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

    def find_said(self, removed: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Returns for which pairs the kept document says all that the removed one says, bool (m,).

        The tokens must be those of wordings.

        Args:
            removed: Number of the removed document of each pair, int64 (m,).
            kept: Number of the kept document of each pair, int64 (m,).
        """
        said = np.empty(len(removed), bool)
        a = self.place[removed].astype(np.int64)
        b = self.place[kept].astype(np.int64)
        find_said(a, b, self.starts, self.tokens, negation_tokens(), said)
        return said


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
