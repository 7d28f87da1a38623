"""Faults that a first user meets: damaged inputs, missing permissions, other locales."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nearkin.cli import app
from tests.cli.conftest import run


def test_header_of_a_binary_file_is_shown_in_one_short_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "binary.csv"
    path.write_bytes(bytes(range(128, 256)) * 30)
    assert run("dedup", path, "--encoding", "utf-8", "--out", tmp_path / "out") == app.USAGE
    message = capsys.readouterr().err
    assert "has no column 'text'" in message
    assert len(message) < 300 + len(str(path))
    assert message.isascii() or message.encode()


@pytest.mark.parametrize(
    ("command", "out"), [("dedup", "out"), ("pairs", "out.csv"), ("lab sketch", "out.arrow")]
)
def test_empty_input_is_refused_instead_of_reading_the_current_folder(
    command: str,
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "private.txt").write_text("one two three")
    assert run(*command.split(), "", "--out", tmp_path / out) == app.USAGE
    assert "an input is the empty text ''; give a file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [folder]


def test_path_that_may_not_be_used_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    assert run("index", "info", "--store", url) == app.FAILED
    message = capsys.readouterr().err
    path = tmp_path / "kin.db"
    assert f"cannot use the index file {path}: Permission denied; correct the path" in message
    assert message.count("\n") == 1


def test_vocabulary_that_is_not_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(b"\xff\xfe\xfd")
    assert run("lab", "synth", "--vocabulary", path, "--out", tmp_path / "out") == app.USAGE
    message = capsys.readouterr().err
    assert f"cannot read the vocabulary {path}: it is not UTF-8; give a text file" in message


def test_standard_output_of_a_small_encoding_shows_escapes() -> None:
    script = (
        "from nearkin.cli.standard_streams import prepare_streams; prepare_streams(); "
        "print(chr(0x2026))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == b"\\u2026\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("dedup", "TEXTS", "--out", ""),
        ("pairs", "TEXTS", "--out="),
        ("dedup", "TEXTS", "--out", "x", "--key-file", ""),
        ("explain", "a", "b", "--run", ""),
    ],
)
def test_empty_path_of_an_option_is_named(
    arguments: tuple[str, ...], texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*(texts if word == "TEXTS" else word for word in arguments)) == app.USAGE
    option = next(word for word in arguments[::-1] if word.startswith("--")).removesuffix("=")
    assert capsys.readouterr().err == f"nearkin: {option} is empty; give a path\n"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    words = "der schnelle braune Fuchs springt über den faulen Hund und läuft in den Wald"
    path.write_text(f"id,text\nmüll-1,{words} hinein\nmüll-2,{words} hinaus\n", "utf-8")
    return path


@pytest.mark.parametrize("content", ["", "id,text\n"], ids=["0 bytes", "header"])
def test_file_without_rows_is_named_in_a_warning(
    content: str, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text(content)
    for inputs in ([empty], [texts, empty]):
        out = tmp_path / f"out-{len(inputs)}.csv"
        assert run("pairs", *inputs, "--out", out, "--quiet") == 0
        message = "warning: empty.csv has no rows, so that it contributes no document"
        assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "command",
    [
        ["index", "build", "TEXTS", "EMPTY", "--store", "memory://"],
        ["tune", "TEXTS", "EMPTY"],
        ["fit", "TEXTS", "EMPTY", "--id", "id", "--labels", "LABELS", "--quiet"],
    ],
    ids=lambda command: str(command[0]),
)
def test_file_without_rows_is_named_by_every_command_that_reads_files(
    command: list[str], texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {"TEXTS": texts, "EMPTY": tmp_path / "empty.csv", "LABELS": tmp_path / "labels.csv"}
    paths["EMPTY"].write_text("id,text\n")
    paths["LABELS"].write_text("id_a,id_b,label\nmüll-1,müll-2,1\nmüll-1,x,0\n", "utf-8")
    run(*(paths.get(word, word) for word in command))
    message = "warning: empty.csv has no rows, so that it contributes no document"
    assert message in " ".join(capsys.readouterr().err.split())


def test_ids_and_columns_that_the_locale_does_not_have_are_understood(
    texts: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    page = tmp_path / "text.txt"
    page.write_text("der schnelle braune Fuchs springt über den faulen Hund und läuft weiter")
    commands = [
        ["dedup", str(texts), "--id", "id", "--out", out, "--quiet"],
        ["pairs", str(texts), "--id", "id", "--out", f"{out}.csv", "--quiet"],
        ["explain", "müll-1", "müll-2", "--run", out],
        ["explain", "müll eins", "müll zwei", "--shingle", "words:1"],
        ["index", "build", str(texts), "--id", "id", "--store", store],
        ["index", "query", str(page), "--store", store],
        ["index", "remove", "müll-1", "--store", store],
    ]
    program = (
        "import json, os, sys; from nearkin.cli.app import main, run\n"
        "lines = json.loads(sys.stdin.buffer.read())\n"
        "from nearkin.cli.standard_streams import prepare_streams; prepare_streams()\n"
        "given = [[os.fsdecode(word.encode()) for word in line] for line in lines]\n"
        "sys.exit(max(run(line) for line in given))\n"
    )
    environment = {
        **os.environ,
        "PYTHONUTF8": "0",
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
    }
    ended = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(commands).encode(),
        capture_output=True,
        env=environment,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    shown = ended.stdout.decode("ascii")
    assert "m\\xfcll-1" in shown
    assert "\\u2500" not in shown
    assert "removed: 1" in shown


def test_file_of_shingles_has_the_suffix_of_its_format(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("lab", "frequencies", texts, "--out", tmp_path / "words.txt") == app.USAGE
    assert f"choose, for example, --out {tmp_path / 'words.arrow'}" in capsys.readouterr().err
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    assert run("index", "build", texts, "--store", store) == 0
    capsys.readouterr()
    assert run("index", "export", "--store", store, "--out", tmp_path / "kin.txt") == app.USAGE
    assert f"choose, for example, --out {tmp_path / 'kin.parquet'}" in capsys.readouterr().err


def test_pictures_and_pages_name_their_own_option(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands have no option --out."""
    note = tmp_path / "note.txt"
    note.write_text("one two three")
    missing = tmp_path / "missing"
    for line, message in (
        (("explain", note, "b", "--html", note), "is an input; choose another --html"),
        (("explain", "a", "b", "--html", texts), "never replaced; move or delete it, or choose"),
        (("explain", "a", "b", "--html", "s3://a/b.html"), "give a path with --html"),
        (("explain", "a", "b", "--html", missing / "a.html"), f"no such folder: {missing}"),
        (("tune", "--plot", missing / "a.svg"), f"no such folder: {missing}"),
    ):
        assert run(*line) == app.USAGE
        shown = capsys.readouterr().err
        assert message in shown
        assert "--out" not in shown


def test_missing_index_is_not_exported_into_new_folders(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    out = tmp_path / "a" / "b" / "kin.parquet"
    assert run("index", "export", "--store", store, "--out", out) == app.USAGE
    assert list(tmp_path.iterdir()) == []


def test_unused_tables_of_an_index_are_refused(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    assert run("index", "build", texts, "--store", store) == 0
    capsys.readouterr()
    assert run("index", "info", "--store", store, "--spec-resources", tmp_path) == app.USAGE
    assert "names neither document frequencies nor cut shingles" in capsys.readouterr().err


def test_distance_of_an_index_is_shown(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    build = ["index", "build", texts, "--store", store, "--measure", "simhash"]
    assert run(*build, "--distance", 3) == 0
    capsys.readouterr()
    assert run("index", "info", "--store", store) == 0
    assert "\ndistance: 3\n" in capsys.readouterr().out


def test_index_file_that_cannot_be_opened_has_a_reason_and_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_text("not a database, but long enough to have a header of one hundred bytes" * 9)
    for path, reason in (
        (tmp_path, "it is a folder; correct the path or its permissions"),
        (damaged, "is not an index: it is not an SQLite file; correct the path, or restore"),
        (damaged / "below.db", "correct the path or its permissions"),
    ):
        assert run("index", "build", damaged, "--store", f"sqlite:///{path}") == app.FAILED
        message = capsys.readouterr().err
        assert reason in message
        assert str(path) in message
        assert message.count("\n") == 1


def test_tokens_file_that_cannot_be_read_has_a_reason_and_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "tokens.json"
    damaged.write_text("damaged")
    assert run("server", "token", "list", "--file", damaged) == app.USAGE
    message = capsys.readouterr().err
    assert f"{damaged} is not a file of tokens" in message
    assert "restore it, or move it away and create new tokens" in message
    assert run("server", "token", "create", "mine", "--file", tmp_path) == app.USAGE
    message = capsys.readouterr().err
    assert f"cannot read the tokens file {tmp_path}: Is a directory; correct the path" in message


def test_key_file_that_cannot_be_read_has_a_reason_and_a_remedy(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["dedup", texts, "--out", tmp_path / "out", "--key-file"]
    assert run(*command, tmp_path) == app.USAGE
    message = f"the key file {tmp_path} cannot be read: Is a directory; correct the path or its"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("dedup", "{name}", "--out", "out"),
        ("dedup", "{name}.csv", "--out", "out"),
        ("dedup", "rows.jsonl", "--out", "{name}.out", "--quiet"),
        ("dedup", "rows.jsonl", "--out", "{name}"),
        ("pairs", "rows.jsonl", "--out", "{name}.jsonl", "--quiet"),
        ("lab", "sketch", "rows.jsonl", "--out", "{name}.arrow"),
        ("lab", "frequencies", "rows.jsonl", "--out", "{name}.freq"),
        ("index", "info", "--store", "sqlite:///{name}.db"),
        ("block", "check", "rows.jsonl", "--blocklist", "{name}"),
        ("{name}",),
    ],
)
def test_names_in_messages_do_not_act_on_a_terminal(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "\x1b[31mred\u202e"
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.csv").write_text("words\na\n")
    (tmp_path / "rows.jsonl").write_text('{"text": "a text of some words"}\n')
    run(*[argument.format(name=name) for argument in arguments])
    shown = capsys.readouterr()
    assert shown.err
    assert not {"\x1b", "\u202e"} & set(shown.out + shown.err)


def test_messages_are_written_by_one_function() -> None:
    folder = Path(app.__file__).parent
    writers = {path.name for path in folder.glob("*.py") if "stderr.write" in path.read_text()}
    # The package is imported before its modules can be.
    assert writers == {"__init__.py", "standard_streams.py"}


def test_lack_of_threads_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "a text of some words"}\n')

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert run("dedup", tmp_path / "rows.jsonl", "--out", tmp_path / "out") == app.FAILED
    message = capsys.readouterr().err
    assert message.startswith("nearkin: cannot start a thread; raise the limits of the process")
    assert message.count("\n") == 1


def test_small_address_space_is_one_sentence(tmp_path: Path) -> None:
    """Libraries would end the process, some of them without an error of Python."""
    ended = subprocess.run(
        ["bash", "-c", f"ulimit -v 1500000; {sys.executable} -m nearkin --version"],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == app.USAGE
    assert ended.stderr.startswith("nearkin: the address space of the process is limited to 1,464")
    assert ended.stderr.count("\n") == 1
