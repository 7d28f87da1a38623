"""A signature with its Spec, as an object that can be compared, merged, stored and pickled."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearkin.corpus.arrow_conversion import to_documents, type_name
from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments, check_fields
from nearkin.runtime.number_range import NumberRange
from nearkin.settings.spec import FINGERPRINT, Spec
from nearkin.stages.hashing.families import require_hashes
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.estimates import estimate
from nearkin.stages.sketch.record import read_record, write_record
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.signature_file import require_mergeable
from nearkin.stages.sketch.sketcher import Sketcher

DEFAULT_SPEC = Spec()
ELEMENTS = (str, int, np.integer)
"""The types of the elements of a set."""
MAX_SHINGLES = 2**32 - 1
"""The largest number of shingles that a signature record can name."""


@dataclass(frozen=True, eq=False)
class Signature:
    """The signature of one document, with the Spec that makes it comparable.

    Attributes:
        values: The words of the signature, (w,) of the Spec's signature type. The array is a view
            that cannot be changed.
        spec: The Spec of the signature. The default is `Spec()`.

    Raises:
        UsageError: If the array is not a signature of the Spec.

    Examples:
        >>> a = Signature.from_text("the cat sat on the mat today", Spec(n=2, k=256))
        >>> b = Signature.from_text("the cat sat on the mat", Spec(n=2, k=256))
        >>> 0.7 < a.jaccard(b) < 0.95
        True
    """

    values: np.ndarray
    spec: Spec = DEFAULT_SPEC

    def __post_init__(self) -> None:
        check_fields(self)
        values = np.asarray(self.values)
        kind = np.dtype(self.spec.signature_type)
        shape = (self.spec.signature_width,)
        if values.dtype != kind or values.shape != shape:
            raise UsageError(
                f"a signature of this Spec is {kind} {shape}, not {values.dtype} {values.shape}"
            )
        view = values.view()
        view.flags.writeable = False
        object.__setattr__(self, "values", view)

    @classmethod
    @check_arguments
    def from_text(
        cls, text: str, spec: Spec = DEFAULT_SPEC, *, resources: SpecResources = NO_RESOURCES
    ) -> "Signature":
        """Returns the signature of a text. `nearkin.sketch` is faster for many texts.

        Args:
            text: The text.
            spec: The Spec of the signature.
            resources: The hash key and the data that the Spec refers to.

        Raises:
            UsageError: If the text is not a `str`, or the Spec is one of vectors.
        """
        if not isinstance(text, str):
            raise UsageError(f"{type_name(text)} is not a text")
        return cls._sketch([text], spec, resources)

    @classmethod
    @check_arguments
    def from_tokens(
        cls,
        tokens: Sequence[str] | Sequence[int],
        spec: Spec = DEFAULT_SPEC,
        *,
        resources: SpecResources = NO_RESOURCES,
    ) -> "Signature":
        """Returns the signature of a list of tokens, which are not normalised.

        Args:
            tokens: The tokens, in order: texts, or numbers, which are taken as their decimal
                digits.
            spec: The Spec of the signature.
            resources: The hash key and the data that the Spec refers to.

        Raises:
            UsageError: If it is one text instead of a list, or a token is null.
        """
        if isinstance(tokens, str | bytes | Set):
            raise UsageError(
                f"{type_name(tokens)} is not a list of tokens; use from_text for a text and "
                "from_set for a set"
            )
        return cls._sketch([list(tokens)], spec, resources)

    @classmethod
    @check_arguments
    def from_set(
        cls,
        elements: Iterable[str | int],
        spec: Spec | None = None,
        *,
        resources: SpecResources = NO_RESOURCES,
    ) -> "Signature":
        """Returns the signature of a set, each element of which is one shingle.

        Args:
            elements: The elements: texts, or numbers, which are taken as their decimal digits.
            spec: The Spec of the signature, with n=1. The default is `Spec(n=1)`.
            resources: The hash key and the data that the Spec refers to.

        Raises:
            UsageError: If the Spec has shingles of several tokens, which a set does not have.

        Examples:
            >>> a = Signature.from_set({"cat", "dog", "cow"}, Spec(n=1, k=512))
            >>> b = Signature.from_set({"cat", "dog", "hen"}, Spec(n=1, k=512))
            >>> 0.35 < a.jaccard(b) < 0.65
            True
        """
        spec = spec or Spec(n=1)
        return cls.from_tokens(tokens_of_set(elements, spec), spec, resources=resources)

    @classmethod
    @check_arguments
    def from_hashes(cls, hashes: np.ndarray, spec: Spec = DEFAULT_SPEC) -> "Signature":
        """Returns the signature of shingle hashes that the caller computed.

        Args:
            hashes: Shingle hashes, uint64 (m,).
            spec: The Spec of the signature.

        Raises:
            UsageError: If the hashes are not one row of whole numbers that are 0 or more, or the
                Spec is one of vectors.
        """
        _require_no_vectors(spec)
        values = require_hashes(hashes)
        starts = np.array([0, len(values)], np.int64)
        return cls(Sketcher(spec).sketch_hashes(values, starts).signatures[0], spec)

    @classmethod
    def _sketch(cls, document: list[Any], spec: Spec, resources: SpecResources) -> "Signature":
        """Returns the signature of the only document of a column."""
        _require_no_vectors(spec)
        [column] = to_documents(document)
        sketcher = measure_of(spec, resources).sketcher()
        return cls(sketcher.sketch(column).signatures[0], spec)

    @classmethod
    @check_arguments
    def from_bytes(cls, data: bytes, spec: Spec = DEFAULT_SPEC) -> "Signature":
        """Returns the signature of a signature record, which `to_bytes` wrote.

        Args:
            data: Bytes of exactly one record.
            spec: The Spec that the record must have.

        Raises:
            WireError: If the bytes are not a record of the Spec.
        """
        return cls(read_record(data, spec).signature, spec)

    @check_arguments
    def to_bytes(self, shingles: int = 1) -> bytes:
        """Returns the signature record in the wire format, with a checksum.

        Args:
            shingles: Number of shingles of the document, which the record names, from 0 (for an
                empty document) to 2^32 - 1.

        Raises:
            UsageError: If the number of shingles is out of range.
        """
        NumberRange(0, MAX_SHINGLES).require("shingles", shingles)
        return write_record(np.asarray(self.values), shingles, self.spec)

    @check_arguments
    def jaccard(self, other: "Signature") -> float:
        """Returns the estimated Jaccard similarity to another signature, from 0 to 1.

        Args:
            other: A signature of the same Spec.

        Raises:
            IncompatibleError: If the Specs differ. The message names the difference.
            UsageError: If the signature is not of MinHash.
        """
        if not self.spec.has_slots:
            raise UsageError(
                f"signatures of measure {self.spec.measure} do not estimate the Jaccard "
                "similarity; use similarity()"
            )
        return self.similarity(other)

    @check_arguments
    def similarity(self, other: "Signature") -> float:
        """Returns the estimated similarity to another signature, by the measure of the Spec.

        Args:
            other: A signature of the same Spec.

        Raises:
            IncompatibleError: If the Specs differ. The message names the difference.
        """
        self.spec.require(other.spec, "the other signature")
        return estimate(self.values, other.values, self.spec)

    @check_arguments
    def merge(self, other: "Signature") -> "Signature":
        """Returns the signature of the union of two documents' shingle sets.

        Args:
            other: A signature of the same Spec.

        Raises:
            IncompatibleError: If the Specs differ.
            UsageError: If signatures of the Spec cannot be merged.
        """
        require_mergeable(self.spec)
        self.spec.require(other.spec, "the other signature")
        return Signature(np.minimum(self.values, other.values), self.spec)

    def __or__(self, other: "Signature") -> "Signature":
        if not isinstance(other, Signature):
            return NotImplemented
        return self.merge(other)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:  # noqa: FBT001
        if copy:
            return np.array(self.values, dtype)
        return np.asarray(self.values, dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Signature):
            return NotImplemented
        return self.spec == other.spec and bool((self.values == other.values).all())

    def __hash__(self) -> int:
        return hash((self.spec.fingerprint, self.values.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Signature, (np.array(self.values), self.spec)

    def __repr__(self) -> str:
        return f"<Signature: {self.spec.measure}, k={self.spec.k}, Spec {self.spec.fingerprint}>"


def _require_no_vectors(spec: Spec) -> None:
    """Refuses a Spec of vectors or fingerprints, which have no tokens and no hashes."""
    if spec.unit == FINGERPRINT:
        raise UsageError(
            "a fingerprint is its own signature; store fingerprints in a HammingIndex, or find "
            "their pairs with nearkin.pairs(fingerprint=...)"
        )
    if spec.unit == "vector":
        raise UsageError(
            "a Spec of vectors has signatures of vectors only; use "
            "Signature(nearkin.sketch(vectors, spec)[0], spec)"
        )


def tokens_of_set(elements: Iterable[str | int], spec: Spec) -> list[str]:
    """Returns the elements of a set as tokens."""
    if isinstance(elements, str | bytes | Mapping):
        raise UsageError(
            f"{type_name(elements)} is not a set; use from_text for a text, and a set or a list of "
            "elements otherwise"
        )
    if spec.unit != "words" or spec.n != 1:
        raise UsageError(
            f"a set has no order, and shingles of {spec.shingle} need one; use Spec(n=1), or pass "
            "a list of tokens"
        )
    tokens = list(elements if isinstance(elements, Set) else dict.fromkeys(elements))
    if not all(isinstance(token, ELEMENTS) for token in tokens):
        kind = next(type(token) for token in tokens if not isinstance(token, ELEMENTS))
        raise UsageError(f"an element of a set is a {kind.__name__}; give texts or whole numbers")
    return list(map(str, tokens))
