"""Tests of scopes with confusable names: new ones are refused, and existing ones keep working."""

import json
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import UsageError
from nearkin.index.migration.cutover import rebuild
from nearkin.index.migration.state import MOVED, MigrationState
from nearkin.index.scope_names import ScopeNames
from nearkin.settings.decisions import Decision, Verdict
from tests.index.conftest import Opener, corpus, store_of

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
OTHERS = [
    "acme ",
    " acme",
    "acme\n",
    "\tacme",
    "acme\u00a0",
    "acme\u3000",
    "cafe\u0301",
    " ",
    "\u2003caf\u00e9",
]


def make_legacy(index: nk.Index, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creates a scope as older versions did, which accepted any name."""
    with monkeypatch.context() as patched:
        patched.setattr(ScopeNames, "require", lambda self, scope: None)
        index.upsert(scope, TEXT, "legacy")


@pytest.mark.parametrize("scope", OTHERS)
def test_new_scopes_that_look_like_others_are_refused(scope: str, opened: Opener) -> None:
    index = opened()
    index.upsert("acme", TEXT, "x")
    index.upsert("caf\u00e9", TEXT, "x")
    for write in (
        lambda: index.upsert(scope, TEXT, "y"),
        lambda: index.upsert_many(scope, [TEXT], ["y"]),
        lambda: index.add_part(scope, "y", TEXT),
    ):
        with pytest.raises(UsageError, match="is new"):
            write()
    assert set(index.scopes()) == {"acme", "caf\u00e9"}
    assert index.query(scope, TEXT) == []
    assert not index.remove(scope, "x")


@pytest.mark.promise("Nobody writes to the scopes that hold data of the index itself.")
@pytest.mark.parametrize("name", ["decided:", "heirs:", "open:", ""])
def test_reserved_scopes_cannot_be_written(
    name: str, opened: Opener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text there would be read as data of the index itself."""
    scope = f"\x1f{name}"
    index = opened()
    for write in (
        lambda: index.upsert(scope, TEXT, "y"),
        lambda: index.upsert_many(scope, [TEXT], ["y"]),
        lambda: index.add_part(scope, "y", TEXT),
        lambda: index.decide(scope, [Decision("x", "y", Verdict.SAME)]),
    ):
        with pytest.raises(UsageError, match="is reserved"):
            write()
    assert index.counts()["records"] == 0
    (tmp_path / "docs.jsonl").write_text(json.dumps({"text": TEXT}))
    url = f"sqlite:///{tmp_path}/kin.db"
    arguments = [str(tmp_path / "docs.jsonl"), "--scope", scope, "--store", url]
    assert command(["index", "build", *arguments]) == 2
    assert "is reserved" in capsys.readouterr().err
    assert not (tmp_path / "kin.db").exists()


def test_names_in_many_scripts_are_allowed(opened: Opener) -> None:
    index = opened()
    names = [
        "",
        "a b",
        "A",
        "a",
        "caf\u00e9",
        "\u00c5",
        "\ufb01",
        "\u5c3d",
        "a/b",
        "a\u200db",
        "..",
        "-",
    ]
    for name in names:
        assert index.upsert(name, TEXT, "x").kind == "new"
    assert set(index.scopes()) == set(names)


@pytest.mark.parametrize("scope", ["acme ", "cafe\u0301", "\t"])
def test_scopes_that_exist_keep_working(
    scope: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened()
    make_legacy(index, scope, monkeypatch)
    for one in (index, index if index.url == "memory://" else opened()):
        assert one.upsert(scope, f"{TEXT} more", "y").representative == "legacy"
        # the canonical form would be a second scope that looks the same
        with pytest.raises(UsageError, match="differs from an existing one"):
            one.upsert(scope.strip().replace("e\u0301", "\u00e9"), TEXT, "z")
    assert index.remove(scope, "y")


def test_pairs_of_scopes_that_both_exist_keep_working(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened()
    index.upsert("acme", TEXT, "x")
    make_legacy(index, "acme ", monkeypatch)
    again = index if index.url == "memory://" else opened()
    for scope in ("acme", "acme "):
        assert again.upsert(scope, corpus(1)[0], "z").kind == "new"
    with pytest.raises(UsageError, match="is new"):
        again.upsert(" acme", TEXT, "x")


def test_a_copy_keeps_scopes_with_confusable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    with nk.Index.open(source, threshold=0.7) as index:
        for scope in ("acme", "acme "):
            make_legacy(index, scope, monkeypatch)
    rebuild(source, target, {}, 0.6, None)
    with nk.Index.open(target) as index:
        assert sorted(index.scopes()) == ["acme", "acme "]
        assert index.upsert("acme ", TEXT, "legacy").kind == "exact"


def test_commands_refuse_confusable_scopes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "in.jsonl"
    lines.write_text(json.dumps({"text": TEXT}) + "\n")
    for store in (f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"):
        assert command(["index", "build", str(lines), "--store", store, "--scope", "acme"]) == 0
        assert command(["index", "add", str(lines), "--store", store, "--scope", "acme "]) == 2
        assert "name it 'acme'" in capsys.readouterr().err
    run = tmp_path / "run"
    assert command(["dedup", str(lines), "--save-signatures", "--out", str(run)]) == 0
    assert (
        command(
            [
                "index",
                "build",
                str(run),
                "--store",
                f"sqlite:///{tmp_path}/c.db",
                "--scope",
                "acme ",
            ]
        )
        == 2
    )


def test_names_are_read_from_a_store_that_the_index_leaves_meanwhile(tmp_path: Path) -> None:
    old, new = (f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new"))
    with nk.Index.open(old) as index, nk.Index.open(new):
        index.upsert("acme", TEXT, "x")
        names = index._session.scope_names
        store_of(index).redirect(MigrationState(1, MOVED, (new,)))
        index.refresh()
        with pytest.raises(UsageError, match="surrounding blanks"):
            names.require("acme ")
