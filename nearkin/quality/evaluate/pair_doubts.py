"""The share of wrong pairs inside of the clusters of a run, from labelled duplicates.

Some duplicates are doubtful, too: of references in several styles most, of records with misspelled
values few. If a share f of the duplicates is doubtful, and every pair of distinct documents is,
then a share w of such pairs makes a share w + (1 - w) f of all pairs doubtful (Rogan and Gladen,
*Estimating prevalence from the results of a screening test*, 1978). So w follows from the share of
doubtful pairs and that of doubtful labelled duplicates.
"""

from typing import NamedTuple

import numpy as np

from nearkin.engine.removal_limit import WrongShare

GRID = (np.arange(200) + 0.5) / 200
"""The shares of wrong pairs that are compared."""
INTERVAL = (0.05, 0.95)
"""The quantiles between which the share is expected."""
PRIOR = (0.4, 0.93)
"""The parameters of the beta distribution of the share before a corpus is seen. Its mean and its
standard deviation are 0.3."""
MODEL_DEVIATION = 0.05
"""The standard deviation by which labelled duplicates differ from all that a run finds."""
LEAST_LIKELIHOODS = (0.005, 0.05)
"""The likelihood of smaller and of larger shares than the likeliest one, as a part of its. Larger
ones are less unlikely, because not every wrong pair is doubtful."""


class PairDoubts(NamedTuple):
    """The numbers of doubtful pairs inside of clusters."""

    pairs: int
    """The number of examined pairs, drawn at random."""
    doubtful_pairs: int
    """The number of them that are doubtful."""
    duplicates: int
    """The number of examined labelled duplicates inside of clusters."""
    doubtful_duplicates: int
    """The number of them that are doubtful."""
    labelled: int
    """The number of labelled duplicates among the documents of the run."""
    found: int
    """The number of them inside of clusters."""

    @property
    def recall(self) -> float:
        """The share of the labelled duplicates that are inside of clusters, 1 without any."""
        return self.found / self.labelled if self.labelled else 1.0

    @property
    def share(self) -> float:
        """The share of the examined pairs that are doubtful."""
        return self.doubtful_pairs / self.pairs

    def expect_wrong(self) -> WrongShare:
        """Returns the share of wrong pairs, and the interval that has it with 90 %.

        Examples:
            >>> mostly_doubtful = PairDoubts(300, 180, 50, 30, 50, 50).expect_wrong()
            >>> never_doubtful = PairDoubts(300, 180, 50, 0, 50, 50).expect_wrong()
            >>> round(mostly_doubtful.mean, 2), round(never_doubtful.mean, 2)
            (0.11, 0.6)
        """
        # the posterior of the share of doubtful duplicates, from Jeffreys' prior
        rate = (self.doubtful_duplicates + 0.5) / (self.duplicates + 1)
        variance = (1 - GRID) ** 2 * rate * (1 - rate) / (self.duplicates + 2)
        variance += self.share * (1 - self.share) / self.pairs + MODEL_DEVIATION**2
        errors = self.share - (GRID + (1 - GRID) * rate)
        logs = -(errors**2) / (2 * variance) - np.log(variance) / 2
        smaller, larger = LEAST_LIKELIHOODS
        least = np.where(GRID[np.argmax(logs)] > GRID, smaller, larger)
        weights = np.exp(logs - logs.max()) + least
        weights *= GRID ** (PRIOR[0] - 1) * (1 - GRID) ** (PRIOR[1] - 1)
        weights /= weights.sum()
        places = np.minimum(np.searchsorted(np.cumsum(weights), INTERVAL), len(GRID) - 1)
        low, high = GRID[places].tolist()
        return WrongShare(low, float(weights @ GRID), high)

    def describe(self) -> str:
        """Returns what was examined and what is expected, in sentences.

        Examples:
            >>> PairDoubts(300, 60, 40, 2, 50, 45).describe()  # doctest: +NORMALIZE_WHITESPACE
            '60 of 300 examined pairs of one cluster are doubtful, and so are 2 of 40 labelled
            duplicates. About 16% of all such pairs are expected to be distinct documents (1% to
            48%). 45 of 50 labelled duplicates are in one cluster.'
        """
        wrong = self.expect_wrong()
        return (
            f"{self.doubtful_pairs:,} of {self.pairs:,} examined pairs of one cluster are "
            f"doubtful, and so are {self.doubtful_duplicates:,} of {self.duplicates:,} labelled "
            f"duplicates. About {wrong.mean:.0%} of all such pairs are expected to be distinct "
            f"documents ({wrong.low:.0%} to {wrong.high:.0%}). {self.found:,} of "
            f"{self.labelled:,} labelled duplicates are in one cluster."
        )
