"""How long a corpus' vectors are."""

from dataclasses import replace

from nearkin.corpus.batches import Corpus
from nearkin.corpus.columns import Columns
from nearkin.errors import UsageError


def detect_dimensions(corpus: Corpus, columns: Columns) -> Columns:
    """The columns with the length of a vector: what most of the first ones have.

    Raises:
        UsageError: There is none.
    """
    if columns.vector is None or columns.dimensions is not None:
        return columns
    corpus.check(columns)
    for batch in corpus.batches(columns):
        if len(batch.rows):
            return replace(columns, dimensions=batch.documents["vector"].type.list_size)
    raise UsageError(f"column {columns.vector!r} holds no vector; choose another one with --vector")
