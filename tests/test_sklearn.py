"""Tests of the estimator in the form of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.utils.estimator_checks import estimator_checks_generator

import nearkin as nk
from nearkin.sklearn import NearDuplicateGroups

TEXTS = ["the cat sat on the mat", "a dog ran", "the cat sat on the mat!", "", "a bird"]


def test_labels_number_groups_in_the_order_of_their_first_texts() -> None:
    estimator = NearDuplicateGroups()
    assert estimator.fit_predict(TEXTS).tolist() == [0, 1, 0, 2, 3]
    assert estimator.n_groups_ == 4


@pytest.mark.parametrize(
    "texts",
    [np.array(TEXTS), np.array(TEXTS, object).reshape(-1, 1), pd.Series(TEXTS), pa.array(TEXTS)],
    ids=["numpy", "one column", "pandas", "arrow"],
)
def test_columns_of_every_library_are_grouped(texts: object) -> None:
    assert NearDuplicateGroups().fit_predict(texts).tolist() == [0, 1, 0, 2, 3]


def test_a_chain_of_near_duplicates_is_one_group_and_folds_separate_no_pair() -> None:
    words = [f"w{n}" for n in range(40)]
    chain = [" ".join(words[start : start + 30]) for start in range(0, 10, 2)]
    texts = [*chain, *(f"another text with the number {n} and no copy {n}" for n in range(5))]
    estimator = NearDuplicateGroups(threshold=0.7)
    groups = estimator.fit_predict(texts)
    assert len(set(groups[: len(chain)])) == 1
    for train, test in GroupKFold(3).split(texts, groups=groups):
        found = nk.check([texts[row] for row in train], [texts[row] for row in test], threshold=0.7)
        assert len(found.pairs) == 0


def test_parameters_follow_the_conventions_of_scikit_learn() -> None:
    estimator = NearDuplicateGroups(0.9, shingle="chars:4").fit(TEXTS)
    assert clone(estimator).get_params() == estimator.get_params()
    assert pickle.loads(pickle.dumps(estimator)).labels_.tolist() == estimator.labels_.tolist()
    assert not hasattr(clone(estimator), "labels_")
    for checked, check in estimator_checks_generator(NearDuplicateGroups()):
        check(checked)


def test_invalid_texts_and_parameters_are_refused_as_value_errors() -> None:
    for texts, message in (
        ([], "there are 0 texts"),
        ([None, "a"], "row 0: "),
        ([[1.0, 2.0]], "."),
        ([["a", "b"]], "not texts"),
        (np.ones((2, 2)), "."),
        ("a text", "is not a column"),
    ):
        with pytest.raises(ValueError, match=message):
            NearDuplicateGroups().fit(texts)
    with pytest.raises(nk.UsageError, match="threshold"):
        NearDuplicateGroups(threshold=2.0).fit(TEXTS)
