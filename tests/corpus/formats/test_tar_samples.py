"""Tar archives of samples."""

import gc
import gzip
import io
import tarfile
from pathlib import Path

import fsspec
import pytest

from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.formats import tar_members, tar_samples
from nearkin.corpus.input_file import InputFile
from tests.corpus.formats.kept_copies import (
    deduplicate,
    deduplicate_to_lines,
    read_reasons,
    read_texts,
)
from tests.corpus.formats.record_files import TEXTS, write_tar
from tests.corpus.samples import read_corpus


@pytest.mark.parametrize(("name", "mode"), [("a.tar", "w"), ("a.tar.gz", "w:gz")])
def test_kept_copies_hold_all_members_of_kept_samples(name: str, mode: str, tmp_path: Path) -> None:
    path = write_tar(tmp_path / name, mode=mode)
    with tarfile.open(deduplicate(path, "--id", "key")) as copy, tarfile.open(path) as given:
        names = [name for name in given.getnames() if int(name[6:10]) % 2 == 0]
        assert copy.getnames() == names
        for name in names:
            before, after = given.extractfile(name), copy.extractfile(name)
            assert before is not None
            assert after is not None
            assert before.read() == after.read()


def test_columns_are_members_and_fields(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar")
    assert read_texts(path) == TEXTS
    assert read_texts(path, Columns(text="json.caption", id="json.id")) == TEXTS
    rows = deduplicate_to_lines(path, "--text", "json.caption", "--id", "json.id")
    assert (rows[1]["key"], rows[1]["json.id"]) == ("shard/0002", "d2")


def test_samples_without_a_valid_text_are_rejected(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", TEXTS[:2])
    with tarfile.open(path, "a") as archive:
        for name, content in (("2.txt", b"\xff"), ("3.jpg", b"x"), ("4.txt", b"y" * 2000)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    columns = Columns(document_limit=1000)
    assert read_texts(path, columns) == TEXTS[:2]
    reasons = read_reasons(path, columns)
    assert len(reasons) == 3
    assert "member .txt cannot be read" in reasons[0]


@pytest.mark.parametrize("size", [15_360, 15_000, 16_000])
def test_samples_before_damage_are_read(size: int, tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar")
    path.write_bytes(path.read_bytes()[:size])
    assert read_texts(path) == TEXTS[: len(read_texts(path))]
    assert 1 <= len(read_texts(path)) < 6
    assert len(read_reasons(path)) == 1


def test_damaged_header_is_not_the_end_of_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 4
            archive.addfile(member, io.BytesIO(b"text"))
    content = path.read_bytes()
    last = 4 * tarfile.BLOCKSIZE
    damaged = bytearray(content)
    damaged[last] ^= 1
    for part in (bytes(damaged), content[: last + 100]):
        path.write_bytes(part)
        # The damaged header could be that of another member of the second sample.
        assert read_texts(path) == ["text"]
        (reason,) = read_reasons(path)
        assert "cannot be read from row 1: the next member is damaged" in reason


def test_large_header_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar_members, "MAX_HEADER", 1000)
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("n" * 5000 + ".txt"))
    assert read_texts(path) == []
    assert "cannot be read" in read_reasons(path)[0]


def test_name_that_is_not_utf8_costs_one_sample(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", TEXTS[:2])
    with tarfile.open(path, "a") as archive:
        archive.addfile(tarfile.TarInfo("\udcff.txt"))
    assert read_texts(path, Columns(id="key")) == TEXTS[:2]
    assert "UTF-8" in read_reasons(path, Columns(id="key"))[0]


def test_sample_with_a_link_is_rejected(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", TEXTS[:2])
    with tarfile.open(path, "a") as archive:
        archive.addfile(tarfile.TarInfo("shard/0002.txt"))
        link = tarfile.TarInfo("shard/0002.jpg")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/hosts"
        archive.addfile(link)
        link.name = "shard/0003.\udcff"
        archive.addfile(link)
    assert read_texts(path) == TEXTS[:2]
    assert read_reasons(path) == [
        "the member .jpg is a link or a device; store its content",
        r"the member .\xff is a link or a device; store its content",
    ]


def test_headers_of_an_archive_are_not_remembered(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(300):
            archive.addfile(tarfile.TarInfo(f"{number}.txt"))
    del archive
    records = tar_samples.TarSamples().records(
        InputFile(str(path), path.name), Columns(), whole=False
    )
    for _ in range(299):
        next(records)
    gc.collect()
    remembered = [each for each in gc.get_objects() if isinstance(each, tarfile.TarInfo)]
    assert len(remembered) < 20


def test_copy_of_a_sparse_member_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    content = b"4\n0\n3\n9\n3\n12\n0\n12\n0\n".ljust(512, b"\0") + b"abcdef"
    headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "0.jpg",
        "GNU.sparse.realsize": "12",
    }
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, stored, pax_headers in (
            ("sparse/0.jpg", content, headers),
            ("0.txt", TEXTS[0].encode(), {}),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(stored)
            member.pax_headers = pax_headers
            archive.addfile(member, io.BytesIO(stored))
    with tarfile.open(deduplicate(path)) as copy:
        assert copy.getnames() == ["0.jpg", "0.txt"]
        assert not any(member.issparse() for member in copy)
        picture = copy.extractfile("0.jpg")
        assert picture is not None
        assert picture.read() == b"abc\0\0\0\0\0\0def"


def member_of(name: str, content: bytes = b"text", kind: bytes = tarfile.REGTYPE) -> bytes:
    """Returns a member with its header and its padding."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.size = len(content)
    return member.tobuf(tarfile.GNU_FORMAT) + content.ljust(-(-len(content) // 512) * 512, b"\0")


def sized(name: str, size: int) -> bytes:
    """Returns the header of a member with a size of its own."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


END = bytes(2 * tarfile.BLOCKSIZE)
PAX = member_of("x", b"20 comment=aaaaaaaa\n", tarfile.XHDTYPE)
LONG = member_of("x", b"abcdefghi\0", tarfile.GNUTYPE_LONGNAME)
SHARED = member_of("x", b"20 comment=aaaaaaaa\n", tarfile.XGLTYPE)


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (sized("1.bin", 1 << 60) + b"x" * 2000, "the end of the archive is missing"),
        (sized("1.txt", 8 << 30) + b"x" * 2000, "the end of the archive is missing"),
        (sized("1.txt", -5), "the size of a member is negative: -5"),
        (PAX * 3000, "more than 64 headers"),
        (LONG * 3000, "more than 64 headers"),
        (SHARED * 3000, "more than 64 headers"),
        (member_of("x", b"25 comment=aaaaaaaa\n", tarfile.XHDTYPE), "record of a header"),
        (member_of("x", b"4 size=-1\n", tarfile.XHDTYPE), "record of a header"),
        (member_of("x", b"11 size=-9\n", tarfile.XHDTYPE), "the size of a member is negative"),
        (bytes(512) + b"x" * 512, "invalid header"),
    ],
)
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_header_that_claims_too_much_is_damage(
    rest: bytes, reason: str, name: str, tmp_path: Path
) -> None:
    content = member_of("0.txt", TEXTS[0].encode()) + rest + member_of("2.txt") + END
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read_texts(path) in ([TEXTS[0]], [])
    (found,) = read_reasons(path)
    assert "the next member is damaged: " in found
    assert reason in found


def test_archives_that_follow_each_other_are_all_read(tmp_path: Path) -> None:
    """Tools that append archives leave the end of the first one between them."""
    parts = [member_of(f"{number}.txt", text.encode()) for number, text in enumerate(TEXTS)]
    (tmp_path / "a.tar").write_bytes(END.join([*parts, b""]))
    assert read_texts(tmp_path / "a.tar") == TEXTS


def test_shared_headers_hold_for_all_members(tmp_path: Path) -> None:
    content = SHARED + member_of("0.txt", TEXTS[0].encode()) + SHARED + member_of("1.txt", b"b c")
    (tmp_path / "a.tar").write_bytes(content + END)
    assert read_texts(tmp_path / "a.tar") == [TEXTS[0], "b c"]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_members_that_are_not_adjacent_are_not_lost(name: str, tmp_path: Path) -> None:
    """A kept sample has all its members; parts of others are rejected, and none is copied."""
    names = ["0.txt", "1.txt", "2.txt", "2.jpg", "0.jpg", "1.jpg"]
    content = b"".join(member_of(each, f"a b c {each}".encode()) for each in names) + END
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read_texts(path) == ["a b c 2.txt"]
    reasons = read_reasons(path)
    assert len(reasons) == 4
    assert all("not next to each other" in reason for reason in reasons)
    with tarfile.open(deduplicate(path)) as copy:
        assert copy.getnames() == ["2.txt", "2.jpg"]


def test_archive_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    members = {name: member_of(name, b"a b c") for name in ("0.txt", "1.txt", "0.jpg")}
    for names, texts in ((["0.txt", "1.txt", "0.jpg"], 1), (["0.txt", "0.jpg", "1.txt"], 2)):
        (tmp_path / "a.tar").write_bytes(b"".join(map(members.__getitem__, names)) + END)
        assert len(read_texts(tmp_path / "a.tar")) == texts


def test_members_of_a_remote_archive_are_not_lost() -> None:
    names = ["0.txt", "1.txt", "0.jpg"]
    content = b"".join(member_of(name, b"a b c") for name in names) + END
    with fsspec.open("memory://scattered/a.tar", "wb") as file:
        file.write(content)
    corpus = FileCorpus.open(["memory://scattered/a.tar"])
    rows, rejected = read_corpus(corpus, Columns())
    assert (len(rows), len(rejected)) == (1, 2)


def test_sparse_member_of_any_size_is_bounded(tmp_path: Path) -> None:
    facts = [("major", 1), ("minor", 0), ("name", "0.jpg"), ("realsize", 1 << 60)]
    records = [f"GNU.sparse.{key}={value}\n" for key, value in facts]
    sized_records = [f"{len(record) + 3} {record}".encode() for record in records]
    sparse = member_of("x", b"".join(sized_records), tarfile.XHDTYPE)
    content = sparse + member_of("sparse/0.jpg", b"0\n".ljust(512, b"\0"))
    (tmp_path / "a.tar").write_bytes(content + member_of("0.txt") + END)
    assert read_texts(tmp_path / "a.tar") == []
    assert "is larger than" in read_reasons(tmp_path / "a.tar")[0]
