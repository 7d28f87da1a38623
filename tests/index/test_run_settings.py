"""An index takes the settings of a run: a settings file, a preset, or the options of a Spec."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.service.server.settings import ServerSettings
from tests.cli.conftest import run

TEXTS = {"a": "the cat sat on the mat", "b": "The cat sat, on the mat.", "c": "a dog"}


def spec_of(**options: Any) -> nk.Spec:
    with nk.Index.open("memory://", **options) as index:
        assert index.settings.spec is not None
        return index.settings.spec


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(
        'shingle = "chars:4"\nnormalise = "nfkc,lower,digits"\nslot_bits = 16\nthreshold = 0.6\n'
        'bands = 20\nrows = 4\nkeep = "length desc"\nmax_removed = 0.9\n'
    )
    return path


def test_settings_file_of_a_run_makes_an_index(fitted: Path) -> None:
    with nk.Index.open("memory://", settings=fitted) as index:
        settings = index.settings
        assert settings.spec == nk.Spec(
            unit="chars", n=4, normalise=("nfkc", "lower", "digits"), slot_bits=16
        )
        assert (settings.threshold, settings.bands, settings.rows) == (0.6, 20, 4)
        outcomes = [index.upsert("default", text, id) for id, text in TEXTS.items()]
    assert [outcome.kind for outcome in outcomes] == ["new", "match", "new"]


def test_index_finds_what_a_run_with_its_settings_removes(fitted: Path) -> None:
    removed = [not kept for kept in nk.dedup([*TEXTS.values()], settings=fitted).kept.tolist()]
    with nk.Index.open("memory://", settings=str(fitted)) as index:
        found = [index.upsert("default", text, id).kind != "new" for id, text in TEXTS.items()]
    assert sum(found) == sum(removed) == 1


def test_fields_replace_the_values_of_a_settings_file(fitted: Path) -> None:
    with nk.Index.open("memory://", settings=fitted, threshold=0.7, bands=None, rows=None) as index:
        assert (index.settings.threshold, index.settings.bands) == (0.7, None)


@pytest.mark.parametrize("preset", ["web", "logs"])
def test_preset_makes_an_index(preset: str) -> None:
    values = nk.dedup(["a text"], preset=preset)._open[0].run.options
    with nk.Index.open("memory://", preset=preset) as index:
        assert index.settings.spec == values.spec
        assert index.settings.threshold == values.threshold


def test_preset_with_weighted_shingles_takes_their_frequencies(tmp_path: Path) -> None:
    with pytest.raises(nk.UsageError, match="measure idf-jaccard needs document frequencies"):
        nk.Index.open("memory://", preset="articles")
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(f'{{"text": "{text}"}}\n' for text in TEXTS.values()))
    assert run("dedup", texts, "--preset", "articles", "--out", tmp_path / "run", "-q") == 0
    with nk.Index.open("memory://", preset="articles", spec_resources=tmp_path / "run") as index:
        assert index.settings.spec is not None
        assert index.settings.spec.measure == "idf-jaccard"


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        ({"shingle": "chars:5", "k": 64}, nk.Spec(unit="chars", n=5, k=64)),
        ({"normalise": ["lower"]}, nk.Spec(normalise=("lower",))),
        ({"normalise": "nfkc,lower,marks"}, nk.Spec(normalise=("nfkc", "lower", "marks"))),
        ({"stem": "english"}, nk.Spec(stem="english")),
        ({"measure": "weighted-jaccard"}, nk.Spec(measure="weighted-jaccard")),
        ({"base_hash": "murmur3", "slot_bits": 8}, nk.Spec(base_hash="murmur3", slot_bits=8)),
        ({"distance": 3}, nk.Spec(measure="simhash")),
        ({"distance": 3, "shingle": "words:1"}, nk.Spec(measure="simhash", n=1)),
    ],
)
def test_options_of_a_spec_are_keywords(options: dict[str, Any], spec: nk.Spec) -> None:
    assert spec_of(**options) == spec


def test_coroutines_take_the_settings_of_a_run(fitted: Path) -> None:
    async def open_and_read() -> float | None:
        async with await nk.AsyncIndex.open("memory://", settings=fitted) as index:
            return index.index.settings.threshold

    assert asyncio.run(open_and_read()) == 0.6


def test_existing_index_is_opened_with_the_settings_it_was_made_with(
    fitted: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'index.db'}"
    with nk.Index.open(url, settings=fitted) as index:
        index.upsert("default", "the cat sat on the mat", "a")
    with nk.Index.open(url, settings=fitted) as index:
        assert index.get("default", "a") is not None
    with pytest.raises(nk.errors.IncompatibleError, match=r"threshold=0\.6"):
        nk.Index.open(url, settings={"threshold": 0.5})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"same": "doi"}, r"the setting 'same' \('doi'\) decides which documents"),
        ({"accept": "safe"}, r"'accept' \('safe'\) decides"),
        ({"fields": ["title:jaccard>=0.9"]}, "the setting 'fields'"),
        ({"relation": "containment"}, r"'relation' \('containment'\) decides"),
        ({"measure": "cosine"}, "an index of vectors needs their number of dimensions"),
        ({"treshold": 0.8}, "unknown setting 'treshold'; did you mean 'threshold'"),
    ],
)
def test_settings_that_an_index_does_not_have_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.Index.open("memory://", settings=settings)


def test_a_spec_is_given_once() -> None:
    with pytest.raises(nk.UsageError, match="`spec` and shingle='chars:5' exclude each other"):
        nk.Index.open("memory://", nk.Spec(), shingle="chars:5")
    with pytest.raises(nk.UsageError, match="exclude each other"):
        nk.Index.open("memory://", settings={"shingle": "chars:5"}, preset="web")


def test_server_makes_its_index_with_a_settings_file(fitted: Path) -> None:
    made = ServerSettings.read(store="memory://", settings=fitted).index_settings({})
    assert made.spec is not None
    assert (made.spec.shingle, made.threshold) == ("chars:4", 0.6)
    changed = ServerSettings.read(
        store="memory://", settings=fitted, index={"threshold": "0.9"}
    ).index_settings({})
    assert (changed.threshold, changed.bands) == (0.9, 20)
    of_preset = ServerSettings.read(store="memory://", preset="logs").index_settings({})
    assert of_preset.threshold == 1.0


def test_server_takes_the_options_of_a_spec() -> None:
    index = {"normalise": "nfkc,lower,digits", "measure": "simhash", "stem": "english"}
    made = ServerSettings.read(store="memory://", index=index).index_settings({})
    expected = nk.Spec(measure="simhash", normalise=("nfkc", "lower", "digits"), stem="english")
    assert made.spec == expected


def test_index_is_built_from_files_with_a_settings_file(
    fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = tmp_path / "documents.csv"
    documents.write_text("id,text\n" + "".join(f'{id},"{text}"\n' for id, text in TEXTS.items()))
    url = f"sqlite:///{tmp_path / 'index.db'}"
    line = ["index", "build", documents, "--id", "id", "--store", url, "--settings", fitted]
    assert run(*line) == 0
    with nk.Index.open(url) as index:
        assert index.settings.spec is not None
        assert (index.settings.spec.shingle, index.settings.bands) == ("chars:4", 20)
        assert index.stats()["leaders"] == 2
    (tmp_path / "keys.toml").write_text('same = "doi"\n')
    other = ["--store", "memory://", "--settings", tmp_path / "keys.toml"]
    capsys.readouterr()
    assert run("index", "build", documents, *other) == app.USAGE
    assert "'same' ('doi') decides" in capsys.readouterr().err
