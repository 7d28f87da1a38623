"""Tests of the frequency cut: counting, removal, and its effect on clusters."""

import dataclasses
import itertools

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import IncompatibleError, UsageError
from nearkin.runs.resolved_run import LEAST_CUT
from nearkin.stages.shingle import Cut, Shingler, kernels, text_buffers
from nearkin.stages.sketch.resources import DocumentFrequencies, SpecResources
from nearkin.stages.sketch.sketcher import Sketcher

BANNER = (
    "we use cookies to give you the best experience on our site please accept all of them or "
    "leave now"
)


def banner_corpus(documents: int = 60, seed: int = 1) -> list[str]:
    """Returns different texts after one banner. Each text of even number has a near copy."""
    rng = np.random.Generator(np.random.PCG64(seed))
    texts = []
    for _ in range(documents // 2):
        words = [f"w{n}" for n in rng.integers(0, 10**6, 60)]
        texts += [f"{BANNER} {' '.join(words)}", f"{BANNER} {' '.join([*words[:-1], 'changed'])}"]
    return texts


def test_kernel_removes_listed_shingles() -> None:
    rng = np.random.Generator(np.random.PCG64(7))
    for size in (1, 2, 50, 1000):
        listed = np.unique(rng.integers(0, 2**64, size, np.uint64))
        hashes = np.where(
            rng.random(500) < 0.5, rng.choice(listed, 500), rng.integers(0, 2**64, 500, np.uint64)
        )
        offsets = np.array([0, 0, 100, 350, 500], np.int64)
        rest, ends = Cut(listed).apply(hashes, offsets)
        known = set(listed.tolist())
        wanted = [
            [h for h in hashes[a:b].tolist() if h not in known]
            for a, b in itertools.pairwise(offsets)
        ]
        assert [rest[a:b].tolist() for a, b in itertools.pairwise(ends)] == wanted
        plain = np.empty(500, np.uint64), np.empty(5, np.int64)
        kernels.remove_listed.py_func(hashes, offsets, listed, *Cut(listed)._index, *plain)
        assert np.array_equal(plain[0][: plain[1][-1]], rest)


def test_signature_is_that_of_remaining_shingles() -> None:
    texts = banner_corpus()
    cut = nk.frequencies(texts).above(0.5)
    assert cut.documents == 60
    spec = nk.Spec(cut=cut.fingerprint)
    assert spec.fingerprint != nk.Spec().fingerprint
    found = Sketcher(spec, SpecResources(cut=cut)).sketch(pa.array(texts, pa.large_string()))
    alone = nk.sketch([text.removeprefix(BANNER) for text in texts])
    whole = nk.sketch(texts)
    # The two shingles that span banner and text remain. All others of the banner are removed.
    assert (found.signatures == alone).mean() > 0.9 > (whole == alone).mean()
    assert found.shingles.max() == 60
    stream = Sketcher(nk.Spec()).sketch(pa.array(texts, pa.large_string()))
    assert np.array_equal(found.fingerprints, stream.fingerprints)


@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard", "simhash"])
def test_unrelated_documents_with_banner_are_not_duplicates(measure: str) -> None:
    texts = [f"{BANNER} {BANNER} {BANNER[:40]} {text[-40:]}" for text in banner_corpus()[::2]]
    settings = {"measure": measure, "threshold": 0.6}
    assert nk.dedup(texts, **settings).statistics["removed_near"] > 0
    assert nk.dedup(texts, max_df=0.5, **settings).statistics["removed_near"] == 0


def test_near_copies_with_banner_are_found() -> None:
    result = nk.dedup(banner_corpus(), max_df=0.5)
    assert result.statistics["removed_near"] == 30
    assert min(s for s in result.clusters["similarity"].to_pylist()) >= 0.8


def test_documents_of_banner_only_are_reported() -> None:
    texts = [*banner_corpus(), BANNER, BANNER, f"{BANNER} {BANNER}", ""]
    result = nk.dedup(texts, max_df=0.4, empty="drop")
    kinds = result.clusters["kind"].to_pylist()[60:]
    assert kinds[0] == "kept"
    assert kinds[1] == "exact"
    assert kinds[3] == "empty"
    assert any(
        "the frequency cut removes all shingles" in warning
        for warning in result.report_data.all_warnings
    )
    assert result.statistics["empty"] == 1


def test_rare_shingle_is_never_cut() -> None:
    texts = banner_corpus(LEAST_CUT - 2)
    assert nk.dedup(texts, max_df=0.01).statistics == nk.dedup(texts).statistics


def test_other_lists_and_invalid_shares_are_rejected() -> None:
    cut = nk.frequencies(banner_corpus()).above(0.5)
    spec = nk.Spec(cut=cut.fingerprint)
    with pytest.raises(IncompatibleError, match="pass them as SpecResources"):
        nk.sketch(["a b c"], spec)
    with pytest.raises(IncompatibleError, match="cut shingles"):
        nk.sketch(
            ["a b c"],
            spec,
            resources=SpecResources(cut=DocumentFrequencies(1, cut.hashes, cut.counts)),
        )
    with pytest.raises(UsageError, match=r"max_df=1\.5"):
        nk.dedup(["a"], max_df=1.5)
    with pytest.raises(UsageError, match="vectors have none"):
        nk.Spec(unit="vector", n=4, measure="cosine", cut="0" * 16)
    with pytest.raises(IncompatibleError, match="cut="):
        nk.Spec().require(spec, "that")


def test_cut_of_union_is_union_of_cuts() -> None:
    texts = banner_corpus(4)
    cut = DocumentFrequencies(
        4,
        np.unique(
            Shingler(nk.Spec())
            .texts(*text_buffers(pa.array([BANNER]).cast(pa.large_string())))
            .hashes
        ),
        np.ones(20, np.uint32),
    )
    cut = dataclasses.replace(cut, counts=np.full(len(cut.hashes), 4, np.uint32))
    spec, resources = nk.Spec(cut=cut.fingerprint), SpecResources(cut=cut)
    builder = nk.MinHashBuilder(spec, resources).update(*texts, BANNER)
    assert np.array_equal(
        builder.snapshot(), nk.sketch(texts, spec, resources=resources).min(axis=0)
    )
