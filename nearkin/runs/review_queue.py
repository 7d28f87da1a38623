"""The review queue of a finished run: its pairs in the grey zone, the most uncertain ones first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus.columns import FIELDS, carried_column_name
from nearkin.corpus.formats.base import make_unused_name
from nearkin.engine.result_schema import MATCHED_IN, RELATED_FILE
from nearkin.errors import UsageError
from nearkin.quality.evaluate.explain_fields import format_field
from nearkin.quality.evaluate.scan import ReopenedRun
from nearkin.runs.extension import CLUSTERS
from nearkin.runs.reopen import open_finished_run
from nearkin.runs.table_files import require_new_table, write_table_file
from nearkin.runtime.files import Readers
from nearkin.runtime.outputs import published_file
from nearkin.settings.decisions import Decisions
from nearkin.settings.decisions.uncertain_pairs import UncertainPair, most_uncertain
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import FINGERPRINT

PAIR_TABLES = ("pairs.parquet", RELATED_FILE)
"""The tables whose pairs are reviewed. Only a run with related documents has the second one."""
PLACE = "matched_in"
"""The column that says whether document b is of the reference, in a run with one."""
SCHEMA = pa.schema(
    [
        ("id_a", pa.large_string()),
        ("id_b", pa.large_string()),
        ("decision", pa.large_string()),
        ("similarity", pa.float64()),
        ("uncertainty", pa.float64()),
    ]
)
"""The first columns of a table of pairs. Each field of both documents follows."""
TEXT = "text"
"""The name of the only field of documents with a text."""


class DoubtfulPair(NamedTuple):
    """A pair of documents that a person should decide about."""

    uncertainty: float
    id_a: str
    id_b: str
    similarity: float
    fields_a: Mapping[str, str]
    """The fields of document a by their names, which all documents of a run have."""
    fields_b: Mapping[str, str]

    @property
    def text_a(self) -> str:
        """Document a as a text, with one line for each of several fields."""
        return _join_fields(self.fields_a)

    @property
    def text_b(self) -> str:
        """Document b as a text."""
        return _join_fields(self.fields_b)


class ReviewQueue(NamedTuple):
    """The pairs to decide about, the most uncertain ones first."""

    threshold: float
    """The threshold of the run. The nearer the similarity of a pair, the more uncertain it is."""
    pairs: Sequence[DoubtfulPair]
    decided: int
    """The number of pairs of the run that are decided already."""
    run: ReopenedRun


def collect_review_queue(
    folder: Path, decisions: Decisions, limit: int, secret: HashKey | None = None
) -> ReviewQueue:
    """Returns the pairs of a finished run that are nearest to its threshold and not yet decided."""
    run, _ = open_finished_run(folder, secret)
    if run.columns.content not in ("text", "tokens", FIELDS):
        compared = {"vector": "vectors", FINGERPRINT: "fingerprints"}
        raise UsageError(
            f"{folder} cannot be reviewed: a review shows texts side by side, and this run "
            f"compared {compared[run.columns.content]}"
        )
    threshold = run.settings.threshold
    if run.settings.fields:
        # The similarity of a pair is that of the field in which the two resemble each other least.
        threshold = min(rule.threshold for rule in run.settings.parsed_fields)
    decided: set[tuple[str, str]] = set()

    def skip_decided() -> Iterator[UncertainPair]:
        for pair in _list_pairs(folder, threshold):
            if (ids := (pair.id_a, pair.id_b)) in decisions:
                decided.add(ids)
            else:
                yield pair

    # A pair can be in both tables.
    listed = most_uncertain(skip_decided(), limit)
    fields = _read_fields(run, folder, {id for pair in listed for id in (pair.id_a, pair.id_b)})
    pairs = [
        DoubtfulPair(**pair._asdict(), fields_a=fields[pair.id_a], fields_b=fields[pair.id_b])
        for pair in listed
    ]
    return ReviewQueue(threshold, pairs, len(decided), run)


def _list_pairs(folder: Path, threshold: float) -> Iterator[UncertainPair]:
    """Yields the compared pairs of a run, with the smaller id first."""
    for name in PAIR_TABLES:
        path = folder / name
        if not path.exists():
            continue
        with pq.ParquetFile(path) as file:
            names = ["id_a", "id_b", "similarity"]
            has_places = PLACE in file.schema_arrow.names
            for batch in file.iter_batches(columns=[*names, PLACE] if has_places else names):
                if has_places:
                    # Documents of the reference are not of the run, and are not decided about.
                    batch = batch.filter(pc.equal(batch[PLACE], MATCHED_IN[1]))
                columns = (batch[name].to_pylist() for name in names)
                for id_a, id_b, similarity in zip(*columns, strict=True):
                    if similarity is not None:
                        yield UncertainPair.of(id_a, id_b, similarity, threshold)


def _read_fields(run: ReopenedRun, folder: Path, ids: set[str]) -> dict[str, dict[str, str]]:
    """Returns the fields of documents by their ids. The corpus is read once."""
    # Each of several joined columns is shown on its own.
    joined = run.columns.sources if run.columns.joined else ()
    carried = dict.fromkeys((*run.columns.carried_columns, *joined))
    columns = replace(run.columns, carried_columns=tuple(carried))
    value_set = pa.array(sorted(ids), pa.large_string())
    all_ids = pq.read_table(folder / CLUSTERS, columns=["id"])["id"].cast(pa.large_string())
    fields: dict[str, dict[str, str]] = {}
    for batch in run.corpus.batches(columns):
        ids_of_batch = all_ids.slice(batch.first, len(batch.rows))
        is_wanted = pc.is_in(ids_of_batch, value_set=value_set)
        contents = batch.documents[columns.content]
        if joined:
            values = [batch.documents[carried_column_name(name)] for name in joined]
            contents = pa.StructArray.from_arrays(values, joined)
        wanted = contents.filter(is_wanted).to_pylist()
        for id, content in zip(ids_of_batch.filter(is_wanted).to_pylist(), wanted, strict=True):
            fields[id] = _to_fields(content)
        if len(fields) == len(ids):
            return fields
    if missing := ids - fields.keys():
        raise UsageError(
            f"the corpus ends before document {min(missing)!r}; the inputs have changed since the "
            "run, run it again"
        )
    return fields


def _to_fields(content: object) -> dict[str, str]:
    """Returns the fields of a document. A text and tokens are one field."""
    if isinstance(content, dict):
        return {name: format_field(value) for name, value in content.items()}
    return {TEXT: format_field(content)}


def _join_fields(fields: Mapping[str, str]) -> str:
    if list(fields) == [TEXT]:
        return fields[TEXT]
    return "\n".join(f"{name}: {value}" for name, value in fields.items())


def write_review_table(queue: ReviewQueue, path: Path) -> None:
    """Writes a review queue as a table, most uncertain first, with empty decisions to fill in.

    It can be read by its owner alone, because it quotes documents.
    """
    target = require_new_table(path, "table").in_dialect_of(queue.run.corpus, queue.run.columns)
    table = _make_table(queue.pairs)
    with published_file(path, "nearkin review", Readers.OWNER, replaces=False) as staged:
        write_table_file(target, staged, table.schema, iter(table.to_batches()))


def _make_table(pairs: Sequence[DoubtfulPair]) -> pa.Table:
    table = pa.Table.from_pylist([{**pair._asdict(), "decision": ""} for pair in pairs], SCHEMA)
    for name in pairs[0].fields_a if pairs else [TEXT]:
        for side in ("a", "b"):
            fields = [pair.fields_a if side == "a" else pair.fields_b for pair in pairs]
            column = make_unused_name(f"{name}_{side}", set(table.column_names))
            values = pa.array([entry[name] for entry in fields], pa.large_string())
            table = table.append_column(column, values)
    return table
