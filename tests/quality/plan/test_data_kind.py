"""Tests of the description of texts, and of the kinds of data."""

import json
import random
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.corpus import Columns, TableCorpus
from nearkin.corpus.arrow_conversion import to_table
from nearkin.engine.settings_file import PRESETS
from nearkin.quality.plan.data_kind import (
    KINDS,
    DataProfile,
    count_scripts,
    find_kind,
    profile_texts,
)
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.observe import observe_corpus
from nearkin.quality.plan.tune import tune
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of

NAMES = ("olivia", "noah", "amelia", "jack", "grace", "lucas", "mia", "henry", "ruby", "oscar")
STREETS = ("rivett", "gundaroo", "paul coe", "chauncy", "dumas", "hannan", "barada", "arthur")
TOWNS = ("leumeah", "parkdale", "bayswater", "flinders", "kogarah", "rockdale", "ulverstone")
TOPICS = ("hashing", "joins", "sampling", "graphs", "streams", "indexes", "clustering", "records")
VENUES = ("Proc. of VLDB", "SIGMOD Record", "Journal of Algorithms", "Machine Learning")


def make_records(rng: random.Random) -> list[str]:
    return [
        f"{rng.choice(NAMES)} {rng.choice(NAMES)} {rng.randint(1, 400)} {rng.choice(STREETS)} "
        f"street {rng.choice(TOWNS)} {rng.randint(2000, 7999)} 19{rng.randint(100000, 991231)}"
        for _ in range(200)
    ]


def make_references(rng: random.Random) -> list[str]:
    return [
        f"{rng.choice('ABC')}. {rng.choice(NAMES).title()} and {rng.choice('DEF')}. "
        f"{rng.choice(TOWNS).title()}, On the {rng.choice(TOPICS)} of {rng.choice(TOPICS)} for "
        f"{rng.choice(TOPICS)}, {rng.choice(VENUES)}, vol. {rng.randint(1, 60)}, "
        f"{rng.randint(1970, 2022)}"
        for _ in range(200)
    ]


def make_log_lines(rng: random.Random) -> list[str]:
    templates = (
        "Received block blk_{} of size {} from 10.2.{}.7",
        "PacketResponder {} for block blk_{} terminating at 10:{}",
        "user session {} opened by uid {} after {} ms",
    )
    return [
        rng.choice(templates).format(rng.getrandbits(40), rng.getrandbits(20), rng.randint(0, 59))
        for _ in range(200)
    ]


def make_functions(rng: random.Random) -> list[str]:
    return [
        f"def {rng.choice(TOPICS)}_{number}(values, limit):\n"
        f'    """Returns the {rng.choice(TOPICS)} of some values."""\n'
        f"    total = {rng.randint(0, 9)}\n"
        "    for value in values:\n"
        f"        total += value * {rng.choice(TOPICS)}\n"
        "    return total % limit\n"
        for number in range(100)
    ]


def make_titles(rng: random.Random) -> list[str]:
    return [
        f"The {rng.choice(TOPICS)} of {rng.choice(NAMES)} and the {rng.choice(STREETS)} "
        f"{rng.choice(TOPICS)}"
        for _ in range(200)
    ]


def make_pages(_: random.Random) -> list[str]:
    lines = (
        files("nearkin.quality.lab")
        .joinpath("press_releases.jsonl")
        .read_text("utf-8")
        .splitlines()
    )
    return [json.loads(line)["text"] for line in lines[:100]]


CORPORA = {
    "records": make_records,
    "bibliography": make_references,
    "logs": make_log_lines,
    "code": make_functions,
    "titles": make_titles,
    "web": make_pages,
}


def profile_of(texts: list[str]) -> DataProfile:
    return profile_texts(pa.array(texts, pa.large_string()), np.full(len(texts), 9))


@pytest.mark.parametrize("name", sorted(CORPORA))
def test_nearest_kind_of_a_made_corpus_is_named(name: str) -> None:
    kind = find_kind(profile_of(CORPORA[name](random.Random(7))))
    assert kind is not None
    assert kind.name == name


def test_log_lines_with_names_beside_numbers_are_logs() -> None:
    """Names of users make more templates, as in logs of a server for logins."""
    rng = random.Random(7)
    lines = [
        f"session {rng.randint(1000, 9999)} opened for {rng.choice(NAMES)} by {rng.choice(NAMES)}"
        for _ in range(180)
    ]
    profile = profile_of(lines)
    kind = find_kind(profile)
    assert 0.4 < profile.template_share < 0.75
    assert kind is not None
    assert kind.name == "logs"


def test_every_kind_has_a_made_corpus_and_every_limit_a_reason() -> None:
    # The texts of articles are like those of other pages: what may be lost decides.
    assert {kind.name for kind in KINDS} == set(CORPORA) == set(PRESETS) - {"articles"}
    for kind in KINDS:
        for limits in kind.limits:
            assert limits.low < limits.high
            assert len(limits.reason.split()) >= 3


def test_texts_of_no_known_kind_get_no_name() -> None:
    """Texts of 25 words are longer than titles and shorter than running text."""
    rng = random.Random(3)
    words = [" ".join(rng.choice(TOPICS) for _ in range(25)) for _ in range(50)]
    assert find_kind(profile_of(words)) is None


def test_profile_counts_what_it_says() -> None:
    texts = ["alpha 1 beta", "alpha 2 beta", "born in 1984\n\nx = f(1)", "alpha 2 beta"]
    profile = profile_of(texts)
    assert profile.sampled == 4
    assert profile.digit_tokens == 5 / 15
    assert (profile.distinct, profile.templates) == (3, 2)
    assert profile.years == 0.25
    assert profile.lines == 5 / 4
    assert profile.code_lines == 1 / 5
    assert profile.median_characters == 12


def test_letters_are_counted_by_unicode_script() -> None:
    shares = dict(count_scripts(["abc 123", "あア漢", "ไทย", "𐎀"]))
    assert shares["Latin"] == 0.3
    assert shares["Hiragana"] == shares["Katakana"] == shares["Han"] == shares["other"] == 0.1
    assert shares["Thai"] == 0.3
    assert sum(shares.values()) == pytest.approx(1)
    assert count_scripts(["12 34", ""]) == ()


def make_distribution(counts: np.ndarray, compared: int = 1000) -> Distribution:
    """Returns a distribution with pairs at 200 similarities."""
    centers = (np.arange(200) + 0.5) / 200
    sampled = np.round(counts / counts.sum() * compared).astype(np.int64)
    return Distribution(1000, centers, counts, "made", compared=sampled)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.9, 0.96])
def test_crowding_is_1_for_evenly_spread_pairs_and_0_with_a_gap(threshold: float) -> None:
    even = make_distribution(np.ones(200), compared=20_000)
    assert even.crowding(threshold) == pytest.approx(1)
    similarities = even.similarities
    distance = min(0.05, (1 - threshold) / 2)
    with_gap = make_distribution(np.where(np.abs(similarities - threshold) > distance, 1.0, 0.0))
    assert with_gap.crowding(threshold) == 0
    falling = make_distribution((1 - similarities) ** 4 + 1e-3)
    crowding = falling.crowding(threshold)
    assert crowding is None or crowding > 1


def test_crowding_is_unknown_with_few_compared_pairs() -> None:
    counts = np.zeros(200)
    counts[190] = 19
    assert make_distribution(counts, compared=19).crowding(0.8) is None
    counts[190] = 20
    assert make_distribution(counts, compared=20).crowding(0.8) == 0
    assert Distribution.assumed(1000).crowding(0.8) is None
    assert make_distribution(np.ones(200)).crowding(1) is None


def test_tuning_warns_of_similarities_without_a_gap() -> None:
    crowded = tune(0.8, distribution=make_distribution(np.ones(200)))
    assert any("no gap around the threshold 0.8" in warning for warning in crowded.warnings)
    apart = np.where(np.arange(200) > 180, 1.0, 0.0) + np.where(np.arange(200) < 60, 9.0, 0.0)
    assert tune(0.8, distribution=make_distribution(apart)).warnings == []
    assert tune().warnings == []


def observe(texts: list[str], spec: Spec) -> Distribution:
    return observe_corpus(TableCorpus(to_table(texts)), Columns(), measure_of(spec))


def test_tuning_warns_of_short_word_shingles_in_scripts_without_spaces() -> None:
    rng = random.Random(5)
    characters = "市议会星期二投票决定在河上修建第二座桥此前就费用和路线争论了十年"
    texts = ["".join(rng.choices(characters, k=200)) for _ in range(20)]
    warnings = tune(distribution=observe(texts, Spec())).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith("100% of the letters are of scripts without spaces")
    assert "shingles words:3 have 3 characters" in warnings[0]
    assert "use shingle='chars:5'" in warnings[0]
    for spec in (Spec(n=5), Spec(unit="chars", n=5)):
        assert tune(spec=spec, distribution=observe(texts, spec)).warnings == []
    latin = ["".join(rng.choices("abcdefgh     ", k=400)) for _ in range(20)]
    assert tune(distribution=observe(latin, Spec())).warnings == []


def test_exact_copies_are_a_share_of_all_documents() -> None:
    texts = [f"text number {number} of {number * 7}" for number in range(80)]
    distribution = nk.observe([*texts, *texts[:20]])
    assert distribution.profile is not None
    assert distribution.profile.exact_copies == pytest.approx(0.2)
    assert nk.tune(distribution=distribution).to_dict()["data"]["exact_copies"] == pytest.approx(
        0.2
    )


def test_pairs_of_a_document_are_counted_from_a_similarity() -> None:
    distribution = observe(["a b c d", "a b c e", "a b c d e", "x y z"], Spec(n=1))
    assert distribution.count_pairs(0.55) == pytest.approx(2 * 3 / 4)
    assert distribution.count_pairs(0.7) == pytest.approx(2 * 2 / 4)
    assert distribution.count_pairs(0.9) == 0


def test_tune_command_describes_a_corpus_in_80_columns(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "records.csv"
    lines = make_records(random.Random(7))
    source.write_text("text\n" + "\n".join(lines) + "\n", "utf-8")
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["tune", str(source)]) == 0
    shown = capfd.readouterr().out
    assert max(map(len, shown.splitlines()[:-1])) <= 80
    flat = " ".join(shown.split())
    assert "200 sampled of 200 documents" in flat
    assert "nearest kind records: records with several fields" in flat
    assert "Most sampled texts are too short for shingles words:3" in flat
    assert flat.endswith(f"nearkin fit {source} --out settings.toml")
    assert run(["tune", str(source), "--json"]) == 0
    described = json.loads(capfd.readouterr().out)["data"]
    expected = nk.tune(distribution=nk.observe(lines)).to_dict()["data"]
    assert described["kind"] == "records"
    assert described["advice"]["step"] == "choose"
    assert len(described["warnings"]) == len(expected["warnings"]) >= 1
    for name in set(expected) - {"warnings"}:
        assert described[name] == expected[name], name
    assert run(["tune", "--json"]) == 0
    assert "data" not in json.loads(capfd.readouterr().out)


def test_tokens_and_vectors_have_no_description() -> None:
    tokens = nk.observe({"tokens": [["a", "b"], ["a", "c"]]}, tokens="tokens")
    assert tokens.profile is None
    assert "data" not in nk.tune(distribution=tokens).to_dict()


@pytest.mark.parametrize("sample", [-2, 0, 1])
def test_a_sample_without_a_pair_is_refused(
    sample: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(nk.UsageError, match="set `sample` to at least 2"):
        nk.observe(["a b", "a c"], sample=sample)
    (tmp_path / "texts.csv").write_text("text\na b\na c\n")
    assert run(["tune", str(tmp_path / "texts.csv"), "--sample", str(sample)]) == 2
    assert "--sample" in capfd.readouterr().err
