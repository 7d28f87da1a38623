"""Tests of the sessions of the console."""

from pathlib import Path

from nearkin.service.server.console.sessions import load_signing_secret


def test_workers_share_the_signing_secret(tmp_path: Path) -> None:
    assert load_signing_secret(tmp_path) == load_signing_secret(tmp_path)
    assert load_signing_secret(None) != load_signing_secret(None)
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
