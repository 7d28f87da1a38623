"""Tests that no error, log line, command output or record repeats the password of a URL."""

import asyncio
import inspect
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from nearkin.cli.app import app, run
from nearkin.errors import NearkinError, ServiceError
from nearkin.index.index import Index
from nearkin.runtime.redaction import redact
from nearkin.service.client.clients import AsyncClient, Client
from nearkin.service.server.app import create_app
from nearkin.service.server.http.rates import RateLimiter
from nearkin.service.server.logs import JsonFormatter
from nearkin.service.server.resources import ServerResources
from nearkin.service.server.settings import ServerSettings

PIECES = ("hunter2", "zq9x", "tail7")
PASSWORD = "hunter2"
URLS = (
    f"redis://:{PASSWORD}@127.0.0.1:1/0",
    "redis://:hunter2/zq9x@tail7@127.0.0.1:1/0",
    f"redis://user:{PASSWORD}@127.0.0.1:1/0?stream=a",
    f"redis://user:{PASSWORD}@127.0.0.1:port/0?stream=a",
    f"redis://user:{PASSWORD}@[::1/0",
    f"redis://127.0.0.1:1/0?password={PASSWORD}",
    f"rediss://:{PASSWORD}@127.0.0.1:1/0?nope=1",
    f"postgresql://user:{PASSWORD}@127.0.0.1:1/db?connect_timeout=1",
    "postgresql://user:hunter2/zq9x@tail7@127.0.0.1:1/db?connect_timeout=1",
    f"postgresql:/user:{PASSWORD}@127.0.0.1:1/db?connect_timeout=1",
    f"postgresql://127.0.0.1:1/db?connect_timeout=1&password={PASSWORD}&schema=a-b&nope=1",
    f"aerospike://user:{PASSWORD}@127.0.0.1:1",
    f"sqlite://user:{PASSWORD}@host/x.db",
    f"nope://user:{PASSWORD}@host/db",
    f"user:{PASSWORD}@host/db",
    f"http://user:{PASSWORD}@127.0.0.1:1",
    f"http://user:{PASSWORD}@127.0.0.1:port",
)
QUICK = tuple(url for url in URLS if "connect_timeout" not in url)
"""URLs of stores whose driver does not retry for long."""


def leaks(text: str) -> list[str]:
    return [piece for piece in PIECES if piece in text]


def failure_of(work: Callable[[], object]) -> str:
    """Returns all texts of an error and of the errors that caused it."""
    try:
        work()
    except (NearkinError, typer.Exit) as error:
        return f"{error} {error!r} {error.args} {traceback.format_exception_only(error)}"
    return ""


# Commands, settings and calls that take URLs.


def commands() -> Iterator[tuple[list[str], click.Command]]:
    """Returns every command of the command line, by its path."""

    def walk(group: Any, path: list[str]) -> Iterator[tuple[list[str], click.Command]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, [*path, name])
            else:
                yield [*path, name], command

    yield from walk(typer.main.get_command(app), [])


def takes_url(parameter: click.Parameter) -> bool:
    about = f"{parameter.name} {parameter.metavar} {getattr(parameter, 'help', '')}".lower()
    return "url" in about or parameter.name in ("store", "server", "source", "target", "inputs")


COLUMN = (["dedup"], "source")
"""An option that names a column, although other commands take URLs in options of its name."""
COMMANDS = {tuple(path): command for path, command in commands()}
LINES = [
    (list(path), parameter.name)
    for path, command in COMMANDS.items()
    for parameter in command.params
    if takes_url(parameter) and (list(path), parameter.name) != COLUMN
]


def line_for(path: list[str], name: str, url: str, folder: Path) -> list[str]:
    """Returns a command line with a URL in one place and valid values for required parameters."""
    command = COMMANDS[tuple(path)]
    (folder / "in.jsonl").write_text('{"id": "a", "text": "one two three four"}\n')
    line = list(path)
    for parameter in command.params:
        if parameter.name == name:
            line += [url] if parameter.param_type_name == "argument" else [parameter.opts[0], url]
        elif parameter.required or parameter.name in ("out", "file"):
            valid = (
                str(folder / "out")
                if parameter.name in ("out", "file")
                else str(folder / "in.jsonl")
            )
            line += (
                [valid] if parameter.param_type_name == "argument" else [parameter.opts[0], valid]
            )
    return line


@pytest.mark.parametrize(
    ("path", "name", "number"),
    [(*line, number) for number, line in enumerate(LINES)],
    ids=[f"{' '.join(path)} {name}" for path, name in LINES],
)
def test_no_command_repeats_a_password(
    path: list[str],
    name: str,
    number: int,
    full: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # in the quick form, each option takes a third of the URLs, and each URL a third of the options
    for url in QUICK if full else QUICK[number % 3 :: 3]:
        run(line_for(path, name, url, tmp_path))
        out, err = capfd.readouterr()
        assert not leaks(out + err), (url, out + err)
        assert "Traceback" not in err, (url, err)
    for written in tmp_path.rglob("*.json"):
        assert not leaks(written.read_text()), written


@pytest.mark.parametrize(
    "field",
    [name for name, field in ServerSettings.model_fields.items() if field.annotation is not bool],
)
def test_no_setting_of_a_server_repeats_a_password(
    field: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every setting is given every URL, including settings that do not take one."""

    def start(url: str) -> None:
        usual = {"store": "memory://", "tokens": tmp_path / "tokens.json", "keyed": False}
        with_shadow = {"shadow_bands": 4, "shadow_rows": 4} if field == "shadow_store" else {}
        first = {"store": f"sqlite:///{tmp_path}/kin.db"} if field == "shadow_store" else {}
        settings = ServerSettings.read(**{**usual, **first, **with_shadow, field: url})
        if field in ("store", "shadow_store", "limits_store"):
            ServerResources.open(settings).close()
        create_app(settings)

    for url in QUICK:
        assert not leaks(failure_of(lambda url=url: start(url))), url  # type: ignore[misc]
    out, err = capfd.readouterr()
    assert not leaks(out + err)


@pytest.mark.parametrize("url", [url for url in URLS if url in QUICK or "nope=1" in url])
def test_no_error_of_the_library_repeats_a_password(url: str) -> None:
    works = (
        lambda: Index.open(url),
        lambda: Index.open([url, "memory://"]),
        lambda: RateLimiter(url),
    )
    for work in works:
        assert not leaks(failure_of(work))


@pytest.mark.parametrize("url", QUICK)
def test_no_error_of_the_client_repeats_a_password(url: str) -> None:
    def ask() -> None:
        with Client(url) as client:
            assert not leaks(repr(client))
            client.spec()

    async def ask_later() -> None:
        async with AsyncClient(url) as client:
            await client.spec()

    assert not leaks(failure_of(ask))
    assert not leaks(failure_of(lambda: asyncio.run(ask_later())))


@pytest.mark.parametrize(
    "line",
    [
        ["index", "info", "--store", "memory://"],
        ["serve"],
        ["serve", "--port"],
        ["dedup", "x.jsonl", "--recall"],
        ["index", "backup", "--store", "a", "--out", "c"],
    ],
)
def test_no_usage_error_repeats_a_password(
    line: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The message repeats a superfluous or wrong argument."""
    assert run([*line, URLS[0]]) == 2
    out, err = capfd.readouterr()
    assert not leaks(out + err)


# The places that every message passes.


@pytest.mark.parametrize("url", [url for url in URLS if "://" in url])
def test_log_lines_contain_no_password(url: str) -> None:
    logger = logging.getLogger("nearkin.test")
    try:
        raise OSError(f"cannot connect to {url}")
    except OSError:
        import sys

        record = logger.makeRecord(
            "n",
            logging.ERROR,
            "f",
            1,
            f"failed: {url}",
            (),
            sys.exc_info(),
            extra={"a": [url, {"b": url}]},
        )
    line = JsonFormatter().format(record)
    assert not leaks(line)
    assert json.loads(line)["a"][1]["b"].startswith(url.partition("://")[0])


@pytest.mark.promise("Passwords are hidden in every error.")
def test_every_error_is_redacted() -> None:
    """The base class redacts the errors of all modules."""
    for kind in [NearkinError, *every_subclass(NearkinError)]:
        if "__init__" not in vars(kind) or kind is NearkinError:
            assert not leaks(str(kind(f"at {URLS[0]}"))), kind
        else:
            assert "super().__init__(" in inspect.getsource(kind), (
                f"{kind} makes its message itself and does not redact it"
            )
    found = ServiceError("busy", f"at {URLS[0]}")
    assert not leaks(f"{found} {found.detail}")


def every_subclass(kind: type) -> list[type]:
    return [
        other
        for one in kind.__subclasses__()
        if inspect.isclass(one)
        for other in (one, *every_subclass(one))
    ]


def test_token_is_redacted() -> None:
    token = f"nk_reader_{'A' * 43}"
    assert redact(f"the token {token} is not valid") == "the token nk_reader_*** is not valid"


@pytest.mark.parametrize(
    "parameter",
    [
        "sig",
        "Signature",
        "X-Amz-Signature",
        "X-Amz-Security-Token",
        "X-Goog-Signature",
        "access_token",
        "api-key",
        "client_secret",
        "client_secret_key",
        "sslpassword",
        "ssl_password",
    ],
)
def test_credentials_among_the_parameters_of_a_url_are_hidden(parameter: str) -> None:
    url = f"https://host/a.jsonl?{parameter}={PASSWORD}%2Fa&expires=1"
    assert redact(url) == f"https://host/a.jsonl?{parameter}=***&expires=1"


@pytest.mark.promise("Passwords are hidden in malformed URLs, too.")
@pytest.mark.parametrize("password", ["x" * 257, "x" * 5000, "a b", "a\tb", "a@b c", "b 2"])
@pytest.mark.parametrize("user", ["", "user"])
def test_long_passwords_and_those_with_white_space_are_hidden(password: str, user: str) -> None:
    url = f"redis://{user}:{password}@host:6379/0"
    hidden = f"redis://{user}:***@host:6379/0"
    for text in ("cannot use {}", "limits_store='{}' is not supported", "{}, {}"):
        assert redact(text.format(url, url)) == text.format(hidden, hidden)


@pytest.mark.parametrize("host", ["account.dfs.core.windows.net", "account.blob.core.windows.net"])
def test_containers_of_azure_stay_in_messages(host: str) -> None:
    url = f"abfs://box-1@{host}/a.jsonl"
    assert redact(f"cannot list {url}: refused") == f"cannot list {url}: refused"
    assert PASSWORD not in redact(f"abfs://box-1:{PASSWORD}@{host}/a.jsonl")
