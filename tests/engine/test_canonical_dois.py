"""The forms of one DOI are one value, wherever values of columns are compared."""

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.engine.canonical_dois import canonicalize_dois
from nearkin.engine.document_facts import NULL_VALUE, compared_value_hashes
from nearkin.engine.value_keys import ValueColumn

FORMS = (
    *(
        "10.1/X",
        "10.1/x",
        " 10.1/x\n",
        "doi:10.1/x",
        "DOI 10.1/X",
        "DOI: 10.1/x",
        "info:doi/10.1/x",
    ),
    *("urn:doi:10.1/x", "https://doi.org/10.1/X", "http://dx.doi.org/10.1/x", "doi.org/10.1/x"),
    *("doi: https://doi.org/10.1/x", "https://doi.org/doi:10.1/x", "10.1/x.", "10.1/x/", "10.1/x;"),
    *("(10.1/x)", "<https://doi.org/10.1/x>", "[doi:10.1/x].", "\u00a010.1/x\u200b"),
    *("HTTPS://WWW.DOI.ORG/10.1/x", "https://doi.org/10.1%2Fx?utm_source=mail#abstract"),
)
OTHER_VALUES = (
    *("10.1/x.2", "10.1/xy", "10.10/x", "10.1", "10./x", "x", "X", "doi:", "https://doi.org/", " "),
    *("10.1/x(y)", "(10.1/x", "10.1/x)", "(" * 5000 + "10.1/x" + ")" * 5000),
    *("10.1/x y", "see 10.1/x", "https://example.com/10.1/x", "10.1/É", "10.1/é"),
)


def test_forms_of_a_doi_have_one_canonical_form_and_other_values_stay() -> None:
    values = pa.array([*FORMS, *OTHER_VALUES, None], pa.large_string())
    canonical = canonicalize_dois(values).to_pylist()
    assert canonical[: len(FORMS)] == ["10.1/x"] * len(FORMS)
    assert canonical[len(FORMS) :] == [*OTHER_VALUES, None]
    assert len(canonicalize_dois(values.slice(0, 0))) == 0


def test_an_address_is_decoded_and_a_doi_is_not() -> None:
    values = pa.array(["https://doi.org/10.1/%3CA%3E", "10.1/%3CA%3E", "10.1/<a>"])
    canonical = canonicalize_dois(values.cast(pa.large_string())).to_pylist()
    assert canonical == ["10.1/<a>", "10.1/%3ca%3e", "10.1/<a>"]


def test_values_of_conditions_are_equal_as_those_of_duplicates_are() -> None:
    values = pa.array([*FORMS, *OTHER_VALUES, None, ""], pa.string())
    hashes = compared_value_hashes(values).tolist()
    assert set(hashes[: len(FORMS)]) == {hashes[0]}
    assert len(set(hashes)) == 2 + len(OTHER_VALUES)
    assert hashes[-2:] == [NULL_VALUE] * 2
    for holds_urls in (False, True):
        column = ValueColumn("doi", holds_urls=holds_urls)
        keys = [tuple(key) for key in column.build_keys(values).tolist()]
        assert set(keys[: len(FORMS)]) == {keys[0]}
        assert keys[0] not in keys[len(FORMS) :]


@pytest.mark.parametrize("option", ["same", "url"])
def test_documents_of_one_doi_are_duplicates(option: str) -> None:
    table = {
        "id": list("abc"),
        "text": ["one two", "three", "four"],
        "doi": [*FORMS[7:9], "10.1/y"],
    }
    result = nk.dedup(table, id="id", **{option: "doi"})
    assert result.clusters["cluster"].to_pylist() == ["a", "a", "c"]
