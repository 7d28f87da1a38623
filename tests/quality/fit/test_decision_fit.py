"""The threshold and the acceptance that follow from decisions, against brute force."""

import itertools
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearkin.cli.app import run as run_command
from nearkin.corpus import Columns, TableCorpus
from nearkin.errors import UsageError
from nearkin.quality.fit.decision_fit import DecisionFit, fit_to_decisions
from nearkin.quality.fit.definition import Definition
from nearkin.runtime.progress import Silent
from nearkin.settings.decisions import Decision, Decisions, Verdict

WORDS = [f"word{number}" for number in range(40)]
SET_DEFINITION = Definition("words", 1, "jaccard")


def make_texts(seed: int) -> dict[str, str]:
    rng = np.random.default_rng(seed)
    texts = {}
    for number in range(16):
        chosen = rng.choice(40, int(rng.integers(8, 30)), replace=False)
        texts[f"d{number:02}"] = " ".join(WORDS[i] for i in sorted(chosen))
    return texts


def fit(texts: dict[str, str], decisions: Decisions) -> DecisionFit:
    table = pa.table({"id": list(texts), "text": list(texts.values())})
    corpus = TableCorpus(table)
    return fit_to_decisions(corpus, Columns(id="id"), decisions, SET_DEFINITION, Silent(), 1)


def decide(labels: dict[tuple[str, str], bool]) -> Decisions:
    verdicts = {True: Verdict.SAME, False: Verdict.DIFFERENT}
    return Decisions({pair: Decision(*pair, verdicts[is_same]) for pair, is_same in labels.items()})


def numbers_of(texts: dict[str, str], pair: tuple[str, str]) -> tuple[float, float]:
    """The Jaccard similarity, and the containment of the removed document in the kept one."""
    kept, removed = sorted(pair, key=lambda id: (-len(texts[id]), id))
    first, second = (set(texts[id].split()) for id in (kept, removed))
    shared = len(first & second)
    return shared / len(first | second), shared / len(second)


def f1_of(accepted: list[bool], same: list[bool]) -> float:
    hits = sum(a and s for a, s in zip(accepted, same, strict=True))
    return 2 * hits / max(sum(accepted) + sum(same), 1)


@pytest.mark.parametrize("seed", range(4))
def test_rules_are_judged_as_brute_force_judges_them(seed: int) -> None:
    texts = make_texts(seed)
    pairs = list(itertools.combinations(texts, 2))[:: 2 + seed]
    numbers = [numbers_of(texts, pair) for pair in pairs]
    same = [containment >= 0.75 and jaccard >= 0.3 for jaccard, containment in numbers]
    result = fit(texts, decide(dict(zip(pairs, same, strict=True))))
    by_threshold = [jaccard >= result.threshold for jaccard, _ in numbers]
    assert (result.same, result.different, result.absent) == (sum(same), len(same) - sum(same), 0)
    assert result.by_threshold.f1 == pytest.approx(f1_of(by_threshold, same), abs=1e-6)
    best = max(
        f1_of([j >= least_j / 100 and c >= least_c / 100 for j, c in numbers], same)
        for least_j in range(1, 101)
        for least_c in range(1, 101)
    )
    best_of_result = result.by_acceptance or result.by_threshold
    assert best_of_result.f1 >= best - 0.01 - 1e-6
    if result.accept is not None:
        limits = [float(part.split(">=")[1]) for part in result.accept.split(" and ")]
        accepted = [j >= limits[0] and c >= limits[1] for j, c in numbers]
        assert result.by_acceptance is not None
        assert result.by_acceptance.f1 == pytest.approx(f1_of(accepted, same), abs=1e-6)
        assert result.by_acceptance.f1 > result.by_threshold.f1


def test_acceptance_is_proposed_only_if_it_agrees_better() -> None:
    texts = {
        "a": " ".join(WORDS[:20]),
        "b": " ".join(WORDS[:14]),
        "c": " ".join([*WORDS[:17], "x", "y", "z"]),
        "p": " ".join(WORDS[20:40]),
        "q": " ".join(WORDS[20:39]),
    }
    # b is contained in a and less similar to it than c, which has words of its own.
    labels = {("a", "b"): True, ("a", "c"): False, ("p", "q"): True}
    result = fit(texts, decide(labels))
    assert result.by_threshold.f1 < 1
    assert result.by_acceptance is not None
    assert result.by_acceptance.f1 == 1
    assert fit(texts, decide({("p", "q"): True, ("a", "c"): False})).accept is None


def test_decisions_of_one_verdict_do_not_suffice() -> None:
    texts = make_texts(1)
    with pytest.raises(UsageError, match="distinct"):
        fit(texts, decide({("d00", "d01"): True}))
    with pytest.raises(UsageError, match="not in the inputs"):
        fit(texts, decide({("x", "y"): True, ("x", "z"): False}))


def test_tune_takes_the_threshold_from_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = make_texts(1)
    inputs = tmp_path / "in.jsonl"
    rows = [{"id": id, "text": text} for id, text in texts.items()]
    inputs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ids = list(texts)
    pairs = list(zip(ids[::2], ids[1::2], strict=True))
    similarity = {pair: numbers_of(texts, pair)[0] for pair in pairs}
    labels = {pair: similarity[pair] > np.median(list(similarity.values())) for pair in pairs}
    path = tmp_path / "decisions.csv"
    lines = [f"{a},{b},{'same' if is_same else 'different'}" for (a, b), is_same in labels.items()]
    path.write_text("\n".join(["id_a,id_b,decision", *lines]))
    arguments = ["tune", str(inputs), "--shingle", "words:1", "--decisions", str(path)]
    assert run_command([*arguments, "--id", "id", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["threshold"] == printed["decisions"]["threshold"]
    assert printed["decisions"]["by_threshold"]["f1"] == 1.0
    assert run_command([*arguments, "--id", "id"]) == 0
    assert capsys.readouterr().out.startswith("decisions: ")
    for further in (["--threshold", "0.5"], ["--measure", "simhash"]):
        assert run_command([*arguments, "--id", "id", *further]) == 2
    assert run_command(["tune", "--decisions", str(path)]) == 2
    assert run_command(["tune", str(inputs), "--id", "id"]) == 2


def test_decisions_of_other_documents_are_named() -> None:
    texts = {f"0{id}": text for id, text in enumerate(make_texts(0).values())}
    ids = list(texts)
    labels = {pair: number % 2 == 0 for number, pair in enumerate(itertools.pairwise(ids))}
    result = fit(texts, decide({**labels, ("00", "9999"): True, ("1", "02"): True}))
    assert result.absent == 2
    assert result.describe()[0].endswith(", 2 of other documents")
    assert "ids not in the inputs: '1' (the inputs have '01'), '9999'; a" in result.describe()[-1]
