"""Fingerprints of which all bits are equal. Different blank pictures often have such a one."""

from collections.abc import Iterator, Mapping

from nearkin.engine.options import RunOptions
from nearkin.settings.spec import FINGERPRINT

NOTABLE_DOCUMENTS = 2
"""The number of documents with one constant fingerprint from which a run warns."""


def constant_fingerprints(options: RunOptions) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the constant fingerprints that find candidate pairs in a run."""
    for number, candidates in enumerate(options.candidate_options):
        if candidates.spec.unit == FINGERPRINT:
            width = candidates.spec.k // 8
            yield number, [bytes(width), b"\xff" * width]


def select_notable(counts: Mapping[bytes, int]) -> dict[str, int] | None:
    """Returns the numbers of documents by hexadecimal fingerprint, or None without any."""
    notable = {
        fingerprint.hex(): int(count)
        for fingerprint, count in counts.items()
        if count >= NOTABLE_DOCUMENTS
    }
    return notable or None
