import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.options import RunOptions
from nearkin.engine.settings_file import (
    MACHINE_OPTIONS,
    VALID_KEYS,
    Settings,
    format_settings,
    write_settings,
)

TEXTS = ["the cat sat on the mat", "the cat sat on a mat", "a dog lay on a rug"]


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    write_settings(path, Settings({"shingle": "words:1", "threshold": 0.7, "cluster": "leaders"}))
    return path


def options_of(result: nk.results.DedupResult) -> RunOptions:
    return result._open[0].run.options


def test_settings_of_a_file_are_parameters(settings_file: Path) -> None:
    result = nk.dedup(TEXTS, settings=settings_file)
    assert result.kept.tolist() == [True, False, True]
    assert options_of(result).spec == nk.Spec(n=1)
    assert options_of(result).threshold == 0.7
    assert nk.dedup(TEXTS).kept.all()


def test_given_parameters_win_over_the_file(settings_file: Path) -> None:
    result = nk.dedup(TEXTS, settings=settings_file, threshold=0.9)
    assert (options_of(result).threshold, options_of(result).spec.n) == (0.9, 1)


def test_a_given_distance_replaces_the_threshold_of_the_file() -> None:
    settings = {"measure": "simhash", "threshold": 0.9}
    assert options_of(nk.dedup(TEXTS, settings=settings, distance=3)).distance == 3
    settings = {"measure": "simhash", "distance": 3}
    assert options_of(nk.dedup(TEXTS, settings=settings, threshold=0.9)).distance is None


@pytest.mark.parametrize("replaced", [{"threshold": 0.9}, {"measure": "jaccard", "threshold": 1}])
def test_a_given_acceptance_replaces_the_threshold_of_the_file(replaced: dict[str, Any]) -> None:
    settings = {"shingle": "words:1", **replaced}
    kept = nk.dedup(TEXTS, settings=settings, accept="jaccard >= 0.6").kept
    assert kept.tolist() == [True, False, True]
    assert nk.dedup(TEXTS, settings=settings).kept.all()


def test_a_threshold_beside_the_acceptance_of_the_file_is_refused() -> None:
    settings = {"shingle": "words:1", "accept": "containment >= 0.9"}
    with pytest.raises(nk.UsageError, match=r"`threshold` and accept=.*set by settings="):
        nk.dedup(TEXTS, settings=settings, threshold=0.5)
    assert not nk.dedup(TEXTS, settings=settings, accept="similar", threshold=0.6).kept.all()


@pytest.mark.parametrize("name", ["threshold", "distance"])
def test_a_threshold_beside_an_acceptance_is_refused(name: str) -> None:
    with pytest.raises(nk.UsageError, match=f"`{name}` and accept='contained' exclude"):
        nk.dedup(TEXTS, accept="contained", **{name: 1})  # type: ignore[arg-type]


def test_splits_refuse_the_acceptance_of_the_file() -> None:
    settings = {"shingle": "words:1", "accept": "containment >= 0.9"}
    with pytest.raises(nk.UsageError, match="decides which documents dedup"):
        nk.split(TEXTS, settings=settings)
    with pytest.raises(nk.UsageError, match="takes the place of a threshold"):
        nk.check(TEXTS, TEXTS, settings=settings)
    similar = {"shingle": "words:1", "accept": "similar", "threshold": 0.6}
    assert len(nk.pairs(TEXTS, settings=similar).pairs) == 1


def test_pairs_take_the_acceptance_of_the_file() -> None:
    settings = {"shingle": "words:1", "accept": "containment >= 0.9 and witness >= 2"}
    texts = ["cat mat", "the cat sat on the mat", "a cat mat"]
    for relation in ("similarity", "containment"):
        listed = nk.pairs(texts, settings=settings, relation=relation).pairs
        assert listed.arrow.select(["id_a", "id_b"]).to_pylist() == [
            {"id_a": "0000000000", "id_b": "0000000002"}
        ]
    with pytest.raises(nk.UsageError, match=r"`threshold` and accept=.*set by settings="):
        nk.pairs(texts, settings=settings, threshold=0.5)


def test_pairs_take_the_relation_of_the_file_and_ignore_clusters() -> None:
    settings = {"shingle": "words:1", "relation": "containment", "threshold": 0.9, "keep": "x desc"}
    texts = ["cat mat", "the cat sat on the mat", "a dog"]
    table = nk.pairs(texts, settings=settings).pairs
    assert table.arrow["id_a"].to_pylist() == ["0000000000"]
    assert len(nk.pairs(texts, settings=settings, relation="similarity").pairs.arrow) == 0


def test_containment_is_refused_for_clusters() -> None:
    with pytest.raises(nk.UsageError, match="relation='containment' has no effect on clusters"):
        nk.dedup(TEXTS, settings={"relation": "containment"})
    nk.dedup(TEXTS, settings={"relation": "similarity"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tresh = 0.8", "unknown setting 'tresh'; did you mean 'threshold'"),
        ("memory = '4GB'", "unknown setting 'memory'"),
        ("threshold = '0.8'", "threshold='0.8' is of type str; give a number"),
        ("threshold = 1.5", "threshold=1.5 is out of range"),
        ("shingle = 3", "shingle=3 is of type int"),
        ("shingle = 'word:3'", "invalid shingle 'word:3'"),
        ("measure = 'jacard'", "measure='jacard' is not one of"),
        ("normalise = ['nfkc', 'lowe']", "normalise step 'lowe' is not one of"),
        ("distance = 3\nthreshold = 0.9", "distance and threshold exclude each other"),
        ("measure = 'cosine'\nshingle = 'words:1'", "shingle='words:1' does not go with"),
        ("weights = 'tf'", "weights='tf' requires measure='simhash'"),
        ("relation = 'contained'", "relation='contained' is not one of"),
        ("max_df = 2.0", "max_df=2.0 is out of range"),
        ("keep = 'length sideways'", "keep"),
        ("accept = 'contained'\nthreshold = 0.8", "`threshold` and accept='contained' exclude"),
        ("[spec]\nn = 1", "unknown setting 'spec'"),
        ("threshold 0.8", "is not a TOML file"),
        ("\x00", "is not a TOML file"),
    ],
)
def test_invalid_files_are_refused_with_file_and_key(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(nk.UsageError) as caught:
        nk.dedup(TEXTS, settings=path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(nk.UsageError, match=r"no such file: .*absent\.toml"):
        Settings.read(tmp_path / "absent.toml")
    with pytest.raises(nk.UsageError, match="cannot read"):
        Settings.read(tmp_path)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'keep = "\xe9"')
    with pytest.raises(nk.UsageError, match="is not a TOML file"):
        Settings.read(latin)
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(nk.UsageError, match="larger than 1 MiB"):
        Settings.read(large)


@pytest.mark.parametrize("value", ["[" * 100_000, "{a=" * 50_000, "9" * 5000])
def test_values_that_the_parser_gives_up_on_are_refused(tmp_path: Path, value: str) -> None:
    path = tmp_path / "hostile.toml"
    path.write_text(f"threshold = {value}")
    with pytest.raises(nk.UsageError, match=r"hostile\.toml is not a TOML file"):
        Settings.read(path)


def test_failed_writes_leave_the_previous_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.toml"
    write_settings(path, Settings({"threshold": 0.6}))
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_settings(path, Settings({"threshold": 0.7}))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_error_about_a_setting_of_the_file_names_the_file(settings_file: Path) -> None:
    vectors = {"v": [[1.0, 0.0], [0.0, 1.0]]}
    with pytest.raises(
        nk.UsageError, match=r"`shingle` exclude each other.*\(shingle is set by .*toml\)"
    ):
        nk.dedup(vectors, vector="v", settings=settings_file)
    with pytest.raises(nk.UsageError) as caught:
        nk.dedup(TEXTS, settings=settings_file, recall=2.0)
    assert "settings.toml" not in str(caught.value)


def test_settings_of_vectors_are_complete_without_a_column() -> None:
    settings = {"measure": "cosine", "threshold": 0.99, "k": 128}
    vectors = {"v": [[1.0, 0.0], [1.0, 0.01], [0.0, 1.0]]}
    assert nk.dedup(vectors, vector="v", settings=settings).kept.sum() == 2


def test_every_option_that_decides_the_result_is_a_key() -> None:
    recorded = {"second_measure" if key == "then" else key for key in RunOptions().parameters()}
    assert {"hot_bucket_size" if key == "max_bucket" else key for key in recorded} < {*VALID_KEYS}
    assert not MACHINE_OPTIONS & {*VALID_KEYS}


def test_remarks_are_comments_of_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    write_settings(path, Settings({"seed": 7}), ["Chosen by\nnobody", "", "Really."])
    assert path.read_text() == "# Chosen by nobody\n#\n# Really.\n\nseed = 7\n"
    assert Settings.read(path).values == {"seed": 7}


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0.5, 1.0))
def test_written_values_are_read_again(tmp_path_factory: Any, text: str, threshold: float) -> None:
    path = tmp_path_factory.mktemp("settings") / "settings.toml"
    values = {"block_by": text, "threshold": threshold, "normalise": ("nfkc", "lower"), "k": 64}
    path.write_text(format_settings(Settings(values)), "utf-8")
    read = dict(Settings.read(path).values)
    assert read == {**values, "normalise": ["nfkc", "lower"]}


def test_a_settings_file_names_a_blocklist_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = "the minutes of the meeting that was never held in the house at the lake"
    blocklist = nk.Blocklist()
    blocklist.add([blocked], ["req-7"])
    (tmp_path / "conf").mkdir()
    blocklist.save(tmp_path / "conf" / "blocked.list")
    path = tmp_path / "conf" / "my.toml"
    path.write_text('threshold = 0.7\nblocklist = "blocked.list"\n')
    monkeypatch.chdir(tmp_path)
    texts = ["a timetable of the boats on the lake", blocked]
    result = nk.dedup(texts, settings=path)
    assert result.clusters["blocked_by"].to_pylist() == [None, "req-7"]
    assert options_of(result).threshold == 0.7
    other = nk.dedup(texts, settings=path, blocklist=nk.Blocklist())
    assert other.clusters["blocked_by"].to_pylist() == [None, None]
    rows = [{"id": id, "text": text} for id, text in zip("ab", texts, strict=True)]
    Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["in.jsonl", "--id", "id", "--settings", str(path)]
    assert run(["dedup", *command, "--out", "out", "--quiet"]) == 0
    assert Path("out/kept/in.jsonl").read_text() == json.dumps(rows[0]) + "\n"
    assert run(["pairs", *command, "--out", "pairs.csv", "--quiet"]) == 0
    path.write_text('blocklist = "absent.list"\n')
    assert run(["dedup", *command, "--out", "out2", "--quiet"]) == 2
    with pytest.raises(nk.UsageError, match="blocklist"):
        Settings({"blocklist": 1})
