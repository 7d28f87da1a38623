"""The parts of columns that depend on a corpus: lengths of vectors, and fields that are lists."""

from dataclasses import replace

from nearkin.corpus.batches import Corpus
from nearkin.corpus.columns import Columns, ContentField, FieldKind
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting


def detect_dimensions(corpus: Corpus, columns: Columns) -> Columns:
    """Returns the columns with the number of dimensions that most vectors of the first batch have.

    Of several fields, those that are lists become lists of tokens, and the number of dimensions of
    each field of vectors is detected.
    """
    if columns.fields:
        return _detect_field_kinds(corpus, columns)
    if columns.vector is None or columns.dimensions is not None:
        return columns
    corpus.check(columns)
    dimensions = _find_dimensions(corpus, columns)
    if dimensions is None:
        raise UsageError(
            f"column {columns.vector!r} holds no vector; choose another column with "
            f"{name_setting('vector')}"
        )
    return replace(columns, dimensions=dimensions)


def _find_dimensions(corpus: Corpus, columns: Columns) -> int | None:
    for batch in corpus.batches(columns):
        if len(batch.rows):
            dimensions: int = batch.documents["vector"].type.list_size
            return dimensions
    return None


def _detect_field_kinds(corpus: Corpus, columns: Columns) -> Columns:
    is_unknown = [field.kind in (FieldKind.TEXT, FieldKind.VECTOR) for field in columns.fields]
    if not any(is_unknown):
        return columns
    lists = corpus.list_columns(columns)
    kinds = [
        field._replace(kind=FieldKind.TOKENS)
        if field.kind == FieldKind.TEXT and field.name in lists
        else field
        for field in columns.fields
    ]
    columns = replace(columns, fields=tuple(kinds))
    corpus.check(columns)
    fields: list[ContentField] = []
    for field in columns.fields:
        if field.kind == FieldKind.VECTOR and not field.size:
            vectors = replace(columns, fields=(), vector=field.name, dimensions=None)
            dimensions = _find_dimensions(corpus, vectors)
            if dimensions is None:
                raise UsageError(
                    f"column {field.name!r} holds no vector, which would tell the length of all; "
                    f"name it in {name_setting('fields')}, for example "
                    f"{field.name}:cosine/384>=0.95"
                )
            field = field._replace(size=dimensions)
        fields.append(field)
    return replace(columns, fields=tuple(fields))
