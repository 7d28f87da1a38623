"""Tests of repositories of the Hugging Face Hub as inputs, over a local server of its API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.inputs import Selection, find_inputs
from nearkin.corpus.remote import PINNED
from nearkin.corpus.remote_errors import make_listing_error
from nearkin.errors import MissingExtraError, UsageError
from tests.corpus.samples import SAMPLE_TEXTS, read_corpus, to_json_lines
from tests.hub_server import TOKEN, Hub, point_to, serve_hub
from tests.services import free_port

REPOSITORY = "hf://datasets/kin/news"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serve_hub() as served:
        point_to(served.address, monkeypatch, tmp_path)
        yield served


def parquet(*texts: str) -> bytes:
    target = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": texts or SAMPLE_TEXTS}), target)
    return target.getvalue().to_pybytes()


def texts_of(*given: str, **selection: Any) -> list[str]:
    corpus = FileCorpus.open(list(given), selection=Selection(**selection))
    return [str(row["text"]) for row in read_corpus(corpus, Columns())[0]]


def paths_of(given: str) -> list[str]:
    """Returns the paths in the repository that an input names."""
    return [file.path.split("@")[1].partition("/")[2] for file in find_inputs([given]).files]


@pytest.mark.parametrize(
    "given",
    [
        REPOSITORY,
        f"{REPOSITORY}/",
        f"{REPOSITORY}@main",
        f"{REPOSITORY}/data",
        f"{REPOSITORY}/data/*.parquet",
        f"{REPOSITORY}@main/data/train 1#?.parquet",
    ],
)
def test_repositories_folders_patterns_and_files_are_read(given: str, hub: Hub) -> None:
    hub.add("kin/news", {"README.md": b"# News", "data/train 1#?.parquet": parquet()})
    assert texts_of(given) == SAMPLE_TEXTS


def test_a_delta_table_is_read_in_its_newest_version(hub: Hub, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    for text in SAMPLE_TEXTS[:2]:
        deltalake.write_deltalake(tmp_path / "t", pa.table({"text": [text]}), mode="overwrite")
    files = {
        f"lake/{path.relative_to(tmp_path)}": path.read_bytes()
        for path in (tmp_path / "t").rglob("*")
        if path.is_file()
    }
    hub.add("kin/news", files)
    for given in ("lake", "lake/t", "lake/t/*.parquet"):
        assert texts_of(f"{REPOSITORY}/{given}") == SAMPLE_TEXTS[1:2]
    with pytest.raises(UsageError, match=r"has the Delta table hf://.*/lake/t; give the folder"):
        find_inputs([REPOSITORY])


def test_a_repository_without_a_path_has_its_data_files_alone(hub: Hub) -> None:
    files = {
        "README.md": b"# News",
        "LICENSE.txt": b"free",
        ".hidden/a.parquet": parquet(),
        "a.jsonl.gz": b"",
        "b/c.JSONL": b"",
        "raw.csv": b"",
    }
    hub.add("kin/news", files)
    assert paths_of(REPOSITORY) == ["a.jsonl.gz", "b/c.JSONL"]
    hub.add("kin/news", {**files, "c.parquet": parquet()})
    assert paths_of(REPOSITORY) == ["c.parquet"]


CARD = b"""---
license: mit
configs:
- config_name: en
  default: true
  data_files:
  - split: train
    path: en/train-*
  - split: test
    path: [en/test.jsonl]
- config_name: fr
  data_dir: fr
- config_name: far
  data_files: hf://datasets/other/name/x.parquet
---
# News
"""
NAMES = ("en/train-1.jsonl", "en/train-2.jsonl", "en/test.jsonl", "fr/a.jsonl", "other.jsonl")


@pytest.mark.parametrize(
    ("subset", "paths"),
    [
        ("", ["en/test.jsonl", "en/train-1.jsonl", "en/train-2.jsonl"]),
        ("/en/train", ["en/train-1.jsonl", "en/train-2.jsonl"]),
        ("/fr", ["fr/a.jsonl"]),
        ("/other.jsonl", ["other.jsonl"]),
    ],
)
def test_configurations_of_the_card_are_read(subset: str, paths: list[str], hub: Hub) -> None:
    # A path that exists is a path: `fr` and `en/train` are different things here.
    hub.add("kin/news", {"README.md": CARD, **dict.fromkeys(NAMES, to_json_lines())})
    assert paths_of(REPOSITORY + subset) == paths


def card_of(data_files: str) -> bytes:
    return f"---\nconfigs:\n- config_name: en\n  data_files: {data_files}\n---\n".encode()


@pytest.mark.parametrize(
    ("card", "subset", "message"),
    [
        (CARD, "/de", "neither a path nor a configuration 'de'.*: en, fr, far"),
        (CARD, "/en/dev", "has no files of en: none match its split"),
        (CARD, "/far", "lists files outside of the repository"),
        (CARD.replace(b"  default: true\n", b""), "", r"several configurations \(en, fr, far\)"),
        (b"---\nconfigs: [\n---\n", "", "metadata of .* cannot be read"),
        (b"---\nconfigs: 7\n---\n", "", "metadata of .* cannot be read"),
        (card_of("'a" + "*a" * 9 + "'"), "", "a pattern with more than 8 stars"),
        (card_of("[" + "a," * 1001 + "]"), "", "lists 1,001 patterns, and 1,000 are the most"),
        (card_of("[[[a]]]"), "", "a value of type list where a text is expected"),
        (b"---\nconfigs:\n- config_name: 7\n---\n", "", "a value of type int where a text"),
    ],
)
def test_a_card_that_does_not_say_what_to_read_is_an_error(
    card: bytes, subset: str, message: str, hub: Hub
) -> None:
    hub.add("kin/news", {"README.md": card, "en/train-1.jsonl": to_json_lines()})
    with pytest.raises(UsageError, match=message):
        find_inputs([REPOSITORY + subset])


def test_a_repository_without_data_files_is_an_error(hub: Hub) -> None:
    hub.add("kin/news", {"README.md": b"# News", "weights.bin": b"0"})
    with pytest.raises(UsageError, match=r"has no data files \(2 other files\)"):
        find_inputs([REPOSITORY])


def test_a_run_reads_one_commit_and_records_it(hub: Hub, tmp_path: Path) -> None:
    repository = hub.add("kin/news", {"a.parquet": parquet("one two three", "one two three")})
    sha = repository.branches["main"]
    [file] = find_inputs([REPOSITORY]).files
    assert file.path == f"{REPOSITORY}@{sha}/a.parquet"
    assert PINNED.match(file.path)
    before = file.status()
    repository.commit({"a.parquet": parquet("another")})
    assert file.status() == before
    result = nk.dedup(file.path)
    assert result.kept.tolist() == [True, False]


def test_a_private_repository_is_read_with_a_token_that_nothing_shows(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("kin/news", {"a.parquet": parquet()}, private=True)
    with pytest.raises(UsageError, match=r"does not exist .*HF_TOKEN may read it"):
        find_inputs([REPOSITORY])
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert texts_of(REPOSITORY) == SAMPLE_TEXTS
    with pytest.raises(UsageError) as raised:
        find_inputs([f"{REPOSITORY}@{TOKEN}"])
    assert TOKEN not in str(raised.value) + capsys.readouterr().err


def test_a_gated_repository_is_one_sentence(hub: Hub) -> None:
    hub.add("kin/news", {"a.jsonl": to_json_lines()}, gated=True)
    with pytest.raises(nk.NearkinError, match=r"a.jsonl: .*gated repo"):
        nk.dedup(REPOSITORY)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hf://datasets/kin/none", "does not exist"),
        (f"{REPOSITORY}@none", "does not exist"),
        (f"{REPOSITORY}/none/*.jsonl", "no files match"),
        ("hf://datasets/alone", "must be 'namespace/name'"),
        ("hf://", "cannot list"),
    ],
)
def test_what_does_not_exist_is_named(url: str, message: str, hub: Hub) -> None:
    hub.add("kin/news", {"a.jsonl": to_json_lines()})
    with pytest.raises(UsageError, match=message):
        find_inputs([url])


def test_a_hub_that_cannot_be_reached_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    httpx = pytest.importorskip("httpx2")
    refused = httpx.ConnectError("Connection refused")
    point_to(f"http://127.0.0.1:{free_port()}", monkeypatch, tmp_path)
    monkeypatch.setattr("huggingface_hub.HfFileSystem.resolve_path", raising(refused))
    with pytest.raises(UsageError, match=f"cannot list {REPOSITORY}: Connection refused"):
        find_inputs([REPOSITORY])
    assert "HF_TOKEN" in str(make_listing_error(REPOSITORY, PermissionError("refused")))


def raising(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize("name", ["/etc/rows.parquet", "data//rows.parquet", "../rows.parquet"])
def test_a_listing_with_a_name_outside_of_the_repository_is_an_error(
    name: str, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("kin/news", {name: parquet()})
    assert app.run(["dedup", REPOSITORY, "--out", str(tmp_path / "out")]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    monkeypatch.delitem(__import__("sys").modules, "nearkin.corpus.hub", raising=False)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[hub\]"'):
        find_inputs([REPOSITORY])
