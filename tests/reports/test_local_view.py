"""Tests of the clusters and the closest call that a report quotes."""

import nearkin as nk


def test_random_clusters_are_drawn_from_the_others_and_the_closest_call_from_all() -> None:
    texts = []
    for group in range(40):
        words = [f"w{group}x{number}" for number in range(60)]
        texts += [" ".join(words), " ".join([*words[:50], "other", *words[51:]])]
    words = [f"closest{number}" for number in range(60)]
    texts += [" ".join(words), " ".join(["new", *words[1:30], "other", *words[31:59], "last"])]
    data = nk.dedup(texts, threshold=0.7).report_data
    largest = {cluster.id for cluster in data.clusters}
    drawn = {cluster.id for cluster in data.sampled_clusters}
    assert len(largest) == 20
    assert len(drawn) == 10
    assert not largest & drawn
    assert data.closest_call is not None
    assert {int(data.closest_call.kept), int(data.closest_call.removed)} == {80, 81}
    assert data.provenance is not None
    assert data.provenance.version == nk.__version__


def test_random_clusters_of_the_same_run_are_the_same() -> None:
    texts = [f"{' '.join(f'w{group}x{n}' for n in range(30))}" for group in range(50)] * 2
    first, second = (nk.dedup(texts).report_data.sampled_clusters for _ in range(2))
    assert first == second
    assert first
