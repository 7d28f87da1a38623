"""Whole indexes: from a finished run, from files, from another store."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus import Columns, FileCorpus, detect_dimensions, make_ids
from nearkin.corpus.columns import MAX_DOCUMENT
from nearkin.corpus.inputs import describe_skipped
from nearkin.engine.local.documents import Documents
from nearkin.errors import UsageError
from nearkin.index.bulk_load import BulkLoad, ClusterRow
from nearkin.index.entry import Entry, require_id, require_scope
from nearkin.index.exports import exported, read_header
from nearkin.index.index import Index
from nearkin.keys import HashKey
from nearkin.runs.saved import SIGNATURES, SavedRun
from nearkin.runs.spec_request import SpecRequest
from nearkin.sketch.resources import SpecResources
from nearkin.spec import Spec

CLUSTERS = "clusters.parquet"


def add_files(
    inputs: tuple[str, ...],
    columns: Columns,
    asked: SpecRequest,
    url: str,
    scope: str,
    threshold: float | None,
    postings: str | None,
    tables: Path | None = None,
) -> dict[str, Any]:
    """Upserts the documents of files.

    Args:
        inputs: Files, globs, folders.
        columns: What of them is read.
        asked: What the Spec is made from; only its key for an index that is there (`postings` is None).
        url: Of the store.
        scope: That they belong to.
        threshold: Of a new index.
        postings: Of a new index; None for one that is there.
        tables: A run's folder with the tables that the Spec names.
    """
    corpus = FileCorpus.open(inputs)
    warnings = describe_skipped(corpus.skipped)
    columns = detect_dimensions(corpus, columns)
    corpus.check(columns)
    kinds: dict[str, int] = {}
    made: dict[str, Any] = (
        {} if postings is None else {"spec": asked.to_spec(columns), "threshold": threshold, "postings": postings}
    )
    rejected = 0
    with Index.open(url, resources=SpecResources(asked.secret), tables=tables, **made) as index:
        for batch in corpus.batches(columns):
            rejected += len(batch.rejected)
            documents = documents_of(batch.documents[columns.content])
            names = make_ids(batch, columns, corpus.names).to_pylist() if columns.id else [None] * len(documents)
            for start in range(0, len(documents), index.settings.max_batch):
                end = start + index.settings.max_batch
                for outcome in index.upsert_many(scope, documents[start:end], names[start:end]):
                    kinds[outcome.kind] = kinds.get(outcome.kind, 0) + 1
        stats = index.stats()
    return {
        "documents": sum(kinds.values()),
        **dict(sorted(kinds.items())),
        "rejected": rejected,
        "records": stats["records"],
        "warnings": warnings,
    }


def documents_of(column: pa.Array) -> list[Any]:
    """Texts, or vectors.

    Raises:
        UsageError: They are lists of tokens.
    """
    if pa.types.is_fixed_size_list(column.type):
        flat = np.asarray(column.flatten(), np.float32)
        return list(flat.reshape(len(column), column.type.list_size))
    if pa.types.is_large_list(column.type):
        raise UsageError("an index takes texts and vectors; join the tokens to a text")
    values: list[Any] = column.to_pylist()
    return values


def load_run(saved: SavedRun, url: str, scope: str, secret: HashKey | None, postings: str) -> dict[str, Any]:
    """A run's clusters as an index: signatures as they were saved, verified similarities, nothing sketched again.

    One that was broken off goes on where it stopped.

    Raises:
        UsageError: The run's members are not verified against the kept document, or the store has other documents; or a
            document has an id that an index does not take.
    """
    record, spec = saved.record, saved.spec
    parameters = record["parameters"]
    if parameters["cluster"] != "leaders" or parameters["verify"] != "exact" or parameters["distance"] or parameters["then"]:
        raise UsageError(
            f"{saved.folder} cannot become an index: its members must be verified against the kept one (--cluster leaders, "
            "--verify exact, a threshold, one measure); build from its inputs instead"
        )
    if parameters["block_by"] is not None:
        raise UsageError(
            f"{saved.folder} compared within blocks ({parameters['block_by']}); build a scope for each from its inputs"
        )
    require_scope(scope)
    corpus = saved.open_corpus("quarantine")
    limit = record["stages"]["sketch"].get("document_limit", MAX_DOCUMENT)
    columns = replace(Columns.from_record(record["columns"]), carried_columns=(), document_limit=limit)
    if columns.tokens is not None:
        raise UsageError("an index takes texts and vectors; this run was made of tokens")
    clusters = pq.read_table(saved.folder / CLUSTERS)
    keyed = record["stages"]["sketch"].get("keyed")
    documents = Documents(saved.folder / SIGNATURES, spec, keyed[0] * (1 + keyed[2]) if keyed else 0)
    resources = SpecResources.read(saved.folder, spec, secret)
    fields: dict[str, Any] = {"recall": parameters["recall"], "postings": postings, "documents": max(len(documents), 1)}
    with Index.open(url, spec, parameters["threshold"], resources=resources, **fields) as index:
        index.require_writable(scope)
        now = index.now()
        leaders = 0
        load = BulkLoad(index)
        for batch in corpus.batches(columns):
            rows = clusters.slice(batch.first, len(batch.rows))
            names = [require_id(name) for name in rows["id"].to_pylist()]
            column = batch.documents[columns.content]
            leaders += load.add_documents(
                scope,
                column,
                documents_of(column),
                np.asarray(documents.signatures[batch.first : batch.first + len(batch.rows)]),
                [
                    ClusterRow(name, representative, similarity)
                    for name, representative, similarity in zip(
                        names, rows["cluster"].to_pylist(), rows["similarity"].to_pylist(), strict=True
                    )
                ],
                now,
            )
        load.finish()
        records, where = index.counts()["records"], index.url
    return {"documents": records, "clusters": leaders, "spec_fingerprint": spec.fingerprint, "store": where}


def migrate(source: str, target: str, secret: HashKey | None, tables: Path | None = None) -> int:
    """Copies an index, or an export of one, into an empty store, as it is; returns how many documents.

    One that was broken off goes on where it stopped.
    """
    resources = SpecResources(secret)
    if "://" not in source:
        header, entries = read_header(Path(source)), exported(Path(source))
        with _like(target, header, resources, tables) as index:
            return _load(index, entries)
    with (
        Index.open(source, resources=resources, tables=tables) as live,
        _like(target, live.header(), resources, tables) as index,
    ):
        return _load(index, live.scan())


def _like(url: str, header: Mapping[str, Any], resources: SpecResources, tables: Path | None) -> Index:
    """An index with the header of another one."""
    spec = Spec.from_json(json.dumps(header["spec"]))
    kept = {name: value for name, value in header.items() if name not in ("format", "spec", "threshold")}
    return Index.open(url, spec, header["threshold"], resources=resources, tables=tables, **kept)


def _load(index: Index, entries: Iterator[Entry]) -> int:
    """Loads all documents of another index into an empty one; returns how many."""
    load = BulkLoad(index)
    total = load.add_entries(entries)
    load.finish()
    return total
