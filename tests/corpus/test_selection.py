"""Tests of patterns that include and exclude files, and of the account of what was read."""

import json
import os
from pathlib import Path

import pytest

from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.inputs import Selection, find_inputs, matches_pattern
from nearkin.errors import UsageError
from nearkin.runs.api import dedup
from tests.corpus.samples import run_command, run_dedup_on

FILES = ["README.md", "a.csv", "b.jsonl", "old/a.csv", "old/notes.txt", "sub/deep/c.csv"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with data files, and with texts beside them."""
    for name in FILES:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"the content of the file {name.replace('/', ' ')}"
        contents = {
            ".csv": f"text\n{text}\n",
            ".jsonl": json.dumps({"text": text}) + "\n",
        }
        path.write_text(contents.get(path.suffix, text))
    return tmp_path / "data"


def names_with(*inputs: Path | str, **patterns: tuple[str, ...]) -> list[str]:
    """Returns the relative names of the files that a selection finds."""
    return [file.name for file in find_inputs(list(map(str, inputs)), Selection(**patterns)).files]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ((), (), FILES),
        (("*.csv",), (), ["a.csv", "old/a.csv", "sub/deep/c.csv"]),
        (("*.csv", "*.jsonl"), ("old",), ["a.csv", "b.jsonl", "sub/deep/c.csv"]),
        ((), ("*.md", "old/"), ["a.csv", "b.jsonl", "sub/deep/c.csv"]),
        ((), ("**/a.csv",), ["README.md", "b.jsonl", "old/notes.txt", "sub/deep/c.csv"]),
        ((), ("old/a.csv",), ["README.md", "a.csv", "b.jsonl", "old/notes.txt", "sub/deep/c.csv"]),
        (("sub/*.csv",), (), ["c.csv"]),
    ],
)
def test_patterns_select_files_of_folders(
    include: tuple[str, ...], exclude: tuple[str, ...], expected: list[str], folder: Path
) -> None:
    assert names_with(folder, include=include, exclude=exclude) == expected


def test_patterns_select_among_named_and_matched_files(folder: Path) -> None:
    named = [folder / name for name in FILES]
    assert names_with(*named, exclude=("*.md", "notes.*")) == [
        "a.csv",
        "b.jsonl",
        "old/a.csv",
        "sub/deep/c.csv",
    ]
    everything = f"{folder}/**"
    assert names_with(everything, include=("*.csv",), exclude=("old/*",)) == [
        "a.csv",
        "sub/deep/c.csv",
    ]


def test_patterns_select_among_urls() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for name in FILES:
        memory.pipe(f"/selection/{name}", b"text\na\n")
    for given in ("memory://selection", "memory://selection/**"):
        found = names_with(given, include=("*.csv",), exclude=("old/",))
        assert found == ["a.csv", "sub/deep/c.csv"]


def test_files_that_patterns_leave_out_are_listed_with_the_reason(folder: Path) -> None:
    listing = find_inputs([str(folder)], Selection(include=("*.csv", "*.md"), exclude=("*.md",)))
    reasons = {os.path.relpath(entry.path, folder): entry.reason for entry in listing.skipped}
    assert reasons == {
        "README.md": "it matches `exclude`",
        "b.jsonl": "it matches no `include`",
        "old/notes.txt": "it matches no `include`",
    }


def test_patterns_that_leave_nothing_are_an_error(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no files in the folder .* it matches no `include`"):
        find_inputs([str(folder)], Selection(include=("*.parquet",)))
    with pytest.raises(UsageError, match=r"no inputs are left: .*a\.csv: it matches `exclude`"):
        find_inputs([str(folder / "a.csv")], Selection(exclude=("*.csv",)))


@pytest.mark.parametrize("patterns", ["*.csv", [""], [3]])
def test_invalid_patterns_are_an_error(patterns: object, folder: Path) -> None:
    with pytest.raises(UsageError, match=r"`include`|include="):
        dedup(folder, include=patterns)  # type: ignore[arg-type]


def test_pattern_with_brackets_matches_one_character() -> None:
    assert matches_pattern("part-1.csv", "part-[0-4].csv")
    assert not matches_pattern("part-7.csv", "part-[0-4].csv")


def test_texts_beside_data_files_of_a_folder_are_a_warning(folder: Path) -> None:
    corpus = FileCorpus.open([str(folder)])
    (warning,) = corpus.describe_doubts(Columns())
    assert "read 'README.md' and 1 more as one text each" in warning
    assert "exclude=['*.md', '*.txt']" in warning


@pytest.mark.parametrize("columns", [Columns(id="id"), Columns(text="body")])
def test_texts_that_lack_a_column_of_the_tables_are_named_with_the_remedy(
    columns: Columns, folder: Path
) -> None:
    for name, content in (("a.csv", "id,body,text\n"), ("b.jsonl", ""), ("LICENSE", "free")):
        (folder / name).write_text(content)
    for path in ("old/a.csv", "sub/deep/c.csv"):
        (folder / path).write_text("id,body,text\n")
    message = (
        r"cannot read 'LICENSE' and 2 more beside files with rows, .* leave such files out with "
        r"exclude=\['LICENSE', '\*\.md', '\*\.txt'\]"
    )
    with pytest.raises(UsageError, match=message):
        FileCorpus.open([str(folder)]).check(columns)
    selection = Selection(exclude=("LICENSE", "*.md", "*.txt"))
    FileCorpus.open([str(folder)], selection=selection).check(columns)


def test_faults_of_tables_are_told_before_texts_that_lie_beside_them(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"\.csv has no column 'txt'.* did you mean 'text'"):
        FileCorpus.open([str(folder)]).check(Columns(text="txt"))


def test_a_picture_beside_tables_is_named_with_the_remedy(folder: Path) -> None:
    (folder / "old" / "Photo.PNG").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    with pytest.raises(UsageError, match=r"read 'old/Photo.PNG' beside .* exclude=\['\*\.PNG'\]"):
        FileCorpus.open([str(folder)]).check(Columns())


def test_folder_of_texts_and_named_texts_are_no_warning(folder: Path) -> None:
    (folder / "old" / "a.csv").unlink()
    assert FileCorpus.open([str(folder / "old")]).describe_doubts(Columns()) == []
    named = [str(folder / "a.csv"), str(folder / "README.md")]
    assert FileCorpus.open(named).describe_doubts(Columns()) == []


def test_account_of_files_of_one_kind_is_empty(folder: Path) -> None:
    assert FileCorpus.open([str(folder / "a.csv")]).describe_files(Columns()) == ""
    assert FileCorpus.open([f"{folder}/**/*.csv"]).describe_files(Columns()) == ""


def test_account_of_inputs_counts_files_by_kind(folder: Path) -> None:
    (folder / "b.jsonl").rename(folder / "_b.jsonl")
    (folder / "old" / "a.csv").write_text("id;text\n1;one\n")
    corpus = FileCorpus.open([str(folder)])
    assert corpus.describe_files(Columns()) == (
        "Inputs: 2 .csv files, 1 .csv file (separated by ';'), 1 .md file (one text each), "
        "1 .txt file (one text each), 1 skipped"
    )


def test_selection_is_an_option_of_commands_and_of_the_library(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--include", "*.csv", "--include", "*.jsonl", "--exclude", "old"]
    for command, out in (("dedup", "out"), ("pairs", "p.parquet"), ("lab sketch", "s.arrow")):
        assert run_command(*command.split(), folder, *options, "--out", tmp_path / out) == 0
        assert "Inputs: 2 .csv files, 1 .jsonl file, 3 skipped" in capsys.readouterr().err
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert [entry["name"] for entry in record["inputs"]] == ["a.csv", "b.jsonl", "sub/deep/c.csv"]
    assert len(dedup(folder, include=["*.csv"], exclude=["old"])) == 2
    warnings = run_dedup_on([str(folder)], tmp_path / "all")["warnings"]
    assert any("README.md" in warning for warning in warnings)
