"""Resources that a Spec refers to: the hash key, document frequencies and cut shingles."""

import hashlib
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.errors import IncompatibleError, UsageError
from nearkin.runtime.argument_types import check_arguments, check_fields
from nearkin.runtime.number_range import SHARE
from nearkin.runtime.setting_names import SettingForm, current_form, name_setting
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import FORMAT_VERSIONS, IDF_JACCARD, Spec, advise_on_version
from nearkin.stages.shingle import Cut, Shingler
from nearkin.stages.sketch.weight_table import WeightTable

ONE = 1 << 16
"""The integer that stands for weight 1. Integer weights make sums independent of their order."""
FREQUENCIES_FILE = "frequencies.arrow"
"""The file name of the document frequencies of a run."""
CUT_FILE = "cut.arrow"
"""The file name of the cut shingles of a run."""
DOUBTFUL = 1e-6
"""The distance from the middle of two integers below which a weight is computed with decimals."""
DOCUMENTS = b"nearkin.documents"
SHINGLE = b"nearkin.shingle"
BASE = b"nearkin.base"
VERSION = b"nearkin.version"
FINGERPRINT = b"nearkin.fingerprint"
TABLE_VERSION = "1"
"""The version of the file of a table of document frequencies."""
TABLE_SCHEMA = pa.schema([("hash", pa.uint64()), ("documents", pa.uint32())])
"""The columns of the file of a table of document frequencies."""


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """A table of the number of documents that contain each shingle.

    It is the source of tf-idf weights and of lists of cut shingles.

    Attributes:
        documents: Number of counted documents.
        hashes: Sorted hashes, uint64 (m,), of the shingles that at least two documents contain. For
            weights, every other shingle counts as contained in one document. In a list of cut
            shingles, these are the shingles that are removed.
        counts: Number of documents that contain each shingle, uint32 (m,).

    Examples:
        >>> hashes = np.array([5, 9], np.uint64)
        >>> frequencies = DocumentFrequencies(3, hashes, np.array([2, 3], np.uint32))
        >>> weights = frequencies.weights_of(np.array([9, 5, 7], np.uint64))
        >>> (weights / ONE).round(3).tolist()
        [1.0, 1.288, 1.693]
    """

    documents: int
    hashes: np.ndarray
    counts: np.ndarray

    def __post_init__(self) -> None:
        check_fields(self)

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hex digits of the SHA-256 of the table, to which a Spec refers."""
        digest = hashlib.sha256(self.documents.to_bytes(8, "little"))
        digest.update(self.hashes.astype("<u8").tobytes())
        digest.update(self.counts.astype("<u4").tobytes())
        return digest.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DocumentFrequencies):
            return NotImplemented
        return self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    @check_arguments
    def weights(self) -> np.ndarray:
        """The smoothed inverse document frequencies, int64 (m,).

        They are round(65536 · (ln((1 + N) / (1 + df)) + 1)).
        """
        return idf(self.documents, self.counts)

    @cached_property
    def rare(self) -> int:
        """The weight of every other shingle, which counts as contained in one document."""
        return int(idf(self.documents, np.ones(1, np.uint32))[0])

    @cached_property
    def table(self) -> WeightTable:
        """The weights in a table for lookups."""
        return WeightTable.of(self.hashes, self.weights, self.rare)

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in ("documents", "hashes", "counts")}

    @check_arguments
    def weights_of(self, hashes: np.ndarray) -> np.ndarray:
        """Returns the weight of each shingle, int64 (n,).

        Args:
            hashes: Shingle hashes, uint64 (n,).
        """
        return self.table.look_up(np.ascontiguousarray(hashes, np.uint64))

    @check_arguments
    def above(self, share: float) -> "DocumentFrequencies":
        """Returns the shingles that more than a share of the documents contain.

        Args:
            share: Share of the documents, from 0 to 1.

        Raises:
            UsageError: If the share is out of range.

        Examples:
            >>> hashes = np.array([5, 9], np.uint64)
            >>> counted = DocumentFrequencies(10, hashes, np.array([2, 3], np.uint32))
            >>> counted.above(0.2).hashes.tolist()
            [9]
        """
        SHARE.require("share", share)
        # A product could be rounded: 0.57 · 100 is 56.99999999999999.
        is_frequent = self.counts / max(self.documents, 1) > share
        return replace(self, hashes=self.hashes[is_frequent], counts=self.counts[is_frequent])

    @check_arguments
    def write(self, path: Path, spec: Spec) -> None:
        """Writes the table as an Arrow file that describes its shingles, with a checksum.

        Args:
            path: File to write.
            spec: Spec of the shingles.
        """
        facts = {
            DOCUMENTS: str(self.documents),
            SHINGLE: spec.shingle,
            BASE: shingle_facts(spec),
            VERSION: TABLE_VERSION,
            FINGERPRINT: self.fingerprint,
        }
        schema = TABLE_SCHEMA.with_metadata(facts)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(pa.table([self.hashes, self.counts], schema=schema))

    @classmethod
    @check_arguments
    def read(cls, path: Path, spec: Spec) -> "DocumentFrequencies":
        """Reads a table of the shingles of a Spec.

        Args:
            path: File that `write` wrote.
            spec: Spec of the shingles.

        Returns:
            The table.

        Raises:
            UsageError: If the file does not exist, is damaged, has another content or was written
                by a newer version.
            IncompatibleError: If the table is of the shingles of another Spec.
        """
        damaged = UsageError(
            f"cannot read {str(path)!r}: it is damaged or not a file of document frequencies"
        )
        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
            metadata = table.schema.metadata or {}
            facts = {name: value.decode() for name, value in metadata.items()}
            documents = int(facts[DOCUMENTS])
        except FileNotFoundError as error:
            raise UsageError(f"no such file: {path}") from error
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise damaged from error
        if facts.get(BASE) != shingle_facts(spec):
            others = (replace(spec, version=version) for version in FORMAT_VERSIONS)
            is_of_version = facts.get(BASE) in [shingle_facts(other) for other in others]
            advice = advise_on_version("version" if is_of_version else "")
            raise IncompatibleError(
                f"{str(path)!r} has frequencies of other shingles ({facts.get(SHINGLE, '')}) than "
                f"this Spec ({spec.shingle}); use the settings with which they were counted "
                "(shingle, normalization, stem), or count the shingles again"
                f"{advice}"
            )
        version = facts.get(VERSION, TABLE_VERSION)
        if version != TABLE_VERSION:
            raise UsageError(
                f"{str(path)!r} has version {version} of the file of document frequencies, not "
                f"{TABLE_VERSION}; upgrade nearkin, or count the shingles again"
            )
        if not (_has_table_schema(table) and 0 <= documents < 1 << 63):
            raise damaged
        frequencies = cls(documents, table["hash"].to_numpy(), table["documents"].to_numpy())
        # Files of nearkin 0.1.0 have no checksum.
        checksum = facts.get(FINGERPRINT, frequencies.fingerprint)
        if checksum != frequencies.fingerprint:
            raise UsageError(
                f"cannot read {str(path)!r}: its content was changed (the checksum does not "
                "match); count the shingles again"
            )
        if not (frequencies.hashes[1:] > frequencies.hashes[:-1]).all():
            raise damaged
        return frequencies


def _has_table_schema(table: pa.Table) -> bool:
    """Returns True if a table has the columns of document frequencies, without missing values."""
    has_columns = table.schema.equals(TABLE_SCHEMA)
    return has_columns and not any(column.null_count for column in table.columns)


def is_frequencies_file(path: Path) -> bool:
    """Returns True if a file was written by `DocumentFrequencies.write`."""
    try:
        with pa.memory_map(str(path)) as source:
            return DOCUMENTS in (pa.ipc.open_file(source).schema.metadata or {})
    except pa.ArrowException:
        return False


def shingle_facts(spec: Spec) -> str:
    """Returns all fields of a Spec that determine the hash of a shingle, as text."""
    names = (
        "unit",
        "n",
        "normalise",
        "stem",
        "base_hash",
        "hash_seed",
        "key_id",
        "unicode",
        "version",
    )
    facts = [getattr(spec, name) for name in names]
    if spec.stemmer:
        facts.append(spec.stemmer)
    return repr(facts)


def idf(documents: int, counts: np.ndarray) -> np.ndarray:
    """Returns the weights of shingles, int64 (m,).

    They are round(65536 · (ln((1 + N) / (1 + df)) + 1)), and at least 1. Logarithms of different
    libraries can differ in their last bit, so weights near the middle of two integers are computed
    again with decimals.
    """
    scaled = ONE * (np.log((1 + documents) / (1 + counts.astype(np.float64))) + 1)
    weights = np.rint(scaled).astype(np.int64)
    is_doubtful = np.abs(scaled - np.floor(scaled) - 0.5) < DOUBTFUL
    for i in np.flatnonzero(is_doubtful).tolist():
        weights[i] = exact_idf(documents, int(counts[i]))
    return np.maximum(weights, 1)


def exact_idf(documents: int, count: int) -> int:
    """Returns the weight of a shingle, from a logarithm of 40 digits.

    Examples:
        >>> bool(exact_idf(3, 2) == idf(3, np.array([2]))[0])
        True
    """
    with localcontext() as context:
        context.prec = 40
        return round(ONE * ((Decimal(1 + documents) / (1 + count)).ln() + 1))


def weighted_by(frequencies: DocumentFrequencies, spec: Spec) -> Spec:
    """Returns a Spec whose shingles are weighted by document frequencies.

    Examples:
        >>> counted = DocumentFrequencies(3, np.array([5], np.uint64), np.array([2], np.uint32))
        >>> weighted_by(counted, Spec(measure="simhash")).weights
        'tfidf'
    """
    weights = None if spec.measure == IDF_JACCARD else "tfidf"
    return replace(spec, weights=weights, frequencies=frequencies.fingerprint)


@dataclass(frozen=True)
class SpecResources:
    """The data that a Spec refers to but does not contain.

    Attributes:
        secret: Hash key.
        frequencies: Document frequencies for tf-idf weights and for measure `idf-jaccard`.
        cut: Shingles that are removed because too many documents contain them.
    """

    secret: HashKey | None = None
    frequencies: DocumentFrequencies | None = None
    cut: DocumentFrequencies | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    @check_arguments
    def read(cls, folder: Path, spec: Spec, secret: HashKey | None = None) -> "SpecResources":
        """Reads the tables of a Spec that `write` wrote to a folder.

        Args:
            folder: Folder of the files; or a file of document frequencies, if the Spec refers to
                no other table.
            spec: Spec that refers to the tables. A Spec of `idf-jaccard` that names no document
                frequencies gets those of the folder.
            secret: Hash key, which is in no file.

        Returns:
            The tables, with the key.

        Raises:
            UsageError: If a file does not exist or is damaged.
            IncompatibleError: If a table is of the shingles of another Spec.
        """
        frequencies = None
        if spec.uses_frequencies:
            path = folder if folder.is_file() else folder / FREQUENCIES_FILE
            frequencies = DocumentFrequencies.read(path, spec)
        cut = None
        if spec.cut:
            if folder.is_file():
                raise UsageError(
                    f"{str(folder)!r} is a file, and the Spec refers to cut shingles too; give the "
                    "output folder of a run"
                )
            cut = DocumentFrequencies.read(folder / CUT_FILE, spec)
        return cls(secret, frequencies, cut)

    @check_arguments
    def write(self, folder: Path, spec: Spec) -> None:
        """Writes the tables, but not the key, to a folder.

        Args:
            folder: Folder of the files.
            spec: Spec of the shingles.
        """
        for table, name in ((self.frequencies, FREQUENCIES_FILE), (self.cut, CUT_FILE)):
            if table is not None:
                table.write(folder / name, spec)

    def complete(self, spec: Spec) -> Spec:
        """Returns a Spec of `idf-jaccard` that names the document frequencies; others unchanged."""
        if spec.measure != IDF_JACCARD or spec.frequencies is not None or self.frequencies is None:
            return spec
        return weighted_by(self.frequencies, spec)

    @check_arguments
    def weights(self, spec: Spec) -> DocumentFrequencies | None:
        """Returns the document frequencies of a Spec, or None if it does not refer to any.

        Raises:
            UsageError: If the measure needs them and the Spec does not name them.
            IncompatibleError: If they are missing or have another fingerprint.
        """
        if spec.measure == IDF_JACCARD and spec.frequencies is None:
            raise UsageError(
                f"measure {IDF_JACCARD} needs document frequencies, and none are given; count them "
                "with nearkin.frequencies or nearkin lab frequencies, or take frequencies.arrow of "
                "a run with this measure"
            )
        return require_table(self.frequencies, spec.frequencies, "document frequencies")

    @check_arguments
    def shingler(self, spec: Spec) -> Shingler:
        """Returns a new shingler of a Spec, with its key and its cut shingles.

        Raises:
            KeyRequiredError: If the key is missing or is not the key of the Spec.
            IncompatibleError: If the cut shingles are missing or have another fingerprint.
        """
        table = require_table(self.cut, spec.cut, "cut shingles")
        cut = None if table is None or not len(table.hashes) else Cut(table.hashes)
        return Shingler(spec, self.secret, cut)


def require_table(
    table: DocumentFrequencies | None, fingerprint: str | None, name: str
) -> DocumentFrequencies | None:
    """Returns a table if it is the one that a Spec refers to."""
    if fingerprint is None:
        return None
    given = None if table is None else table.fingerprint
    if given != fingerprint:
        is_command = current_form() is SettingForm.OPTION
        way = f"with {name_setting('spec_resources')}" if is_command else "as SpecResources"
        raise IncompatibleError(
            f"this Spec refers to the {name} {fingerprint}, but {given or 'none'} was given; pass "
            f"them {way}"
        )
    return table


NO_RESOURCES = SpecResources()
"""The resources of a Spec that does not refer to any."""
