"""WARC and WET files."""

import builtins
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from warcio.archiveiterator import ArchiveIterator

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
