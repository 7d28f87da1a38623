"""Stemming: the replacement of tokens by their Snowball stems.

Signatures depend on the stems, and releases of the stemmer give different ones, so the release is a
part of the Spec.
"""

import importlib
from typing import Protocol

import numpy as np

from nearkin.errors import IncompatibleError, MissingExtraError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import require_choice
from nearkin.settings.spec import (
    STEMMER_SUFFIX,
    UNRECORDED_STEMMER,
    Spec,
    installed_stemmer,
    stem_languages,
)
from nearkin.stages.hashing import kernels as hashing
from nearkin.stages.hashing.families import Key, hash_values


class Stemmer(Protocol):
    """A stemmer of one language."""

    def stemWord(self, word: str) -> str:  # noqa: N802
        """Returns the stem of a word."""


class Stems:
    """A function from tokens to the hashes of their stems. Each distinct token is stemmed once."""

    def __init__(self, spec: Spec, key: Key) -> None:
        self._stemmer = open_stemmer(str(spec.stem))
        require_installed(spec)
        self._key = key
        self._known: dict[int, int] = {}

    def hashes(self, text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Returns the hashes of the stems of tokens, by bytes and offsets, uint64 (tokens,)."""
        own = np.empty(len(offsets) - 1, np.uint64)
        hashing.hash_each(text, offsets, self._key, own)
        distinct, first, where = np.unique(own, return_index=True, return_inverse=True)
        for h, t in zip(distinct.tolist(), first.tolist(), strict=True):
            if h not in self._known:
                token = text[offsets[t] : offsets[t + 1]].tobytes().decode()
                self._known[h] = int(
                    hash_values([self._stemmer.stemWord(token).encode()], self._key)[0]
                )
        return np.array([self._known[h] for h in distinct.tolist()], np.uint64)[where]


def open_stemmer(language: str) -> Stemmer:
    """Returns the Snowball stemmer of a language.

    The stemmers in Python are used even if PyStemmer is installed, whose releases have other
    numbers, so that the release in a Spec decides the stems.
    """
    languages = stem_languages()
    if not languages:
        raise MissingExtraError.for_extra(
            f"{name_setting('stem', language)} requires snowballstemmer", "stem"
        )
    require_choice("stem", language, languages)
    module = importlib.import_module(f"snowballstemmer.{language}{STEMMER_SUFFIX}")
    class_name = "".join(part.title() for part in language.split("_")) + "Stemmer"
    created: Stemmer = getattr(module, class_name)()
    return created


def require_installed(spec: Spec) -> None:
    """Requires that the installed stemmer is that of a Spec."""
    installed = installed_stemmer()
    if spec.stemmer == installed:
        return
    if spec.stemmer == UNRECORDED_STEMMER:
        raise IncompatibleError(
            f"this Spec has stems (stem={spec.stem!r}) but does not say of which release, and the "
            f"installed {installed} may give others; sketch the documents again"
        )
    package, _, release = str(spec.stemmer).partition(" ")
    raise IncompatibleError(
        f"this Spec has stems of {spec.stemmer}, but {installed} is installed, which may give "
        f"others; run pip install '{package}=={release}', or sketch the documents again"
    )
