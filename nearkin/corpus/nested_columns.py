"""Columns inside other columns, by their path: `meta.lang` and `messages.content`.

A path leads through structs, maps and lists. Behind a list, it stands for the values of all
elements: texts are joined to one text, and lists to one list. A column whose name is the whole path
takes precedence.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.columns import TEXT_SEPARATOR, Columns
from nearkin.corpus.encoded_columns import remove_encoding, remove_encoding_within
from nearkin.runtime.arrow_types import (
    TEXT,
    is_binary,
    is_list,
    is_text,
    plain_type,
    view_as_binary,
)

MISSING = object()
"""The value of a path that leads nowhere."""
SEPARATOR = "."
"""The character between the names of a path."""
DEEPEST_LISTED = 4
"""The largest number of names in a path that messages list."""


class DerivedColumns(NamedTuple):
    """Rows with all columns that a run reads."""

    rows: pa.RecordBatch
    too_long: dict[int, str]
    """The path at which the value of a row is too long to be decoded, by the position of the row.
    """


def split_path(path: str) -> Iterator[tuple[str, str]]:
    """Yields the ways in which a path can begin with a name. Longer names come first.

    Examples:
        >>> list(split_path("a.b.c"))
        [('a.b.c', ''), ('a.b', 'c'), ('a', 'b.c')]
    """
    parts = path.split(SEPARATOR)
    for count in range(len(parts), 0, -1):
        yield SEPARATOR.join(parts[:count]), SEPARATOR.join(parts[count:])


def find_root(path: str, names: Collection[str]) -> str | None:
    """Returns the column that a path begins with, or None if the names lack it.

    Examples:
        >>> find_root("meta.lang", ["meta", "id"]), find_root("lang", ["meta", "id"])
        ('meta', None)
    """
    return next((name for name, _ in split_path(path) if name in names), None)


def list_roots(columns: Columns, names: Sequence[str]) -> list[str]:
    """Returns the columns of a file that hold what a run reads, without repetitions."""
    roots = dict.fromkeys(find_root(name, names) or name for name in columns.stored)
    return list(roots) or list(names[:1])


def is_column(path: str, schema: pa.Schema) -> bool:
    """Returns whether a path leads to values."""
    return _leads_to_values(path, list(schema))


def _leads_to_values(path: str, members: Sequence[pa.Field]) -> bool:
    names = [member.name for member in members]
    for name, rest in split_path(path):
        if name in names:
            return not rest or _has_member(members[names.index(name)].type, rest)
    return False


def _has_member(kind: pa.DataType, path: str) -> bool:
    kind = plain_type(kind)
    if is_list(kind):
        return _has_member(kind.value_type, path)
    if pa.types.is_map(kind):
        return is_text(kind.key_type)
    return pa.types.is_struct(kind) and _leads_to_values(path, list(kind))


def list_paths(schema: pa.Schema) -> list[str]:
    """Returns the names of the columns and the paths inside them, for messages.

    Examples:
        >>> list_paths(pa.schema([("meta", pa.struct([("lang", pa.string())]))]))
        ['meta', 'meta.lang']
    """
    stored = set(schema.names)
    return [
        path
        for field in schema
        for path, _ in _walk_paths(field, field.name)
        if path == field.name or path not in stored
    ]


def list_paths_of_lists(schema: pa.Schema) -> set[str]:
    """Returns the names and paths of the columns whose values are lists, in any encoding.

    Examples:
        >>> turn = pa.struct([("content", pa.string()), ("ids", pa.list_(pa.int64()))])
        >>> sorted(list_paths_of_lists(pa.schema([("turns", pa.list_(turn))])))
        ['turns', 'turns.ids']
    """
    return {path for field in schema for path, kind in _walk_paths(field, field.name) if kind}


def _walk_paths(
    field: pa.Field, path: str, *, is_behind_list: bool = False
) -> Iterator[tuple[str, bool]]:
    """Yields the path of a column and those inside it, each with whether its values are lists."""
    kind = plain_type(field.type)
    holds_lists = is_list(kind)
    yield path, holds_lists or (is_behind_list and not (is_text(kind) or is_binary(kind)))
    while is_list(kind):
        kind = plain_type(kind.value_type)
    if pa.types.is_struct(kind) and path.count(SEPARATOR) + 1 < DEEPEST_LISTED:
        for member in kind:
            yield from _walk_paths(
                member,
                f"{path}{SEPARATOR}{member.name}",
                is_behind_list=is_behind_list or holds_lists,
            )


def list_paths_of_value(row: Mapping[str, Any], depth: int = DEEPEST_LISTED) -> Iterator[str]:
    """Yields the names of an object of JSON and the paths inside it.

    Examples:
        >>> list(list_paths_of_value({"id": 1, "messages": [{"content": "x"}]}))
        ['id', 'messages', 'messages.content']
    """
    for name, value in row.items():
        yield name
        elements = value if isinstance(value, list) else [value]
        for element in elements if depth > 1 else ():
            if isinstance(element, dict):
                for path in list_paths_of_value(element, depth - 1):
                    yield f"{name}{SEPARATOR}{path}"


def find_value(row: Mapping[str, Any], path: str) -> Any:
    r"""Returns what a path stands for in an object of JSON, or MISSING.

    Examples:
        >>> find_value({"meta": {"lang": "en"}}, "meta.lang")
        'en'
        >>> find_value({"messages": [{"content": "a"}, {"content": "b"}]}, "messages.content")
        'a\nb'
        >>> find_value({"meta.lang": "de", "meta": {"lang": "en"}}, "meta.lang")
        'de'
    """
    for name, rest in split_path(path):
        if name in row:
            return _find_below(row[name], rest) if rest else row[name]
    return MISSING


def _find_below(value: Any, path: str) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return find_value(value, path)
    if not isinstance(value, list):
        return MISSING
    elements = [element for element in value if element is not None]
    while elements and all(isinstance(element, list) for element in elements):
        elements = [inner for element in elements for inner in element if inner is not None]
    values = [find_value(inner, path) for inner in elements if isinstance(inner, dict)]
    present = [content for content in values if content is not MISSING]
    if elements and not present:
        return MISSING
    return _join_values([content for content in present if content is not None])


def _join_values(values: list[Any]) -> Any:
    if not values:
        return None
    if all(isinstance(value, str) for value in values):
        return TEXT_SEPARATOR.join(values)
    if all(isinstance(value, list) for value in values):
        return [element for value in values for element in value]
    return values


def derive_columns(rows: pa.RecordBatch, columns: Columns) -> DerivedColumns:
    """Returns rows with the columns that a run reads: stored ones, members and partitions."""
    names = rows.schema.names
    if not columns.partitions and all(name in names for name in columns.all):
        return DerivedColumns(rows, {})
    partitions = dict(columns.partitions)
    derived: dict[str, pa.Array] = {}
    too_long: dict[int, str] = {}
    for path in columns.all:
        if path in partitions:
            derived[path] = pa.repeat(pa.scalar(partitions[path], TEXT), len(rows))
        elif path in names:
            derived[path] = rows[path]
        else:
            member = _read_member(rows, path, columns.document_limit)
            derived[path] = member.values
            too_long.update(dict.fromkeys(member.too_long, path))
    return DerivedColumns(pa.record_batch(list(derived.values()), list(derived)), too_long)


class _Member(NamedTuple):
    """The values of a path, and the positions of those that are too long to be decoded."""

    values: pa.Array
    too_long: list[int]


class _Elements(NamedTuple):
    """The values at the end of a path."""

    values: pa.Array
    counts: np.ndarray | None
    """The number of values of each row, int64 (n,), or None if the path leads through no list."""


def _read_member(rows: pa.RecordBatch, path: str, limit: int) -> _Member:
    """Returns what a path stands for in each row.

    Encoded text of `limit` bytes or more is not decoded.
    """
    root = find_root(path, rows.schema.names)
    if root is None or root == path:
        raise KeyError(path)
    elements = _select_elements(rows[root], path[len(root) + 1 :])
    if elements is None:
        raise KeyError(path)
    if elements.counts is None:
        return _Member(elements.values, [])
    return _join_elements(elements.values, elements.counts, limit)


def _select_elements(values: pa.Array, path: str) -> _Elements | None:
    """Returns the values of a path, or None if it leads nowhere."""
    if not path:
        return _Elements(values, None)
    kind = plain_type(values.type)
    if kind != values.type:
        values = remove_encoding(values)
    if pa.types.is_map(kind):
        if not is_text(kind.key_type):
            return None
        found = pc.map_lookup(values, pa.scalar(path, kind.key_type), "first")
        return _Elements(found, None)
    if is_list(kind):
        inner = _select_elements(values.flatten(), path)
        return None if inner is None else _count_elements(values, inner)
    if not pa.types.is_struct(kind):
        return None
    members = [member.name for member in kind]
    for name, rest in split_path(path):
        if name in members:
            return _select_elements(pc.struct_field(values, [members.index(name)]), rest)
    return None


def _count_elements(lists: pa.Array, inner: _Elements) -> _Elements:
    """Returns the values inside lists with the number of values of each list."""
    lengths = _lengths_of(lists)
    if inner.counts is None:
        return _Elements(inner.values, lengths)
    return _Elements(inner.values, _sum_groups(inner.counts, lengths))


def _lengths_of(lists: pa.Array) -> np.ndarray:
    """Returns the number of elements of each list, int64 (n,). It is 0 for a null."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, np.int64)


def _sum_groups(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the sums of consecutive groups of counts, of which each has its size, int64 (n,)."""
    totals = np.concatenate([[0], np.cumsum(counts)])
    ends = np.cumsum(sizes)
    return np.asarray(totals[ends] - totals[ends - sizes], np.int64)


def _join_elements(values: pa.Array, counts: np.ndarray, limit: int) -> _Member:
    """Returns the joined values of each row. A row without values is null."""
    kind = plain_type(values.type)
    if is_list(kind):
        lists = remove_encoding(values)
        return _Member(_make_lists(lists.flatten(), _sum_groups(_lengths_of(lists), counts)), [])
    if not pa.types.is_dictionary(values.type):
        values = remove_encoding(values)
    if is_text(values.type) or is_binary(values.type):
        # Arrow cannot filter views.
        values = view_as_binary(values)
    if values.null_count:
        rows = np.repeat(np.arange(len(counts)), counts)
        present = values.is_valid()
        values = values.filter(present)
        rows = rows[present.to_numpy(zero_copy_only=False)]
        counts = np.bincount(rows, minlength=len(counts)).astype(np.int64)
    lists, too_long = remove_encoding_within(_make_lists(values, counts), limit)
    if not (is_text(kind) or is_binary(kind)):
        return _Member(lists, too_long)
    contents = _make_lists(view_as_binary(remove_encoding(lists.flatten())), _lengths_of(lists))
    joined = pc.binary_join(contents, pa.scalar(TEXT_SEPARATOR.encode(), pa.large_binary()))
    return _Member(joined.view(TEXT) if is_text(kind) else joined, too_long)


def _make_lists(values: pa.Array, counts: np.ndarray) -> pa.Array:
    """Returns lists of consecutive values. A list without values is null."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]))
    return pa.LargeListArray.from_arrays(offsets, values, mask=pa.array(counts == 0))
