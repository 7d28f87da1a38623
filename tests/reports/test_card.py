"""Tests of the section of a dataset card."""

from dataclasses import replace

import pytest
from huggingface_hub import DatasetCard

from nearkin.errors import UsageError
from nearkin.quality.evaluate.lost_share import LostShare
from nearkin.reports.card import (
    BEGIN,
    END,
    MAX_INPUTS,
    insert_section,
    render_metadata,
    render_section,
)
from nearkin.reports.model import Counts, LostReport, Parameters, ReportData

PARAMETERS = Parameters(
    threshold=0.5,
    recall=0.9,
    bands=16,
    rows=4,
    k=64,
    scheme="binned",
    shingle="words:3",
    verify="exact",
    cluster="leaders",
    keep="length desc",
    curve=(0.0, 0.96, 1.0),
)
COUNTS = Counts(read=4, kept=2, removed_exact=1, removed_near=1, clusters=1)
LOST = LostReport(LostShare("", 2, 0.125, 0.25, 40))
DATA = ReportData("news", PARAMETERS, COUNTS, lost=LOST)


def rows_of(section: str) -> dict[str, str]:
    cells = (line.strip("| ").split(" | ") for line in section.splitlines() if line[:2] == "| ")
    return {row[0]: row[1] for row in cells if len(row) == 2}


def test_a_section_has_the_figures_of_the_run() -> None:
    rows = rows_of(render_section(DATA, ["news.jsonl"]))
    assert rows["Rows read"] == "4"
    assert rows["Exact duplicates"] == "1 (25.0%)"
    assert rows["Similarity"] == "`jaccard` of `words:3`, at least 0.5"
    assert rows["Candidates"] == "16 bands of 4, signatures of 64 (`binned`)"
    assert rows["Recall of the pairs at the threshold"] == "0.960 expected, 0.900 requested"
    assert rows["Information lost"].startswith("12.5% of the shingles")
    assert rows["Inputs"] == "`news.jsonl`"


def test_a_run_that_compared_all_pairs_missed_none() -> None:
    section = render_section(replace(DATA, parameters=replace(PARAMETERS, bands=0)), [])
    assert rows_of(section)["Recall of the pairs at the threshold"].startswith("1, because all")


def test_names_of_strangers_stay_in_their_cell() -> None:
    section = render_section(DATA, [f"a|`b`\n{END}<script>", *map(str, range(MAX_INPUTS + 4))])
    assert section.count(END) == 1
    assert "a\\|'b' <! -- nearkin card: end --><script>`" in section
    assert section.rstrip().splitlines()[-3].endswith("`18` and 5 more |")


def test_metadata_is_what_the_hub_reads() -> None:
    text = render_metadata(DATA, ["kin/news"], "kept/**") + "# News"
    facts = DatasetCard(text).data.to_dict()
    assert facts == {
        "tags": ["deduplicated", "nearkin"],
        "size_categories": ["n<1K"],
        "source_datasets": ["kin/news"],
        "configs": [{"config_name": "default", "data_files": "kept/**"}],
    }


@pytest.mark.parametrize("before", [b"", b"# News", b"# News\r\n\r\ncaf\xe9\r\n", b"---\n---\n"])
def test_a_section_is_replaced_and_nothing_else(before: bytes) -> None:
    first = insert_section(before, f"{BEGIN}\nold\n{END}\n")
    assert first.startswith(before)
    after = first + b"more text"
    changed = insert_section(after, f"{BEGIN}\nnew\nlines\n{END}\n")
    assert changed.startswith(before)
    assert changed.endswith(b"more text")
    assert b"old" not in changed
    assert (b"\r\n" in before) == (b"new\r\nlines" in changed)
    assert insert_section(changed, f"{BEGIN}\nnew\nlines\n{END}\n") == changed


@pytest.mark.parametrize("damaged", [BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}\n{END}\n" * 2])
def test_marks_that_are_not_a_pair_are_refused(damaged: str) -> None:
    with pytest.raises(UsageError, match="are not one pair"):
        insert_section(damaged.encode(), f"{BEGIN}\n{END}\n")
