"""Tests of explanations of documents of a run over several fields."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from nearkin.cli.app import run
from nearkin.quality.evaluate.explain_fields import FieldRelation, FieldsExplanation
from nearkin.reports.explanation import print_explanation
from nearkin.runs.reopen import explain_in_run
from nearkin.stages.measures.explanation import PairVerdict

FIELDS = (
    "title:jaccard>=0.5",
    "tags:jaccard>=0.6",
    "image:hamming<=4",
    "embedding:cosine>=0.9",
)
CONDITION = "title and (image or tags) or embedding"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fields")
    rows: list[dict[str, Any]] = [
        {"id": "a", "title": "flood at mill", "tags": ["x", "y", "z"], "image": 0},
        {"id": "copy", "title": "Flood at mill", "tags": ["x", "y", "z"], "image": 0},
        {"id": "match", "title": "flood at the mill", "tags": ["x", "q"], "image": 7},
        {"id": "far", "title": "flood at mill", "tags": ["x", "q"], "image": 255},
        {"id": "vector", "embedding": [1.0, 0.1]},
        {"id": "vectors", "embedding": [1.0, 0.0], "title": "rain"},
        {"id": "empty", "tags": ["x", "y", "z"], "image": 0},
        {"id": "blocked", "title": "flood at mill", "image": 0, "part": "other"},
    ]
    kinds = pa.schema(
        [
            ("id", pa.string()),
            ("title", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("image", pa.uint64()),
            ("embedding", pa.list_(pa.float32())),
            ("part", pa.string()),
        ]
    )
    source = place / "docs.parquet"
    rows = [{"part": "this", **row} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows, kinds), source)
    options = [word for field in FIELDS for word in ("--field", field)]
    options += ["--accept", CONDITION, "--id", "id", "--shingle", "words:1", "--quiet"]
    options += ["--block-by", "part", "--out", str(place / "out")]
    assert run(["dedup", str(source), *options]) == 0
    return place / "out"


def explained(folder: Path, a: str, b: str) -> FieldsExplanation:
    explanation = explain_in_run(folder, a, b)
    assert isinstance(explanation, FieldsExplanation)
    assert json.dumps(explanation.to_dict())
    return explanation


@pytest.mark.parametrize(
    ("a", "b", "verdict", "why"),
    [
        ("a", "copy", PairVerdict.EXACT, "all fields are equal; both are in the cluster of"),
        ("a", "match", PairVerdict.MATCH, "similar in title and image; both are in"),
        ("a", "far", PairVerdict.BELOW_THRESHOLD, "image: 8 bits differ, which does not satisfy"),
        ("a", "vector", PairVerdict.BELOW_THRESHOLD, "title: a document lacks it"),
        ("vector", "vectors", PairVerdict.MATCH, "holds: similar in embedding; both are in"),
        ("a", "empty", PairVerdict.EMPTY, "lacks a field of each alternative"),
        ("a", "blocked", PairVerdict.NOT_COMPARED, "'this' and 'other'"),
    ],
)
def test_the_field_that_decides_is_named(
    folder: Path, a: str, b: str, verdict: PairVerdict, why: str
) -> None:
    explanation = explained(folder, a, b)
    assert explanation.verdict == verdict
    assert why in explanation.why


def test_values_of_the_fields_are_exact(folder: Path) -> None:
    title, tags, image, embedding = explained(folder, "a", "match").fields
    assert (title.similarity, title.distance, title.holds) == (0.75, None, True)
    assert (tags.similarity, tags.condition, tags.holds) == (0.25, "jaccard/tokens>=0.6", False)
    assert (image.distance, image.holds) == (3, True)
    assert (embedding.similarity, embedding.holds) == (None, False)
    assert embedding.condition == "cosine/2>=0.9"


def test_the_command_shows_all_fields(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["explain", "a", "far", "--run", str(folder)]
    assert run(given) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "below the threshold" in shown
    assert "differs 0.2500" in shown
    assert f"condition {CONDITION}" in shown
    assert run([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fields"][2]["distance"] == 8
    assert run([*given, "--html", str(folder / "page.html")]) == 2
    assert not (folder / "page.html").exists()
    assert run(["explain", "a", "nobody", "--run", str(folder)]) == 2


def test_fields_are_a_table_of_80_columns_with_marked_differences(folder: Path) -> None:
    output = io.StringIO()
    print_explanation(explained(folder, "a", "match"), Console(file=output, width=80))
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    header = next(line for line in lines if line.startswith("field"))
    assert header.split() == ["field", "a", "match", "comparison"]
    title = next(line for line in lines if line.startswith("title"))
    assert "similar" in title
    # the run kept one of them, so its own words are marked as kept
    assert "{+the+}" in output.getvalue()
    relations = [field.relation for field in explained(folder, "a", "match").fields]
    similar, differs = FieldRelation.SIMILAR, FieldRelation.DIFFERENT
    assert relations == [similar, differs, similar, differs]
    equal = explained(folder, "a", "far").fields[0]
    assert equal.relation is FieldRelation.EQUAL
    assert equal.values == ("flood at mill", "flood at mill")
    assert explained(folder, "a", "match").fields[3].values == ("", "")
