"""Spec: everything that makes two signatures comparable, its fingerprint and its version."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Self

from nearkin.errors import IncompatibleError, UsageError

FORMAT_VERSION = 1
UNICODE_VERSION = "15.1.0"
NORMALISATIONS = ("nfkc", "lower", "digits", "punctuation", "marks", "markup")
UNITS = ("words", "chars")
SCHEMES = ("binned", "classic")
MEASURES = ("jaccard",)
MAX_K = 1024
MAX_SHINGLE = 64


@dataclass(frozen=True)
class Spec:
    """What a signature means. Two signatures are comparable exactly when their Specs are equal.

    Attributes:
        unit: What a shingle is made of: `words` (tokens) or `chars` (code points).
        n: Shingle size in units.
        normalise: Steps, in any order: `nfkc`, `lower` (both by default), `digits` (folded to 0), `punctuation` (kept as
            tokens; chars keep it always), `marks` (stripped), `markup` (tags stripped).
        stem: A Snowball language whose stems replace the tokens, or None.
        base_hash: Family of the hash of a token; `xxh3`.
        hash_seed: Seed of the base hash.
        measure: The similarity: `jaccard`.
        scheme: `binned` (one-permutation rounds, completed) or `classic` (k hash functions).
        k: Slots in a signature, a multiple of 8 from 8 to 1024.
        slot_bits: Bits kept of a slot.
        seed: Seed of the signature's hash functions.
        unicode: The Unicode version of the committed tables.
        version: Of the signature format; another one is another fingerprint.

    Examples:
        >>> Spec().fingerprint == Spec.from_json(Spec().to_json()).fingerprint
        True
        >>> Spec(k=100)
        Traceback (most recent call last):
        ...
        nearkin.errors.UsageError: k=100 is not a multiple of 8 from 8 to 1024; 96 and 104 are
    """

    unit: str = "words"
    n: int = 3
    normalise: tuple[str, ...] = ("nfkc", "lower")
    stem: str | None = None
    base_hash: str = "xxh3"
    hash_seed: int = 0
    measure: str = "jaccard"
    scheme: str = "binned"
    k: int = 128
    slot_bits: int = 32
    seed: int = 1
    unicode: str = UNICODE_VERSION
    version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.normalise) - set(NORMALISATIONS)):
            raise UsageError(f"normalise step {unknown[0]!r} is not one of {', '.join(NORMALISATIONS)}")
        object.__setattr__(self, "normalise", tuple(step for step in NORMALISATIONS if step in self.normalise))
        self._check_choices()
        self._check_numbers()

    def _check_choices(self) -> None:
        choices = {
            "unit": UNITS,
            "base_hash": ("xxh3",),
            "measure": MEASURES,
            "scheme": SCHEMES,
            "slot_bits": (32,),
            "unicode": (UNICODE_VERSION,),
            "version": (FORMAT_VERSION,),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}")

        if "marks" in self.normalise and "nfkc" not in self.normalise:
            raise UsageError("normalise step 'marks' needs 'nfkc', which takes letters and marks apart")
        if self.stem is not None and self.unit != "words":
            raise UsageError(f"stem={self.stem!r} needs words, not {self.unit}")

    def _check_numbers(self) -> None:
        if not 1 <= self.n <= MAX_SHINGLE:
            raise UsageError(f"a shingle of n={self.n} {self.unit} is outside 1 to {MAX_SHINGLE}")
        if not 8 <= self.k <= MAX_K or self.k % 8:
            below = min(max(self.k // 8 * 8, 8), MAX_K)
            near = sorted({below, min(below + 8, MAX_K)})
            raise UsageError(f"k={self.k} is not a multiple of 8 from 8 to {MAX_K}; {' and '.join(map(str, near))} are")
        for name in ("seed", "hash_seed"):
            if not 0 <= getattr(self, name) < 2**64:
                raise UsageError(f"{name}={getattr(self, name)} is not an unsigned 64-bit number")

    @classmethod
    def for_shingle(cls, text: str, **other: Any) -> Self:
        """From the command line's form of a shingle.

        Examples:
            >>> Spec.for_shingle("chars:5").n
            5
        """
        unit, _, n = text.partition(":")
        if unit not in UNITS or not n.isdecimal():
            raise UsageError(f"shingle {text!r} is not of the form words:3 or chars:5")
        return cls(unit=unit, n=int(n), **other)

    @property
    def shingle(self) -> str:
        """The command line's form, as `words:3`."""
        return f"{self.unit}:{self.n}"

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, fields that are None left out."""
        present = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(present, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The Spec written by `to_json`; an unknown field is an error (a newer nearkin wrote it)."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise UsageError(f"a Spec is a JSON object, not {text[:40]!r}")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UsageError(f"this Spec has the unknown field {unknown[0]!r}: it was written by a newer nearkin; upgrade")
        if "normalise" in values:
            values["normalise"] = tuple(values["normalise"])
        return cls(**values)

    @cached_property
    def fingerprint(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def require(self, other: "Spec", what: str) -> None:
        """Raises IncompatibleError naming the first difference when `other` is not this Spec."""
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if mine != theirs:
                raise IncompatibleError(
                    f"{what} was made with {field.name}={theirs!r}, this with {mine!r}; signatures of different Specs "
                    "are not comparable: sketch one of them again"
                )
