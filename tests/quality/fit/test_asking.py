"""Tests of settings from answers: questions, the model, and a simulated user."""

import numpy as np
import pytest

import nearkin as nk
from nearkin.corpus import Columns, TableCorpus
from nearkin.corpus.arrow_conversion import to_table
from nearkin.engine.settings_file import Settings
from nearkin.quality.fit import candidate_pool
from nearkin.quality.fit.answer_file import Answer
from nearkin.quality.fit.asking import AskedSettings, AskSession, open_session
from nearkin.quality.fit.candidate_pool import COMPETING_DEFINITIONS
from nearkin.quality.fit.objective import Objective
from nearkin.quality.fit.pair_model import PairModel, log_ranks, to_probability
from nearkin.runtime.progress import Silent
from nearkin.stages.lsh.slot_bands import solve_banding
from tests.quality.fit.corpora import LabelledCorpus, bibliography, records, templates

SIZES = [2] * 60 + [3] * 40 + [5] * 8 + [1] * 160
COLUMNS = Columns(id="id")


def open_corpus(
    corpus: LabelledCorpus, answered: list[Answer], seed: int = 1, objective: str = "f1"
) -> AskSession:
    return open_session(
        TableCorpus(to_table(corpus.table)),
        COLUMNS,
        answered,
        Objective.parse(objective),
        seed=seed,
        workers=2,
        progress=Silent(),
    )


def is_same(session: AskSession, number: int, corpus: LabelledCorpus) -> bool:
    first, second = (session.pool.documents.ids[i] for i in session.pool.pairs[number])
    return corpus.clusters[first] == corpus.clusters[second]


def answer_questions(session: AskSession, corpus: LabelledCorpus, count: int) -> None:
    """Answers as a user who knows the true clusters, in rounds of ten."""
    while len(session.answers) < count:
        for number in session.choose_pairs(min(10, count - len(session.answers))):
            session.answers[number] = is_same(session, number, corpus)


def cluster_f1(corpus: LabelledCorpus, settings: object) -> float:
    """Returns the F1 of the pairs of all clusters that a run makes with settings."""
    result = nk.dedup(corpus.table, id="id", settings=settings)
    rows = result.clusters.arrow.select(["id", "cluster"]).to_pylist()
    predicted = np.unique([row["cluster"] for row in rows], return_inverse=True)[1]
    true = np.unique([corpus.clusters[row["id"]] for row in rows], return_inverse=True)[1]

    def pairs_of(labels: np.ndarray) -> int:
        sizes = np.unique(labels, return_counts=True)[1]
        return int((sizes * (sizes - 1) // 2).sum())

    together = pairs_of(true * len(rows) + predicted)
    return 2 * together / (pairs_of(true) + pairs_of(predicted))


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (records, 0.95),
        pytest.param(bibliography, 0.9, marks=pytest.mark.full),
        (templates, 0.95),
    ],
)
def test_fifty_answers_choose_settings_that_find_the_true_clusters(
    make: object, least: float
) -> None:
    """The defaults reach an F1 below 0.7 on each of these corpora."""
    assert callable(make)
    corpus = make(SIZES)
    session = open_corpus(corpus, [])
    answer_questions(session, corpus, 50)
    asked = AskedSettings.of_session(session)
    assert cluster_f1(corpus, {"threshold": 0.8}) < 0.7
    assert cluster_f1(corpus, asked.settings) >= least


def ask_for_rare_duplicates(duplicates: int, documents: int) -> AskSession:
    corpus = records([2] * duplicates + [1] * (documents - 2 * duplicates), seed=5)
    session = open_corpus(corpus, [])
    assert len({is_same(session, number, corpus) for number in session.choose_pairs(10)}) == 2
    answer_questions(session, corpus, 50)
    settings = AskedSettings.of_session(session).settings
    assert cluster_f1(corpus, settings) >= 0.9
    return session


def test_rare_duplicates_of_a_large_corpus_are_asked_about_and_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20 pairs of duplicates among 4,000 documents, of which a sample of 400 would have none."""
    monkeypatch.setattr(candidate_pool, "POOL_DOCUMENTS", 400)
    session = ask_for_rare_duplicates(20, 4000)
    assert (session.pool.searched, session.pool.compared) == (4000, 400)
    assert session.pool.weights.sum() == pytest.approx(4000 * 3999 / 2, rel=0.01)


@pytest.mark.full
def test_rare_duplicates_of_20000_documents_are_asked_about_and_found() -> None:
    """40 pairs of duplicates, of which a sample of 3,000 documents would have one."""
    session = ask_for_rare_duplicates(40, 20_000)
    assert (session.pool.searched, session.pool.compared) == (20_000, 3000)


@pytest.fixture(scope="module")
def corpus() -> LabelledCorpus:
    return records([2] * 30 + [1] * 60)


@pytest.fixture(scope="module")
def answered(corpus: LabelledCorpus) -> AskSession:
    session = open_corpus(corpus, [])
    answer_questions(session, corpus, 20)
    return session


def test_first_questions_are_spread_over_the_similarities(corpus: LabelledCorpus) -> None:
    session = open_corpus(corpus, [])
    numbers = session.choose_pairs(10)
    assert len(set(numbers)) == len(numbers) >= 8
    similarity = session.pool.similarity[numbers].mean(axis=1)
    assert similarity.max() > 0.5
    assert similarity.min() < 0.1
    assert similarity[0] > similarity[-1]


def test_no_pair_is_asked_twice(answered: AskSession) -> None:
    skipped = answered.choose_pairs(10)
    answered.skipped.update(skipped)
    following = set(answered.choose_pairs(10))
    answered.skipped.clear()
    assert not following & {*answered.answers, *skipped}


def test_later_questions_are_about_the_pairs_that_may_be_duplicates(answered: AskSession) -> None:
    """Most pairs are far below every threshold, and few questions are about them."""
    similarity = answered.pool.similarity.mean(axis=1)
    asked = similarity[answered.choose_pairs(10)]
    assert np.median(asked) > np.quantile(similarity, 0.9)


def test_lower_bounds_hold_for_the_pool(answered: AskSession, corpus: LabelledCorpus) -> None:
    suggestion = answered.suggest()
    assert suggestion is not None
    column = COMPETING_DEFINITIONS.index(suggestion.definition)
    is_found = answered.pool.similarity[:, column] >= suggestion.threshold
    truth = np.array([is_same(answered, n, corpus) for n in range(len(answered.pool))])
    weights = answered.pool.weights
    together = weights[truth & is_found].sum()
    assert suggestion.recall.low <= together / weights[truth].sum()
    assert suggestion.precision.low <= together / weights[is_found].sum()
    assert suggestion.f1.low <= 2 * together / (weights[truth].sum() + weights[is_found].sum())
    assert suggestion.f1.low <= suggestion.f1.value <= suggestion.f1.high == 1
    assert 1 <= suggestion.alive <= suggestion.competing == len(COMPETING_DEFINITIONS)


def test_lowest_threshold_can_be_run(answered: AskSession) -> None:
    lowest = float(answered._curves.thresholds[0])
    assert solve_banding(lowest, 0.95, k=128).recall >= 0.95


def test_weights_of_the_pool_sum_to_all_pairs(answered: AskSession) -> None:
    pool = answered.pool
    count = pool.compared
    assert pool.weights.sum() == pytest.approx(count * (count - 1) // 2)
    assert len(np.unique(pool.pairs, axis=0)) == len(pool)


def test_earlier_answers_are_used_and_not_asked_again(
    answered: AskSession, corpus: LabelledCorpus
) -> None:
    ids = answered.pool.documents.ids
    earlier = [
        Answer(ids[pair[0]], ids[pair[1]], answered.answers[number])
        for number, pair in enumerate(answered.pool.pairs.tolist())
        if number in answered.answers
    ]
    again = open_corpus(corpus, earlier)
    assert len(again.answers) == 20
    assert sum(again.answers.values()) == sum(answered.answers.values())
    assert not set(again.choose_pairs(10)) & set(again.answers)
    first, second = again.suggest(), answered.suggest()
    assert first is not None
    assert second is not None
    assert first.definition == second.definition
    assert first.threshold == second.threshold


def test_answers_of_one_kind_choose_nothing(corpus: LabelledCorpus) -> None:
    session = open_corpus(corpus, [])
    session.answers = dict.fromkeys(session.choose_pairs(5), False)
    assert session.suggest() is None
    with pytest.raises(nk.UsageError, match="0 pairs are labelled as duplicates and 5 as distinct"):
        AskedSettings.of_session(session)


def test_objective_with_a_minimum_is_followed(corpus: LabelledCorpus) -> None:
    session = open_corpus(corpus, [])
    answer_questions(session, corpus, 20)
    precise = open_corpus(corpus, [], objective="precision>=0.999")
    precise.answers = dict(session.answers)
    first, second = session.suggest(), precise.suggest()
    assert first is not None
    assert second is not None
    assert second.precision.value >= first.precision.value - 1e-9


def test_written_settings_are_read_by_runs(
    answered: AskSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("asked") / "settings.toml"
    asked = AskedSettings.of_session(answered)
    asked.write(path)
    written = Settings.read(path).values
    assert written["threshold"] == asked.suggestion.threshold
    assert written["measure"] == asked.suggestion.definition.measure
    assert path.read_text().startswith("# Chosen by nearkin fit")


def test_an_objective_of_clusters_is_refused(corpus: LabelledCorpus) -> None:
    with pytest.raises(nk.UsageError, match=r"'lost<=0.1' needs labelled clusters, and `ask` asks"):
        open_corpus(corpus, [], objective="lost<=0.1")


def test_few_documents_are_refused() -> None:
    table = to_table({"id": ["a", "b"], "text": ["one two", "one three"]})
    with pytest.raises(nk.UsageError, match="too few pairs to ask about"):
        open_session(
            TableCorpus(table),
            COLUMNS,
            [],
            Objective.parse("f1"),
            seed=1,
            workers=1,
            progress=Silent(),
        )


def test_model_learns_the_coefficients_of_simulated_answers() -> None:
    """The mode for many answers is that of the likelihood, which simulated answers follow."""
    rng = np.random.default_rng(3)
    features = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 2))])
    truth = np.array([-0.5, 1.2, 0.7])
    answers = (rng.random(20_000) < to_probability(features @ truth)).astype(np.float64)
    model = PairModel.learn(features, answers)
    errors = np.sqrt(np.diag(model.covariance))
    assert (np.abs(model.mode - truth) < 4 * errors).all()
    assert errors.max() < 0.05


def test_probability_falls_with_the_rank_without_answers() -> None:
    features = np.column_stack([np.ones(50), -np.linspace(-8, 8, 50)])
    model = PairModel.learn(features[:0], np.empty(0))
    drawn = model.draw_probabilities(features, 20, np.random.default_rng(1))
    assert (np.diff(drawn, axis=1) <= 0).all()


def test_ranks_count_the_weights() -> None:
    similarity = np.array([[0.9], [0.8], [0.1]])
    ranks = log_ranks(similarity, np.array([1.0, 1.0, 100.0]))
    assert ranks[:2, 0].tolist() == np.log2([2, 3]).tolist()
    assert ranks[2, 0] == np.log2(103)
