"""Completion of the values of options in a shell. The values are loaded when they are needed."""

from collections.abc import Callable, Iterable


def _measures() -> Iterable[str]:
    from nearkin.spec import MEASURES

    return MEASURES


def _normalisations() -> Iterable[str]:
    from nearkin.spec import NORMALISATIONS

    return NORMALISATIONS


def _hash_functions() -> Iterable[str]:
    from nearkin.spec import FAMILIES

    return FAMILIES


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


def _readers() -> Iterable[str]:
    from nearkin.runtime.files import Readers

    return (reader.value for reader in Readers)


def _relations() -> Iterable[str]:
    from nearkin.runs.pairs import Relation

    return Relation


def _postings() -> Iterable[str]:
    from nearkin.index.settings import POSTINGS

    return POSTINGS


VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "measure": _measures,
    "normalise": _normalisations,
    "base_hash": _hash_functions,
    "scheme": lambda: ("binned", "classic"),
    "weights": lambda: ("tf", "tfidf"),
    "shingle": lambda: ("words:3", "words:5", "chars:3", "chars:5"),
    "on_error": _treatments_of_errors,
    "verify": _verifications,
    "cluster": _cluster_methods,
    "empty": _treatments_of_empty_documents,
    "readable_by": _readers,
    "relation": _relations,
    "postings": _postings,
}
"""The values of options, by the names of the parameters."""


def completion_of(name: str) -> Callable[[str], list[str]] | None:
    """Returns the function that completes the values of an option.

    Args:
        name: The name of the parameter.

    Returns:
        A function from the beginning of a value to values, or None if the values are no closed set.
    """
    values = VALUES.get(name)
    if values is None:
        return None

    def complete(incomplete: str) -> list[str]:
        return [str(value) for value in values() if str(value).startswith(incomplete)]

    return complete
