"""An index whose documents are compared by the idf-weighted Jaccard similarity."""

import math
from itertools import pairwise
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import IncompatibleError, UsageError
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import DocumentFrequencies, SpecResources, weighted_by

SPEC = Spec(n=1, measure="idf-jaccard")
TEXTS = [
    "acme black digital camera with zoom mx1001",
    "acme black digital camera with zoom mx2002",
    "camera acme mx1001",
    "acme black digital camera with zoom mx3003",
    "acme silver lens kit s77",
]


@pytest.fixture(scope="module")
def counted() -> DocumentFrequencies:
    """Returns the frequencies of many products, in which only model numbers are rare."""
    products = [f"acme black digital camera with zoom silver lens kit p{i}" for i in range(400)]
    return nk.frequencies([*products, *TEXTS], spec=SPEC)


@pytest.mark.parametrize("store_text", [True, False])
def test_documents_are_resolved_by_rare_words(
    store_text: bool, counted: DocumentFrequencies, tmp_path: Path
) -> None:
    """Unweighted, the first text would be more similar to the second one than to the third."""
    url = f"sqlite:///{tmp_path}/kin.db"
    resources = SpecResources(frequencies=counted)
    content = {"store_text": store_text, "member_content": True}
    with nk.Index.open(url, SPEC, 0.5, resources=resources, **content) as index:
        outcomes = index.upsert_many("shop", TEXTS, list("abcde"))
    assert [outcome.kind for outcome in outcomes] == ["new", "new", "match", "new", "new"]
    assert outcomes[2].representative == "a"
    similarity = nk.pairs(
        [TEXTS[0], TEXTS[2]],
        measure="idf-jaccard",
        shingle="words:1",
        frequencies=counted,
        threshold=0.1,
    ).pairs.arrow["similarity"][0]
    assert outcomes[2].similarity == similarity.as_py()
    with nk.Index.open(url, resources=resources) as index:
        assert index.spec == weighted_by(counted, SPEC)
        assert [match.id for match in index.query("shop", "mx2002 acme camera")] == ["b"]
        index.remove("shop", "a")
        assert index.upsert("shop", TEXTS[0], "f").representative == "c"


def test_index_takes_file_of_frequencies(counted: DocumentFrequencies, tmp_path: Path) -> None:
    path = tmp_path / "products.arrow"
    counted.write(path, SPEC)
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url, SPEC, 0.5, spec_resources=path) as index:
        index.upsert("shop", TEXTS[0], "a")
    with nk.Index.open(url, spec_resources=path) as index:
        assert index.upsert("shop", TEXTS[2], "c").representative == "a"


def test_build_command_takes_file_of_frequencies_and_query_names_the_option(
    counted: DocumentFrequencies, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "products.arrow"
    counted.write(path, SPEC)
    source = tmp_path / "names.csv"
    source.write_text("".join(f"{line}\n" for line in ("text", *TEXTS)))
    question = tmp_path / "question.txt"
    question.write_text("mx2002 acme camera")
    store = ["--store", f"sqlite:///{tmp_path}/kin.db"]
    build = ["index", "build", str(source), *store, "--shingle", "words:1"]
    given = ["--spec-resources", str(path)]
    assert run([*build, *given]) == 2
    assert "has no effect without --measure idf-jaccard" in capsys.readouterr().err
    build += ["--measure", "idf-jaccard", "--threshold", "0.5"]
    assert run(build) == 2
    assert "needs document frequencies" in capsys.readouterr().err
    assert run([*build, *given]) == 0
    assert "new: 4" in capsys.readouterr().out
    query = ["index", "query", str(question), *store]
    assert run(query) == 2
    assert "pass them with --spec-resources" in capsys.readouterr().err
    assert run([*query, *given]) == 0
    with nk.Index.open(store[1], spec_resources=path) as index:
        match = index.query("default", "mx2002 acme camera")[0]
    printed = capsys.readouterr().out.split()[0]
    assert printed == f"{math.floor(match.similarity * 10000) / 10000:.4f}"


def test_index_without_frequencies_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with pytest.raises(UsageError, match="needs document frequencies, and none are given"):
        nk.Index.open(url, SPEC)
    assert list(tmp_path.iterdir()) == []


def test_weighted_spec_without_its_frequencies_is_refused_before_anything_is_written(
    counted: DocumentFrequencies, tmp_path: Path
) -> None:
    for spec in (SPEC, Spec(n=1, measure="simhash")):
        with pytest.raises(IncompatibleError, match="but none was given"):
            nk.Index.open(f"sqlite:///{tmp_path}/kin.db", weighted_by(counted, spec))
    assert list(tmp_path.iterdir()) == []


def test_other_frequencies_are_refused(counted: DocumentFrequencies, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url, SPEC, resources=SpecResources(frequencies=counted)) as index:
        index.upsert("shop", TEXTS[0])
    other = nk.frequencies(TEXTS, spec=SPEC)
    with pytest.raises(IncompatibleError, match=counted.fingerprint):
        nk.Index.open(url, resources=SpecResources(frequencies=other))
    with pytest.raises(IncompatibleError, match=counted.fingerprint):
        nk.Index.open(url, SPEC, resources=SpecResources(frequencies=other))


def test_stored_outcomes_do_not_depend_on_batches(counted: DocumentFrequencies) -> None:
    resources = SpecResources(frequencies=counted)
    sizes = [0, 2, 3, len(TEXTS)]
    with nk.Index.open("memory://", SPEC, 0.5, resources=resources) as index:
        together = index.upsert_many("shop", TEXTS)
    with nk.Index.open("memory://", SPEC, 0.5, resources=resources) as index:
        apart = [
            outcome
            for first, last in pairwise(sizes)
            for outcome in index.upsert_many("shop", TEXTS[first:last])
        ]
    assert [o.representative for o in apart] == [o.representative for o in together]
