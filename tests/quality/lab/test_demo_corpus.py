"""Tests of the demo corpora: their documents, skipped code, and reproducible output."""

import gc
import json
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.engine.options import RunOptions
from nearkin.quality.lab import demo_corpus as source_code
from nearkin.quality.lab.demo_corpus import (
    PRESS_RELEASES,
    PRESS_RELEASES_KEEP,
    SOURCE_CODE_SPEC,
    extract_documents,
    list_source_files,
    write_source_corpus,
)
from scripts import make_demo_corpus

METHOD = "    def {name}(self):\n        value = self.read()\n        return value + {name}\n"
TWO_METHODS = "class Box:\n" + METHOD.format(name="left") + "\n" + METHOD.format(name="right")


def names(source: str) -> list[str]:
    return [document.id.split(":")[1] for document in extract_documents(source, "kit/box.py")]


def test_class_and_its_smaller_parts_are_documents() -> None:
    assert names(TWO_METHODS) == ["Box", "Box.left", "Box.right"]


def test_method_that_is_most_of_its_class_is_not_a_document() -> None:
    assert names("class Box:\n" + METHOD.format(name="only")) == ["Box"]


def test_nested_functions_belong_to_the_outer_function() -> None:
    assert names(
        "def outer():\n    def inner():\n        a = 1\n        return a\n    return inner\n"
    ) == ["outer"]


def test_definitions_under_conditions_are_found() -> None:
    body = "        x = 1\n        return x\n"
    source = f"try:\n    def a():\n{body}except ImportError:\n    async def b():\n{body}"
    assert names(source) == ["a", "b"]
    assert names(source.replace("try:", "if sys:").replace("except ImportError:", "else:")) == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(("lines", "found"), [(2, []), (3, ["f"])])
def test_definitions_below_three_lines_are_skipped(lines: int, found: list[str]) -> None:
    assert names("def f():\n" + "    x = 1\n" * (lines - 1)) == found


def test_text_is_dedented_and_includes_decorators() -> None:
    source = TWO_METHODS.replace("    def right", "    @property\n    def right") + METHOD.format(
        name="other"
    )
    right = extract_documents(source, "kit/box.py")[2]
    assert (
        right.text
        == "@property\ndef right(self):\n    value = self.read()\n    return value + right"
    )
    assert (right.package, right.path, right.id) == ("kit", "kit/box.py", "kit/box.py:Box.right:7")


def test_module_without_a_package_is_its_own_package() -> None:
    assert (
        extract_documents("def f():\n    x = 1\n    return x\n", "single.py")[0].package == "single"
    )


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """Returns a folder of three good files, a file of tests, and two that are not Python."""
    good = "def f():\n    x = 1\n    return x\n"
    files = {
        "b/one.py": good.encode(),
        "a/two.py": good.encode(),
        "b/tests/skipped.py": good.encode(),
        "broken.py": b"def f(:\n",
        "latin.py": b"# \xff\n" + good.encode(),
        "lines.py": b"# coding: latin-1\r\ndef f():\r\n    x = '\xe9'\r\n    return x\r\n",
    }
    for name, content in files.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "lib"


def test_output_is_ordered_counted_and_reproducible(installation: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    assert write_source_corpus(first, folders=[installation]) == (3, 5, 2)
    write_source_corpus(second, folders=[installation])
    assert first.read_bytes() == second.read_bytes()
    table = pq.read_table(first)
    assert table.column_names == ["id", "text", "package", "path"]
    assert table["id"].to_pylist() == ["a/two.py:f:1", "b/one.py:f:1", "lines.py:f:2"]
    assert table["text"].to_pylist()[2] == "def f():\n    x = 'é'\n    return x"
    assert gc.isenabled()


def test_limit_stops_early_and_no_documents_give_an_empty_file(
    installation: Path, tmp_path: Path
) -> None:
    path = tmp_path / "some.parquet"
    assert write_source_corpus(path, limit=2, folders=[installation]).documents == 2
    assert write_source_corpus(path, folders=[tmp_path / "nowhere"]).documents == 0
    assert pq.read_table(path).num_rows == 0


def test_shortest_document_can_be_longer(installation: Path, tmp_path: Path) -> None:
    long = "def g():\n" + "    x = 1\n" * 11
    (installation / "c").mkdir()
    (installation / "c" / "long.py").write_text(long)
    path = tmp_path / "some.parquet"
    assert write_source_corpus(path, folders=[installation], least_lines=12).documents == 1
    assert pq.read_table(path)["id"].to_pylist() == ["c/long.py:g:1"]


def test_press_releases_are_what_the_script_writes() -> None:
    documents = make_demo_corpus.write_corpus(random.Random(make_demo_corpus.SEED))
    content = PRESS_RELEASES.read_text("utf-8")
    assert content == make_demo_corpus.to_json_lines(documents)
    assert len(documents) == 237, "the help of nearkin demo says so"
    assert len(content.encode()) < 200_000
    assert len({document["id"] for document in documents}) == len(documents)


def test_demo_finds_the_copies_of_a_release_and_nothing_else() -> None:
    documents = [json.loads(line) for line in PRESS_RELEASES.read_text("utf-8").splitlines()]
    columns = {name: [one[name] for one in documents] for name in ("text", "source", "release")}
    result = nk.dedup(columns, threshold=0.7, keep=PRESS_RELEASES_KEEP)
    release_of = {row: one["release"] for row, one in enumerate(documents)}
    clusters = result.clusters.arrow.to_pydict()
    pairs = zip(map(int, clusters["id"]), map(int, clusters["cluster"]), strict=True)
    assert all(release_of[one] == release_of[kept] for one, kept in pairs)
    copies = [
        kept
        for kept, one in zip(result.kept.tolist(), documents, strict=True)
        if one["source"] in ("wire", "daily")
    ]
    assert copies.count(False) >= 0.95 * len(copies)
    originals = {
        one["release"]
        for kept, one in zip(result.kept.tolist(), documents, strict=True)
        if kept and one["source"] == "issuer"
    }
    assert len(originals) == make_demo_corpus.RELEASES, "the text of each issuer is kept"


EXIT = "def __exit__(self, kind, value, traceback):\n    {body}"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (
            "def __lt__(self, other):\n    return self._key < other._key",
            "def __ge__(self, other):\n    return self._key >= other._key",
        ),
        (EXIT.format(body="pass"), EXIT.format(body="self.stop(); self.save()")),
    ],
)
def test_code_with_another_meaning_is_not_a_duplicate(left: str, right: str) -> None:
    settings = RunOptions(spec=SOURCE_CODE_SPEC, threshold=0.7)
    assert nk.explain(left, right, settings=settings).similarity < settings.threshold


def test_batches_join_without_gaps(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_code, "BATCH_DOCUMENTS", 2)
    assert write_source_corpus(tmp_path / "some.parquet", folders=[installation]).documents == 3
    assert pq.read_table(tmp_path / "some.parquet").num_rows == 3


def test_first_folder_on_the_path_wins(installation: Path, tmp_path: Path) -> None:
    other = tmp_path / "site"
    (other / "a").mkdir(parents=True)
    (other / "a" / "two.py").write_text("")
    (other / "a" / "three.py").write_text("")
    files = dict(list_source_files([installation, other]))
    assert files["a/two.py"].is_relative_to(installation)
    assert files["a/three.py"].is_relative_to(other)


def test_installed_packages_give_unique_ids_without_local_paths(
    tmp_path: Path,
) -> None:
    path = tmp_path / "source.parquet"
    assert write_source_corpus(path, limit=3000).documents == 3000
    ids = pq.read_table(path)["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    assert not any(name.startswith("/") for name in ids)
