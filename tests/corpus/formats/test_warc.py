"""WARC and WET files."""

import builtins
import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.warcwriter import WARCWriter

import nearkin as nk
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.places import places_of
from nearkin.errors import MissingExtraError
from tests.corpus.formats.kept_copies import (
    deduplicate,
    deduplicate_to_lines,
    read_reasons,
    read_texts,
)
from tests.corpus.formats.record_files import PAGE, TEXTS, write_responses, write_wet


@pytest.mark.parametrize("name", ["a.warc.wet.gz", "a.warc"])
def test_kept_copies_hold_the_bytes_of_kept_records(name: str, tmp_path: Path) -> None:
    path = write_wet(tmp_path / name, gzip=name.endswith(".gz"))
    assert read_texts(path) == TEXTS
    copy = deduplicate(path, "--id", "url")
    assert read_texts(copy) == TEXTS[::2]
    with copy.open("rb") as file:
        assert next(iter(ArchiveIterator(file))).rec_type == "warcinfo"
    if not name.endswith(".gz"):
        records = path.read_bytes().split(b"WARC/1.0\r\n")
        kept = copy.read_bytes().split(b"WARC/1.0\r\n")
        assert kept == [records[at] for at in (0, 1, 2, 4, 6)]


def test_headers_are_columns(tmp_path: Path) -> None:
    path = write_wet(tmp_path / "a.wet.gz")
    rows = deduplicate_to_lines(path, "--keep", "url asc")
    assert [row["url"] for row in rows] == [f"http://example.com/{i}" for i in (0, 2, 4)]
    assert rows[0]["content_type"] == "text/plain"


def test_responses_without_a_text_are_rejected(tmp_path: Path) -> None:
    responses = [
        ("200 OK", "text/html; charset=iso-8859-1", "<p>K\u00f6ln</p>".encode("latin-1")),
        ("404 Not Found", "text/html", b"<p>missing</p>"),
        ("200 OK", "image/png", b"\x89PNG"),
        ("200 OK", "text/plain; charset=zip", b"\xff"),
        ("200 OK", "text/plain", b"x" * 2000),
    ]
    path = write_responses(tmp_path / "a.warc.gz", responses)
    columns = Columns(document_limit=1000)
    assert read_texts(path, columns) == ["<p>Köln</p>"]
    reasons = [reason.partition(":")[0] for reason in read_reasons(path, columns)]
    assert reasons[:3] == [
        "the status of the response is not 2xx",
        "the content type is not that of a text",
        "the text is not in the encoding that its content type names",
    ]
    assert "1,000" in read_reasons(path, columns)[3]


def test_main_text_is_read_without_navigation(tmp_path: Path) -> None:
    pages = [PAGE.format(f"{text}. {text}.").encode() for text in TEXTS[:2]]
    path = write_responses(
        tmp_path / "a.warc.gz", [("200 OK", "text/html", page) for page in pages]
    )
    assert read_texts(path, Columns(main_text=True)) == [f"{text}. {text}." for text in TEXTS[:2]]
    assert "Imprint" in str(read_texts(path)[0])


def test_records_before_damage_are_read(tmp_path: Path) -> None:
    path = write_wet(tmp_path / "a.wet.gz")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 100])
    assert read_texts(path) == TEXTS[:-1]
    assert len(read_reasons(path)) == 1
    path.write_bytes(content[:1500] + bytes(300) + content[1800:])
    assert read_texts(path) == TEXTS[:3]
    # record ids are random, so the damage is sometimes in the headers of a record
    reason = read_reasons(path)[0]
    assert "cannot be read" in reason or "Content-Length" in reason


def test_a_record_of_unknown_length_is_rejected(tmp_path: Path) -> None:
    path = write_wet(tmp_path / "a.wet", gzip=False)
    before, header, after = path.read_bytes().rpartition(b"Content-Length: ")
    path.write_bytes(before + b"Content-Longth: " + after)
    assert header
    assert read_texts(path) == TEXTS[:-1]
    assert "the record has no valid Content-Length" in read_reasons(path)[0]
    path.write_bytes(before + b"Content-Length: -" + after)
    assert read_texts(path) == TEXTS[:-1]
    assert "the record has no valid Content-Length" in read_reasons(path)[0]


@pytest.mark.parametrize(
    ("name", "begin"), [("a.warc.gz", b"\x1f\x8b\x08"), ("a.warc", b"WARC/1.0\r\n")]
)
@pytest.mark.parametrize("left", [12, 40])
def test_record_that_is_cut_in_its_headers_is_damage(
    name: str, begin: bytes, left: int, tmp_path: Path
) -> None:
    path = write_wet(tmp_path / name, gzip=name.endswith(".gz"))
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(begin) + left])
    assert read_texts(path) == TEXTS[:-1]
    assert len(read_reasons(path)) == 1


@pytest.mark.parametrize("is_encoded", [False, True])
def test_content_in_brotli_is_decoded(is_encoded: bool, tmp_path: Path) -> None:
    """Some crawlers keep the header and decode the content."""
    text = "an encoded text of some words"
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "brotli") as stream:
        stream.write(text.encode())
    content = sink.getvalue().to_pybytes() if is_encoded else text.encode()
    kind = "text/plain\r\nContent-Encoding: br"
    responses = [("200 OK", kind, content), ("200 OK", "text/plain", b"another text")]
    assert read_texts(write_responses(tmp_path / "a.warc.gz", responses)) == [text, "another text"]


def test_rows_can_be_selected(tmp_path: Path) -> None:
    corpus = FileCorpus.open([str(write_wet(tmp_path / "a.wet.gz"))])
    places = places_of(np.array([0, 0]), np.array([1, 4]))
    batches = list(corpus.batches_at(Columns(), places))
    assert [row for batch in batches for row in batch.rows.tolist()] == [1, 4]


def test_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_wet(tmp_path / "a.wet.gz")
    imported = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name.startswith("warcio"):
            raise ImportError(name=name)
        return imported(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"require warcio; run .*\[warc\]"):
        read_texts(path)


@pytest.mark.parametrize("main_text", [False, True])
def test_charset_of_a_response_costs_at_most_this_response(main_text: bool, tmp_path: Path) -> None:
    charsets = ["raw_unicode_escape", "punycode", "utf-7", "undefined", "nonsense", "a\x01b"]
    responses = [
        ("200 OK", f"text/html; charset={charset}", b"\xff\\ud800 +2AA- words")
        for charset in charsets
    ]
    responses.append(("200 OK", "text/html", b"last words"))
    path = write_responses(tmp_path / "a.warc.gz", responses)
    columns = Columns(main_text=main_text)
    texts = read_texts(path, columns)
    assert texts[-1] == "last words"
    assert len(texts) + len(read_reasons(path, columns)) == len(responses)


def test_page_that_is_nested_deeply_is_one_rejected_row(tmp_path: Path) -> None:
    pages = [b"<div>" * 6000 + b"words", b"last words"]
    path = write_responses(tmp_path / "a.warc.gz", [("200 OK", "text/html", it) for it in pages])
    columns = Columns(main_text=True)
    assert read_texts(path, columns) == ["last words"]
    assert "nested" in read_reasons(path, columns)[0]


def write_records(path: Path, records: list[tuple[str, str | None, bytes]]) -> Path:
    """Writes records, each with its type, its URL and its content."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=path.suffix == ".gz")
        for kind, url, content in records:
            record = writer.create_warc_record(
                url or "", kind, payload=io.BytesIO(content), warc_content_type="text/plain"
            )
            if url is None:
                record.rec_headers.remove_header("WARC-Target-URI")
            writer.write_record(record)
    return path


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_records_without_a_content_are_counted(name: str, tmp_path: Path) -> None:
    records = [
        ("resource", "http://a.example/", b"a b c"),
        ("revisit", "http://b.example/", b""),
        ("revisit", "http://c.example/", b""),
        ("metadata", "http://c.example/", b"about it"),
        ("continuation", "http://d.example/", b"d"),
        ("odd", "http://e.example/", b"e"),
        ("resource", "http://f.example/", b"f g h"),
    ]
    path = write_records(tmp_path / name, records)
    result = nk.dedup(path, shingle="chars:3")
    assert result.statistics["read"] == 2
    skipped = [warning for warning in result.warnings if warning.startswith("skipped ")]
    assert skipped == [
        "skipped 1 continuation record, whose content is a part of an earlier record",
        "skipped 2 revisit records, whose content is that of an earlier record",
        "skipped 1 unknown record, whose type nearkin does not know",
    ]


def test_several_records_in_one_gzip_member_are_refused(tmp_path: Path) -> None:
    """A plain `gzip a.warc` makes such a file. Reading could not find its records again."""
    records = [("resource", f"http://{name}.example/", b"a b c") for name in "abc"]
    plain = write_records(tmp_path / "a.warc", list(records))
    packed = tmp_path / "b.warc.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    result = nk.dedup([plain, packed], shingle="chars:3")
    assert result.statistics["read"] == 4
    (rejection,) = result.rejected.arrow.to_pylist()
    assert "decompress the file, for example with gunzip" in rejection["reason"]


def test_encoding_in_a_comment_is_not_that_of_the_page(tmp_path: Path) -> None:
    page = "<head><!-- <meta charset=utf-16> --><meta charset=shift_jis></head>日本語"
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page.encode("shift_jis")
    path = write_records(tmp_path / "a.warc", [("response", "http://a.example/", http)])
    path.write_bytes(path.read_bytes().replace(b"text/plain", b"application/http", 1))
    assert read_texts(path) == [page]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_record_without_a_url_is_read(name: str, tmp_path: Path) -> None:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>some words</p>"
    path = write_records(tmp_path / name, [("response", None, http), ("resource", None, b"a b")])
    content = path.read_bytes() if name == "a.warc" else gzip.decompress(path.read_bytes())
    if name == "a.warc":
        path.write_bytes(content.replace(b"text/plain", b"application/http", 1))
    texts = read_texts(path)
    assert texts[0] in ("<p>some words</p>", http.decode())
    assert texts[1:] == ["a b"]


@pytest.mark.parametrize("length", [1 << 63, 1 << 70, 10_000])
def test_length_that_is_too_large_costs_the_rest(length: int, tmp_path: Path) -> None:
    path = write_wet(tmp_path / "a.wet", gzip=False)
    before, header, after = path.read_bytes().rpartition(b"Content-Length: ")
    path.write_bytes(b"%s%s%d%s" % (before, header, length, after[after.index(b"\r") :]))
    assert read_texts(path) == TEXTS[:-1]
    assert len(read_reasons(path)) >= 1


def test_record_that_is_longer_than_its_length_is_rejected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its text would be cut without a word otherwise."""
    path = write_wet(tmp_path / "a.wet", gzip=False)
    before, header, after = path.read_bytes().rpartition(b"Content-Length: ")
    path.write_bytes(before + header + b"10" + after[after.index(b"\r") :])
    assert read_texts(path) == TEXTS[:-1]
    assert read_reasons(path) == ["the record is longer than its Content-Length"]
    assert capfd.readouterr().err == ""


def test_headers_without_an_end_are_damage(tmp_path: Path) -> None:
    path = write_wet(tmp_path / "a.wet", gzip=False)
    with path.open("ab") as file:
        file.write(b"WARC/1.0\r\nX: " + b"x" * (2 << 20))
    assert read_texts(path) == TEXTS
    (reason,) = read_reasons(path)
    assert "the next record is damaged: its headers have more than 1,048,576 bytes" in reason


def test_segment_of_a_record_is_rejected(tmp_path: Path) -> None:
    path = write_wet(tmp_path / "a.wet", gzip=False)
    before, header, after = path.read_bytes().rpartition(b"Content-Length: ")
    path.write_bytes(before + b"WARC-Segment-Number: 1\r\n" + header + after)
    assert read_texts(path) == TEXTS[:-1]
    assert "segment" in read_reasons(path)[0]


CYRILLIC = "Привет, мир"


@pytest.mark.parametrize(
    ("page", "encoding"),
    [
        ('<html><head><meta charset="windows-1251"></head>{}', "cp1251"),
        ("<HTML><META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset=koi8-r'>{}", "koi8-r"),
        ('<?xml version="1.0" encoding="windows-1251"?><html>{}</html>', "cp1251"),
        ("<p>{}</p>", "utf-16"),
    ],
)
def test_encoding_that_a_page_names_is_used(page: str, encoding: str, tmp_path: Path) -> None:
    text = page.format(CYRILLIC)
    path = write_responses(tmp_path / "a.warc.gz", [("200 OK", "text/html", text.encode(encoding))])
    assert read_texts(path) == [text]


def test_encodings_are_those_of_browsers(tmp_path: Path) -> None:
    """Pages that name Latin 1 use the characters of Windows-1252."""
    responses = [
        ("200 OK", "text/html; charset=iso-8859-1", "“quoted”".encode("cp1252")),
        ("200 OK", "text/html; charset=gb2312", "镕".encode("gb18030")),
    ]
    assert read_texts(write_responses(tmp_path / "a.warc.gz", responses)) == ["“quoted”", "镕"]


def test_reason_says_which_encoding_was_named(tmp_path: Path) -> None:
    responses = [
        ("200 OK", "text/html", b"\xff words"),
        ("200 OK", "text/html", b"<meta charset=utf-8>\xff words"),
        ("200 OK", "text/html; charset=utf-8", b"\xff words"),
    ]
    assert read_reasons(write_responses(tmp_path / "a.warc.gz", responses)) == [
        "the text is not valid UTF-8, and no other encoding is named",
        "the text is not in the encoding that it names",
        "the text is not in the encoding that its content type names",
    ]


@pytest.mark.parametrize("main_text", [False, True])
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"%PDF-1.4\n1 0 obj << >> endobj", "a PDF document"),
        (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
        (b"\x1f\x8b\x08 packed", "gzip data"),
        (b"GIF89a picture", "a GIF picture"),
        (b"some words\0and others", "data with null bytes"),
    ],
)
def test_binary_that_is_labelled_as_a_page_is_rejected(
    content: bytes, kind: str, main_text: bool, tmp_path: Path
) -> None:
    responses = [("200 OK", "text/html; charset=iso-8859-1", content)]
    path = write_responses(tmp_path / "a.warc.gz", responses)
    columns = Columns(main_text=main_text)
    assert read_texts(path, columns) == []
    assert read_reasons(path, columns) == [
        f"the content is not the text that its type says: {kind}"
    ]
