"""The Spec: everything that makes two signatures comparable, with its fingerprint."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property
from typing import Any, NamedTuple, Self, TypedDict, Unpack

import numpy as np

from nearkin.errors import IncompatibleError, KeyRequiredError, MissingExtraError, UsageError
from nearkin.runtime.argument_types import check_arguments, check_fields
from nearkin.runtime.number_range import NumberRange
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean, require_choice
from nearkin.settings.keys import HashKey

FORMAT_VERSION = 2
"""The version of the format that new Specs of texts have."""
FORMAT_VERSIONS = (1, FORMAT_VERSION)
"""The versions that can be read and compared."""
UNICODE_VERSION = "15.1.0"
MASK_STEPS = ("email", "uuid", "ip", "date", "path", "hex", "number")
"""The normalization steps that replace values, in the order in which they are applied."""
NORMALISATIONS = (
    *("nfkc", "lower", "digits", "punctuation", "symbols", "marks", "markup", "comments"),
    *MASK_STEPS,
)
FINGERPRINT = "fingerprint"
"""The unit of documents that are fingerprints, which are their own signatures."""
UNITS = ("words", "chars", "vector", FINGERPRINT)
FAMILIES = ("xxh3", "murmur3", "fnv1a", "siphash")
"""The base hashes (see `nearkin.stages.hashing.families`)."""
KEYED = "siphash"
KEYED_HYPERPLANES = "keyed-hyperplanes"
"""The scheme of vectors with a hash key. Without a key, it is `hyperplanes`."""
SEED_BITS = {"xxh3": 64, "murmur3": 32, "fnv1a": 64, "siphash": 0}
"""The number of bits of the seed of each family. The keyed family does not have a seed."""
SLOT_BITS = (32, 16, 8, 4, 2, 1)
WEIGHTS = ("tf", "tfidf", "given")
MAX_SHINGLE = 64
MAX_DIMENSIONS = 1 << 16


STEMMER_PACKAGE = "snowballstemmer"
STEMMER_SUFFIX = "_stemmer"
"""The end of the name of a module with the stemmer of a language."""
UNRECORDED_STEMMER = ""
"""The stemmer of a Spec with stems that does not say which release made them."""
STEMMER_FORM = re.compile(r"\S+ \S+")
"""The form of a stemmer: the package and its release."""


@cache
def installed_stemmer() -> str:
    """Returns the name and the release of the installed stemmer.

    Raises:
        MissingExtraError: If the package is not installed.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{STEMMER_PACKAGE} {version(STEMMER_PACKAGE)}"
    except PackageNotFoundError as error:
        raise MissingExtraError.for_extra("stems require snowballstemmer", "stem") from error


def parse_shingle(text: str) -> tuple[str, int]:
    """Returns the unit and the size of a shingle.

    Args:
        text: Shingle as on the command line, for example `words:3`.

    Raises:
        UsageError: If the text is not valid.

    Examples:
        >>> parse_shingle("chars:5")
        ('chars', 5)
    """
    unit, _, n = text.partition(":")
    if unit not in ("words", "chars") or not n.isdecimal():
        raise UsageError(f"invalid shingle {text!r}; write it as words:3 or chars:5")
    return unit, int(n)


def require_fingerprint_bits(bits: int) -> None:
    """Requires that fingerprints can have a number of bits.

    Args:
        bits: Number of bits of a fingerprint.

    Raises:
        UsageError: If it is not a multiple of 64 from 64 to 256.
    """
    limits = MEASURES[HAMMING]
    if bits % limits.k_step or not limits.k_step <= bits <= limits.largest_k:
        allowed = ", ".join(map(str, range(limits.k_step, limits.largest_k + 1, limits.k_step)))
        raise UsageError(
            f"fingerprints of {bits} bits are not supported; use {name_setting('bits')} of "
            f"{allowed}, and fill shorter fingerprints with zeros, which keeps their distances"
        )


def stem_languages() -> list[str]:
    """Returns the languages of the installed Snowball stemmers. There are none without them."""
    from importlib.util import find_spec
    from pkgutil import iter_modules

    package = find_spec(STEMMER_PACKAGE)
    if package is None:
        return []
    names = [module.name for module in iter_modules(package.submodule_search_locations)]
    return sorted(
        name.removesuffix(STEMMER_SUFFIX) for name in names if name.endswith(STEMMER_SUFFIX)
    )


class SignatureLimits(NamedTuple):
    """The schemes and sizes that the signatures of a measure can have."""

    schemes: tuple[str, ...]
    """The allowed schemes, the default one first."""
    slot_bits: tuple[int, ...]
    """The allowed numbers of bits of a slot, the default one first."""
    default_k: int
    """The default number of slots (bits for simhash and cosine)."""
    k_step: int
    """The step in which k is chosen when it is derived from another requirement."""
    largest_k: int
    """The maximum of k."""


IDF_JACCARD = "idf-jaccard"
"""The measure of shingle sets whose shingles are weighted by their inverse document frequency."""
HAMMING = "hamming"
"""The measure of given fingerprints."""
MEASURES = {
    "jaccard": SignatureLimits(("binned", "classic"), SLOT_BITS, 128, 8, 1024),
    "weighted-jaccard": SignatureLimits(("binned", "classic"), SLOT_BITS, 128, 8, 1024),
    IDF_JACCARD: SignatureLimits(("darts",), SLOT_BITS, 128, 8, 1024),
    "simhash": SignatureLimits(("signs",), (1,), 64, 64, 128),
    "cosine": SignatureLimits(("hyperplanes", KEYED_HYPERPLANES), (1,), 512, 64, 4096),
    HAMMING: SignatureLimits(("given",), (1,), 64, 64, 256),
}
"""The measures, and the schemes and sizes of their signatures."""
SET_BY_OPTIONS = ("measure", "scheme", "slot_bits", "weights", "base_hash")
"""The fields of a Spec with a choice of values that options of commands set."""
SLOT_MEASURES = ("jaccard", "weighted-jaccard", IDF_JACCARD)
"""The measures with MinHash signatures, whose similarity is one of Jaccard."""


class SpecKeywords(TypedDict, total=False):
    """The fields of a Spec beside the shingle, as keyword arguments. `Spec` documents them."""

    normalise: tuple[str, ...]
    stem: str | None
    stemmer: str | None
    base_hash: str
    hash_seed: int
    key_id: str | None
    measure: str
    weights: str | None
    frequencies: str | None
    cut: str | None
    scheme: str
    k: int
    slot_bits: int
    seed: int
    unicode: str
    version: int


@dataclass(frozen=True)
class Spec:
    """A Spec of signatures. Two signatures are comparable exactly if their Specs are equal.

    Attributes:
        unit: Unit of a shingle: `words` (tokens), `chars` (code points), `vector` for `cosine`, or
            `fingerprint` for `hamming`.
        n: Number of units of a shingle, of components of a vector, or of bits of a fingerprint.
        normalise: Normalization steps, in any order: `nfkc` and `lower` (both by default), `digits`
            (digits become 0), `punctuation` (becomes tokens; `chars` always keeps it), `symbols`
            (become tokens: those of mathematics, currencies and others, `#%&*@`, a minus before a
            number, and the signs of superscripts and the like), `marks` (are removed where they
            are optional), `markup` (tags are removed), `comments` (those of source code are
            removed), and the masks `email`, `uuid`, `ip`, `date`, `path`, `hex` and `number`
            (values become the name of their kind, and numbers become 0).
        stem: Snowball language whose stems replace the tokens, or None.
        stemmer: Release of the stemmer, for example `snowballstemmer 3.1.1`. Releases can give
            different stems. The default is the installed one, and None without `stem`. An empty
            text stands for a Spec that was written before releases were recorded.
        base_hash: Family of the hash of a token: `xxh3`, `murmur3`, `fnv1a`, or `siphash`, which is
            keyed.
        hash_seed: Seed of the base hash.
        key_id: Id of the hash key, for a keyed family. The key itself is not in the Spec (see
            `nearkin.settings.keys`).
        measure: Measure: `jaccard`, `weighted-jaccard` (multisets), `idf-jaccard` (sets weighted by
            document frequencies), `simhash` (weighted shingles), `cosine` (vectors) or `hamming`
            (given fingerprints).
        weights: Weights of the shingles of simhash: `tf`, `tfidf` or `given`.
        frequencies: Fingerprint of the document frequencies for `tfidf` and `idf-jaccard`. A Spec
            of `idf-jaccard` without one cannot make signatures.
        cut: Fingerprint of the list of shingles that are removed by the frequency cut.
        scheme: Scheme: `binned` (one-permutation rounds with completion) or `classic` (k hash
            functions) for MinHash, `darts` (Poisson processes) for idf-jaccard, `signs` for
            simhash, `hyperplanes` or, with a key, `keyed-hyperplanes` for cosine, and `given` for
            hamming.
        k: Number of slots of a signature, 1 to 1024 (bits for simhash and cosine, multiples of 64).
            Slots of 4, 2 and 1 bits fill whole bytes, so k is a multiple of 2, 4 and 8 then. The
            default depends on the measure. For hamming, it is `n`: 64, 128, 192 or 256.
        slot_bits: Number of bits that are kept of a slot: 32, 16, 8, 4, 2 or 1 (b-bit MinHash).
        seed: Seed of the hash functions of the scheme.
        unicode: Unicode version of the committed tables.
        version: Version of the format: 2 by default for texts and tokens, or 1 for what older
            releases made. Vectors and fingerprints have version 1. Signatures of different
            versions can be read, and not be compared.

    Raises:
        UsageError: If a field is not valid, or two fields contradict each other.

    Examples:
        >>> Spec().fingerprint == Spec.from_json(Spec().to_json()).fingerprint
        True
        >>> Spec(k=2000)
        Traceback (most recent call last):
        ...
        nearkin.errors.UsageError: k=2000 is out of range; it must be from 1 to 1,024
        >>> Spec(measure="simhash").k, Spec(measure="simhash").scheme
        (64, 'signs')
    """

    unit: str = "words"
    n: int = 3
    normalise: tuple[str, ...] = ("nfkc", "lower")
    stem: str | None = None
    stemmer: str | None = None
    base_hash: str = "xxh3"
    hash_seed: int = 0
    key_id: str | None = None
    measure: str = "jaccard"
    weights: str | None = None
    frequencies: str | None = None
    cut: str | None = None
    # None stands for the default of the measure, which __post_init__ sets.
    scheme: str = None  # type: ignore[assignment]
    k: int = None  # type: ignore[assignment]
    slot_bits: int = None  # type: ignore[assignment]
    seed: int = 1
    unicode: str = UNICODE_VERSION
    version: int = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        check_fields(self)
        if unknown := sorted(set(self.normalise) - set(NORMALISATIONS)):
            raise UsageError(
                f"normalise step {unknown[0]!r} is not one of {', '.join(NORMALISATIONS)}"
                f"{did_you_mean(unknown[0], NORMALISATIONS)}"
            )
        object.__setattr__(
            self, "normalise", tuple(step for step in NORMALISATIONS if step in self.normalise)
        )
        require_choice("measure", self.measure, MEASURES)
        usual = {
            "scheme": self.signature_limits.schemes[0],
            "k": self.signature_limits.default_k,
            "slot_bits": self.signature_limits.slot_bits[0],
            "version": self._versions[-1],
        }
        if self.measure == "simhash":
            usual["weights"] = "tf"
        if self.measure == "cosine" and self.key_id is not None:
            usual["scheme"] = KEYED_HYPERPLANES
        if self.unit == FINGERPRINT:
            usual["k"] = self.n
        for name, value in usual.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        if self.stem is not None and self.stemmer is None:
            object.__setattr__(self, "stemmer", installed_stemmer())
        self._check_choices()
        self._check_numbers()
        self._check_together()

    @property
    def _versions(self) -> tuple[int, ...]:
        """The versions that a Spec of this unit can have. Only that of texts has changed."""
        return FORMAT_VERSIONS if self.has_shingles else FORMAT_VERSIONS[:1]

    @property
    def signature_limits(self) -> SignatureLimits:
        """The schemes and sizes that the signatures of the measure can have."""
        return MEASURES[self.measure]

    def _check_choices(self) -> None:
        choices = {
            "unit": UNITS,
            "base_hash": FAMILIES,
            "scheme": self.signature_limits.schemes,
            "slot_bits": self.signature_limits.slot_bits,
            "weights": WEIGHTS if self.measure == "simhash" else (None,),
            "unicode": (UNICODE_VERSION,),
            "version": self._versions,
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                where = (
                    f" for measure {self.measure}"
                    if name in ("scheme", "slot_bits", "weights")
                    else ""
                )
                shown = name_setting(name, value) if name in SET_BY_OPTIONS else f"{name} {value!r}"
                raise UsageError(
                    f"{shown} is not one of {', '.join(map(repr, allowed))}{where}"
                    f"{did_you_mean(value, allowed)}"
                )

    def _check_together(self) -> None:
        if "symbols" in self.normalise and self.version == 1:
            raise UsageError(
                "normalise step 'symbols' needs version 2 of the format, not version 1; leave out "
                "the version, or use 'punctuation'"
            )
        if "marks" in self.normalise and "nfkc" not in self.normalise:
            raise UsageError(
                "normalise step 'marks' needs 'nfkc', which takes letters and marks apart"
            )
        if self.stem is not None and self.unit != "words":
            raise UsageError(f"{name_setting('stem', self.stem)} needs words, not {self.unit}")
        if self.stemmer is not None and self.stem is None:
            raise UsageError(f"stemmer={self.stemmer!r} needs stem, the language of the stems")
        if self.stemmer not in (None, UNRECORDED_STEMMER) and not STEMMER_FORM.fullmatch(
            self.stemmer
        ):
            raise UsageError(
                f"stemmer={self.stemmer!r} is not a package and its release, for example "
                "'snowballstemmer 3.1.1'; omit it to take the installed one"
            )
        if (self.unit == "vector") != (self.measure == "cosine"):
            raise UsageError(
                f"{name_setting('measure', self.measure)} does not go with the unit {self.unit}; "
                "vectors are compared by cosine"
            )
        if (self.unit == FINGERPRINT) != (self.measure == HAMMING):
            raise UsageError(
                f"{name_setting('measure', self.measure)} does not go with the unit {self.unit}; "
                "fingerprints are compared by hamming"
            )
        if self.cut is not None and not self.has_shingles:
            raise UsageError(f"a frequency cut (cut=) is of shingles; {self.unit}s have none")
        if self.unit == FINGERPRINT and self.key_id is not None:
            raise UsageError(
                f"key_id={self.key_id!r} does not go with fingerprints, which are not hashed; "
                "leave out the key"
            )
        if (self.base_hash == KEYED) != (self.key_id is not None):
            raise UsageError(
                f"key_id={self.key_id!r} does not go with "
                f"{name_setting('base_hash', self.base_hash)}: siphash is "
                f"keyed"
            )
        if self.scheme == KEYED_HYPERPLANES and self.key_id is None:
            raise UsageError(
                f"{name_setting('scheme', self.scheme)} needs a key: "
                f"{name_setting('base_hash', KEYED)} and key_id="
            )
        # The frequencies of idf-jaccard may still have to be counted.
        if self.measure != IDF_JACCARD and (
            (self.weights == "tfidf") != (self.frequencies is not None)
        ):
            raise UsageError(
                f"{name_setting('weights', 'tfidf')} and frequencies= (the fingerprint of a "
                f"document-frequency table) "
                "go together"
            )

    def _check_numbers(self) -> None:
        if self.unit == FINGERPRINT:
            require_fingerprint_bits(self.n)
            if self.k != self.n:
                raise UsageError(
                    f"{name_setting('k', self.k)} is not the number of bits of a fingerprint, "
                    f"{self.n}; leave it out"
                )
            return
        most = MAX_DIMENSIONS if self.unit == "vector" else MAX_SHINGLE
        if not 1 <= self.n <= most:
            raise UsageError(f"a shingle of n={self.n} {self.unit} is outside 1 to {most}")
        self._check_k()
        for name in ("seed", "hash_seed"):
            if not 0 <= getattr(self, name) < 2**64:
                raise UsageError(
                    f"{name_setting(name, getattr(self, name))} is not an unsigned 64-bit number"
                )
        bits = SEED_BITS[self.base_hash]
        if self.hash_seed >> bits:
            raise UsageError(
                f"{name_setting('hash_seed', self.hash_seed)} does not fit the {bits} bits of a "
                f"seed of "
                f"{self.base_hash}"
            )

    def _check_k(self) -> None:
        step = self.smallest_k
        largest = self.signature_limits.largest_k
        if step <= self.k <= largest and self.k % step == 0:
            return
        if step == 1:
            NumberRange(1, largest).require("k", self.k)
        below = min(max(self.k // step * step, step), largest)
        near = sorted({below, min(below + step, largest)})
        of_bits = ""
        if self.signature_type is np.uint8:
            of_bits = f" for {self.slot_bits}-bit slots, which fill whole bytes"
        raise UsageError(
            f"{name_setting('k', self.k)} is not a multiple of {step} from {step} to "
            f"{largest}{of_bits}; "
            f"{' and '.join(map(str, near))} are"
        )

    @property
    def smallest_k(self) -> int:
        """The smallest k, of which every k is a multiple.

        It is 64 for signs. Slots of fewer than 8 bits fill whole bytes: it is 2 for 4 bits, 4 for 2
        bits, 8 for 1 bit, and 1 for wider slots.

        Examples:
            >>> [Spec(slot_bits=bits).smallest_k for bits in (32, 8, 4, 1)]
            [1, 1, 2, 8]
        """
        if self.signature_type is np.uint64:
            return self.signature_limits.k_step
        return max(8 // self.slot_bits, 1)

    @classmethod
    @check_arguments
    def for_shingle(cls, text: str, **other: Unpack[SpecKeywords]) -> Self:
        """Returns a Spec for a shingle as on the command line.

        Args:
            text: Shingle, for example `words:3`.
            **other: Other fields of the Spec.

        Raises:
            UsageError: If the shingle or a field is not valid.

        Examples:
            >>> Spec.for_shingle("chars:5").n
            5
        """
        unit, n = parse_shingle(text)
        return cls(unit=unit, n=n, **other)

    @property
    def shingle(self) -> str:
        """The shingle as on the command line, for example `words:3`."""
        return f"{self.unit}:{self.n}"

    def to_json(self) -> str:
        """Returns canonical JSON: sorted keys, no spaces, without fields that are None.

        The field `stemmer` is also absent if the release of the stemmer was not recorded.
        """
        present = {name: value for name, value in asdict(self).items() if value is not None}
        if self.stemmer == UNRECORDED_STEMMER:
            del present["stemmer"]
        return json.dumps(present, sort_keys=True, separators=(",", ":"))

    @classmethod
    @check_arguments
    def from_json(cls, text: str | bytes) -> Self:
        """Returns the Spec that `to_json` wrote.

        Raises:
            UsageError: If the text is not a Spec, or has an unknown field of a newer version.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{text[:40]!r} is not a Spec: {error}") from error
        if not isinstance(values, dict):
            raise UsageError(f"a Spec is a JSON object, not {text[:40]!r}")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UsageError(
                f"this Spec has the unknown field {unknown[0]!r}, which a newer version wrote; "
                f"upgrade nearkin"
            )
        if values.get("stem") is not None:
            values.setdefault("stemmer", UNRECORDED_STEMMER)
        return cls(**values)

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hex digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def has_slots(self) -> bool:
        """True if signatures consist of MinHash slots, False if they consist of signs."""
        return self.measure in SLOT_MEASURES

    @property
    def has_shingles(self) -> bool:
        """True if documents are texts or tokens, False if they are vectors or fingerprints."""
        return self.unit not in ("vector", FINGERPRINT)

    @property
    def uses_frequencies(self) -> bool:
        """True if the shingles are weighted by document frequencies."""
        return self.measure == IDF_JACCARD or self.weights == "tfidf"

    @property
    def signature_type(self) -> type[np.unsignedinteger[Any]]:
        """The type of the words: uint32 for slots, uint64 for signs, uint8 for b-bit slots."""
        if not self.has_slots:
            return np.uint64
        return np.uint32 if self.slot_bits == 32 else np.uint8

    @property
    def truncated(self) -> bool:
        """True if only the lowest bits of slots are kept."""
        return self.signature_type is np.uint8

    @property
    def signature_width(self) -> int:
        """The number of words of a signature."""
        return self.k * self.slot_bits // (8 * np.dtype(self.signature_type).itemsize)

    @check_arguments
    def keyed_with(self, secret: HashKey) -> Self:
        """Returns this Spec with a hash key: texts and hyperplanes are then hashed with SipHash."""
        scheme = KEYED_HYPERPLANES if self.measure == "cosine" else self.scheme
        return replace(self, base_hash=KEYED, hash_seed=0, key_id=secret.id, scheme=scheme)

    @check_arguments
    def require_key(self, secret: HashKey | None) -> HashKey | None:
        """Returns the key if this Spec names it, or None if this Spec is not keyed.

        Raises:
            KeyRequiredError: If the key is missing or is not the key of the Spec.
        """
        if self.key_id is None:
            return None
        if secret is None:
            raise KeyRequiredError(
                f"this Spec is keyed; pass the key {self.key_id} with {name_setting('key')}"
            )
        if secret.id != self.key_id:
            raise KeyRequiredError(
                f"the key given is {secret.id}, the Spec names {self.key_id}; they are not "
                f"comparable"
            )
        return secret

    @check_arguments
    def require(self, other: "Spec", what: str) -> None:
        """Checks that another Spec is equal to this one.

        Args:
            other: Spec to compare.
            what: Name of the artifact of the other Spec, for the error.

        Raises:
            IncompatibleError: If they differ. The message names the first difference.
        """
        difference = find_spec_difference(self, other)
        if difference is not None:
            name, mine, theirs = difference
            raise IncompatibleError(
                f"{what} was made with {name}={theirs!r}, this with {mine!r}; signatures "
                f"of different Specs "
                f"are not comparable: sketch one of them again{advise_on_version(name)}"
            )


def advise_on_version(field: str) -> str:
    """Returns what an error about two Specs adds if they differ in the version, or nothing.

    Args:
        field: Name of the first field in which the Specs differ.
    """
    if field != "version":
        return ""
    return (
        f". Version {FORMAT_VERSION} reads texts in another way than version 1 of older releases; "
        f"{name_setting('version', 1)} keeps version 1"
    )


def find_spec_difference(spec: Spec, other: Spec) -> tuple[str, object, object] | None:
    """Returns the first field in which two Specs differ, or None if they are equal.

    Args:
        spec: A Spec.
        other: Spec that it is compared with.

    Returns:
        The name of the field, its value in the first Spec, and its value in the other one.

    Examples:
        >>> find_spec_difference(Spec(seed=1), Spec(seed=2))
        ('seed', 1, 2)
    """
    for field in fields(spec):
        own = getattr(spec, field.name)
        others = getattr(other, field.name)
        if own != others:
            return field.name, own, others
    return None
