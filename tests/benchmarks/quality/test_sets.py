"""Tests of the labelled sets: their labels, and that a seed decides them."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from benchmarks.quality.labelled_set import split_halves
from benchmarks.quality.local_files import find_licences, find_revisions, label_licences
from benchmarks.quality.sets import ROOT, SETS, Places, make_set
from nearkin.engine.settings_file import PRESETS

MADE = [name for name in SETS if "revisions" not in name and name not in ("FEBRL 1", "FEBRL 3")]
MIT = "MIT License\n\nCopyright (c) {}\n\n" + " ".join(f"permission{n}" for n in range(120))


@pytest.mark.parametrize("name", [name for name in MADE if name != "licence texts"])
def test_a_made_set_is_the_same_each_time(name: str) -> None:
    first = make_set(name, Places(), 0.1)
    second = make_set(name, Places(), 0.1)
    assert first is not None
    assert second is not None
    assert first.documents.equals(second.documents)
    assert first.clusters.tolist() == second.clusters.tolist()
    assert len(np.unique(first.clusters)) < len(first.clusters)
    assert min(map(len, first.texts)) > 0


PRESETS_OF_RUNNING_TEXT = {"web", "articles"}
"""Their texts look alike. What may be lost decides between them, and `tune` names the careful one.
"""


@pytest.mark.parametrize("name", [name for name in MADE if name != "licence texts"])
def test_tuning_names_the_kind_of_a_made_set(name: str) -> None:
    labelled = make_set(name, Places(), 0.3)
    assert labelled is not None
    data = nk.tune(distribution=nk.observe(labelled.texts)).to_dict()["data"]
    assert data is not None
    expected = "web" if labelled.kind in PRESETS_OF_RUNNING_TEXT else labelled.kind
    assert data["kind"] == expected


def test_tuning_advises_the_preset_of_code_for_the_files_of_a_folder() -> None:
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "nearkin").rglob("*.py"))[:100]]
    data = nk.tune(distribution=nk.observe(texts)).to_dict()["data"]
    assert data is not None
    assert data["advice"]["settings"] == {"preset": "code"}


def test_every_set_is_of_the_kind_of_a_preset() -> None:
    assert {maker.kind for maker in SETS.values()} == set(PRESETS)


def test_no_cluster_is_in_both_halves() -> None:
    labelled = make_set("headlines", Places(), 0.2)
    assert labelled is not None
    first, second = split_halves(labelled, 1)
    assert sorted([*first, *second]) == list(range(len(labelled.clusters)))
    assert not set(labelled.clusters[first]) & set(labelled.clusters[second])


def test_records_of_two_sources_have_one_copy_in_each() -> None:
    labelled = make_set("products", Places(), 0.2)
    assert labelled is not None
    sources = labelled.documents["source"].to_pylist()
    keys = list(zip(labelled.clusters.tolist(), sources, strict=True))
    assert len(set(keys)) == len(keys)


def test_a_set_without_its_sources_is_not_made() -> None:
    assert make_set("FEBRL 1", Places(), 1.0) is None


def test_licences_with_other_owners_have_one_label() -> None:
    other = MIT.replace("permission7 ", "").replace("permission50", "obligation")
    bundle = MIT + " ".join(f"clause{n}" for n in range(60))
    texts = [MIT.format("2020 Ada"), MIT.format("1999, Bram and others"), other, bundle]
    labels = label_licences(texts)
    assert labels[0] == labels[1] == labels[2]
    assert labels[3] != labels[0]


def test_licences_are_found_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "LICENSE.txt").write_text(MIT.format("2020 Ada"))
    (tmp_path / "package" / "license.py").write_text(MIT)
    (tmp_path / "COPYING").write_text(MIT.format("2021 Bram"))
    rows = find_licences(10, [tmp_path])
    assert [row.cluster for row in rows] == ["0", "0"]


def test_revisions_of_a_file_are_one_cluster(tmp_path: Path) -> None:
    def run(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        line = ["git", "-C", str(tmp_path), *identity, *arguments]
        date = "2026-01-01T00:00:00Z"
        environment = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "PATH": "/usr/bin:/bin"}
        subprocess.run(line, check=True, capture_output=True, env=environment)

    run("init", "--quiet")
    for revision in range(3):
        (tmp_path / "a.c").write_text(f"int a{revision};\n" * 80)
        (tmp_path / "b.c").write_text("int b;\n" * 120)
        (tmp_path / "c.txt").write_text(f"{revision}\n" * 600)
        run("add", ".")
        run("commit", "--quiet", "--message", f"revision {revision}")
    rows = find_revisions(5, [tmp_path], (".c",))
    names = [row.cluster.rpartition(":")[2] for row in rows]
    assert names == ["a.c", "a.c", "a.c", "b.c"]
    assert str(rows[0].fields["text"]).startswith("int a2;")
