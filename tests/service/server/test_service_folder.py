"""The folder of what a service needs before its first start."""

import stat
from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.service.server.http.tokens import TokenFile
from nearkin.service.server.service_folder import complete_service_folder
from nearkin.settings.keys import HashKey


def modes(folder: Path) -> dict[str, str]:
    """Returns the permissions of the files of a folder, without locks."""
    return {
        path.name: f"{stat.S_IMODE(path.stat().st_mode):o}"
        for path in folder.iterdir()
        if path.suffix != ".lock"
    }


def test_folder_has_a_key_and_a_token_of_the_operator(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "service"
    changes = complete_service_folder(folder)
    assert modes(folder) == {"nearkin.key": "600", "nearkin-tokens.json": "600"}
    assert [path.name for path in changes.created] == ["nearkin.key", "nearkin-tokens.json"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    HashKey.read(str(folder / "nearkin.key"))
    assert changes.operator_token is not None
    operator = TokenFile(folder / "nearkin-tokens.json").find(changes.operator_token)
    assert operator is not None
    assert operator.has_right("admin")


def test_monitoring_reads_its_own_files_only(tmp_path: Path) -> None:
    complete_service_folder(tmp_path, monitoring=True)
    assert modes(tmp_path) == {
        "nearkin.key": "600",
        "nearkin-tokens.json": "600",
        "prometheus-token": "640",
        "grafana-password": "640",
    }
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
    token = (tmp_path / "prometheus-token").read_text()
    scraper = TokenFile(tmp_path / "nearkin-tokens.json").find(token)
    assert scraper is not None
    assert scraper.rights == ("metrics",)


def test_folder_with_other_files_keeps_its_permissions(tmp_path: Path) -> None:
    """Others would lose their way to the files of a shared folder, or of a home."""
    (tmp_path / "page.html").touch()
    tmp_path.chmod(0o755)
    complete_service_folder(tmp_path, monitoring=True)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_only_what_is_missing_is_made(tmp_path: Path) -> None:
    complete_service_folder(tmp_path, monitoring=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = complete_service_folder(tmp_path, monitoring=True)
    assert again.created == ()
    assert again.operator_token is None
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "prometheus-token").unlink()
    (path,) = complete_service_folder(tmp_path, monitoring=True).created
    assert path.read_bytes() != before["prometheus-token"]
    tokens = TokenFile(tmp_path / "nearkin-tokens.json")
    assert [principal.name for principal in tokens.principals()] == ["operator", "prometheus"]
    assert (tmp_path / "nearkin.key").read_bytes() == before["nearkin.key"]


def test_revoked_operator_is_not_made_again(tmp_path: Path) -> None:
    complete_service_folder(tmp_path)
    assert TokenFile(tmp_path / "nearkin-tokens.json").revoke("operator")
    assert complete_service_folder(tmp_path).operator_token is None


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "nearkin.key").symlink_to(tmp_path / "elsewhere")
    complete_service_folder(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        complete_service_folder(tmp_path / "file" / "service")
