"""Tests of sizes in bytes."""

import pytest

from nearkin.errors import UsageError
from nearkin.runtime.sizes import parse_size


@pytest.mark.parametrize(
    ("size", "number"),
    [("4GB", 4 * 10**9), ("512MiB", 512 << 20), ("1.5G", 1_500_000_000), ("7", 7), (7, 7)],
)
def test_sizes_are_numbers_or_texts(size: int | str, number: int) -> None:
    assert parse_size(size) == number


@pytest.mark.parametrize(
    "size", ["", "GB", "-1GB", "4 GB of it", "1e9", "4XB", "٣GB", "9" * 400 + "GB"]
)
def test_an_invalid_size_is_named(size: str) -> None:
    with pytest.raises(UsageError, match=f"disk {size!r} is not a size; write it like 4GB"):
        parse_size(size, "disk")
