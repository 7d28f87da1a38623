"""Documents with edited copies, for the tests of all measures."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Returns distinct documents and edited copies of some. Words repeat within a document."""
    rng = np.random.default_rng(11)
    vocabulary = np.array([f"word{i}" for i in range(400)])
    documents = [list(rng.choice(vocabulary, rng.integers(60, 160))) for _ in range(260)]
    for i in range(120):
        copy = list(documents[i])
        for at in rng.choice(len(copy), i % 5, replace=False):
            copy[at] = f"edit{i}-{at}"
        documents.append(copy + copy[: i % 4])
    return [" ".join(document) for document in documents]
