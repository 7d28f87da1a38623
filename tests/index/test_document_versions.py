"""The versions of documents, by which an older one never replaces a newer one."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.errors import OldVersionError, UsageError
from nearkin.index.changes import Changes
from nearkin.index.document_versions import DocumentVersions, parse_version, versions_scope
from nearkin.index.maintenance import check_index
from nearkin.index.migration.cutover import fill_copy
from tests.index.conftest import NEAR, TEXT

ONE = Decimal(1)
TWO = Decimal(2)
THREE = Decimal(3)


def test_versions_are_numbers_or_times() -> None:
    assert parse_version("9007199254740993", "v") > parse_version("9007199254740992", "v")
    assert parse_version("-1.5", "v") < parse_version("0", "v")
    assert parse_version("2026-12-01", "v") == datetime(2026, 12, 1, tzinfo=UTC)
    assert parse_version("2026-12-01T10:00:00Z", "v") > parse_version("2026-12-01 09:00", "v")
    for text in ("", "v2", "1e5", "NaN", "2026-13-01", "9" * 200, "0001-01-01T00:00:00+14:00"):
        with pytest.raises(UsageError, match=r"at is .* which is neither a number nor a time"):
            parse_version(text, "at")


def test_only_newer_versions_are_claimed() -> None:
    with nk.Index.open("memory://") as index:
        versions = DocumentVersions(index._session)
        assert versions.claim("a", {"one": TWO, "two": ONE}) == {}
        assert versions.claim("a", {"one": TWO}) == {}
        refused = versions.claim("a", {"one": ONE, "two": THREE, "three": ONE})
        assert list(refused) == ["one"]
        assert str(refused["one"]) == "the version 2 of 'one' is stored already"
        assert versions.claim("b", {"one": ONE}) == {}
        refused = versions.claim("a", {"two": datetime(2026, 1, 1, tzinfo=UTC)})
        assert "cannot be compared with the stored one, 3; give all" in str(refused["two"])
        assert not isinstance(refused["two"], OldVersionError)
        assert check_index(index).sound


def test_step_of_a_writer_whose_version_was_overtaken_writes_nothing() -> None:
    """The other writer claims a newer version between the claim and the step of the first one."""
    with nk.Index.open("memory://") as index:
        first = DocumentVersions(index._session)
        second = DocumentVersions(index._session)
        assert first.claim("a", {"one": ONE}) == {}
        assert second.claim("a", {"one": TWO}) == {}
        with first.requiring("a", {"one": ONE}), pytest.raises(OldVersionError):
            index.upsert("a", TEXT, "one")
        assert index.get("a", "one") is None
        with second.requiring("a", {"one": TWO}):
            index.upsert_many("a", [TEXT, NEAR], ["one", "two"])
        with first.requiring("a", {"one": ONE}), pytest.raises(OldVersionError):
            index.remove_many("a", ["one"])
        assert index.get("a", "one") is not None


def test_overtaken_step_fails_in_the_store(
    url: "str | list[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer version is claimed between the reading of the versions and the step."""
    if isinstance(url, list):
        with nk.Index.open(url) as index, pytest.raises(UsageError, match="consists of shards"):
            DocumentVersions(index._session)
        return
    with nk.Index.open(url) as index:
        versions = DocumentVersions(index._session)
        versions.claim("a", {"one": ONE})
        apply = index._session.store.apply

        def overtake(changes: Changes) -> list[int]:
            monkeypatch.undo()
            versions.claim("a", {"one": TWO})
            return apply(changes)

        monkeypatch.setattr(index._session.store, "apply", overtake)
        with versions.requiring("a", {"one": ONE}), pytest.raises(OldVersionError):
            index.upsert("a", TEXT, "one")
        assert index.get("a", "one") is None
        assert check_index(index).sound


def test_copy_of_an_index_has_its_versions(tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path}/copy.db"
    with nk.Index.open("memory://") as index, nk.Index.open(target, follow=False) as copy:
        DocumentVersions(index._session).claim("a", {"one": TWO, "gone": THREE})
        index.upsert("a", TEXT, "one")
        fill_copy(index, copy)
        assert [*DocumentVersions(copy._session).claim("a", {"one": ONE, "gone": TWO})] == [
            "one",
            "gone",
        ]
        stored = copy._session.store.entries(versions_scope("a"), ["one"])[0]
        assert stored is not None
        assert stored.text == "2"
