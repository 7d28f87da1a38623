"""Tests of look-ups that read additional buckets: recall by formula and by an oracle, and cost."""

from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.stages.lsh.curve import band_probability
from nearkin.stages.lsh.probing import perturbations
from nearkin.stages.lsh.sign_bands import SignBanding
from nearkin.stages.measures import BandingRequest, measure_of
from nearkin.stages.sketch.hyperplanes import hyperplanes

BANDS = 4
ROWS = 8
PAIRS = 300
DIMENSIONS = 24


def similar_texts() -> tuple[list[str], list[str]]:
    """Returns texts of 100 words, and copies with ten other words: a similarity of 90/110."""
    rng = np.random.Generator(np.random.PCG64(4))
    stored = []
    queries = []
    for number in range(PAIRS):
        words = [f"w{number}x{i}" for i in range(100)]
        stored.append(" ".join(words))
        for place in rng.choice(100, 10, replace=False):
            words[place] = f"q{number}x{place}"
        queries.append(" ".join(words))
    return stored, queries


def open_index(lookup_probes: int, url: str = "memory://") -> nk.Index:
    return nk.Index.open(
        url,
        spec=nk.Spec(n=1),
        threshold=0.7,
        bands=BANDS,
        rows=ROWS,
        lookup_probes=lookup_probes,
    )


@pytest.mark.parametrize("probes", [0, 2, 8, 50])
def test_recall_of_text_lookups_agrees_with_the_formula(probes: int) -> None:
    """Only the look-up probes: the probability of a band is that of one-sided probing.

    The tolerance is four standard errors. Slots of one band are probed once, so that more probes
    than rows count as rows.
    """
    stored, queries = similar_texts()
    with open_index(probes) as index:
        index.upsert_many("s", stored)
        matched_queries = sum(bool(index.query("s", query)) for query in queries)
        postings = index.stats()["postings"]
    band = float(band_probability(90 / 110, ROWS, min(probes, ROWS), one_sided=True))
    recall = 1 - (1 - band) ** BANDS
    error = 4 * (recall * (1 - recall) / PAIRS) ** 0.5
    assert matched_queries / PAIRS == pytest.approx(recall, abs=error)
    assert postings == PAIRS * BANDS


def test_probes_can_be_changed_when_an_index_is_opened(tmp_path: Path) -> None:
    stored, queries = similar_texts()
    url = f"sqlite:///{tmp_path}/index.db"
    found = []
    for probes in (0, 8):
        with open_index(probes, url) as index:
            if not probes:
                index.upsert_many("s", stored)
            found.append(sum(bool(index.query("s", query)) for query in queries))
            outcome = index.upsert("s", stored[0])
            assert outcome.representative is not None
    assert found[0] < found[1]


@pytest.mark.parametrize("measure", ["jaccard", "cosine"])
def test_batches_with_probes_are_decided_as_single_documents_are(measure: str) -> None:
    if measure == "jaccard":
        stored, queries = similar_texts()
        documents: list[object] = [*stored[:60], *queries[:60]]
        settings = {"spec": nk.Spec(n=1), "threshold": 0.7, "bands": BANDS, "rows": ROWS}
    else:
        vectors, near = similar_vectors()
        documents = [*vectors[:60], *near[:60]]
        settings = {"spec": vector_spec(), "threshold": 0.9, "bands": 6, "rows": 12}
    ids = [f"d{number}" for number in range(len(documents))]
    with (
        nk.Index.open("memory://", **settings, lookup_probes=6) as whole,  # type: ignore[arg-type]
        nk.Index.open("memory://", **settings, lookup_probes=6) as single,  # type: ignore[arg-type]
    ):
        together = whole.upsert_many("s", documents, ids)  # type: ignore[arg-type]
        alone = [
            single.upsert("s", document, name)  # type: ignore[arg-type]
            for document, name in zip(documents, ids, strict=True)
        ]
    assert [(o.representative, o.similarity) for o in together] == [
        (o.representative, o.similarity) for o in alone
    ]
    assert sum(o.representative is not None for o in alone) > 10


def vector_spec() -> nk.Spec:
    return nk.Spec(measure="cosine", unit="vector", n=DIMENSIONS, k=256)


def similar_vectors() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns random vectors, and others at cosines of about 0.95 to them."""
    rng = np.random.Generator(np.random.PCG64(8))
    vectors = rng.normal(size=(PAIRS, DIMENSIONS)).astype(np.float32)
    near = vectors + 0.33 * rng.normal(size=vectors.shape).astype(np.float32)
    return list(vectors), list(near)


@pytest.mark.parametrize(("bands", "rows"), [(6, 16), (24, 20)])
@pytest.mark.parametrize("probes", [0, pytest.param(3, marks=pytest.mark.full), 12])
def test_vector_lookups_read_the_most_likely_buckets(bands: int, rows: int, probes: int) -> None:
    """A stored vector is found exactly if its bits differ from the query's in a probed set.

    24 bands of 20 of 256 bits share bits.
    """
    spec = vector_spec()
    vectors, near = similar_vectors()
    request = BandingRequest(0.9, 0.95, bands=bands, rows=rows, documents=1_000_000)
    banding = measure_of(spec).banding(request)
    assert isinstance(banding, SignBanding)
    assert banding.sampled == (bands * rows > 256)
    planes = hyperplanes(spec.n, spec.k, spec.seed)
    lengths = np.linalg.norm(planes.astype(np.float64), axis=0)
    expected = set()
    reached = set()
    for number, (vector, query) in enumerate(zip(vectors, near, strict=True)):
        cosine = vector @ query / np.linalg.norm(vector) / np.linalg.norm(query)
        if cosine < 0.9:
            continue
        reached.add(number)
        projections = query.astype(np.float64) @ planes
        differs = (projections >= 0) != (vector.astype(np.float64) @ planes >= 0)
        for bits in banding._band_bits():
            sets = perturbations(np.abs(projections[bits]) / lengths[bits], probes)
            if tuple(np.flatnonzero(differs[bits]).tolist()) in [(), *sets]:
                expected.add(number)
    with nk.Index.open(
        "memory://",
        spec=spec,
        threshold=0.9,
        bands=bands,
        rows=rows,
        lookup_probes=probes,
    ) as index:
        ids = [str(number) for number in range(PAIRS)]
        index.upsert_many("s", vectors, ids)
        matched_ids = {
            int(match.id)
            for number, query in enumerate(near)
            for match in index.query("s", query)
            if match.id == str(number)
        }
        assert index.stats()["postings"] == PAIRS * bands
    # The estimate from the signatures leaves out one pair in a thousand at the threshold.
    assert matched_ids <= expected
    assert len(expected - matched_ids) <= 2
    assert len(reached) > 200


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        (nk.Spec(measure="simhash"), {"bands": 4, "rows": 16}),
        (nk.Spec(measure="weighted-jaccard"), {}),
        (nk.Spec(slot_bits=8), {}),
        (nk.Spec(), {"bands": 4, "rows": 4, "probes": 2}),
    ],
)
def test_probes_that_are_not_possible_are_refused(
    spec: nk.Spec, settings: dict[str, int], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with pytest.raises(UsageError, match="lookup_probes=3 is for whole MinHash slots"):
        nk.Index.open(url, spec=spec, threshold=0.8, lookup_probes=3, **settings)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
    with nk.Index.open(url, spec=spec, threshold=0.8, **settings):  # type: ignore[arg-type]
        pass
    with pytest.raises(UsageError, match="lookup_probes=3 is for whole MinHash slots"):
        nk.Index.open(url, lookup_probes=3)
    with pytest.raises(UsageError, match="lookup_probes=-1 is out of range"):
        nk.Index.open(url, lookup_probes=-1)
