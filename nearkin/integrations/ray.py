"""Functions of batches for Ray Data: signatures, and near-duplicates over a shared index.

Each is an argument of `Dataset.map_batches` with `batch_format="pyarrow"`. Ray makes one object for
each actor, from `fn_constructor_kwargs`. The module does not import Ray.
"""

from typing import Unpack

import pyarrow as pa

from nearkin.corpus.arrow_conversion import (
    decode_column,
    replace_nulls,
    to_texts,
    type_name,
)
from nearkin.errors import UsageError
from nearkin.index.settings import SettingsFields
from nearkin.integrations.near_duplicates import NearDuplicateFinder
from nearkin.integrations.text_columns import TextColumns
from nearkin.runtime.arrow_types import is_nested
from nearkin.runtime.suggestions import describe_columns
from nearkin.settings.spec import Spec


class AddSignatures:
    """Adds the columns `signature` and `band_keys` to batches of texts.

    Documents that share a band key at one position are candidates, for a join of their own.

    Args:
        text: Column of texts.
        spec: Spec of the signatures.
        threshold: Smallest similarity of near-duplicates.
        recall: Required share of the pairs at the threshold that share a key.

    Examples:
        >>> batch = pa.table({"text": ["one two three four", None]})
        >>> AddSignatures()(batch).column_names
        ['text', 'signature', 'band_keys']
    """

    def __init__(
        self,
        text: str = "text",
        spec: Spec | None = None,
        threshold: float = 0.8,
        recall: float = 0.95,
    ) -> None:
        self._text = text
        self._columns = TextColumns(spec or Spec())
        self._threshold = threshold
        self._recall = recall

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Returns a batch with both columns."""
        texts = _column_of(batch, self._text)
        keys = self._columns.band_keys(texts, self._threshold, self._recall)
        batch = batch.append_column("signature", self._columns.sketch(texts))
        return batch.append_column("band_keys", keys)


class DropNearDuplicates:
    """Drops rows whose text repeats one of an index, which all actors share.

    The first row that arrives stays, so the order of the batches decides which one it is. A row
    that comes again with the same id stays, so a task can be repeated.

    Args:
        store: URL of the index, which all machines can reach.
        id: Column of ids.
        text: Column of texts. Rows without text stay.
        scope: Scope of the rows in the index.
        threshold: Smallest similarity of near-duplicates. By default that of the index, or 0.8.
        **settings: Further parameters of `Index.open`.
    """

    def __init__(
        self,
        store: str,
        id: str = "id",
        text: str = "text",
        scope: str = "default",
        threshold: float | None = None,
        **settings: Unpack[SettingsFields],
    ) -> None:
        self._id = id
        self._text = text
        self._finder = NearDuplicateFinder(store, scope, threshold, **settings)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Returns the rows of a batch that stay."""
        texts = to_texts(replace_nulls(_column_of(batch, self._text)))
        ids = decode_column(_column_of(batch, self._id))
        if is_nested(ids.type):
            raise UsageError(f"{self._id!r} is of the type {ids.type}; give texts or numbers")
        if ids.null_count:
            raise UsageError(f"{ids.null_count} rows have no {self._id!r}; give each row an id")
        values = pa.chunked_array(texts, pa.large_string()).to_pylist()
        repeated = self._finder.find(values, ids.cast(pa.string()).to_pylist())
        return batch.filter(pa.array([original is None for original in repeated], pa.bool_()))


def _column_of(batch: pa.Table, name: str) -> pa.ChunkedArray:
    """Returns a column of a batch."""
    if not isinstance(batch, pa.Table):
        raise UsageError(
            f"a batch is of the type {type_name(batch)} and not a table of pyarrow; call "
            'map_batches with batch_format="pyarrow"'
        )
    if name not in batch.column_names:
        raise UsageError(f"there is no column {name!r}; {describe_columns(batch.column_names)}")
    return batch[name]
