"""A blocklist, to which documents are added and with which others are compared."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearkin.engine.blocklist.entries import BlockedEntries
from nearkin.engine.blocklist.list_file import read_entries, write_entries
from nearkin.engine.blocklist.search import BlockedMatches, EntrySearch
from nearkin.errors import IncompatibleError, UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.files import PRIVATE_FILE, disk_errors, replacing_durably, require_file_path
from nearkin.runtime.number_range import SHARE_ABOVE_0
from nearkin.settings.spec import Spec, advise_on_version, find_spec_difference
from nearkin.stages.measures import Measure, measure_of
from nearkin.stages.measures.base import Payload
from nearkin.stages.measures.compared_sets import compares_sets, truncate_sets
from nearkin.stages.measures.hamming import Hamming
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

ROWS_AT_ONCE = 8192
"""The number of documents that are sketched at a time."""


@dataclass(frozen=True)
class BlockedMatch:
    """A blocked entry that a document is like.

    Attributes:
        entry: Name of the entry.
        similarity: Exact similarity of the document to the blocked one.
    """

    entry: str
    similarity: float


class Blocklist:
    """A list of documents that are not wanted, for example after an opt-out or a takedown.

    It holds hashes of the documents, and no text. With a hash key, strangers cannot find out from
    the list if a text is blocked.

    Args:
        spec: Spec of the documents, which are texts or token lists. By default, that of
            `nearkin.dedup`.
        resources: The hash key and the data that the Spec refers to.

    Raises:
        UsageError: If the Spec is one of vectors or fingerprints.

    Examples:
        >>> from nearkin import Blocklist
        >>> blocklist = Blocklist()
        >>> blocklist.add(["An article that its author has withdrawn."], ["req-7"])
        1
        >>> blocklist.match(["an article that its author has withdrawn", "Another article."])
        [BlockedMatch(entry='req-7', similarity=1.0), None]
    """

    @check_arguments
    def __init__(self, spec: Spec | None = None, resources: SpecResources = NO_RESOURCES) -> None:
        self._spec = Spec() if spec is None else spec
        if not self._spec.has_shingles:
            raise UsageError(
                f"a blocklist holds hashes of texts, and the Spec is one of {self._spec.unit}s; "
                "give a Spec of texts"
            )
        self._resources = resources
        self._measure = measure_of(self._spec, resources)
        self._entries = BlockedEntries.empty(self._measure)

    @classmethod
    @check_arguments
    def open(cls, path: str | Path, resources: SpecResources = NO_RESOURCES) -> "Blocklist":
        """Opens the file of a blocklist.

        Args:
            path: File that `save` or `nearkin block add` wrote.
            resources: The hash key and the data that the Spec of the list refers to. They are
                needed to add, remove and match texts.

        Raises:
            UsageError: If the file does not exist or is not a blocklist.
            WireError: If the file is damaged, or has another format version.
        """
        spec, entries = read_entries(Path(path))
        blocklist = cls(spec, resources)
        blocklist._entries = entries
        return blocklist

    @property
    def spec(self) -> Spec:
        """The Spec of the blocked documents."""
        return self._spec

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the entries, in the order in which they were added."""
        return self._entries.ids

    @property
    def shingles(self) -> int:
        """The number of stored shingle hashes."""
        return int(self._entries.payload.sizes.sum())

    @property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of a hash of the Spec, the names and the digests."""
        digest = hashlib.sha256(self.spec.to_json().encode())
        for name in self.ids:
            digest.update(f"{len(name)} {name}".encode())
        digest.update(self._entries.digest_values.tobytes())
        return digest.hexdigest()[:16]

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Blocklist: {len(self)} entries of the Spec {self.spec.fingerprint}>"

    @check_arguments
    def add(self, texts: Sequence[str], ids: Sequence[str] | None = None) -> int:
        """Adds texts. One whose shingles are listed already is not added again.

        Args:
            texts: Texts of the blocked documents. Those without a shingle are not added, because
                nothing is similar to them.
            ids: Names of the entries, which matches report. They are stored as they are. By
                default, an entry is named by 32 hexadecimal digits of a hash of its text.

        Returns:
            The number of added entries.

        Raises:
            UsageError: If a text is not valid Unicode, or the number of names is another one.
            KeyRequiredError: If the Spec is keyed and its key was not given.
        """
        if ids is not None and len(ids) != len(texts):
            raise UsageError(f"{len(ids)} ids for {len(texts)} texts; give one for each text")
        return self.add_documents(_to_array(texts, "text"), _checked_ids(ids))

    def add_documents(self, documents: pa.Array, ids: Sequence[str] | None) -> int:
        """Adds a column of valid texts or token lists, as `add` does.

        Args:
            documents: large_string, or large_list of large_string.
            ids: Names of the entries, or None.
        """
        before = len(self)
        for start in range(0, len(documents), ROWS_AT_ONCE):
            end = start + ROWS_AT_ONCE
            names = None if ids is None else ids[start:end]
            part = documents[start:end]
            new = BlockedEntries.of_documents(part, names, self._measure)
            self._entries = self._entries.extend(new).distinct()
        return len(self) - before

    @check_arguments
    def remove(self, texts: Sequence[str]) -> int:
        """Removes the entries of texts.

        Args:
            texts: The blocked texts, or others that have the same shingles. Entries that are only
                similar to them stay.

        Returns:
            The number of removed entries.

        Raises:
            UsageError: If a text is not valid Unicode.
            KeyRequiredError: If the Spec is keyed and its key was not given.
        """
        return self.remove_documents(_to_array(texts, "text"))

    def remove_documents(self, documents: pa.Array) -> int:
        """Removes the entries of a column of valid texts or token lists, as `remove` does.

        Args:
            documents: large_string, or large_list of large_string.
        """
        removed = BlockedEntries.of_documents(documents, None, self._measure)
        return self._keep(~np.isin(self._entries.digest_values, removed.digest_values))

    @check_arguments
    def remove_ids(self, ids: Sequence[str]) -> int:
        """Removes all entries of some names.

        Args:
            ids: Names of entries.

        Returns:
            The number of removed entries.

        Raises:
            UsageError: If no entry has a name. No entry is removed.
        """
        unknown = sorted(set(ids) - set(self.ids))
        if unknown:
            raise UsageError(
                f"the blocklist has no entry {unknown[0][:60]!r}; nearkin block info --entries "
                "lists the entries"
            )
        names = set(ids)
        return self._keep(np.array([id not in names for id in self.ids], bool))

    def _keep(self, is_kept: np.ndarray) -> int:
        """Keeps some entries. Returns the number of the others."""
        kept = np.flatnonzero(is_kept)
        removed = len(self) - len(kept)
        if removed:
            self._entries = self._entries.select(kept)
        return removed

    @check_arguments
    def match(
        self, texts: Sequence[str], threshold: float = 0.8, distance: int | None = None
    ) -> list[BlockedMatch | None]:
        """Returns the entry that each text is most similar to, or None.

        Every entry is found that reaches the threshold: no recall below 1 applies.

        Args:
            texts: Texts.
            threshold: Smallest similarity, in (0, 1].
            distance: Maximum Hamming distance of signatures (simhash only), which replaces the
                threshold.

        Raises:
            UsageError: If a text is not valid Unicode, or the threshold is out of range.
            KeyRequiredError: If the Spec is keyed and its key was not given.
        """
        SHARE_ABOVE_0.require("threshold", threshold)
        documents = _to_array(texts, "text")
        measure = measure_of(self.spec, self._resources, distance)
        if distance is not None:
            threshold = 1 - distance / self.spec.k
        search = self.search(measure)
        builder = measure.payload_builder()
        matches: list[BlockedMatch | None] = [None] * len(documents)
        for start in range(0, len(documents), ROWS_AT_ONCE):
            payload = builder.build(documents[start : start + ROWS_AT_ONCE])
            for document, match in self.name_matches(search.find(payload, threshold)):
                matches[start + document] = match
        return matches

    def name_matches(self, blocked: BlockedMatches) -> Iterator[tuple[int, BlockedMatch]]:
        """Yields the position of each document that a search returned, and its entry.

        Args:
            blocked: Result of a search among the entries.
        """
        positions = blocked.documents.tolist()
        similarities = blocked.similarity.tolist()
        for position, entry, similarity in zip(
            positions, blocked.entries.tolist(), similarities, strict=True
        ):
            yield position, BlockedMatch(self.ids[entry], similarity)

    def search(self, measure: Measure, *, truncates_hashes: bool = False) -> EntrySearch:
        """Returns a search among the entries.

        Args:
            measure: Measure of the same Spec, by which documents are compared with entries.
            truncates_hashes: Whether the hashes of documents are those that runs compare.
        """
        payload = self._entries.payload
        if isinstance(measure, Hamming):
            sizes = np.ones(len(self), np.int64)
            payload = Payload(sizes, (self._entries.signatures,))
        elif truncates_hashes and compares_sets(self.spec.measure):
            payload = truncate_sets(payload)
        return EntrySearch(measure, payload)

    def require_spec(self, spec: Spec, subject: str, advice: str) -> None:
        """Requires that documents of a Spec can be compared with the entries.

        Args:
            spec: Spec of the documents.
            subject: Name of what has these documents, for the error.
            advice: What to do about it, for the error.

        Raises:
            IncompatibleError: If the Spec is another one. The message names the first difference.
        """
        difference = find_spec_difference(self.spec, spec)
        if difference is not None:
            name, own, others = difference
            raise IncompatibleError(
                f"the blocklist has the Spec {self.spec.fingerprint} whose {name} is {own!r}, "
                f"and that of {subject} is {others!r}; {advice}{advise_on_version(name)}"
            )

    @check_arguments
    def save(self, path: str | Path) -> None:
        """Writes the list to a file, which is complete or unchanged after a kill.

        The file can be read by its owner only.

        Args:
            path: File to write. It is replaced if it exists.

        Raises:
            UsageError: If the path is that of a folder, or in one that does not exist.
            RunError: If the file cannot be written.
        """
        path = Path(path)
        require_file_path(path)
        with disk_errors(path.parent), replacing_durably(path, PRIVATE_FILE) as file:
            write_entries(file, self.spec, self._entries)


def _to_array(texts: Sequence[str], name: str) -> pa.Array:
    """Returns texts as large_string."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError as error:
        raise UsageError(
            f"a {name} is not valid Unicode: {error.reason} at position {error.start}; remove it"
        ) from error


def _checked_ids(ids: Sequence[str] | None) -> list[str] | None:
    """Returns names of entries if they can be stored."""
    return None if ids is None else _to_array(ids, "name of an entry").to_pylist()
