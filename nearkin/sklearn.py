"""An estimator in the form of scikit-learn: groups of near-duplicates.

It needs the extra `sklearn`.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.arrow_conversion import to_chunked, to_texts
from nearkin.errors import MissingExtraError, UsageError
from nearkin.runs.api import split

try:
    from sklearn.base import BaseEstimator, ClusterMixin
except ImportError as error:
    message = "nearkin.sklearn requires scikit-learn"
    raise MissingExtraError.for_extra(message, "sklearn") from error


class NearDuplicateGroups(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Groups texts so that near-duplicates have one label.

    Texts are in one group if near-duplicates connect them. So `GroupKFold` with these groups has no
    near-duplicates on both sides, as `nearkin.split` does for files.

    Args:
        threshold: Smallest similarity of near-duplicates. None for that of the preset, or 0.8.
        shingle: What texts are compared by, for example `chars:5`. None for that of the preset, or
            `words:3`.
        measure: Measure of similarity. None for that of the preset, or `jaccard`.
        recall: Required share of the near-duplicates at the threshold that are found. None for that
            of the preset, or 0.99.
        preset: Name of a preset for a kind of data, or None.
        workers: Number of threads. By default, the cores that the process may use.

    Attributes:
        labels_: Number of each text's group, int64 (n,), in the order of their first texts.
        n_groups_: Number of groups.

    Examples:
        >>> from sklearn.model_selection import GroupKFold
        >>> texts = ["the cat sat on the mat", "a dog ran", "the cat sat on the mat!", "a bird"]
        >>> groups = NearDuplicateGroups().fit_predict(texts)
        >>> groups.tolist()
        [0, 1, 0, 2]
        >>> for train, test in GroupKFold(2).split(texts, groups=groups):
        ...     assert not set(groups[train]) & set(groups[test])
    """

    def __init__(
        self,
        threshold: float | None = None,
        *,
        shingle: str | None = None,
        measure: str | None = None,
        recall: float | None = None,
        preset: str | None = None,
        workers: int | None = None,
    ) -> None:
        self.threshold = threshold
        self.shingle = shingle
        self.measure = measure
        self.recall = recall
        self.preset = preset
        self.workers = workers

    def fit(self, X: Any, y: Any = None) -> "NearDuplicateGroups":
        """Finds the groups of texts.

        Args:
            X: Texts, array-like (n,).
            y: Ignored.

        Returns:
            The estimator.

        Raises:
            ValueError: If X is not a column of texts, or is empty.
            UsageError: If a parameter is out of range.
        """
        given = {name: value for name, value in self.get_params().items() if value is not None}
        clusters = split({"text": _check_texts(X)}, **given).groups.arrow["cluster"]
        groups = clusters.combine_chunks().dictionary_encode()
        self.labels_ = groups.indices.to_numpy().astype(np.int64)
        self.n_groups_ = len(groups.dictionary)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


def _check_texts(X: Any) -> pa.ChunkedArray:
    """Returns a column of texts, which may have the shape (n, 1)."""
    shape = getattr(X, "shape", (0,))
    column = to_chunked(np.asarray(X).reshape(-1) if tuple(shape[1:]) == (1,) else X)
    if len(column) == 0:
        raise UsageError("there are 0 texts; at least 1 is needed to make groups")
    return pa.chunked_array(to_texts(column))
