import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns, FileCorpus
from nearkin.engine import reference as local_reference
from nearkin.engine import run as local_run
from nearkin.engine import sketching
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError, UsageError
from nearkin.reports.files import read_report
from nearkin.runs.dedup import run_dedup
from nearkin.runs.document_output import DocumentOutput
from nearkin.runs.job import Job
from nearkin.runs.loading import load_run
from nearkin.runs.reopen import audit_run
from nearkin.runs.review_queue import collect_review_queue
from nearkin.runs.run_record import RunRecord, read_run_record
from nearkin.runs.saved import SavedRun
from nearkin.runtime.progress import Silent
from nearkin.settings.decisions import Decisions
from nearkin.settings.spec import Spec
from tests.engine.reference_oracle import dedup_by_oracle, make_texts, read_rows, share_texts


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    """New documents and a reference, whose ids collide."""
    old = make_texts(11, 80)
    new = share_texts(11, old, 60)
    return tuple(
        pa.table({"id": [f"d{number}" for number in range(len(texts))], "text": texts})
        for texts in (new, old)
    )


@pytest.fixture
def files(tmp_path: Path, tables: tuple[pa.Table, pa.Table]) -> tuple[Path, Path]:
    """The new documents and the reference as files."""
    new, old = tables
    paths = (tmp_path / "new.parquet", tmp_path / "old" / "old.parquet")
    for path, table in zip(paths, tables, strict=True):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
    assert new.num_rows < old.num_rows
    return paths


def dedup(inputs: Path, out: Path, against: Path | list[Path] | None, **other: Any) -> RunRecord:
    names = [name for name in other if name in RunOptions.__dataclass_fields__]
    options = {name: other.pop(name) for name in names}
    references = against if isinstance(against, list) else [against] if against else []
    settings = RunOptions(**{"threshold": 0.6, **options})
    job = Job(
        (str(inputs),),
        out,
        Columns(id="id", carried_columns=settings.carried_columns),
        settings,
        against=tuple(map(str, references)),
        **other,
    )
    return run_dedup(job, Silent())


def clusters_of(out: Path) -> pa.Table:
    return pq.read_table(out / "clusters.parquet")


def test_files_of_the_reference_are_neither_removed_nor_copied(
    tmp_path: Path, files: tuple[Path, Path], tables: tuple[pa.Table, pa.Table]
) -> None:
    new, old = files
    before = old.read_bytes()
    record = dedup(new, tmp_path / "out", old)
    want = dedup_by_oracle(*tables, 0.6)
    assert read_rows(clusters_of(tmp_path / "out")) == want
    kept = pq.read_table(tmp_path / "out" / "kept" / "new.parquet")
    assert kept["id"].to_pylist() == [row.id for row in want if row.kept]
    assert [path.name for path in (tmp_path / "out" / "kept").iterdir()] == ["new.parquet"]
    assert old.read_bytes() == before
    content = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert content["against"]["paths"] == [str(old)]
    assert content["against"]["files"][0][0]["name"] == "old.parquet"
    assert content["counts"]["removed_reference"] == record.stats.against.removed > 0
    assert RunRecord.from_json(content).to_json() == content


def test_folders_patterns_and_several_references_are_one_reference(
    tmp_path: Path, files: tuple[Path, Path], tables: tuple[pa.Table, pa.Table]
) -> None:
    new, old = files
    old_table = tables[1]
    pq.write_table(old_table.slice(0, 30), tmp_path / "a.parquet")
    pq.write_table(old_table.slice(30), tmp_path / "b.parquet")
    dedup(new, tmp_path / "one", old.parent)
    dedup(new, tmp_path / "two", [tmp_path / "b.parquet", tmp_path / "[a].parquet"])
    assert clusters_of(tmp_path / "one") == clusters_of(tmp_path / "two")


def test_saved_signatures_are_not_sketched_again(
    tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = files
    dedup(old, tmp_path / "saved", None, save_signatures=True)
    sketched: list[Any] = []
    sketch = sketching.sketch_corpus

    def record_names(corpus: Any, *rest: Any, **options: Any) -> Any:
        sketched.extend(corpus.names)
        return sketch(corpus, *rest, **options)

    monkeypatch.setattr(sketching, "sketch_corpus", record_names)
    dedup(new, tmp_path / "out", tmp_path / "saved", bands=64, rows=2)
    assert sketched == ["new.parquet"]


def read_related(out: Path) -> list[dict[str, Any]]:
    return pq.read_table(out / "related.parquet").to_pylist()


def test_related_documents_of_a_saved_run_are_those_of_its_kept_files(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    new, old = files
    options = {"related": 0.2, "bands": 128, "rows": 1}
    dedup(old, tmp_path / "saved", None, save_signatures=True, save_hashes=True, **options)
    record = dedup(new, tmp_path / "run", tmp_path / "saved", **options)
    dedup(new, tmp_path / "files", tmp_path / "saved" / "kept", **options)
    assert clusters_of(tmp_path / "run") == clusters_of(tmp_path / "files")
    rows = read_related(tmp_path / "run")
    assert rows == read_related(tmp_path / "files")
    assert {row["matched_in"] for row in rows} == {"reference", "this run"}
    assert record.counts["related_pairs"] == len(rows)
    queue = collect_review_queue(tmp_path / "run", Decisions(), 1000)
    in_run = {
        frozenset((row["id_a"], row["id_b"])) for row in rows if row["matched_in"] != "reference"
    }
    scored = pq.read_table(tmp_path / "run" / "pairs.parquet").to_pylist()
    in_run |= {frozenset((row["id_a"], row["id_b"])) for row in scored}
    assert {frozenset((pair.id_a, pair.id_b)) for pair in queue.pairs} == in_run


@pytest.fixture
def sourced_files(tmp_path: Path, tables: tuple[pa.Table, pa.Table]) -> tuple[Path, Path]:
    """The new documents and the reference as files, with a column of sources and one of keys."""
    paths = (tmp_path / "new.parquet", tmp_path / "old.parquet")
    for path, table in zip(paths, tables, strict=True):
        sources = pa.array([f"s{number % 2}" for number in range(table.num_rows)])
        keys = pa.array([None if number % 3 else f"k{number}" for number in range(table.num_rows)])
        table = table.append_column("source", sources).append_column("key", keys)
        pq.write_table(table, path)
    return paths


@pytest.mark.parametrize(
    ("accept", "saving"),
    [
        pytest.param("contained", {"save_hashes": True}, marks=pytest.mark.full),
        ("jaccard >= 0.3 and witness >= 8 and same(source)", {"save_hashes": True}),
        pytest.param(
            "jaccard >= 0.3 and numbers_equal and same(source)", {}, marks=pytest.mark.full
        ),
        ("jaccard >= 0.3 and (says_all or differ(source))", {}),
    ],
    ids=["contained", "tokens and a column", "numbers and a column", "wordings and a column"],
)
def test_condition_holds_for_a_saved_run_as_for_its_kept_files(
    accept: str, saving: dict[str, Any], tmp_path: Path, sourced_files: tuple[Path, Path]
) -> None:
    new, old = sourced_files
    bands = {"bands": 128, "rows": 1}
    dedup(old, tmp_path / "saved", None, save_signatures=True, accept=accept, **bands, **saving)
    record = dedup(new, tmp_path / "run", tmp_path / "saved", accept=accept, **bands)
    dedup(new, tmp_path / "files", tmp_path / "saved" / "kept", accept=accept, **bands)
    assert clusters_of(tmp_path / "run") == clusters_of(tmp_path / "files")
    assert record.counts["removed_reference"] > 0
    assert record.lost["unmeasured"] == 0


@pytest.mark.parametrize(
    ("accept", "reason"),
    [
        ("jaccard >= 0.3 and same(source)", "it has not kept the column 'source'"),
        pytest.param(
            "jaccard >= 0.3 and numbers_equal",
            "it has not kept the numbers of the texts",
            marks=pytest.mark.full,
        ),
    ],
)
def test_saved_run_without_what_a_condition_compares_is_sketched_again_or_refused(
    accept: str, reason: str, tmp_path: Path, sourced_files: tuple[Path, Path]
) -> None:
    new, old = sourced_files
    dedup(old, tmp_path / "saved", None, save_signatures=True)
    dedup(new, tmp_path / "run", tmp_path / "saved", accept=accept)
    dedup(new, tmp_path / "files", tmp_path / "saved" / "kept", accept=accept)
    assert clusters_of(tmp_path / "run") == clusters_of(tmp_path / "files")
    shutil.rmtree(tmp_path / "saved" / "kept")
    with pytest.raises(UsageError, match=f"{reason}.*give the files of the documents"):
        dedup(new, tmp_path / "out", tmp_path / "saved", accept=accept)
    assert not list(tmp_path.glob("out*"))


def test_equal_values_of_a_saved_run_are_those_of_its_kept_files(
    tmp_path: Path, sourced_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = sourced_files
    dedup(old, tmp_path / "saved", None, save_signatures=True, keep="key asc")
    options = {"same": "key", "related": 0.2}
    dedup(new, tmp_path / "files", tmp_path / "saved" / "kept", **options)

    def fail(*_: object) -> None:
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(local_run.Run, "group_exact_duplicates", fail)
        with pytest.raises(RuntimeError):
            dedup(new, tmp_path / "run", tmp_path / "saved", **options)
    record = dedup(new, tmp_path / "run", tmp_path / "saved", resume=True, **options)
    assert clusters_of(tmp_path / "run") == clusters_of(tmp_path / "files")
    related = read_related(tmp_path / "run")
    assert related == read_related(tmp_path / "files")
    assert record.counts["removed_reference_same"] > 0
    kinds = {row["id"]: row["kind"] for row in clusters_of(tmp_path / "run").to_pylist()}
    assert "same" not in {kinds[row["id_a"]] for row in related}


def test_saved_run_without_the_column_of_values_is_refused(
    tmp_path: Path, sourced_files: tuple[Path, Path]
) -> None:
    new, old = sourced_files
    dedup(old, tmp_path / "saved", None, save_signatures=True, documents=DocumentOutput("none"))
    with pytest.raises(UsageError, match=r"it has not kept the column 'key'.*give the files"):
        dedup(new, tmp_path / "out", tmp_path / "saved", same="key")
    pq.write_table(pq.read_table(old).drop_columns("key"), tmp_path / "bare.parquet")
    with pytest.raises(UsageError, match=r"bare\.parquet has no column 'key'"):
        dedup(new, tmp_path / "out", tmp_path / "bare.parquet", same="key")
    assert not list(tmp_path.glob("out*"))


def test_report_quotes_the_documents_of_the_reference_beside_those_that_lost_most(
    tmp_path: Path, files: tuple[Path, Path], tables: tuple[pa.Table, pa.Table]
) -> None:
    new, old = files
    record = dedup(new, tmp_path / "out", old, only_against=True, accept="jaccard >= 0.6")
    texts = [
        dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
        for table in tables
    ]
    data = read_report(tmp_path / "out")
    assert data.lost is not None
    worst = data.lost.worst
    assert 0 < len(worst) <= 20
    removed = {row["id"]: row for row in clusters_of(tmp_path / "out").to_pylist()}
    for example in worst:
        assert example.in_reference
        assert example.kept == removed[example.removed]["duplicate_of"]
        assert example.text_removed == texts[0][example.removed]
        assert example.text_kept == texts[1][example.kept]
    assert data.lost.total.removed == record.counts["removed_reference"]


def test_resumed_run_keeps_the_related_documents_of_the_reference(
    tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = files
    dedup(new, tmp_path / "whole", old, related=0.2)

    def fail(*_: object) -> None:
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(local_run.Run, "elect_documents", fail)
        with pytest.raises(RuntimeError):
            dedup(new, tmp_path / "out", old, related=0.2)
    dedup(new, tmp_path / "out", old, related=0.2, resume=True)
    assert clusters_of(tmp_path / "out") == clusters_of(tmp_path / "whole")
    assert read_related(tmp_path / "out") == read_related(tmp_path / "whole")


@pytest.mark.parametrize("case", ["words", "chars", "resumed"])
def test_texts_of_a_reference_with_saved_hashes_are_not_read(
    case: str, tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = files
    options: dict[str, Any] = {"spec": Spec(unit="chars", n=4) if case == "chars" else Spec()}
    saving = {**options, "save_signatures": True, "save_hashes": True}
    saved = tmp_path / "saved"
    if case == "resumed":
        with monkeypatch.context() as context:
            context.setattr(local_run, "write_sets", _fail_to_write)
            with pytest.raises(RunError, match="no space"):
                dedup(old, saved, None, **saving)
        dedup(old, saved, None, resume=True, **saving)
    else:
        dedup(old, saved, None, **saving)
    dedup(new, tmp_path / "want", saved, **options)
    assert read_rows(clusters_of(tmp_path / "want")) != []
    (saved / "signatures" / "set-ends").rename(tmp_path / "set-ends")
    dedup(new, tmp_path / "from-texts", saved, **options)
    assert clusters_of(tmp_path / "from-texts") == clusters_of(tmp_path / "want")
    (tmp_path / "set-ends").rename(saved / "signatures" / "set-ends")
    read: list[str] = []
    read_slices = FileCorpus.read_slices

    def record_names(corpus: FileCorpus, number: int, *rest: Any, **other: Any) -> Any:
        read.append(corpus.files[number].name)
        return read_slices(corpus, number, *rest, **other)

    monkeypatch.setattr(FileCorpus, "read_slices", record_names)
    dedup(new, tmp_path / "out", saved, **options)
    assert set(read) == {"new.parquet"}
    assert clusters_of(tmp_path / "out") == clusters_of(tmp_path / "want")
    assert json.loads((saved / "run.json").read_bytes())["save_hashes"] is True


def test_damaged_hashes_of_a_reference_are_refused(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    new, old = files
    saved = tmp_path / "saved"
    dedup(old, saved, None, save_signatures=True, save_hashes=True)
    dedup(new, tmp_path / "want", saved)
    hashes = saved / "signatures" / "set-upper"
    damaged = bytes(byte ^ 90 for byte in hashes.read_bytes())
    hashes.unlink()
    hashes.write_bytes(damaged)
    with pytest.raises(RunError, match=r"delete .*set-upper, so that the texts are read"):
        dedup(new, tmp_path / "out", saved)
    hashes.unlink()
    dedup(new, tmp_path / "out", saved, resume=True)
    assert clusters_of(tmp_path / "out") == clusters_of(tmp_path / "want")


def _fail_to_write(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "no space")


def test_hashes_that_cannot_be_saved_are_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    new, old = files
    for options, message in (
        ({"save_hashes": True}, "add save_signatures=True"),
        (
            {"save_hashes": True, "save_signatures": True, "spec": Spec(measure="simhash")},
            "measure='simhash' is not",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            dedup(new, tmp_path / "out", None, **options)
    dedup(old, tmp_path / "saved", None, save_signatures=True)
    saving = {"save_hashes": True, "save_signatures": True}
    with pytest.raises(UsageError, match="needs the shingle hashes of the texts"):
        dedup(tmp_path / "saved", tmp_path / "out", None, **saving)
    dedup(old, tmp_path / "hashed", None, **saving)
    dedup(tmp_path / "hashed", tmp_path / "again", None, **saving)
    dedup(tmp_path / "hashed", tmp_path / "without", None, save_signatures=True)
    for name in ("set-ends", "set-upper", "set-lower", "set-checksums"):
        want = (tmp_path / "hashed" / "signatures" / name).read_bytes()
        assert (tmp_path / "again" / "signatures" / name).read_bytes() == want
        assert not (tmp_path / "without" / "signatures" / name).exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("save_signatures", [True, False])
def test_reference_of_a_run_is_its_kept_documents(
    tmp_path: Path,
    files: tuple[Path, Path],
    tables: tuple[pa.Table, pa.Table],
    save_signatures: bool,
) -> None:
    new, old = files
    dedup(old, tmp_path / "saved", None, save_signatures=save_signatures)
    dedup(new, tmp_path / "out", tmp_path / "saved")
    kept = pq.read_table(tmp_path / "saved" / "kept" / "old.parquet")
    assert 10 < kept.num_rows < tables[1].num_rows
    want = dedup_by_oracle(tables[0], kept, 0.6)
    assert read_rows(clusters_of(tmp_path / "out")) == want


@pytest.mark.parametrize(
    "spec", [Spec(n=2), Spec(k=64), Spec(seed=9), Spec(measure="simhash", k=64)], ids=str
)
def test_reference_of_another_spec_is_sketched_again(
    tmp_path: Path, files: tuple[Path, Path], spec: Spec
) -> None:
    new, old = files
    dedup(old, tmp_path / "saved", None, save_signatures=True, spec=spec)
    dedup(new, tmp_path / "out", tmp_path / "saved")
    dedup(new, tmp_path / "other", tmp_path / "saved" / "kept")
    assert clusters_of(tmp_path / "out") == clusters_of(tmp_path / "other")


def test_reference_whose_inputs_are_gone_is_sketched_again(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    new, old = files
    dedup(old, tmp_path / "saved", None, save_signatures=True)
    dedup(new, tmp_path / "before", tmp_path / "saved")
    shutil.rmtree(old.parent)
    dedup(new, tmp_path / "after", tmp_path / "saved")
    assert clusters_of(tmp_path / "before") == clusters_of(tmp_path / "after")


@pytest.mark.parametrize("is_replaced", [True, False], ids=["replaced", "deleted"])
def test_saved_run_that_changes_during_a_run_is_detected(
    tmp_path: Path,
    files: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    is_replaced: bool,
) -> None:
    new, old = files
    saved = tmp_path / "saved"
    dedup(old, saved, None, save_signatures=True)
    match = local_reference.ReferenceMatcher.match

    def change_and_match(*arguments: Any) -> Any:
        if is_replaced:
            dedup(new, saved, None, save_signatures=True, overwrite=True)
        else:
            shutil.rmtree(saved)
        return match(*arguments)

    monkeypatch.setattr(local_reference.ReferenceMatcher, "match", change_and_match)
    with pytest.raises(RunError, match="has changed" if is_replaced else "cannot read"):
        dedup(new, tmp_path / "out", saved, verify="estimate")
    assert not (tmp_path / "out").exists()


def damage_rows_of_clusters(saved: Path) -> None:
    pq.write_table(clusters_of(saved).slice(5), saved / "clusters.parquet")


def damage_clusters(saved: Path) -> None:
    (saved / "clusters.parquet").write_bytes(b"PAR1")


def delete_clusters(saved: Path) -> None:
    (saved / "clusters.parquet").unlink()


def cut_signatures(saved: Path) -> None:
    (saved / "signatures" / "signatures").write_bytes(bytes(100))


def delete_lengths(saved: Path) -> None:
    (saved / "signatures" / "lengths").unlink()


DAMAGES = [
    (damage_rows_of_clusters, r"clusters.parquet has 75 rows, and the run had 80 documents"),
    (damage_clusters, r"cannot read \S+clusters.parquet"),
    (delete_clusters, "clusters.parquet"),
    (cut_signatures, r"signatures has 100 bytes instead of 40,960"),
    (delete_lengths, r"cannot read \S+lengths: No such file"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES, ids=[each[0].__name__ for each in DAMAGES])
def test_damaged_run_is_refused_or_its_copies_are_sketched(
    tmp_path: Path, files: tuple[Path, Path], damage: Callable[[Path], None], reason: str
) -> None:
    new, old = files
    saved = tmp_path / "saved"
    dedup(old, saved, None, save_signatures=True)
    dedup(new, tmp_path / "before", saved)
    damage(saved)
    with pytest.raises(UsageError, match=reason):
        load_run(
            SavedRun(saved, read_run_record(saved / "run.json")),
            f"sqlite:///{tmp_path / 'kin.db'}",
            "default",
            None,
            "leaders",
        )
    assert not (tmp_path / "kin.db").exists()
    dedup(new, tmp_path / "after", saved)
    assert clusters_of(tmp_path / "before") == clusters_of(tmp_path / "after")
    shutil.rmtree(saved / "kept")
    with pytest.raises(UsageError, match=f"{reason}.*has no copies of them"):
        dedup(new, tmp_path / "out", saved)
    assert not (tmp_path / "out.partial").exists()


def test_damaged_signatures_are_refused_as_an_input(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    dedup(files[1], tmp_path / "saved", None, save_signatures=True)
    cut_signatures(tmp_path / "saved")
    with pytest.raises(UsageError, match="signatures has 100 bytes instead of 40,960"):
        dedup(tmp_path / "saved", tmp_path / "out", None)
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"annotate": True}, "was made with annotate=True"),
        ({"documents": DocumentOutput("none")}, "has no copies of them"),
    ],
    ids=str,
)
def test_reference_of_another_spec_without_texts_is_refused(
    tmp_path: Path, files: tuple[Path, Path], output: dict[str, Any], reason: str
) -> None:
    new, old = files
    dedup(old, tmp_path / "saved", None, save_signatures=True, spec=Spec(seed=9), **output)
    with pytest.raises(UsageError, match=f"signatures are of another Spec.*{reason}"):
        dedup(new, tmp_path / "out", tmp_path / "saved")
    assert not (tmp_path / "out").exists()


def test_input_in_the_reference_is_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    new, old = files
    (tmp_path / "link.parquet").symlink_to(new)
    (tmp_path / "hard.parquet").hardlink_to(new)
    for against in (new, tmp_path / "link.parquet", tmp_path / "hard.parquet", [old, new]):
        with pytest.raises(UsageError, match="is both an input and a part of the reference"):
            dedup(new, tmp_path / "out", against)
    with pytest.raises(UsageError, match="is both an input and a part of the reference"):
        nk.dedup(new, id="id", against=tmp_path.glob(new.name))
    dedup(new, tmp_path / "saved", None, save_signatures=True)
    with pytest.raises(UsageError, match="is both an input and a part of the reference"):
        dedup(new, tmp_path / "out", tmp_path / "saved")
    assert not (tmp_path / "out").exists()


def test_missing_reference_and_column_are_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    new, _ = files
    with pytest.raises(UsageError, match="no such file"):
        dedup(new, tmp_path / "out", tmp_path / "absent.parquet")
    pq.write_table(pa.table({"id": ["a"], "body": ["b"]}), tmp_path / "body.parquet")
    with pytest.raises(UsageError, match=r"body\.parquet has no column 'text'"):
        dedup(new, tmp_path / "out", tmp_path / "body.parquet")
    assert not (tmp_path / "out.partial").exists()


def test_annotated_rows_say_what_they_repeat(tmp_path: Path, files: tuple[Path, Path]) -> None:
    new, old = files
    dedup(new, tmp_path / "out", old, annotate=True)
    rows = pq.read_table(tmp_path / "out" / "kept" / "new.parquet")
    clusters = clusters_of(tmp_path / "out")
    for name in ("kept", "duplicate_of", "matched_in"):
        assert rows[name].to_pylist() == clusters[name].to_pylist()


class _KilledError(Exception):
    """The end of a run that did not expect it."""


def _interrupt(monkeypatch: pytest.MonkeyPatch, new: Path, out: Path, old: Path) -> None:
    """Begins a run that ends while it compares the sketched reference."""

    def fail(*_: object) -> None:
        raise _KilledError

    with monkeypatch.context() as context:
        context.setattr(local_reference._ReferenceComparison, "match", fail)
        with pytest.raises(_KilledError):
            dedup(new, out, old)


def test_resumed_run_does_not_sketch_the_reference_again(
    tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = files
    dedup(new, tmp_path / "want", old)
    _interrupt(monkeypatch, new, tmp_path / "out", old)
    with monkeypatch.context() as context:
        context.setattr(sketching, "sketch_corpus", None)
        dedup(new, tmp_path / "out", old, resume=True)
    assert clusters_of(tmp_path / "out") == clusters_of(tmp_path / "want")
    dedup(new, tmp_path / "out", old, resume=True)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_a_reference_that_is_deleted_during_a_run_is_named(
    suffix: str, tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, _ = files
    old = tmp_path / f"old{suffix}"
    if suffix == ".parquet":
        pq.write_table(pq.read_table(new), old)
    elif suffix == ".csv":
        pq.read_table(new).to_pandas().to_csv(old, index=False)
    else:
        rows = pq.read_table(new).to_pylist()
        old.write_text("".join(json.dumps(row) + "\n" for row in rows))
    opened = local_reference._ReferenceComparison.open

    def delete(*arguments: Any) -> Any:
        old.unlink()
        return opened(*arguments)

    monkeypatch.setattr(local_reference._ReferenceComparison, "open", delete)
    with pytest.raises(RunError, match=rf"cannot read .*old\{suffix}.*restore it"):
        dedup(new, tmp_path / "out", old)


def test_changed_reference_is_detected(
    tmp_path: Path,
    files: tuple[Path, Path],
    tables: tuple[pa.Table, pa.Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new, old = files
    dedup(new, tmp_path / "done", old)
    _interrupt(monkeypatch, new, tmp_path / "out", old)
    pq.write_table(tables[1].slice(1), old)
    with pytest.raises(UsageError, match=r"cannot resume.*of the reference.*old\.parquet"):
        dedup(new, tmp_path / "out", old, resume=True)
    with pytest.raises(UsageError, match=r"is finished, but of the reference.*old\.parquet"):
        dedup(new, tmp_path / "done", old, resume=True)
    with pytest.raises(UsageError, match="made with `against`, and this run has no `against`"):
        dedup(new, tmp_path / "done", None, resume=True)


def test_run_with_a_reference_is_neither_audited_nor_an_index(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    new, old = files
    dedup(new, tmp_path / "out", old, save_signatures=True)
    with pytest.raises(UsageError, match="cannot be audited: it was made with `against`"):
        audit_run(tmp_path / "out", Silent())
    saved = SavedRun.find((str(tmp_path / "out"),))
    assert saved is not None
    with pytest.raises(UsageError, match="cannot become an index"):
        load_run(saved, "memory://", "s", None, "tail")


def test_run_without_a_reference_records_none(tmp_path: Path, files: tuple[Path, Path]) -> None:
    new, _ = files
    dedup(new, tmp_path / "out", None)
    content = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert "against" not in content
    assert "against" not in content["stages"]
    assert "removed_reference" not in content["counts"]
    assert clusters_of(tmp_path / "out").num_columns == 5
