"""Commands that can be copied from a terminal."""

import shutil
import subprocess

import pytest

from nearkin.runtime.shell_quoting import join_command, quote_argument

IDS = [
    "d1",
    "it's a.txt",
    "https://example.org/a?x=1&y=$HOME",
    "a\nb\tc",
    "red\x1b[31m\x07",
    "back\\slash\n'quoted'",
    "right\u202eleft",
    "ünïcode 文字",
    "a\udcffb\n",
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("width", [None, 20])
def test_shell_reads_the_words_of_a_command(width: int | None) -> None:
    words = ["printf", "%s\\0", *IDS, "--run", "my folder", "--", "-x"]
    command = join_command(words, width)
    ended = subprocess.run(
        ["bash", "-c", command.encode("utf-8", "surrogateescape")], capture_output=True, check=True
    )
    read = ended.stdout.decode("utf-8", "surrogateescape").split("\0")
    assert read == [*IDS, "--run", "my folder", "--", "-x", ""]


def test_quoted_argument_has_no_character_that_acts_on_a_terminal() -> None:
    for id in IDS:
        quoted = quote_argument(id)
        assert not {"\n", "\x1b", "\x07", "\u202e"} & set(quoted)


def test_long_command_has_no_line_break_inside_an_argument() -> None:
    ids = ["a" * 70, "b" * 70]
    command = join_command(["nearkin", "explain", *ids, "--run", "out"], 80)
    lines = command.splitlines()
    assert [len(line) <= 80 for line in lines] == [True] * 4
    assert lines == [
        "nearkin explain \\",
        f"    {ids[0]} \\",
        f"    {ids[1]} \\",
        "    --run out",
    ]
