"""Tests of boilerplate phrases of words, characters and tokens, with shares and sources."""

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.quality.evaluate import boilerplate as module
from nearkin.quality.evaluate.boilerplate import TextSample, find_boilerplate
from nearkin.stages.sketch.resources import NO_RESOURCES

BANNER = "we use cookies to give you the best experience on our site"
FOOTER = "copyright by the owners all rights reserved"


def corpus(n: int = 200) -> pa.Table:
    """Returns texts with a banner in half of the web and a footer in a quarter of all documents."""
    rng = np.random.Generator(np.random.PCG64(3))
    rows = []
    for i in range(n):
        source = "web" if i % 2 else "books"
        own = " ".join(f"w{x}" for x in rng.integers(0, 10**7, 40))
        banner = BANNER if source == "web" and i % 4 == 1 else ""
        footer = FOOTER if i % 4 == 2 else ""
        text = f"{banner} {own} {footer}"
        rows.append({"text": text, "source": source, "tokens": text.split()})
    return pa.Table.from_pylist(rows)


def test_phrases_are_complete_and_have_sources() -> None:
    boilerplate = nk.dedup(corpus(), source="source").report_data.boilerplate
    assert boilerplate is not None
    assert boilerplate.sampled == 200
    assert boilerplate.listed is None
    assert {phrase.text for phrase in boilerplate.phrases} == {BANNER, FOOTER}
    banner = next(phrase for phrase in boilerplate.phrases if phrase.text == BANNER)
    assert banner.shingles == len(BANNER.split()) - 2
    assert banner.share == 0.25
    assert banner.sources == (("web", 0.5),)
    assert not banner.cut


def test_cut_shingles_are_marked() -> None:
    boilerplate = nk.dedup(corpus(), max_df=0.2).report_data.boilerplate
    assert boilerplate is not None
    assert boilerplate.listed == len(BANNER.split()) + len(FOOTER.split()) - 4
    assert all(phrase.cut for phrase in boilerplate.phrases)


def test_tokens_and_characters_have_phrases() -> None:
    tokens = nk.dedup(corpus().select(["tokens"]), tokens="tokens").report_data.boilerplate
    assert tokens is not None
    assert {phrase.text for phrase in tokens.phrases} == {BANNER, FOOTER}
    characters = nk.dedup(corpus(), spec=nk.Spec.for_shingle("chars:8")).report_data.boilerplate
    assert characters is not None
    assert {phrase.text.removesuffix(" w") for phrase in characters.phrases} == {BANNER, FOOTER}


def test_removed_documents_are_not_sampled() -> None:
    table = corpus(40)
    copies = pa.concat_tables([table.slice(1, 1)] * 50)
    boilerplate = nk.dedup(pa.concat_tables([table, copies])).report_data.boilerplate
    assert boilerplate is not None
    assert boilerplate.sampled == 40
    assert max(phrase.share for phrase in boilerplate.phrases) == 0.25


def test_vectors_have_no_boilerplate() -> None:
    vectors = pa.table(
        {"v": pa.FixedSizeListArray.from_arrays(pa.array(np.eye(4, dtype=np.float32).ravel()), 4)}
    )
    assert nk.dedup(vectors, vector="v").report_data.boilerplate is None


def test_sample_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SAMPLE", 50)
    texts, kept = corpus()["text"].combine_chunks().cast(pa.large_string()), np.arange(0, 200, 2)
    whole, parts = TextSample(kept), TextSample(kept)
    whole.observe(0, texts)
    for start in range(0, 200, 7):
        parts.observe(start, texts.slice(start, 7))
    assert len(whole.ordinals) == 50
    assert whole.documents == parts.documents
    spec = nk.Spec()
    assert find_boilerplate(whole, spec, NO_RESOURCES) == find_boilerplate(
        parts, spec, NO_RESOURCES
    )
    assert find_boilerplate(TextSample(np.empty(0, np.int64)), spec, NO_RESOURCES).sampled == 0
