"""Tests of the opening of an index: the settings of the request and those of the index."""

from pathlib import Path

import pytest

import nearkin as nk
from nearkin.errors import IncompatibleError
from nearkin.loading import migrate
from tests.index.conftest import Opener


def test_other_settings_than_those_of_the_index_are_refused(opened: Opener, url: str) -> None:
    if url == "memory://":
        pytest.skip("memory ends with its index")
    opened()
    for fields, named in (
        ({"threshold": 0.8}, "threshold=0.7"),
        ({"spec": nk.Spec(n=4)}, "n=3"),
        ({"postings": "all"}, "postings='leaders'"),
        ({"bands": 4, "rows": 4}, "no `bands`"),
    ):
        with pytest.raises(IncompatibleError, match=named):
            opened(**fields)


def test_one_shard_of_an_index_is_refused(tmp_path: Path) -> None:
    """A document that is written to it alone would have no postings on the other shards."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second")]
    with nk.Index.open(urls, threshold=0.7) as index:
        index.upsert_many("a", ["one two three four", "five six seven eight"])
    for number, url in enumerate(urls, 1):
        with pytest.raises(IncompatibleError, match=f"is shard {number} of the 2 shards"):
            nk.Index.open(url)
        with pytest.raises(IncompatibleError, match=f"is shard {number} of the 2 shards"):
            migrate(url, "memory://", None)
    with nk.Index.open(urls) as index:
        assert index.stats()["records"] == 2
