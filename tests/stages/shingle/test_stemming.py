"""Tests of stems: the release of the stemmer is a part of the Spec."""

import importlib.metadata
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.errors import IncompatibleError, MissingExtraError, UsageError
from nearkin.settings.spec import Spec, installed_stemmer
from nearkin.stages.shingle import Shingler
from nearkin.stages.shingle.stemming import open_stemmer
from nearkin.stages.sketch.resources import shingle_facts

TEXTS = ["Running dogs jumped over the fences", "run dog jump over the fence"]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Returns a function that pretends that another release of the stemmer is installed."""

    def pretend(release: str) -> None:
        monkeypatch.setattr(importlib.metadata, "version", lambda name: release)
        installed_stemmer.cache_clear()

    yield pretend
    installed_stemmer.cache_clear()


def test_releases_of_the_stemmer_have_different_fingerprints(
    install: Callable[[str], None],
) -> None:
    install("3.0.1")
    old = Spec(stem="english")
    install("3.1.1")
    new = Spec(stem="english")
    assert (old.stemmer, new.stemmer) == ("snowballstemmer 3.0.1", "snowballstemmer 3.1.1")
    assert old.fingerprint != new.fingerprint
    assert shingle_facts(old) != shingle_facts(new)
    with pytest.raises(IncompatibleError, match=r"stemmer='snowballstemmer 3.0.1'"):
        new.require(old, "the file")
    assert Spec.from_json(old.to_json()) == old


def test_stems_of_another_release_are_refused(install: Callable[[str], None]) -> None:
    install("3.0.1")
    old = Spec(stem="english")
    assert len(nk.sketch(TEXTS, spec=old)) == 2
    install("3.1.1")
    with pytest.raises(
        IncompatibleError, match=r"snowballstemmer 3\.1\.1 is.*'snowballstemmer==3\.0\.1'"
    ):
        nk.sketch(TEXTS, spec=old)
    with pytest.raises(IncompatibleError, match="snowballstemmer==3"):
        nk.dedup(TEXTS, spec=old)
    assert nk.dedup(TEXTS, spec=Spec(stem="english")).kept.sum() == 1


def test_index_of_another_release_is_refused(
    tmp_path: Path, install: Callable[[str], None]
) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    install("3.0.1")
    with nk.Index.open(url, spec=Spec(stem="english")) as index:
        index.upsert("s", TEXTS[0])
    install("3.1.1")
    with pytest.raises(IncompatibleError, match="snowballstemmer 3"):
        nk.Index.open(url, spec=Spec(stem="english"))
    with pytest.raises(IncompatibleError, match="snowballstemmer==3"), nk.Index.open(url) as index:
        index.upsert("s", TEXTS[1])
    install("3.0.1")
    with nk.Index.open(url) as index:
        assert len(index.query("s", TEXTS[0])) == 1


def test_specs_without_stems_keep_their_fingerprints() -> None:
    """The fingerprints are those of version 0.1.0."""
    assert Spec(version=1).fingerprint == "b6ae03a160f88e3c"
    assert Spec().stemmer is None
    assert "stemmer" not in json.loads(Spec().to_json())
    with pytest.raises(UsageError, match="needs stem"):
        Spec(stemmer="snowballstemmer 3.1.1")


def test_spec_of_an_unrecorded_release_is_readable_but_makes_no_stems() -> None:
    """Signatures of version 0.1.0 can be compared with each other, but not be extended."""
    values = json.loads(Spec(stem="english", version=1).to_json())
    del values["stemmer"]
    old = Spec.from_json(json.dumps(values))
    assert old.fingerprint == "f7d8edd1335b299c"
    assert Spec.from_json(old.to_json()) == old
    assert old != Spec(stem="english", version=1)
    with pytest.raises(IncompatibleError, match=r"does not say of which release.*sketch"):
        Shingler(old)


def test_stemmer_in_python_is_used_for_every_language() -> None:
    import snowballstemmer

    for language in snowballstemmer.algorithms():
        stemmer = open_stemmer(language)
        assert type(stemmer).__module__ == f"snowballstemmer.{language}_stemmer"
    assert open_stemmer("english").stemWord("jumping") == "jump"
    with pytest.raises(UsageError, match=r"'klingon' is not one of .*english"):
        open_stemmer("klingon")


def test_missing_stemmer_is_reported_by_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    installed_stemmer.cache_clear()
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[stem\]"'):
        Spec(stem="english")
    installed_stemmer.cache_clear()
