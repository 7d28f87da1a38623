"""Signatures of Lance's MinHash index, with the known answers of its specification."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xxhash

import nearkin as nk
from nearkin.stages.sketch.minhash import splitmix64

lance = pytest.importorskip("lance")

FOX = ["the", "quick", "brown", "fox"]
TEXTS = [
    "The quick brown fox jumps over the lazy dog near the river bank",
    "Ünïcode straße ﬁn Ⓐ don't x_y 12,3 " + "a" * 40,
    "the quick brown fox jumps over the lazy dog near the river bank today",
    "  \n",
    None,
    "short",
    "the QUICK brown fox jumps over the lazy dog, near the river bank!",
]


def oracle(tokens: list[str], num_hashes: int, shingle_size: int) -> list[int]:
    """Returns the signature of a document with tokens, as the specification says."""
    coefficients = splitmix64(42, 3 * num_hashes).tolist()
    window = min(shingle_size, len(tokens))
    shingles = ["\x1f".join(tokens[i : i + window]) for i in range(len(tokens) - window + 1)]
    hashes = [xxhash.xxh64_intdigest(shingle.encode(), 42) for shingle in shingles]
    signature = []
    for i in range(num_hashes):
        a, b = coefficients[2 * i] | 1, coefficients[2 * i + 1]
        c = coefficients[2 * num_hashes + i] | 1
        smallest = min((a * h + b) % 2**64 for h in hashes)
        signature.append((c * smallest % 2**64) >> 48)
    return signature


def write_index(path: Path, texts: list[Any], **options: Any) -> Any:
    """Returns a Lance table with a MinHash index of its texts."""
    dataset = lance.write_dataset(pa.table({"text": pa.array(texts, pa.string())}), path)
    config = lance.indices.IndexConfig("minhashlsh", options)
    dataset.create_scalar_index("text", config, name="near")
    return dataset


def test_coefficients_are_those_of_the_specification() -> None:
    stream = splitmix64(42, 12).tolist()
    assert [stream[0] | 1, stream[1]] == [0xBDD732262FEB6E95, 0x28EFE333B266F103]
    assert [stream[6] | 1, stream[7]] == [0x37E9671C45376D5D, 0xCCF635EE9E9E2FA4]
    assert [draw | 1 for draw in stream[8:]] == [
        0x5705B8770B3D7DD5,
        0x9E54D738297F77AF,
        0x3474724A775B19BF,
        0x7E348A0E451650BF,
    ]


@pytest.mark.parametrize("documents", [["The quick brown fox", "Fox"], [FOX, ["fox"]]])
def test_signatures_and_band_keys_are_those_of_the_specification(documents: list[Any]) -> None:
    signatures = nk.lance.minhash(documents, num_hashes=4, shingle_size=2)
    assert signatures.to_pylist() == [
        [0xB00F, 0x59D6, 0x511A, 0xCD2C],
        [0x2970, 0xD6DB, 0x65F8, 0xADFC],
    ]
    assert nk.lance.band_keys(signatures, num_bands=2).to_pylist() == [
        [0x00F30F3501D458EA, 0x01AEC5DF28D04915],
        [0x003CF6E803312ECA, 0x017C5504FBC83F36],
    ]


@pytest.mark.parametrize("empty", [["", "  \n", None], [[], [], None], [None]])
def test_documents_without_tokens_have_no_signature(empty: list[Any]) -> None:
    assert nk.lance.minhash(empty).to_pylist() == [None] * len(empty)


TOKEN_LISTS = [["a", "b"], None, ["a", "c"]]
COLUMNS = [
    pa.array(["A b", None, "A c"], pa.string_view()),
    pa.array(["A b", None, "A c"], pa.binary_view()),
    pa.array(["A b", None, "A c"]).dictionary_encode(),
    pc.run_end_encode(pa.array(["A b", None, "A c"])),
    pa.array(TOKEN_LISTS, pa.list_(pa.string(), 2)),
    pa.array(TOKEN_LISTS, pa.large_list(pa.string_view())),
    pa.array(TOKEN_LISTS, pa.list_view(pa.string())),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_columns_of_each_type_can_contain_nulls(column: pa.Array) -> None:
    signatures = nk.lance.minhash(column, num_hashes=4, shingle_size=2**64)
    assert signatures.to_pylist() == [oracle(["a", "b"], 4, 2), None, oracle(["a", "c"], 4, 2)]


def test_signatures_are_those_of_the_oracle() -> None:
    generator = np.random.default_rng(3)
    documents = [
        ["é" * int(size) for size in generator.integers(1, 30, count)] for count in range(1, 12)
    ]
    signatures = nk.lance.minhash(documents, num_hashes=24, shingle_size=3)
    assert signatures.to_pylist() == [oracle(tokens, 24, 3) for tokens in documents]
    # portions and slices make no difference
    again = nk.lance.minhash(pa.array([[], *documents])[1:], num_hashes=24, shingle_size=3)
    assert again == signatures


def test_signatures_are_those_of_an_index_of_lance(tmp_path: Path) -> None:
    dataset = write_index(tmp_path / "a.lance", TEXTS)
    stored = nk.lance.read_signatures(dataset)
    signatures = nk.lance.minhash(TEXTS)
    assert stored["_rowid"].to_pylist() == [0, 1, 2, 5, 6]
    assert stored["signature"].to_pylist() == signatures.drop_null().to_pylist()
    [folder] = (tmp_path / "a.lance" / "_indices").iterdir()
    bands = lance.file.LanceFileReader(str(folder / "bands.lance")).read_all().to_table()
    keys = nk.lance.band_keys(signatures).drop_null().flatten()
    assert sorted(keys.to_pylist()) == bands["band_key"].to_pylist()
    query = lance.query.MinHashQuery(TEXTS[0], "text")
    hits = dataset.to_table(nearest=query, limit=9, with_row_id=True)
    found = nk.lance.pairs(signatures, 0.5)
    similarity = {row["b"]: row["similarity"] for row in found.to_pylist() if row["a"] == 0}
    assert {0: 1.0, **similarity} == {
        row["_rowid"]: pytest.approx(1 - row["_distance"]) for row in hits.to_pylist()
    }


def test_stored_signatures_of_removed_rows_are_left_out(tmp_path: Path) -> None:
    write_index(tmp_path / "a.lance", TEXTS, num_hashes=32, num_bands=8)
    dataset = lance.dataset(tmp_path / "a.lance")
    dataset.delete("text = 'short'")
    dataset.update({"text": "'another'"}, where=f"text = '{TEXTS[2]}'")
    dataset.insert(pa.table({"text": ["added"]}))
    stored = nk.lance.read_signatures(tmp_path / "a.lance", "near")
    assert stored["_rowid"].to_pylist() == [0, 1, 6]
    assert nk.lance.cluster_ids(stored["signature"], num_bands=8).to_pylist() == [0, 1, 0]
    dataset.optimize.optimize_indices()
    stored = nk.lance.read_signatures(tmp_path / "a.lance")
    assert len(stored) == 5


@pytest.mark.parametrize("texts", [[], [None, ""], TEXTS])
def test_index_without_rows_has_no_signatures(texts: list[Any], tmp_path: Path) -> None:
    dataset = write_index(tmp_path / "a.lance", texts)
    dataset.delete("true")
    signatures = nk.lance.read_signatures(tmp_path / "a.lance")["signature"]
    assert len(signatures) == len(nk.lance.pairs(signatures)) == 0
    dataset.optimize.compact_files()
    assert len(nk.lance.read_signatures(tmp_path / "a.lance")) == 0


def test_index_is_read_after_columns_were_changed(tmp_path: Path) -> None:
    dataset = write_index(tmp_path / "a.lance", TEXTS)
    stored = nk.lance.read_signatures(dataset)
    dataset.add_columns({"n": "1"})
    dataset.alter_columns({"path": "text", "name": "body"})
    assert nk.lance.read_signatures(tmp_path / "a.lance") == stored
    lance.dataset(tmp_path / "a.lance").drop_columns(["body"])
    with pytest.raises(nk.UsageError, match="has no MinHash index; create one"):
        nk.lance.read_signatures(tmp_path / "a.lance")


def test_tables_without_the_index_are_refused(tmp_path: Path) -> None:
    dataset = write_index(tmp_path / "a.lance", TEXTS[:1])
    with pytest.raises(nk.UsageError, match=r"no MinHash index 'far'; .* are 'near'"):
        nk.lance.read_signatures(dataset, "far")
    dataset.create_scalar_index("text", "MINHASHLSH", name="far", replace=False)
    with pytest.raises(nk.UsageError, match="several MinHash indexes: 'far', 'near'"):
        nk.lance.read_signatures(dataset)
    plain = lance.write_dataset(pa.table({"text": ["a"]}), tmp_path / "b.lance")
    with pytest.raises(nk.UsageError, match=r"b\.lance has no MinHash index; create one"):
        nk.lance.read_signatures(plain)
    with pytest.raises(nk.UsageError, match=r"cannot read the Lance table .*none"):
        nk.lance.read_signatures(tmp_path / "none")


def test_pairs_are_those_that_share_a_band_and_reach_the_threshold() -> None:
    generator = np.random.default_rng(5)
    bases = generator.integers(0, 1000, (30, 60))
    documents = [list(map(str, base)) for base in bases for _ in range(3)]
    for tokens in documents[1::3]:
        tokens[int(generator.integers(60))] = "changed"
    signatures = nk.lance.minhash(documents)
    keys = np.array(nk.lance.band_keys(signatures).to_pylist(), np.uint64)
    expected = {
        (a, b): nk.lance.similarity(signatures[a : a + 1], signatures[b : b + 1])[0].as_py()
        for a in range(len(documents))
        for b in range(a + 1, len(documents))
        if (keys[a] == keys[b]).any() and signatures[b] not in list(signatures[:b])[a + 1 :]
    }
    # row 3n + 2 is a copy of row 3n, and is paired with it alone
    expected = {
        (a, b): similarity
        for (a, b), similarity in expected.items()
        if similarity >= 0.8 and (similarity == 1 or 2 not in (a % 3, b % 3))
    }
    table = nk.lance.pairs(signatures)
    assert {(row["a"], row["b"]): row["similarity"] for row in table.to_pylist()} == expected
    assert len(expected) > 50
    parent = list(range(len(documents)))
    for a, b in sorted(expected):
        parent[b] = parent[a]
    assert nk.lance.cluster_ids(signatures).to_pylist() == parent


def test_many_copies_take_no_more_pairs_than_rows() -> None:
    signatures = nk.lance.minhash([FOX] * 3000 + [None, ["other"]])
    assert len(nk.lance.pairs(signatures)) == 2999
    assert nk.lance.cluster_ids(signatures).to_pylist() == [0] * 3000 + [None, 3001]


def test_matrices_of_another_byte_order_are_signatures() -> None:
    matrix = np.arange(32).reshape(2, 16)
    keys = nk.lance.band_keys(matrix.astype(">u2"))
    assert keys == nk.lance.band_keys(matrix.astype("<u2"))


def test_no_signatures_have_no_pairs() -> None:
    empty = nk.lance.minhash([])
    assert len(empty) == 0
    assert len(nk.lance.pairs(empty)) == len(nk.lance.cluster_ids(empty)) == 0
    assert len(nk.lance.band_keys(empty)) == len(nk.lance.similarity(empty, empty)) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nk.lance.minhash(["a"], num_hashes=0),
            "num_hashes=0 is out of range; it must be from 1 to 4,096",
        ),
        (
            lambda: nk.lance.minhash([["a"]], shingle_size=0),
            "shingle_size=0 is out of range; it must be at least 1",
        ),
        (lambda: nk.lance.minhash([1]), "is int64, not text"),
        (lambda: nk.lance.minhash([None, ["a"], [None]]), "row 2"),
        (lambda: nk.lance.band_keys([[1]]), r"list<item: int64> are not signatures of Lance"),
        (
            lambda: nk.lance.pairs(pa.nulls(2, pa.list_(pa.uint16(), 0))),
            r"\[0\] are not signatures",
        ),
        (lambda: nk.lance.pairs(np.zeros((2, 0), np.uint16)), "no columns"),
        (lambda: nk.lance.read_signatures(None), "NoneType is not a Lance table"),
        (lambda: nk.lance.pairs(np.zeros((2, 8), np.uint16)), "num_bands=16 does not divide the 8"),
        (lambda: nk.lance.cluster_ids(np.zeros((1, 16), np.uint16), 0.0), "threshold=0.0"),
        (
            lambda: nk.lance.similarity(np.zeros((1, 4), np.uint16), np.zeros((2, 4), np.uint16)),
            "1 signatures of 4 values cannot be compared with 2 of 4",
        ),
    ],
)
def test_wrong_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        call()


def test_texts_need_the_tokenizer_of_lance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lance", None)
    with pytest.raises(
        nk.errors.MissingExtraError, match=r'requires pylance; run pip install "\.\[lance'
    ):
        nk.lance.minhash(["a text"])
