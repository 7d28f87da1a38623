"""Template families: documents that are equal but for masked values."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.quality.evaluate.template_families import LISTED_FAMILIES, MAX_BYTES, TemplateFamilies
from nearkin.reports.model import ReportData

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def make_lines(seed: int, families: dict[str, int]) -> list[str]:
    """Returns lines of templates, in which `#` stands for a number, and prose, in random order."""
    rng = random.Random(seed)
    lines = [
        re.sub("#", lambda _: str(rng.randrange(10**6)), template)
        for template, count in families.items()
        for _ in range(count)
    ]
    lines += [" ".join(rng.choices(WORDS, k=12)) for _ in range(40)]
    rng.shuffle(lines)
    return lines


def templates_of(lines: list[str], **options: object) -> TemplateFamilies | None:
    settings = {"threshold": 0.8, **options}
    result = nk.dedup(lines, **settings)  # type: ignore[arg-type]
    data = result.report_data
    assert ReportData.from_json(data.to_json()) == data
    return data.templates


def test_families_are_the_sets_of_texts_that_differ_in_masked_values_alone() -> None:
    families = {
        "user # opened the door # of house": 30,
        "job # ended with code # after # seconds": 12,
        "only # four of these": 4,
        "# #": 20,
    }
    lines = make_lines(1, families)
    found = templates_of(lines)
    assert found is not None
    # by another expression than that of the masks, in another order
    digits = [re.sub(r"\d+", "‹number›", line) for line in lines]
    expected = {
        skeleton: count
        for skeleton in set(digits)
        if (count := digits.count(skeleton)) >= 5 and re.sub("‹number›", "", skeleton).strip()
        if len({line for line, own in zip(lines, digits, strict=True) if own == skeleton}) >= 5
    }
    assert len(expected) == 2
    assert {family.skeleton: family.documents for family in found.largest} == expected
    assert found.examined == len(lines)
    assert (found.families, found.documents) == (2, 42)
    assert found.largest[0].documents == 30


def test_copies_of_one_text_and_prose_are_no_family() -> None:
    assert templates_of(["the same line with number 7 in it"] * 50) is None
    assert templates_of(make_lines(2, {"one # two": 4})) is None
    assert templates_of([]) is None
    assert templates_of(["", " ", "12", "13", "14", "15", "16", "17"]) is None


def test_family_says_how_many_clusters_it_is_in() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    lines = make_lines(3, {f"{words} #": 10, "a # b # c # d #": 10})
    found = templates_of(lines, shingle="words:1", threshold=0.7)
    assert found is not None
    clusters = {family.skeleton.count("‹"): family.clusters for family in found.largest}
    assert clusters == {1: 1, 4: 10}


def test_long_documents_are_not_examined_and_few_families_are_listed() -> None:
    letters = "abcdefghijklmn"
    lines = make_lines(4, {f"{letter * 5} #": 6 for letter in letters})
    long = [f"{'word ' * (MAX_BYTES // 4)}{number}" for number in range(10)]
    found = templates_of([*lines, *long])
    assert found is not None
    assert found.examined == len(lines)
    assert found.families == len(letters)
    assert len(found.largest) == LISTED_FAMILIES


def test_documents_beyond_the_sample_are_drawn_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.quality.evaluate.boilerplate.MAX_SAMPLE", 300)
    lines = make_lines(5, {"user # opened the door": 600, "job # ended # times": 360})
    found = templates_of(lines)
    assert found is not None
    assert found.examined == 300
    share = found.largest[0].documents / found.examined
    # the standard deviation of the share in a sample without replacement is below this one
    assert abs(share - 0.6) < 4 * np.sqrt(0.6 * 0.4 / 300)


def test_tokens_and_vectors_have_no_families() -> None:
    tokens = {"tokens": [["user", str(number), "came"] for number in range(20)]}
    assert nk.dedup(tokens, tokens="tokens").report_data.templates is None
    vectors = {"v": [[1.0, number / 20] for number in range(20)]}
    assert nk.dedup(vectors, vector="v").report_data.templates is None


def test_summary_and_report_show_the_largest_family(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A summary has at most eight lines, and details are left out if there is no room.
    monkeypatch.setenv("COLUMNS", "200")
    hostile = "<b>user</b> # \u001b[31mopened # from 10.0.0.7 on 2026-01-31"
    rows = [{"text": line} for line in make_lines(6, {hostile: 20})]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out"
    assert run(["dedup", str(path), "--output", "none", "--out", str(out)]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "20 of 60 examined documents are in 1 template family; the largest has 20: " in printed
    assert "‹number›" in printed
    assert "\u001b[31m" not in printed
    page = (out / "report.html").read_text()
    assert "&lt;b&gt;user&lt;/b&gt; ‹number›" in page
    assert "from ‹ip› on ‹date›" in page
    assert b"template" not in (out / "run.json").read_bytes()
    assert json.loads((out / "report.json").read_bytes())["templates"]["families"] == 1


def test_report_of_a_run_without_families_does_not_mention_them(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in make_lines(7, {})))
    assert run(["dedup", str(path), "--quiet", "--out", str(tmp_path / "out")]) == 0
    assert "templates" not in json.loads((tmp_path / "out" / "report.json").read_bytes())
    assert 'id="templates"' not in (tmp_path / "out" / "report.html").read_text()
