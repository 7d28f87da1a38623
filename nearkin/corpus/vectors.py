"""The number of dimensions of the vectors of a corpus."""

from dataclasses import replace

from nearkin.corpus.batches import Corpus
from nearkin.corpus.columns import Columns
from nearkin.errors import UsageError
from nearkin.setting_names import name_setting


def detect_dimensions(corpus: Corpus, columns: Columns) -> Columns:
    """Returns the columns with the number of dimensions that most vectors of the first batch have.

    Args:
        corpus: The corpus, which is read only if the columns name vectors of unknown length.
        columns: The columns.

    Raises:
        UsageError: If the corpus holds no vector, or a column is missing.
    """
    if columns.vector is None or columns.dimensions is not None:
        return columns
    corpus.check(columns)
    for batch in corpus.batches(columns):
        if len(batch.rows):
            return replace(columns, dimensions=batch.documents["vector"].type.list_size)
    raise UsageError(
        f"column {columns.vector!r} holds no vector; choose another column with "
        f"{name_setting('vector')}"
    )
