"""`nearkin serve` without the libraries of a server."""

import sys

import pytest

from nearkin.cli import app
from nearkin.service.server.setting_fields import ServerFields
from nearkin.service.server.settings import ServerSettings
from tests.cli.conftest import run


def test_options_of_the_help_page_are_the_settings_of_the_server() -> None:
    assert list(ServerFields.model_fields) == list(ServerSettings.model_fields)


def test_server_without_its_libraries_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "nearkin.service.server.settings", raising=False)
    monkeypatch.delitem(sys.modules, "nearkin.service.server.processes", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run("serve", "--port", "0") == app.FAILED
    assert 'run pip install ".[server]"' in capsys.readouterr().err
