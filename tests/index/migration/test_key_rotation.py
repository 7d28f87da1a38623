"""Tests of the rotation of an index's secret key."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import StoreError, UsageError
from nearkin.index.maintenance import check_index
from nearkin.index.migration import key_rotation
from nearkin.index.migration.key_rotation import rotate_key
from nearkin.index.upsert import Upserts
from tests.index.conftest import (
    corpus,
    empty_store,
)

SCOPES = [
    "acme",
    "acme ",
    " acme",
    "a\tb",
    "line\nbreak",
    "trailing\\",
    "caf\u00e9",
    "cafe\u0301",
    "",
]


def index_with_lost_key(url: Any) -> tuple[nk.HashKey, dict[str, list[str]]]:
    """Creates an index whose scopes have names with special characters of shells.

    Returns its new key, and the texts of each scope.
    """
    old = nk.HashKey(bytes(16))
    texts = {scope: corpus(12, seed=3 + at) for at, scope in enumerate(SCOPES)}
    spec = nk.Spec(base_hash="siphash", key_id=old.id)
    # such names are refused now, but older versions accepted them
    taking = mock.patch.object(Upserts, "require_writable")
    with taking, nk.Index.open(url, spec, 0.7, resources=nk.SpecResources(old)) as index:
        for scope, some in texts.items():
            index.upsert_many(scope, some, [f"d{at}" for at in range(12)])
    return nk.HashKey(bytes(range(16))), texts


def roles_of(url: Any, key: nk.HashKey) -> dict[tuple[str, str], tuple[str | None, str, str]]:
    with nk.Index.open(url, resources=nk.SpecResources(key)) as index:
        assert check_index(index).sound
        return {(e.scope, e.id): (e.text, e.leader, e.cluster) for e in index.scan()}


def test_a_key_rotation_keeps_every_scope(
    url: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if url == "memory://":
        pytest.skip("memory is gone with its process")
    target = str(empty_store("sqlite", request, tmp_path))
    new, texts = index_with_lost_key(url)
    counts = rotate_key(url, target, new)
    assert (counts["documents"], counts["finished"], counts["key_id"]) == (
        12 * len(SCOPES),
        True,
        new.id,
    )
    kept = roles_of(target, new)
    assert {key: text for key, (text, _, _) in kept.items()} == {
        (scope, f"d{at}"): text for scope, some in texts.items() for at, text in enumerate(some)
    }
    assert kept == roles_of(url, nk.HashKey(bytes(16)))


def test_a_repeated_key_rotation_copies_what_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    new, _ = index_with_lost_key(source)
    old = nk.HashKey(bytes(16))
    calls = iter(range(100))
    whole = nk.Index.upsert_many

    def breaking(self: nk.Index, *given: Any) -> Any:
        if next(calls) == 4:
            raise StoreError("interrupted")
        return whole(self, *given)

    monkeypatch.setattr(nk.Index, "upsert_many", breaking)
    with pytest.raises(StoreError, match="interrupted"):
        rotate_key(source, target, new, finish=False)
    monkeypatch.undo()
    with nk.Index.open(target, resources=nk.SpecResources(new)) as index:
        monkeypatch.setattr("nearkin.index.session.MAX_PAUSE_SECONDS", 0.0)
        with pytest.raises(StoreError, match="is being filled from"):
            index.upsert("acme", "somebody else writes")
    assert rotate_key(source, target, new, finish=False)["documents"] == 12 * len(SCOPES)
    with nk.Index.open(source, resources=nk.SpecResources(old)) as index:
        index.upsert(
            "acme ", "a document that comes meanwhile, while the copy is not finished", "late"
        )
        assert index.remove("acme", "d0")
        index.upsert("", "another text under an id that was copied already", "d1")
    assert rotate_key(source, target, new)["documents"] == 12 * len(SCOPES)
    assert roles_of(target, new).keys() == roles_of(source, old).keys()
    assert ("acme", "d0") not in roles_of(target, new)
    # a complete copy is left as it is, and is not filled again once it is an index of its own
    assert rotate_key(source, target, new)["documents"] == 12 * len(SCOPES)
    with nk.Index.open(target, resources=nk.SpecResources(new)) as index:
        index.upsert("acme", "a document that only the new index has", "own")
    with pytest.raises(UsageError, match="already has documents"):
        rotate_key(source, target, new)
    assert ("acme", "own") in roles_of(target, new)


def test_a_key_rotation_does_not_finish_while_the_index_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that is acknowledged after it was copied would be lost with the old index."""
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    new, _ = index_with_lost_key(source)
    old = nk.SpecResources(nk.HashKey(bytes(16)))
    compare = key_rotation.keep_cluster_ids_and_compare

    def comparing(*given: Any) -> dict[str, Any]:
        with nk.Index.open(source, resources=old) as index:
            index.upsert(
                "acme", "a document that comes while the last of the index is copied", "late"
            )
            index.upsert("acme", "another text under an id that was copied already", "d1")
            index.remove("acme", "d0")
        return compare(*given)

    monkeypatch.setattr(key_rotation, "keep_cluster_ids_and_compare", comparing)
    with pytest.raises(StoreError, match="3 documents differ from the copy"):
        rotate_key(source, target, new)
    monkeypatch.undo()
    assert rotate_key(source, target, new)["finished"]
    assert roles_of(target, new).keys() == roles_of(source, nk.HashKey(bytes(16))).keys()
    assert ("acme", "late") in roles_of(target, new)


def test_a_key_rotation_refuses_documents_without_text(tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    new = nk.HashKey(bytes(range(16)))
    with nk.Index.open(source, threshold=0.7) as index:
        index.upsert_many("a", corpus(5), [f"d{at}" for at in range(5)])
        for name in ("open", "closed"):
            index.add_part("a", name, f"parts of {name} that come one by one")
        index.finish("a", "closed")
    with pytest.raises(UsageError, match="not stored"):
        rotate_key(source, target, new)
    counts = rotate_key(source, target, new, skip_without_text=True)
    assert (counts["documents"], counts["left_out"]) == (5, 2)
    assert rotate_key(source, target, new, skip_without_text=True) == counts
    with pytest.raises(UsageError, match="already has this key"):
        rotate_key(target, source, new)


def test_a_key_rotation_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    new, _ = index_with_lost_key(source)
    path = tmp_path / "new.key"
    path.write_text(bytes(range(16)).hex())
    line = [
        "index",
        "rotate-key",
        "--store",
        source,
        "--to",
        target,
        "--new-key-file",
        str(path),
        "--json",
    ]
    assert command([*line, "--unfinished"]) == 0
    assert not json.loads(capsys.readouterr().out)["finished"]
    assert command(line) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["documents"] == 12 * len(SCOPES)
    # as after a kill at the very end: nothing is left to do
    assert command(line) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert sorted({scope for scope, _ in roles_of(target, new)}) == sorted(SCOPES)
