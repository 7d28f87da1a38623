"""Tests of the opening of an index: the settings of the request and those of the index."""

import pytest

import nearkin as nk
from nearkin.errors import IncompatibleError
from tests.index.conftest import Opener


def test_other_settings_than_those_of_the_index_are_refused(opened: Opener, url: str) -> None:
    if url == "memory://":
        pytest.skip("memory ends with its index")
    opened()
    for fields, named in (
        ({"threshold": 0.8}, "threshold=0.7"),
        ({"spec": nk.Spec(n=4)}, "n=3"),
        ({"postings": "all"}, "postings='leaders'"),
        ({"bands": 4, "rows": 4}, "bands=None"),
    ):
        with pytest.raises(IncompatibleError, match=named):
            opened(**fields)
