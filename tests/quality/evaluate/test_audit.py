"""Tests of audits: intervals, samples, and agreement with brute force."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.cli.app import run
from nearkin.corpus import Batch, FileCorpus
from nearkin.errors import UsageError
from nearkin.quality.evaluate.intervals import Proportion
from nearkin.quality.evaluate.scan import AllPairsScan, PrefixScan
from nearkin.runs.reopen import audit_run
from nearkin.runtime.compilation import COMPILATION
from nearkin.runtime.deadline import Deadline
from nearkin.runtime.progress import Silent


@pytest.fixture(scope="module")
def texts(full: bool) -> list[str]:
    return make_texts(5600, 900) if full else make_texts(1300, 300)


def make_texts(originals: int, copies: int) -> list[str]:
    """Returns texts, near-duplicates of some, exact copies of 50, and an empty text."""
    rng = np.random.default_rng(6)
    vocabulary = [f"w{i}" for i in range(2000)]
    out = [" ".join(rng.choice(vocabulary, rng.integers(60, 140))) for _ in range(originals)]
    for i in range(copies):
        words = out[i].split()
        for at in rng.choice(len(words), 1 + i % 7, replace=False):
            words[at] = f"e{i}"
        out.append(" ".join(words))
    return [*out, *out[:50], ""]


@pytest.fixture(scope="module")
def corpus(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    table = pa.table({"id": [f"d{i}" for i in range(len(texts))], "text": texts})
    pq.write_table(table, folder / "docs.parquet")
    return folder


def true_pairs(some: list[str], threshold: float) -> set[tuple[int, int]]:
    sets = [{tuple(t.split()[i : i + 3]) for i in range(len(t.split()) - 2)} for t in some]
    owners: dict[tuple[str, ...], list[int]] = {}
    for i, own in enumerate(sets):
        for gram in own:
            owners.setdefault(gram, []).append(i)
    near = {(a, b) for group in owners.values() for a in group for b in group if a < b}
    return {(a, b) for a, b in near if len(sets[a] & sets[b]) >= threshold * len(sets[a] | sets[b])}


def finished(corpus: Path, name: str, *options: str) -> Path:
    out = corpus / name
    arguments = [
        "dedup",
        str(corpus / "docs.parquet"),
        "--id",
        "id",
        "--threshold",
        "0.7",
        "--max-removed",
        "1",
        *options,
        "--out",
        str(out),
        "--overwrite",
    ]
    assert run(arguments) == 0
    return out


def test_measured_recall_agrees_with_brute_force(corpus: Path, texts: list[str]) -> None:
    """All documents are sampled, so the audit compares all pairs."""
    out = finished(corpus, "poor", "--bands", "6", "--rows", "10")
    audit = audit_run(out, Silent(), sample=100_000).audit
    everything = true_pairs(texts, 0.7)
    exact = {(a, b) for a, b in everything if texts[a] == texts[b]}
    assert audit.sampled == len(texts) - 1
    assert audit.exact == len(exact)
    assert audit.recall.total == len(everything) - len(exact)
    ids = pq.read_table(out / "pairs.parquet").select(["id_a", "id_b"]).to_pylist()
    text_of = {frozenset((texts[int(r["id_a"][1:])], texts[int(r["id_b"][1:])])) for r in ids}
    hits = sum(frozenset((texts[a], texts[b])) in text_of for a, b in everything - exact)
    assert audit.recall.hits == hits
    assert audit.recall.value < 0.7
    assert "recall is below the requested 0.95: omit `bands` and `rows`" in audit.advice
    assert audit.residual is not None
    kept = pq.read_table(out / "clusters.parquet")["kept"].to_numpy()
    both_kept = {d for pair in everything for d in pair if kept[pair[0]] and kept[pair[1]]}
    assert audit.residual.hits == len(both_kept) > 0
    assert audit.residual.total == kept.sum() - 1, "the empty document is kept, and not sampled"
    assert audit.precision.value == 1
    assert sum(b.recall.total for b in audit.bins) == audit.recall.total
    for one in audit.bins:
        if one.recall.total > 30:
            assert abs(one.recall.value - one.predicted) < 0.2


def test_small_sample_is_advised_to_be_larger(corpus: Path) -> None:
    audit = audit_run(finished(corpus, "good"), Silent(), sample=20).audit
    assert audit.recall.low < 0.95 <= audit.recall.high
    assert audit.advice.endswith("contains the requested 0.95; a larger sample narrows it")


def test_audit_of_hot_buckets_predicts_the_loss_and_advises_what_helps(tmp_path: Path) -> None:
    """A higher recall adds bands, and hot buckets yield pairs with leaders only in each of them."""
    rng = np.random.default_rng(12)
    words = [f"w{i}" for i in range(100)]
    some = []
    for _ in range(250):
        variant = list(words)
        for place in rng.choice(100, 2, replace=False):
            variant[place] = f"x{rng.integers(10**6)}"
        some.append(" ".join(variant))
    table = pa.table({"id": [f"d{i}" for i in range(len(some))], "text": some})
    pq.write_table(table, tmp_path / "docs.parquet")
    banded = ("--bands", "30", "--rows", "4", "--fanout", "5")
    hot = audit_run(finished(tmp_path, "hot", "--hot-bucket-size", "20", *banded), Silent()).audit
    assert hot.recall.value < 0.5
    assert all(entry.predicted < 0.5 for entry in hot.bins), "the run's hot buckets are considered"
    assert "raise `hot_bucket_size` or `pair_budget`" in hot.advice
    assert "a higher `recall` does not help" in hot.advice
    assert hot.residual is not None
    assert hot.residual.value == 0, "leaders suffice for clusters"
    budgeted = finished(
        tmp_path, "all", "--hot-bucket-size", "20", "--pair-budget", "99999", *banded
    )
    complete = audit_run(budgeted, Silent()).audit
    assert complete.recall.value > 0.95
    assert complete.bins[0].predicted > 0.9
    assert "hot" not in complete.advice


def test_interval_of_a_sample_contains_the_recall_of_all(corpus: Path) -> None:
    out = finished(corpus, "good")
    audit = audit_run(out, Silent(), sample=600, seed=3).audit
    assert audit.sampled == 600
    assert audit.recall.low > 0.85
    again = audit_run(out, Silent(), sample=600, seed=3, workers=1).audit
    assert again.to_dict() | {"seconds": 0} == audit.to_dict() | {"seconds": 0}
    assert audit.reached is None
    record = json.loads((out / "run.json").read_bytes())
    assert record["audit"]["sampled"] == 600
    assert 'id="audit-heading"' in (out / "report.html").read_text("utf-8")


class TickingClock:
    """A clock that a second passes for each time that it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def cut_into_batches(monkeypatch: pytest.MonkeyPatch, documents: int) -> None:
    """Makes a corpus of files yield batches of some documents."""
    whole = FileCorpus.batches

    def batches(self: FileCorpus, *arguments: Any, **keywords: Any) -> Iterator[Batch]:
        for batch in whole(self, *arguments, **keywords):
            for start in range(0, len(batch.rows), documents):
                part = slice(start, start + documents)
                yield batch._replace(
                    first=batch.first + start,
                    files=batch.files[part],
                    rows=batch.rows[part],
                    documents=batch.documents.slice(start, documents),
                )

    monkeypatch.setattr(FileCorpus, "batches", batches)


@pytest.fixture(scope="module")
def shuffled_texts() -> list[str]:
    texts = make_texts(200, 100)
    return [texts[place] for place in np.random.default_rng(5).permutation(len(texts))]


@pytest.fixture(scope="module")
def shuffled_run(shuffled_texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deadline")
    ids = [f"d{i}" for i in range(len(shuffled_texts))]
    pq.write_table(pa.table({"id": ids, "text": shuffled_texts}), folder / "docs.parquet")
    return finished(folder, "out", "--bands", "6", "--rows", "10")


def test_audit_ends_at_its_deadline_with_a_wider_interval(
    shuffled_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_into_batches(monkeypatch, 10)
    audits = []
    for seconds in (0.0, 40.0, 70.0, 110.0, 1e9):
        deadline = Deadline(seconds, TickingClock())
        audits.append(audit_run(shuffled_run, Silent(), sample=250, deadline=deadline).audit)
        # The clock is read a few times after the end.
        assert audits[-1].seconds <= seconds + 10
    nothing, *ended, whole = audits
    assert nothing.advice.startswith("the time ended before a document was compared; give a longer")
    assert (nothing.sampled, nothing.reached) == (0, 0)
    assert (nothing.recall.low, nothing.recall.high) == (0.0, 1.0)
    assert (nothing.precision.low, nothing.precision.high) == (0.0, 1.0)
    assert (whole.sampled, whole.reached) == (250, None)
    assert [audit.reached is None for audit in ended] == [False, False, True]
    assert [audit.sampled < 250 for audit in ended] == [True] * 3
    for audit in audits:
        ended_early = f"ended after {audit.reached} of 351 documents" in audit.advice
        assert ended_early == bool(audit.reached)
    widths = [audit.recall.high - audit.recall.low for audit in audits]
    assert widths == sorted(widths, reverse=True)


def test_audit_ends_before_a_kernel_that_is_not_compiled(
    shuffled_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def compile_kernel(*_: object) -> None:
        now[0] = 60.0
        COMPILATION.start("shingle")
        raise AssertionError("the kernel is not compiled")

    monkeypatch.setattr(PrefixScan, "build_payload", compile_kernel)
    audit = audit_run(shuffled_run, Silent(), deadline=Deadline(60.0, lambda: now[0])).audit
    assert (audit.reached, audit.seconds) == (0, 60.0)


def test_audit_of_a_part_of_the_corpus_counts_its_pairs(
    shuffled_run: Path, shuffled_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All documents are sampled, so the audit compares all pairs of those that it reached."""
    cut_into_batches(monkeypatch, 10)
    monkeypatch.setattr(PrefixScan, "sample_per_scan", 1000)
    whole = audit_run(shuffled_run, Silent(), sample=1000).audit
    deadline = Deadline(60.0, TickingClock())
    audit = audit_run(shuffled_run, Silent(), sample=1000, deadline=deadline).audit
    assert audit.reached is not None
    assert 100 < audit.reached < len(shuffled_texts)
    reached = shuffled_texts[: audit.reached]
    assert audit.sampled == audit.reached - reached.count("")
    pairs = {(a, b) for a, b in true_pairs(reached, 0.7) if reached[a] != reached[b]}
    assert audit.recall.total == len(pairs) > 0
    assert 0 < audit.recall.hits < len(pairs)
    assert audit.recall.low < audit.recall.value < audit.recall.high
    assert whole.recall.low == whole.recall.high, "every pair was compared"


def test_dedup_with_audit_reports_the_audit(
    corpus: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "dedup",
        str(corpus / "docs.parquet"),
        "--id",
        "id",
        "--audit",
        "--json",
        "--out",
        str(corpus / "at-once"),
    ]
    assert run(arguments) == 0
    output = json.loads(capfd.readouterr().out)
    assert output["audit"]["sampled"] > 900
    assert json.loads((corpus / "at-once" / "run.json").read_bytes())["audit"] == output["audit"]


def test_audit_command_prints_and_stores_the_result(
    corpus: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = finished(corpus, "command")
    assert run(["audit", str(out), "--sample", "200", "--budget", "60s", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["sampled"] in range(190, 211)
    assert run(["audit", str(out), "--sample", "200"]) == 0
    assert "precision of removals" in capfd.readouterr().out
    assert run(["audit", str(out), "--budget", "soon"]) == 2
    assert run(["audit", str(corpus)]) == 2


def test_changed_input_is_rejected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs.jsonl").write_text('{"text": "a b c d"}\n{"text": "a b c d e"}\n')
    assert run(["dedup", str(tmp_path / "docs.jsonl"), "--out", str(tmp_path / "out")]) == 0
    (tmp_path / "docs.jsonl").write_text('{"text": "x"}\n')
    assert run(["audit", str(tmp_path / "out")]) == 2
    assert "docs.jsonl" in capfd.readouterr().err


def test_run_without_pairs_is_audited(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"text": "a b c d"}\n{"text": "e f g h"}\n')
    assert run(["dedup", str(tmp_path / "docs.jsonl"), "--out", str(tmp_path / "out")]) == 0
    audit = audit_run(tmp_path / "out", Silent()).audit
    assert audit.precision.total == audit.recall.total == 0
    assert "no pair at the threshold" in audit.advice


def test_run_with_a_threshold_of_1_is_audited(tmp_path: Path) -> None:
    """The two texts of each pair differ, and have the same shingles."""
    texts = [
        f"a{i} b{i} c{i} " * 2 + f"a{i} b{i}{end}" for i in range(20) for end in ("", f" c{i}")
    ]
    lines = [json.dumps({"text": text}) for text in texts]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    arguments = [str(tmp_path / "docs.jsonl"), "--threshold", "1", "--out", str(tmp_path / "out")]
    assert run(["dedup", *arguments]) == 0
    audit = audit_run(tmp_path / "out", Silent()).audit
    assert (audit.recall.hits, audit.recall.total) == (20, 20)
    assert [(entry.low, entry.high, entry.recall.total) for entry in audit.bins] == [(1.0, 1.0, 20)]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "1.00: 20 of 20 found" in page


def test_documents_of_different_blocks_are_not_compared(tmp_path: Path) -> None:
    rows = [{"text": "a b c d e f g h", "b": b} for b in "xxy"] + [
        {"text": "a b c d e f g h i", "b": "y"}
    ]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [
        "dedup",
        str(tmp_path / "docs.jsonl"),
        "--block-by",
        "b",
        "--out",
        str(tmp_path / "out"),
    ]
    assert run(arguments) == 0
    audit = audit_run(tmp_path / "out", Silent()).audit
    assert (audit.recall.hits, audit.recall.total) == (1, 1)


def test_documents_with_an_equal_value_do_not_lower_the_recall(tmp_path: Path) -> None:
    """A document that is joined with a longer text is not compared with its near-duplicates."""
    base = "one two three four five six seven eight nine ten eleven twelve"
    rows = [
        {"text": base, "key": "1"},
        {"text": f"{base} more", "key": "2"},
        {"text": f"{base} words", "key": "3"},
        {"text": " ".join(f"other{number}" for number in range(30)), "key": "3"},
    ]
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = str(tmp_path / "out")
    assert run(["dedup", str(path), "--threshold", "0.6", "--same", "key", "--out", out]) == 0
    kinds = pq.read_table(tmp_path / "out" / "clusters.parquet")["kind"].to_pylist()
    assert kinds == ["near", "kept", "same", "kept"]
    audit = audit_run(tmp_path / "out", Silent()).audit
    assert (audit.recall.hits, audit.recall.total) == (1, 1)


def test_folder_without_a_run_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the output"):
        audit_run(tmp_path, Silent())


def vectors(n: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    out = rng.standard_normal((n, 24)).astype(np.float32)
    near = rng.choice(n // 2, 300, replace=False)
    out[n // 2 + np.arange(300)] = out[near] + 0.2 * rng.standard_normal((300, 24)).astype(
        np.float32
    )
    return out


MEASURES = {
    "weighted-jaccard": ("--measure", "weighted-jaccard"),
    "simhash": ("--measure", "simhash", "--k", "128", "--threshold", "0.9"),
    "distance": ("--measure", "simhash", "--distance", "6"),
    "cosine": ("--vector", "v", "--threshold", "0.9"),
}


@pytest.mark.parametrize("name", MEASURES)
def test_other_measures_are_compared_with_all_documents(
    name: str, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """The recall of an audit of all documents agrees with a run that compares every pair."""
    documents = 5200 if full else 1300
    monkeypatch.setattr(AllPairsScan, "sample_per_scan", documents * 2 // 5)
    v = vectors(documents)
    column = pa.FixedSizeListArray.from_arrays(pa.array(v.ravel()), 24)
    ids = [f"d{i:04d}" for i in range(documents)]
    pq.write_table(
        pa.table({"id": ids, "text": texts[:documents], "v": column}), tmp_path / "docs.parquet"
    )
    out = tmp_path / "out"
    assert (
        run(
            [
                "dedup",
                str(tmp_path / "docs.parquet"),
                "--id",
                "id",
                *MEASURES[name],
                "--out",
                str(out),
            ]
        )
        == 0
    )
    audit = audit_run(out, Silent(), sample=400, seed=2).audit
    assert audit.precision.value == 1.0
    assert audit.recall.total > 0 or name != "cosine"
    assert audit.recall.high >= 0.95
    assert audit.sampled == 400
    if name == "cosine":
        unit = v / np.linalg.norm(v, axis=1, keepdims=True)
        assert int((np.triu(unit @ unit.T, 1) >= 0.9).sum()) >= audit.recall.total
        everything = audit_run(out, Silent(), sample=10_000).audit
        assert everything.recall.total == int((np.triu(unit @ unit.T, 1) >= 0.9).sum())


def test_run_with_two_measures_is_rejected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": f"a b c {i}", "v": [1.0, float(i)]} for i in range(3)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        run(
            [
                "dedup",
                str(tmp_path / "docs.jsonl"),
                "--second-measure",
                "cosine:v:0.9",
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    assert run(["audit", str(tmp_path / "out")]) == 2
    assert "one measure" in capfd.readouterr().err


@pytest.mark.parametrize("bits", [1, pytest.param(2, marks=pytest.mark.full), 4])
def test_truncated_slots_find_and_predict_what_whole_slots_do(corpus: Path, bits: int) -> None:
    """A solved banding does not warn, and the prediction agrees with what the audit measures."""
    out = finished(corpus, f"bits{bits}", "--slot-bits", str(bits))
    warnings = json.loads((out / "run.json").read_bytes())["warnings"]
    assert not [text for text in warnings if "recall" in text]
    audit = audit_run(out, Silent(), sample=100_000).audit
    assert audit.recall.high >= 0.95
    for part in audit.bins:
        # The prediction is a lower bound, because candidates agree in more slots than other pairs.
        assert part.predicted >= 0.94
        noise = Proportion.from_counts(part.recall.hits, part.recall.total)
        assert noise.high >= part.predicted - 0.005


@pytest.mark.parametrize("verify", ["none", "estimate"])
def test_prediction_uses_the_limits_of_the_verification(corpus: Path, verify: str) -> None:
    """Without exact verification, the estimate decides, or nothing does.

    The prediction for estimates is a lower bound: candidates have higher estimates than other
    pairs of the same similarity.
    """
    slack = 0.02 if verify == "none" else 0.1
    out = finished(corpus, verify, "--verify", verify, "--bands", "12", "--rows", "6")
    for part in audit_run(out, Silent(), sample=100_000).audit.bins:
        # All pairs were compared, so only the hash functions are a matter of chance.
        noise = Proportion.from_counts(part.recall.hits, part.recall.total)
        assert noise.low - slack <= part.predicted <= noise.high + 0.02
