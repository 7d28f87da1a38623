"""Tests of `nearkin.profile`; tests/engine/test_advice.py has those of its advice."""

import pytest

import nearkin as nk


def test_a_profile_describes_texts_and_says_what_to_run() -> None:
    texts = [" ".join(f"word{i}x{j}" for j in range(80)) for i in range(20)]
    profile = nk.profile(texts)
    assert profile.documents == profile.texts.sampled == 20
    assert profile.call == "nk.dedup(data)"
    assert repr(profile) == "<Profile: 20 documents. The defaults suit these texts: nk.dedup(data)>"
    assert not profile.warnings


def test_a_profile_needs_two_documents() -> None:
    with pytest.raises(nk.UsageError, match="have no pair to compare"):
        nk.profile(["a text"])
