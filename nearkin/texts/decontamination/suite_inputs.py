"""Suites from files and tables: one suite for each file, named as the file."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from nearkin.corpus import Columns, Corpus, FileCorpus, TableCorpus, make_ids
from nearkin.corpus.arrow_conversion import to_table
from nearkin.corpus.columns import ContentField, FieldKind, document_limit
from nearkin.corpus.file_names import format_path
from nearkin.corpus.foreign_errors import DamageError
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.nested_columns import list_paths
from nearkin.errors import KeyRequiredError, UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import describe_columns
from nearkin.settings.keys import HashKey
from nearkin.texts.decontamination.request import SUITE_FIELDS
from nearkin.texts.decontamination.suite_file import is_suites_file, read_suites
from nearkin.texts.decontamination.suites import (
    ItemTexts,
    Suites,
    build_suite,
    flatten_value,
    merge_suites,
)


@dataclass(frozen=True)
class SuiteColumns:
    """The columns of suites.

    Attributes:
        fields: Columns of the texts of an item, of which a suite needs at least one.
        id: Column of the ids of items, or None for row numbers.
    """

    fields: tuple[str, ...] = SUITE_FIELDS
    id: str | None = None

    def __post_init__(self) -> None:
        if not self.fields or not all(self.fields) or len(set(self.fields)) < len(self.fields):
            written = ",".join(self.fields)
            raise UsageError(
                f"{name_setting('suite_fields', written)} is not a list of different columns; "
                "write it as question,answer"
            )


def parse_suite_fields(text: str) -> tuple[str, ...]:
    """Returns the names of the fields of suites.

    Examples:
        >>> parse_suite_fields("question, answer")
        ('question', 'answer')
    """
    return tuple(name.strip() for name in text.split(","))


def open_suites(
    paths: Sequence[str], columns: SuiteColumns, key: HashKey | None, memory: int
) -> Suites:
    """Reads suites from files: tables with the fields of items, and saved suites."""
    if not paths:
        raise UsageError(f"{name_setting('against')} names no suite; give at least one")
    named = name_suites(FileCorpus.open(paths).files)
    suites = []
    for name, file in sorted(named, key=lambda pair: (pair[0], pair[1].path)):
        if not file.remote and is_suites_file(Path(file.path)):
            _require_size(file, memory)
            saved = read_suites(Path(file.path))
            _require_key(file, saved, key)
            suites.append(saved)
        else:
            suites.append(_read_file(name, file, columns, key, memory))
    return merge_suites(suites)


def _require_size(file: InputFile, memory: int) -> None:
    size = file.status().size
    if size > memory:
        raise UsageError(
            f"the suites {format_path(file.path)} have {size:,} bytes, more than "
            f"{name_setting('memory', memory)}; give at least {name_setting('memory', size)}, or "
            "fewer suites"
        )


def _require_key(file: InputFile, saved: Suites, key: HashKey | None) -> None:
    expected = saved.spec.key_id
    if expected is None or (key is not None and key.id == expected):
        return
    given = "no key was given" if key is None else f"the key given is {key.id}"
    raise KeyRequiredError(
        f"the suites {format_path(file.path)} were built with the key {expected}, and {given}; "
        f"give the key of the suites with {name_setting('key')}"
    )


def name_suites(files: Sequence[InputFile]) -> list[tuple[str, InputFile]]:
    """Returns the name of the suite of each file: that of the file, without its suffix.

    Files of one name in several folders are named with their folders.

    Examples:
        >>> paths = ["gsm8k/test.jsonl.gz", "mmlu/test.jsonl", "mmlu/dev.v2.jsonl"]
        >>> [name for name, _ in name_suites([InputFile(f"/{path}", path) for path in paths])]
        ['gsm8k/test', 'mmlu/test', 'dev.v2']
    """
    stems = [_remove_suffix(file) for file in files]
    counts = Counter(stem.name for stem in stems)
    return [
        (str(stem) if counts[stem.name] > 1 else stem.name, file)
        for stem, file in zip(stems, files, strict=True)
    ]


def _remove_suffix(file: InputFile) -> PurePosixPath:
    path = PurePosixPath(file.name)
    if file.compression is not None:
        path = path.with_suffix("")
    return path.with_suffix("")


def _read_file(
    name: str, file: InputFile, columns: SuiteColumns, key: HashKey | None, memory: int
) -> Suites:
    corpus = FileCorpus([file])
    try:
        names = corpus.column_names()
    except DamageError as error:
        raise UsageError(
            f"cannot read the suite {format_path(file.path)}: {error}; give a file of items, such "
            "as Parquet, CSV or JSON lines"
        ) from error
    return read_suite(name, corpus, names, columns, key, memory)


def read_suites_of(
    against: str | Path | Sequence[str | Path] | Mapping[str, Any],
    columns: SuiteColumns,
    key: HashKey | None,
    memory: int,
) -> Suites:
    """Returns the suites of an argument: files, or tables in memory by their names."""
    if isinstance(against, Mapping):
        tables = {name: to_table(table) for name, table in against.items()}
        return suites_of_data(tables, columns, key, memory)
    paths = [against] if isinstance(against, str | Path) else against
    return open_suites([str(path) for path in paths], columns, key, memory)


def suites_of_data(
    data: Mapping[str, Any], columns: SuiteColumns, key: HashKey | None, memory: int
) -> Suites:
    """Returns the suites of tables in memory."""
    if not data:
        raise UsageError(f"{name_setting('against')} names no suite; give at least one")
    suites = []
    for name, table in sorted(data.items()):
        names = list_paths(table.schema)
        if not table.num_rows:
            # The table of an empty list has a column, which no item has.
            names = [column for column in names if column in columns.fields]
        suites.append(read_suite(name, TableCorpus(table), names, columns, key, memory))
    return merge_suites(suites)


def read_suite(
    name: str,
    corpus: Corpus,
    names: Sequence[str],
    columns: SuiteColumns,
    key: HashKey | None,
    memory: int,
) -> Suites:
    """Reads one suite."""
    fields = [field for field in columns.fields if field in names]
    if not names:
        raise UsageError(
            f"the suite {name!r} has no items; leave it out of {name_setting('against')}, or give "
            f"items with at least one of the fields {', '.join(columns.fields)}"
        )
    if not fields:
        raise UsageError(
            f"the suite {name!r} has none of the fields {', '.join(columns.fields)} "
            f"({describe_columns(list(names))}); name its columns with "
            f"{name_setting('suite_fields')}"
        )
    read = Columns(id=columns.id, document_limit=document_limit(memory))
    # The only column of a file that is one text is a text, and the others may hold anything.
    if list(names) != ["text"]:
        kinds = tuple(ContentField(field, FieldKind.VALUE) for field in fields)
        read = replace(read, fields=kinds)
    try:
        corpus.check(read)
    except UsageError as error:
        raise UsageError(f"the suite {name!r} cannot be read: {error}") from error
    return build_suite(name, fields, _read_items(corpus, read, fields), key)


def _read_items(corpus: Corpus, columns: Columns, fields: Sequence[str]) -> Iterator[ItemTexts]:
    for batch in corpus.batches(columns):
        ids = [str(row) for row in batch.rows.tolist()]
        if columns.id is not None:
            ids = make_ids(batch, columns, corpus.names).to_pylist()
        items = batch.documents[columns.content]
        values = {field: items.field(field) if columns.fields else items for field in fields}
        texts = {name: list(map(flatten_value, of.to_pylist())) for name, of in values.items()}
        yield ItemTexts(ids, texts, batch.rejected_rows)
