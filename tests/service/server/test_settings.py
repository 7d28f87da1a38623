"""The sources of settings: flags override variables, which override a file."""

from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.index.settings import IndexSettings
from nearkin.service.server.settings import ServerSettings


def test_flags_override_variables_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "nearkin.toml"
    config.write_text('port = 1001\nhost = "::1"\nbatch = 7\n[index]\nthreshold = "0.7"\n')
    monkeypatch.setenv("NEARKIN_PORT", "1002")
    monkeypatch.setenv("NEARKIN_HOST", "127.0.0.9")
    settings = ServerSettings.read(config, port=1003)
    assert (settings.port, settings.host, settings.batch, settings.queue) == (
        1003,
        "127.0.0.9",
        7,
        2000,
    )
    assert settings.is_local
    assert settings.index_settings({}).threshold == 0.7


def test_variables_of_the_index_override_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "nearkin.toml"
    config.write_text('[index]\nthreshold = "0.7"\nmax_candidates = "50"\n')
    monkeypatch.setenv("NEARKIN_TEXT_THRESHOLD", "0.9")
    index_settings = ServerSettings.read(config).index_settings()
    assert (index_settings.threshold, index_settings.max_candidates) == (0.9, 50)
    monkeypatch.setenv("NEARKIN_INDEX", "threshold=0.6,max_candidates=60")
    index_settings = ServerSettings.read(config).index_settings()
    assert (index_settings.threshold, index_settings.max_candidates) == (0.6, 60)
    assert ServerSettings.read(config, index={"threshold": "0.5"}).index_settings().threshold == 0.5
    monkeypatch.setenv("NEARKIN_INDEX", "threshold")
    with pytest.raises(UsageError, match=r"threshold=0\.7"):
        ServerSettings.read(config)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"port": "x"}, "port"),
        ({"port": 70000}, "port"),
        ({"nonsense": 1}, "nonsense"),
        ({"workers": 2, "store": "memory://"}, "memory"),
        ({"workers": 2, "store": "sqlite:///a.db,memory://"}, "memory"),
        ({"shadow_store": "memory://", "shadow_bands": 3, "shadow_rows": 3}, "memory"),
        ({"tls_cert": "x"}, "tls_key"),
        ({"tls_cert": "none.pem", "tls_key": "none.key"}, "the TLS file none.pem does not exist"),
        ({"limits_store": "nope://x"}, "^limits_store='nope://…' is not supported"),
        (
            {"limits_store": "redis://u:se cret@h:port"},
            "^limits_store='redis://…' is not supported",
        ),
        ({"port": "redis://u:se cret@h"}, "^--port 'redis://…' is not valid"),
        ({"index": "abc"}, "^--index: 'abc' is not of the form"),
        ({"source_rate": "quickly"}, "quickly"),
        ({"shadow_store": "memory://"}, "shadow_bands"),
    ],
)
def test_invalid_settings_are_named(fields: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        ServerSettings.read(**fields)


def test_invalid_settings_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        ServerSettings.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("port = = 1")
    with pytest.raises(UsageError, match=r"bad\.toml is not valid TOML"):
        ServerSettings.read(tmp_path / "bad.toml")
    (tmp_path / "latin.toml").write_bytes(b'host = "\xe9"')
    with pytest.raises(UsageError, match=r"latin\.toml is not valid TOML"):
        ServerSettings.read(tmp_path / "latin.toml")
    (tmp_path / "nested.toml").write_text(f"port = {'[' * 100_000}")
    with pytest.raises(UsageError, match=r"nested\.toml is not valid TOML"):
        ServerSettings.read(tmp_path / "nested.toml")
    (tmp_path / "long.toml").write_text(f"port = {'9' * 5000}")
    with pytest.raises(UsageError, match=r"long\.toml is not valid TOML"):
        ServerSettings.read(tmp_path / "long.toml")
    (tmp_path / "other.toml").write_text("prot = 1")
    with pytest.raises(UsageError, match="prot"):
        ServerSettings.read(tmp_path / "other.toml")


def test_documents_of_a_server_are_kept_as_those_of_an_embedded_index() -> None:
    assert ServerSettings.read().index_settings({}).retention == IndexSettings().retention
    assert IndexSettings().retention == "documents are kept until somebody deletes them"


def test_time_to_live_of_zero_turns_it_off() -> None:
    given = {
        "NEARKIN_TEXT_RECORD_TTL": "100",
        "NEARKIN_TEXT_BANDS": "20",
        "NEARKIN_TEXT_ROWS": "6",
        "NEARKIN_VECTOR_BANDS": "9",
    }
    fields = {"bands": "13", "rows": "7", "record_ttl": "0", "window": "0"}
    index_settings = ServerSettings.read(index=fields).index_settings(given)
    assert (index_settings.record_ttl, index_settings.bands, index_settings.rows) == (None, 13, 7)


def test_settings_round_trip_through_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ServerSettings.read(
        port=1234, index={"threshold": "0.9"}, keyed=False, golden=Path("pairs.jsonl")
    )
    for name, value in found.as_environment().items():
        monkeypatch.setenv(name, value)
    assert ServerSettings.read().model_dump() == found.model_dump()


def test_errors_name_settings_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"^--max-body 'much' is not valid: "):
        ServerSettings.read(max_body="much")
    config = tmp_path / "nearkin.toml"
    config.write_text('max_body = "much"\n')
    with pytest.raises(UsageError, match=r"^max_body 'much' is not valid: "):
        ServerSettings.read(config)
    monkeypatch.setenv("NEARKIN_MAX_BODY", "much")
    with pytest.raises(UsageError, match=r"^NEARKIN_MAX_BODY 'much' is not valid: "):
        ServerSettings.read()
