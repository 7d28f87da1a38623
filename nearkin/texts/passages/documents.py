"""The documents of a run over passages: their ids, sizes and sources, in a file."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Batch, Columns, make_ids
from nearkin.corpus.columns import carried_column_name
from nearkin.corpus.places import places_of

ID = "id"
BYTES = "bytes"
SOURCE = "source"
PLACE = "place"


class DocumentWriter:
    """A writer of the facts of documents, in corpus order."""

    def __init__(
        self,
        path: Path,
        columns: Columns,
        names: list[str],
        source: str | None,
        keep_columns: Sequence[str] = (),
    ) -> None:
        self._columns = columns
        self._names = names
        self._source = source
        self._keep_columns = tuple(map(carried_column_name, keep_columns))
        fields = [(ID, pa.large_string()), (BYTES, pa.int64()), (PLACE, pa.uint64())]
        if source is not None:
            fields.append((SOURCE, pa.large_string()))
        fields += [(name, pa.large_string()) for name in self._keep_columns]
        self._schema = pa.schema(fields)
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self.documents = 0
        self.text_bytes = 0

    def __enter__(self) -> "DocumentWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._sink.close()

    def add(self, batch: Batch, texts: pa.Array) -> None:
        """Appends the documents of a batch with their texts, large_string (n,)."""
        sizes = pc.binary_length(texts)
        values = [make_ids(batch, self._columns, self._names), sizes.cast(pa.int64())]
        values.append(pa.array(places_of(batch.files, batch.rows)))
        if self._source is not None:
            values.append(batch.documents[carried_column_name(self._source)])
        values += [batch.documents[name] for name in self._keep_columns]
        self._writer.write_batch(pa.record_batch(values, schema=self._schema))
        self.documents += len(batch.rows)
        self.text_bytes += int(pc.sum(sizes).as_py() or 0)


def read_documents(path: Path) -> pa.Table:
    """Returns what `DocumentWriter` wrote, mapped from disk."""
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()
