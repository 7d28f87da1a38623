"""Tests of blocklists: entries, their file, and what is refused."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

import nearkin as nk
from nearkin.engine.blocklist import blocklist as blocklist_module
from nearkin.engine.blocklist import list_file
from nearkin.engine.blocklist.entries import name_digests
from nearkin.stages.measures.base import Payload

SECRET_TEXT = "the minutes of the meeting that was never held in the house at the lake"
TEXTS = [SECRET_TEXT, "a second document whose author has asked the archive to forget it soon"]
KEY = nk.HashKey(bytes(range(16)))
KEYED = nk.Spec(base_hash="siphash", key_id=KEY.id)


@pytest.fixture
def blocklist() -> nk.Blocklist:
    """A list of two texts."""
    made = nk.Blocklist()
    assert made.add(TEXTS, ["one", "two"]) == 2
    return made


def test_a_saved_list_matches_as_before(blocklist: nk.Blocklist, tmp_path: Path) -> None:
    blocklist.save(tmp_path / "list")
    opened = nk.Blocklist.open(tmp_path / "list")
    texts = [f"{SECRET_TEXT} now", "something else altogether, with several words", "", TEXTS[1]]
    assert opened.match(texts) == blocklist.match(texts)
    assert [match and match.entry for match in opened.match(texts)] == ["one", None, None, "two"]
    assert opened.match(texts)[3] == nk.results.BlockedMatch("two", 1.0)
    assert (opened.spec, opened.ids, len(opened)) == (blocklist.spec, ("one", "two"), 2)


@pytest.mark.parametrize("measure", ["weighted-jaccard", "simhash"])
def test_lists_of_other_measures_are_saved_and_match(measure: str, tmp_path: Path) -> None:
    made = nk.Blocklist(nk.Spec(measure=measure))
    made.add(TEXTS)
    made.save(tmp_path / "list")
    opened = nk.Blocklist.open(tmp_path / "list")
    texts = [f"{SECRET_TEXT} now", "nothing of the kind"]
    assert opened.match(texts, 0.7) == made.match(texts, 0.7)
    assert opened.match(texts, 0.7)[0] is not None
    if measure == "simhash":
        (match,) = opened.match([SECRET_TEXT], distance=3)
        assert match is not None
        assert match.similarity == 1


def test_the_file_of_a_list_contains_no_word_of_its_texts(tmp_path: Path) -> None:
    made = nk.Blocklist()
    made.add(TEXTS)
    made.save(tmp_path / "list")
    content = (tmp_path / "list").read_bytes().lower()
    assert all(word.encode() not in content for word in " ".join(TEXTS).split() if len(word) > 3)
    assert (tmp_path / "list").stat().st_mode & 0o077 == 0


def test_the_hashes_of_a_keyed_list_depend_on_the_key(tmp_path: Path) -> None:
    other_key = nk.HashKey(bytes(16))
    keyed = nk.Blocklist(KEYED, nk.SpecResources(KEY))
    keyed.add(TEXTS)
    spec = nk.Spec(base_hash="siphash", key_id=other_key.id)
    other = nk.Blocklist(spec, nk.SpecResources(other_key))
    other.add(TEXTS)
    assert not set(keyed.ids) & set(other.ids)
    keyed.save(tmp_path / "list")
    without_key = nk.Blocklist.open(tmp_path / "list")
    assert len(without_key) == 2
    for use in (without_key.match, without_key.add, without_key.remove):
        with pytest.raises(nk.errors.KeyRequiredError, match=KEY.id):
            use(TEXTS)
    with pytest.raises(nk.errors.KeyRequiredError, match=other_key.id):
        nk.Blocklist.open(tmp_path / "list", nk.SpecResources(other_key)).match(TEXTS)


def test_a_document_is_added_once_whatever_its_name_and_case(blocklist: nk.Blocklist) -> None:
    assert blocklist.add([SECRET_TEXT.upper(), SECRET_TEXT], ["three", "four"]) == 0
    assert blocklist.add(["", "  "], ["five", "six"]) == 0
    assert blocklist.ids == ("one", "two")


def test_entries_are_removed_by_text_and_by_name(blocklist: nk.Blocklist) -> None:
    assert blocklist.remove([f"{SECRET_TEXT} now"]) == 0
    assert blocklist.remove([SECRET_TEXT.title(), ""]) == 1
    assert blocklist.match([SECRET_TEXT]) == [None]
    with pytest.raises(nk.UsageError, match="no entry 'three'"):
        blocklist.remove_ids(["two", "three"])
    assert blocklist.remove_ids(["two"]) == 1
    assert len(blocklist) == 0
    assert blocklist.match(TEXTS) == [None, None]


@pytest.mark.parametrize(
    ("texts", "ids", "message"),
    [
        (["a b c \ud800"], None, "not valid Unicode"),
        (["a b c d"], ["\udcff"], "not valid Unicode"),
        (["a b c d"], [], "0 ids for 1 texts"),
    ],
)
def test_texts_and_names_that_cannot_be_stored_are_refused(
    blocklist: nk.Blocklist, texts: list[str], ids: list[str] | None, message: str
) -> None:
    with pytest.raises(nk.UsageError, match=message):
        blocklist.add(texts, ids)
    assert len(blocklist) == 2


def test_a_list_of_vectors_and_a_threshold_out_of_range_are_refused() -> None:
    with pytest.raises(nk.UsageError, match="one of fingerprints"):
        nk.Blocklist(nk.Spec(measure="hamming", unit="fingerprint", n=64))
    with pytest.raises(nk.UsageError, match="one of vectors"):
        nk.Blocklist(nk.Spec(measure="cosine", unit="vector", n=3))
    with pytest.raises(nk.UsageError, match="out of range"):
        nk.Blocklist().match(["a b c"], threshold=0)


def test_each_changed_byte_and_each_missing_end_of_a_file_is_noticed(
    blocklist: nk.Blocklist, tmp_path: Path
) -> None:
    path = tmp_path / "list"
    blocklist.save(path)
    content = path.read_bytes()
    for place in range(0, len(content), 37):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises((nk.errors.WireError, nk.UsageError)):
            nk.Blocklist.open(path)
        path.write_bytes(content[:place])
        with pytest.raises((nk.errors.WireError, nk.UsageError)):
            nk.Blocklist.open(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(nk.errors.WireError, match="checksum"):
        nk.Blocklist.open(path)


def test_a_file_with_a_valid_checksum_and_foreign_content_is_refused(tmp_path: Path) -> None:
    body = b"\xff\xff\xff\xff no stream of entries"
    header = list_file.HEADER.pack(list_file.MAGIC, 1, len(body), list_file.checksum(body))
    (tmp_path / "list").write_bytes(header + body)
    with pytest.raises(nk.errors.WireError, match="entries cannot be read"):
        nk.Blocklist.open(tmp_path / "list")
    newer = list_file.HEADER.pack(list_file.MAGIC, 2, len(body), list_file.checksum(body))
    (tmp_path / "list").write_bytes(newer + body)
    with pytest.raises(nk.errors.WireError, match="format version 2"):
        nk.Blocklist.open(tmp_path / "list")


@pytest.mark.parametrize("name", ["absent", "folder", "text"])
def test_a_path_that_is_not_a_list_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("a text")
    with pytest.raises(nk.UsageError, match=r"no such blocklist|cannot be read|not a blocklist"):
        nk.Blocklist.open(tmp_path / name)


def test_a_save_that_fails_leaves_the_previous_list(
    blocklist: nk.Blocklist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocklist.save(tmp_path / "list")
    before = (tmp_path / "list").read_bytes()

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(blocklist_module, "write_entries", fail)
    blocklist.add(["one more text to block at once"])
    with pytest.raises(nk.RunError):
        blocklist.save(tmp_path / "list")
    assert (tmp_path / "list").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["list"]


def test_names_of_entries_without_a_name_are_their_digests() -> None:
    made = nk.Blocklist()
    made.add(TEXTS)
    assert list(made.ids) == name_digests(made._entries.digests)
    (match,) = made.match([SECRET_TEXT])
    assert match is not None
    assert match.entry == made.ids[0]


def test_only_the_beginning_of_another_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(nk.UsageError, match="not a regular file"):
        nk.Blocklist.open("/dev/zero")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(nk.UsageError, match="not a regular file"):
        nk.Blocklist.open(pipe)
    sparse = tmp_path / "huge"
    with sparse.open("wb") as file:
        file.truncate(1 << 36)
    with pytest.raises(nk.UsageError, match="not a blocklist"):
        nk.Blocklist.open(sparse)


def test_a_file_that_unfolds_into_more_memory_is_refused(
    blocklist: nk.Blocklist, tmp_path: Path
) -> None:
    listed = tmp_path / "list"
    blocklist.save(listed)
    data = listed.read_bytes()
    table = pa.ipc.open_stream(data[list_file.HEADER.size :]).read_all()
    repeated = table.take(pa.array([0] * 20_000))
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(repeated)
    body = sink.getvalue().to_pybytes()
    assert len(body) < repeated.nbytes / 20
    header = list_file.HEADER.pack(list_file.MAGIC, 1, len(body), list_file.checksum(body))
    listed.write_bytes(header + body)
    with pytest.raises(nk.errors.WireError, match="take more memory than the file has bytes"):
        list_file.read_entries(listed)


def test_a_file_with_an_entry_without_shingles_is_refused(
    blocklist: nk.Blocklist, tmp_path: Path
) -> None:
    entries = blocklist._entries
    payload = Payload(np.array([1, 0]), (entries.payload.columns[0][:1],))
    with (tmp_path / "list").open("wb") as file:
        list_file.write_entries(file, blocklist.spec, replace(entries, payload=payload))
    with pytest.raises(nk.errors.WireError, match="an entry has no shingles"):
        nk.Blocklist.open(tmp_path / "list")
