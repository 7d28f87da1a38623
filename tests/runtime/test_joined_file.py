"""Tests of files that are joined from parts of other files."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearkin.runtime.joined_file import JoinedFile


def test_parts_are_in_the_order_in_which_they_were_appended(tmp_path: Path) -> None:
    target = tmp_path / "joined"
    contents = [bytes([number]) * (number * 50_000 + 1) for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        file = JoinedFile(target, pool)
        for number, content in enumerate(contents):
            part = tmp_path / f"part {number}"
            part.write_bytes(b"head" + content + b"tail")
            if number == 0:
                file.begin(part, 4 + len(content))
            else:
                file.append(part, 4, 4 + len(content))
        assert file.end == 4 + sum(map(len, contents))
        file.finish(b"end")
    assert target.read_bytes() == b"head" + b"".join(contents) + b"end"
    assert list(tmp_path.iterdir()) == [target]


def test_a_part_that_is_too_short_is_an_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"content")
    with ThreadPoolExecutor(1) as pool:
        file = JoinedFile(tmp_path / "joined", pool)
        file.begin(tmp_path / "a", 7)
        file.append(tmp_path / "b", 0, 9)
        with pytest.raises(OSError, match="ended 2 bytes too early"):
            file.finish(b"")
