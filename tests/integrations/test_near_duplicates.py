"""Tests of the search for texts that repeat an earlier one."""

import pickle
import sys
from importlib import import_module
from pathlib import Path

import pytest

from nearkin.errors import MissingExtraError, UsageError
from nearkin.integrations.near_duplicates import BATCH, NearDuplicateFinder, require_action

TEXT = "the council approved the new budget on tuesday evening after a long debate about schools"


def test_texts_of_one_call_are_compared_with_earlier_ones() -> None:
    finder = NearDuplicateFinder()
    texts = [TEXT, "", f"{TEXT} and roads", " ", TEXT]
    assert finder.find(texts, ["a", "b", "c", "d", "a"]) == [None, None, "a", None, "a"]
    assert finder.find([TEXT], ["other"]) == [None], "nothing is kept"
    assert finder.find([], []) == []


def test_texts_of_an_index_are_compared_across_calls_and_processes(tmp_path: Path) -> None:
    finder = NearDuplicateFinder(f"sqlite:///{tmp_path / 'kin.db'}", scope="news", threshold=0.7)
    assert finder.find([TEXT, TEXT], ["a", "b"]) == [None, "a"]
    copy = pickle.loads(pickle.dumps(finder))
    assert copy.find([TEXT.upper(), "a dog ran over the hill"], ["c", "d"]) == ["a", None]
    assert copy.find([TEXT], ["a"]) == [None], "a batch can be repeated"
    copy.close()
    finder.close()
    assert finder.find([TEXT], ["e"]) == ["a"]
    finder.close()


def test_many_texts_are_stored_in_batches() -> None:
    texts = [f"word{number}" for number in range(BATCH)]
    found = NearDuplicateFinder(recall=0.5).find([*texts, texts[0]], ["x"] * (BATCH + 1))
    assert found == [None] * BATCH + ["x"]


def test_calls_that_have_no_meaning_are_refused() -> None:
    with pytest.raises(UsageError, match="2 texts have 1 ids"):
        NearDuplicateFinder().find(["a", "b"], ["a"])
    with pytest.raises(UsageError, match="threshold=7 is out of range"):
        NearDuplicateFinder(threshold=7)
    with pytest.raises(UsageError, match="unknown setting 'recal'"):
        NearDuplicateFinder(recal=0.9)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="text 1 is of the type NoneType; give texts"):
        NearDuplicateFinder().find(["a", None], ["a", "b"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="action='keep' is unknown; choose drop or mark"):
        require_action("keep")


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("datatrove", "datatrove.data", "datatrove"),
        ("langchain", "langchain_core.documents", "langchain"),
        ("llama_index", "llama_index.core.bridge.pydantic", "llama-index"),
        ("haystack", "haystack", "haystack"),
    ],
)
def test_a_missing_library_names_the_extra(
    name: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"nearkin.integrations.{name}", raising=False)
    with pytest.raises(MissingExtraError, match=rf'pip install "\.\[{extra}\]"'):
        import_module(f"nearkin.integrations.{name}")


def test_texts_are_sent_in_batches_that_the_index_takes() -> None:
    finder = NearDuplicateFinder(max_batch=2)
    assert finder.find([TEXT, "a dog", TEXT], ["a", "b", "c"]) == [None, None, "a"]


def test_a_scope_is_checked_before_the_first_call() -> None:
    with pytest.raises(UsageError, match=r"scope 'a.x00' is not valid"):
        NearDuplicateFinder("sqlite:///kin.db", "a\0")
