"""Completion of the values of options in a shell. The values are loaded when they are needed."""

import glob
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

MOST_ENTRIES = 1000
"""The number of entries of a folder among which its first file is searched."""
COLUMNS = (
    "text",
    "tokens",
    "vector",
    "fingerprint",
    "id_column",
    "block_by",
    "across",
    "same",
    "url",
    "source",
    "split",
    "keep",
)
"""The parameters whose values contain names of columns of the inputs."""
LISTS = ("text", "keep", "normalise", "same")
"""The parameters whose values are lists, separated by commas."""


def _measures() -> Iterable[str]:
    from nearkin.settings.spec import MEASURES

    return MEASURES


def _normalisations() -> Iterable[str]:
    from nearkin.settings.spec import NORMALISATIONS

    return NORMALISATIONS


def _hash_functions() -> Iterable[str]:
    from nearkin.settings.spec import FAMILIES

    return FAMILIES


def _parts_of_inputs() -> Iterable[str]:
    from nearkin.corpus.input_manifest import HashedPart

    return (part.value for part in HashedPart)


def _treatments_of_errors() -> Iterable[str]:
    from nearkin.corpus.corpus import ON_ERROR

    return ON_ERROR


def _verifications() -> Iterable[str]:
    from nearkin.engine.options import Verify

    return Verify


def _cluster_methods() -> Iterable[str]:
    from nearkin.engine.options import ClusterMethod

    return ClusterMethod


def _treatments_of_empty_documents() -> Iterable[str]:
    from nearkin.engine.options import EmptyDocuments

    return EmptyDocuments


def _documents_without_a_block() -> Iterable[str]:
    from nearkin.engine.options import MissingBlock

    return MissingBlock


def _readers() -> Iterable[str]:
    from nearkin.runtime.files import Readers

    return (reader.value for reader in Readers)


def _relations() -> Iterable[str]:
    from nearkin.runs.pairs import Relation

    return Relation


def _postings() -> Iterable[str]:
    from nearkin.index.settings import POSTINGS

    return POSTINGS


def _stem_languages() -> Iterable[str]:
    from nearkin.settings.spec import stem_languages

    return stem_languages()


def _corpus_formats() -> Iterable[str]:
    from nearkin.quality.lab.synth import FORMATS

    return FORMATS


def _delimiters() -> Iterable[str]:
    from nearkin.corpus.dialect import DELIMITER_NAMES

    return DELIMITER_NAMES


def _presets() -> Iterable[str]:
    from nearkin.settings.presets import PRESETS

    return PRESETS


def _kinds_of_labels() -> Iterable[str]:
    from nearkin.quality.evaluate.golden import Labelled

    return Labelled


def _document_outputs() -> Iterable[str]:
    from nearkin.runs.document_output import OUTPUTS

    return OUTPUTS


def _parquet_codecs() -> Iterable[str]:
    from nearkin.corpus.formats.parquet import CODECS

    return ("same", *CODECS)


VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "measure": _measures,
    "preset": _presets,
    "normalise": _normalisations,
    "base_hash": _hash_functions,
    "scheme": lambda: ("binned", "classic"),
    "weights": lambda: ("tf", "tfidf"),
    "shingle": lambda: ("words:3", "words:5", "chars:3", "chars:5"),
    "on_error": _treatments_of_errors,
    "hash_inputs": _parts_of_inputs,
    "verify": _verifications,
    "output": _document_outputs,
    "codec": _parquet_codecs,
    "cluster": _cluster_methods,
    "empty": _treatments_of_empty_documents,
    "missing_block": _documents_without_a_block,
    "readable_by": _readers,
    "relation": _relations,
    "postings": _postings,
    "stem": _stem_languages,
    "format": _corpus_formats,
    "delimiter": _delimiters,
    "encoding": lambda: ("utf-8", "utf-16", "windows-1252"),
    "labelled": _kinds_of_labels,
}
"""The values of options, by the names of the parameters."""
ENGINES = {"dedup": ("local", "spark"), "plan": ("local", "spark", "index")}
"""The engines of the commands."""


def completion_of(name: str) -> Callable[..., list[str]] | None:
    """Returns the function that completes the values of an option."""
    if name not in VALUES and name not in COLUMNS and name != "engine":
        return None

    def complete(ctx: Any, incomplete: str) -> list[str]:
        head = ""
        last = incomplete
        if name in LISTS and "," in incomplete:
            last = incomplete.rpartition(",")[2]
            head = incomplete.removesuffix(last)
        values = _values_of(name, ctx)
        return [f"{head}{value}" for value in values if value.startswith(last)]

    return complete


def _values_of(name: str, context: Any) -> list[str]:
    """Returns the values of an option on the command line of a context."""
    if name == "engine":
        return list(ENGINES.get(context.info_name, ()))
    if name not in COLUMNS:
        return [str(value) for value in VALUES[name]()]
    # Arguments before an option without a value are not assigned to a parameter yet.
    inputs = [*(context.params.get("inputs") or ()), *context.args]
    columns = columns_of_inputs([argument for argument in inputs if not argument.startswith("-")])
    return [*columns, "length"] if name == "keep" else columns


def columns_of_inputs(inputs: Sequence[str]) -> list[str]:
    """Returns the columns of the first file of inputs, as far as they are known at once.

    Nothing is read over a network, and a folder is searched only among its first entries.
    """
    from nearkin.corpus import FileCorpus
    from nearkin.corpus.foreign_errors import DamageError
    from nearkin.errors import NearkinError

    try:
        path = first_file(inputs)
        return [] if path is None else FileCorpus.open([path]).column_names()
    except (NearkinError, DamageError, OSError):
        return []


def first_file(inputs: Sequence[str]) -> str | None:
    """Returns the first local file of inputs, or None if all are remote or missing."""
    for given in inputs:
        if "://" in given:
            continue
        candidates: Iterable[Path] = [Path(given)]
        if Path(given).is_dir():
            entries = islice(Path(given).iterdir(), MOST_ENTRIES)
            candidates = sorted(entry for entry in entries if entry.name[0] not in "._")
        elif glob.has_magic(given):
            names = islice(glob.iglob(given), MOST_ENTRIES)  # noqa: PTH207 (of any folder)
            candidates = map(Path, names)
        for path in candidates:
            if path.is_file():
                return str(path)
    return None
