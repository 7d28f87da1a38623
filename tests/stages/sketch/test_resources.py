"""Tests of document frequencies and of their files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearkin.errors import IncompatibleError, UsageError
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import DocumentFrequencies, SpecResources, shingle_facts
from nearkin.stages.sketch.sketcher import Sketcher
from tests.stages.sketch.frequencies import make_frequencies


def test_frequencies_must_match_fingerprint_of_spec(tmp_path: Path) -> None:
    counted = make_frequencies()
    spec = Spec(measure="simhash", weights="tfidf", frequencies=counted.fingerprint)
    counted.write(tmp_path / "df.arrow", spec)
    again = DocumentFrequencies.read(tmp_path / "df.arrow", spec)
    assert again.fingerprint == counted.fingerprint
    assert (again.counts == counted.counts).all()
    assert SpecResources(cut=again) == SpecResources(cut=counted)
    assert len({again, counted}) == 1
    texts = pa.array(["one two three four"], pa.large_string())
    assert Sketcher(spec, SpecResources(frequencies=again)).sketch(texts).signatures.shape == (1, 1)
    with pytest.raises(IncompatibleError, match="but none was given"):
        Sketcher(spec)
    other = DocumentFrequencies(1001, counted.hashes, counted.counts)
    assert counted != other
    with pytest.raises(IncompatibleError, match=other.fingerprint):
        Sketcher(spec, SpecResources(frequencies=other))
    with pytest.raises(IncompatibleError, match="frequencies of other shingles"):
        DocumentFrequencies.read(tmp_path / "df.arrow", Spec(n=2))
    with pytest.raises(UsageError, match="no such file"):
        DocumentFrequencies.read(tmp_path / "none.arrow", spec)
    (tmp_path / "bad.arrow").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="damaged"):
        DocumentFrequencies.read(tmp_path / "bad.arrow", spec)


@pytest.mark.parametrize(
    ("changed_columns", "changed_facts"),
    [
        ({"documents": None}, {}),
        ({"hash": None}, {}),
        ({"hash": pa.array(["a", "b"])}, {}),
        ({"hash": pa.array([5.5, 9.0])}, {}),
        ({"hash": pa.array([5, None], pa.uint64())}, {}),
        ({"hash": pa.array([9, 5], pa.uint64())}, {}),
        ({"hash": pa.array([5, 5], pa.uint64())}, {}),
        ({}, {"nearkin.documents": "-5"}),
        ({}, {"nearkin.documents": str(2**70)}),
        ({}, {"nearkin.base": b"\xff"}),
        ({}, {"nearkin.version": b"\xff"}),
    ],
    ids=[
        "no documents",
        "no hashes",
        "texts",
        "fractions",
        "a null",
        "not sorted",
        "equal hashes",
        "a negative number",
        "a number of 70 bits",
        "a base that is not a text",
        "a version that is not a text",
    ],
)
def test_files_with_other_columns_or_numbers_are_damaged_files_of_frequencies(
    changed_columns: dict[str, pa.Array | None],
    changed_facts: dict[str, str | bytes],
    tmp_path: Path,
) -> None:
    spec = Spec(measure="simhash")
    columns = {"hash": pa.array([5, 9], pa.uint64()), "documents": pa.array([2, 3], pa.uint32())}
    stored_columns = {
        name: column
        for name, column in {**columns, **changed_columns}.items()
        if column is not None
    }
    facts = {"nearkin.documents": "3", "nearkin.base": shingle_facts(spec), **changed_facts}
    table = pa.table(stored_columns).replace_schema_metadata(facts)
    path = tmp_path / "df.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(UsageError, match="damaged or not a file of document frequencies"):
        DocumentFrequencies.read(path, spec)


def test_changed_and_newer_files_of_frequencies_are_refused(tmp_path: Path) -> None:
    counted = make_frequencies()
    spec = Spec(measure="simhash")
    path = tmp_path / "df.arrow"
    counted.write(path, spec)
    content = path.read_bytes()
    at = content.index(counted.hashes.tobytes()) + 8 * (len(counted.hashes) // 2)
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(UsageError, match="its content was changed"):
        DocumentFrequencies.read(path, spec)
    table = pa.table({"hash": counted.hashes, "documents": counted.counts})
    facts = {"nearkin.documents": "1000", "nearkin.base": shingle_facts(spec)}
    for version, expected in (("2", "has version 2 of the file"), (None, None)):
        stored_facts = facts if version is None else {**facts, "nearkin.version": version}
        with pa.OSFile(str(path), "wb") as sink:
            described = table.replace_schema_metadata(stored_facts)
            with pa.ipc.new_file(sink, described.schema) as writer:
                writer.write_table(described)
        if expected is None:
            assert (DocumentFrequencies.read(path, spec).counts == counted.counts).all()
        else:
            with pytest.raises(UsageError, match=expected):
                DocumentFrequencies.read(path, spec)


def test_files_of_equal_frequencies_are_equal(tmp_path: Path) -> None:
    for name in "ab":
        make_frequencies().write(tmp_path / name, Spec())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_shingles_of_exactly_the_share_are_not_above_it() -> None:
    """The product of the share and the documents is rounded: 0.57 · 100 is 56.99999999999999."""
    hashes = np.array([5, 9], np.uint64)
    counted = DocumentFrequencies(100, hashes, np.array([57, 58], np.uint32))
    assert counted.above(0.57).hashes.tolist() == [9]


@pytest.mark.parametrize("share", [-0.1, 1.5, 20])
def test_shares_of_documents_are_at_most_1(share: float) -> None:
    with pytest.raises(UsageError, match="is out of range; it must be from 0 to 1"):
        make_frequencies().above(share)
