"""Tests of the versions and sessions of Spark that are refused, with the reason in one sentence."""

import sys

import pytest

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import MissingExtraError
from nearkin.spark.session import parse_conf, require_classic_session, require_supported_version

CONNECT_SESSION = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
"""A stand-in for a session of Spark Connect, which has no SparkContext."""


CONNECT_FRAME = type("DataFrame", (), {"sparkSession": CONNECT_SESSION})()
"""A stand-in for a DataFrame of Spark Connect."""


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0", "4.1.0.dev2", "10.0"])
def test_version_from_4_on_is_accepted(version: str) -> None:
    require_supported_version(version)


@pytest.mark.parametrize("version", ["3.5.9", "3.3.0"])
def test_older_version_is_refused_with_the_reason(version: str) -> None:
    with pytest.raises(MissingExtraError, match=rf"PySpark 4.0 or newer, and PySpark {version} is"):
        require_supported_version(version)


def test_connect_session_is_refused_at_once_with_the_reason() -> None:
    with pytest.raises(nk.UsageError, match=r"Spark Connect .* no SparkContext.*; use a classic"):
        nks.dedup(CONNECT_FRAME, id="id")


def test_class_of_connect_sessions_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    # PySpark takes a main module without a file, as workers of tests have, for doctests, and exits.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    connect = pytest.importorskip("pyspark.sql.connect.session", exc_type=ImportError)
    session = object.__new__(connect.SparkSession)
    with pytest.raises(nk.UsageError, match="Spark Connect"):
        require_classic_session(session)


def test_setting_of_another_form_is_refused() -> None:
    with pytest.raises(nk.UsageError, match=r"conf='wrong' is not of the form spark.NAME=VALUE"):
        parse_conf(["wrong"])
