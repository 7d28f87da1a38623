"""Whole indexes: from a finished run, from files, from another store."""

import json
from collections.abc import Mapping
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
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import require_id, require_scope
from nearkin.index.exports import exported, read_header
from nearkin.index.index import Index
from nearkin.index.maintenance import Filling, load
from nearkin.index.making import Maker
from nearkin.index.preparation import Prepared
from nearkin.keys import HashKey
from nearkin.measures.base import Payload
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
        now, leaders, filling = index.clock(), 0, Filling(index)
        for batch in corpus.batches(columns):
            for name in clusters["id"].slice(batch.first, len(batch.rows)).to_pylist():
                require_id(name)
            rows = slice(batch.first, batch.first + len(batch.rows))
            rows_of = clusters.slice(batch.first, len(batch.rows))
            prepared = _prepared(index, scope, batch.documents[columns.content], np.asarray(documents.signatures[rows]))
            new = _entries(index, scope, batch.documents[columns.content], rows_of, prepared, now)
            leaders += sum(written.entry.is_leader for written in new)
            for start in range(0, len(new), index.settings.max_batch):
                some = new[start : start + index.settings.max_batch]
                rest = {entry.id for entry in filling.missing(scope, [entry for entry, _ in some])}
                index.store.apply(Changes(new=[written for written in some if written.entry.id in rest], may_overflow=True))
        filling.end()
        records, where = index.store.counts()["records"], index.store.url
    return {"documents": records, "clusters": leaders, "spec_fingerprint": spec.fingerprint, "store": where}


def _prepared(index: Index, scope: str, column: pa.Array, signatures: np.ndarray) -> Prepared:
    """With the saved signatures; where keys do not follow from them, they are made of the texts."""
    tool = index.preparer
    documents = documents_of(column)
    digests = [tool.digest(document) for document in documents]
    if tool.signatures_suffice:
        payload = tool.payload(column)
        return Prepared(
            scope, digests, signatures, tool.keys_of_signatures(scope, signatures), payload, _empty(payload, tool.vectors)
        )
    return tool.prepare(scope, documents, digests)


def _empty(payload: Payload, vectors: bool) -> np.ndarray:
    return np.zeros(len(payload.sizes), bool) if vectors else payload.sizes == 0


def _entries(
    index: Index, scope: str, column: pa.Array, clusters: pa.Table, prepared: Prepared, now: float
) -> list[KeyedEntry]:
    keeps_text = index.settings.store_text and not index.preparer.vectors
    every = index.settings.postings == "all"
    maker = Maker(index.preparer, scope, prepared, column.to_pylist() if keeps_text else None, every, now)
    rows = zip(*(clusters[name].to_pylist() for name in ("id", "cluster", "similarity")), strict=True)
    return [
        maker.make(at, name, head, head, 1.0 if name == head else similarity)
        for at, (name, head, similarity) in enumerate(rows)
    ]


def migrate(source: str, target: str, secret: HashKey | None, tables: Path | None = None) -> int:
    """Copies an index, or an export of one, into an empty store, as it is; returns how many documents.

    One that was broken off goes on where it stopped.
    """
    resources = SpecResources(secret)
    if "://" not in source:
        header, entries = read_header(Path(source)), exported(Path(source))
        with _like(target, header, resources, tables) as index:
            return load(index, entries)
    with (
        Index.open(source, resources=resources, tables=tables) as live,
        _like(target, live.store.claim({}), resources, tables) as index,
    ):
        return load(index, live.store.scan())


def _like(url: str, header: Mapping[str, Any], resources: SpecResources, tables: Path | None) -> Index:
    """An index with the header of another one."""
    spec = Spec.from_json(json.dumps(header["spec"]))
    kept = {name: value for name, value in header.items() if name not in ("format", "spec", "threshold")}
    return Index.open(url, spec, header["threshold"], resources=resources, tables=tables, **kept)
