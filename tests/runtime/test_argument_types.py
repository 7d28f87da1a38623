"""Tests that every public function refuses arguments of other types in one way."""

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack, get_args

import httpx2
import numpy as np
import pytest

import nearkin as nk
import nearkin.spark
from nearkin.engine.options import RunOptions
from nearkin.errors import NearkinError, UsageError
from nearkin.index_types import ScopeSettings
from nearkin.quality.evaluate.golden import (
    golden_set_from_clusters,
    golden_set_from_pairs,
    read_golden_set,
    score_clusters,
)
from nearkin.runtime.argument_types import check_arguments, check_fields
from nearkin.service.client import requests
from nearkin.settings.setting import plain_type
from tests.public_names import public_objects

TEXTS = ["one two three four", "one two three four five", "six seven eight"]
TRUE_CLUSTERS = {f"{cluster}{copy}": f"{cluster}" for cluster in range(6) for copy in "ab"}
DOCUMENTS = [
    {"id": id, "text": f"caller {cluster}{cluster} rang twice about {cluster}, line {id}"}
    for id, cluster in TRUE_CLUSTERS.items()
]
HASHES = np.arange(1, 9, dtype=np.uint64)
KEY = nk.HashKey(bytes(16))
SIGNS = np.zeros(3, np.uint64)
WRONG: dict[str, Any] = {
    "None": None,
    "text": "x",
    "bytes": b"x",
    "bool": True,
    "half": 1.5,
    "nan": math.nan,
    "infinity": math.inf,
    "negative": -1,
    "large": 10**20,
    "huge": 10**400,
    "list": [],
    "list of texts": ["x", ""],
    "list of numbers": [1, 2],
    "mapping": {"x": 1},
    "object": object(),
    "class": int,
}
"""Values of each kind."""
WHOLE = {"negative", "large"}
ACCEPTED: dict[str, set[str]] = {
    "int": WHOLE,
    "float": WHOLE | {"half", "infinity"},
    "bool": {"bool"},
    "str": {"text"},
    "bytes": {"bytes"},
    "None": {"None"},
    "Sequence[str]": {"list", "list of texts"},
    "Sequence[float]": {"list", "list of numbers"},
    "Sequence[int]": {"list", "list of numbers"},
    "tuple[str, ...]": {"list", "list of texts"},
    "tuple[str, str]": {"list of texts"},
    "tuple[float, float]": {"list of numbers"},
    "np.ndarray": {"list", "list of numbers"},
    "Mapping": {"mapping"},
    "list": {"list"},
    "Sequence": {"list", "list of texts"},
    "Callable": {"class"},
    "Iterable": {"list", "list of texts", "list of numbers", "mapping"},
}
"""The kinds of values that a parameter takes, by its annotation. Classes take none of them."""


def accepted_kinds(annotation: Any) -> set[str]:
    """Returns the kinds of values that an annotation allows, as its text says."""
    annotation = plain_type(annotation)
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.replace("collections.abc.", "").replace("numpy.", "np.").replace("'", "")
    kinds: set[str] = set()
    for option in _split_union(text):
        name = option if option in ACCEPTED else option.partition("[")[0]
        kinds |= ACCEPTED.get(name, set())
        if option in ("Any", "object") or option.startswith("~"):
            kinds |= set(WRONG)
    return kinds


def _split_union(text: str) -> Iterator[str]:
    depth = 0
    start = 0
    for place, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "|" and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def keywords_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the annotation of each keyword of a function, with those of a TypedDict."""
    keywords: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            keywords |= get_args(parameter.annotation)[0].__annotations__
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            keywords[name] = parameter.annotation
    return keywords


class Parts:
    """Objects that calls need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = nk.Spec()
        self.signature = nk.Signature.from_text(TEXTS[0])
        self.signatures = nk.SignatureIndex()
        self.hamming = nk.HammingIndex(64, 3)
        self.hamming.add(1, 1)
        self.blocklist = nk.Blocklist()
        self.blocklist.save(folder / "block.list")
        self.sketch = nk.BottomK.of(HASHES)
        self.counting = nk.signatures.CountingMinHash(self.spec).add(TEXTS[0])
        self.builder = nk.MinHashBuilder(self.spec)
        self.index = nk.Index.open("memory://")
        self.index.upsert("a", TEXTS[0], id="x")
        refusing = httpx2.MockTransport(lambda request: httpx2.Response(404))
        self.client = nk.Client(retries=nk.index_types.Retries(attempts=1), transport=refusing)
        self.golden = golden_set_from_clusters({"a": "1", "b": "1", "c": "2"})
        self.signatures.save(folder / "signatures.arrow")
        self.hamming.save(folder / "hamming.npz")

    @cached_property
    def result(self) -> nk.results.DedupResult:
        return nk.dedup(TEXTS)

    @cached_property
    def fitted(self) -> nk.results.FitResult:
        return nk.fit(DOCUMENTS, TRUE_CLUSTERS, id="id")

    @cached_property
    def chosen(self) -> nk.results.ChosenSettings:
        return nk.choose(DOCUMENTS, id="id")

    @cached_property
    def frequencies(self) -> nk.signatures.DocumentFrequencies:
        return nk.frequencies(TEXTS)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return Parts(tmp_path_factory.mktemp("arguments"))


Case = tuple[Callable[..., Any], dict[str, Any]]
CASES: dict[str, Callable[[Parts], Case]] = {
    "Spec": lambda parts: (nk.Spec, {}),
    "Spec.for_shingle": lambda parts: (nk.Spec.for_shingle, {"text": "words:3"}),
    "ScopeSettings": lambda parts: (ScopeSettings, {}),
    "IndexSettings": lambda parts: (nk.index_types.IndexSettings, {}),
    "VectorEvidence": lambda parts: (
        nk.index_types.VectorEvidence,
        {"spec": nk.Spec(measure="cosine", unit="vector", n=2)},
    ),
    "RunOptions": lambda parts: (RunOptions, {}),
    "Workload": lambda parts: (nk.results.Workload, {"documents": 1000}),
    "SynthSettings": lambda parts: (nk.results.SynthSettings, {}),
    "Retries": lambda parts: (nk.index_types.Retries, {}),
    "dedup": lambda parts: (nk.dedup, {"data": TEXTS}),
    "pairs": lambda parts: (nk.pairs, {"data": TEXTS}),
    "passages": lambda parts: (nk.passages, {"data": TEXTS}),
    "decontaminate": lambda parts: (
        nk.decontaminate,
        {"data": TEXTS, "against": {"suite": [{"question": TEXTS[0]}]}},
    ),
    "split": lambda parts: (nk.split, {"data": TEXTS}),
    "check": lambda parts: (nk.check, {"first": TEXTS, "second": TEXTS}),
    "sketch": lambda parts: (nk.sketch, {"texts": TEXTS}),
    "frequencies": lambda parts: (nk.frequencies, {"data": TEXTS}),
    "observe": lambda parts: (nk.observe, {"data": TEXTS}),
    "profile": lambda parts: (nk.profile, {"data": TEXTS}),
    "fit": lambda parts: (nk.fit, {"data": DOCUMENTS, "labels": TRUE_CLUSTERS, "id": "id"}),
    "FitResult.write": lambda parts: (parts.fitted.write, {"path": parts.folder / "fit.toml"}),
    "Index.remove_many": lambda parts: (
        parts.index.remove_many,
        {"scope": "a", "ids": ["none"]},
    ),
    "Index.remove_scope": lambda parts: (parts.index.remove_scope, {"scope": "empty"}),
    "Index.configure_scope": lambda parts: (
        parts.index.configure_scope,
        {"scope": "a", "settings": ScopeSettings(threshold=0.9)},
    ),
    "Index.scope_status": lambda parts: (parts.index.scope_status, {"scope": "a"}),
    "Client.configure_scope": lambda parts: (
        parts.client.configure_scope,
        {"scope": "a", "settings": ScopeSettings(threshold=0.9)},
    ),
    "Client.scope_status": lambda parts: (parts.client.scope_status, {"scope": "a"}),
    "Client.remove_scope": lambda parts: (parts.client.remove_scope, {"scope": "empty"}),
    "Client.remove_many": lambda parts: (
        parts.client.remove_many,
        {"scope": "a", "ids": ["none"]},
    ),
    "diff": lambda parts: (nk.diff, {"first": "one", "second": "two"}),
    "extend": lambda parts: (nk.extend, {"run": "one", "data": "new.csv", "out": "two"}),
    "sync": lambda parts: (nk.sync, {"index": parts.index, "data": "new.csv", "id": "id"}),
    "choose": lambda parts: (nk.choose, {"data": DOCUMENTS, "id": "id"}),
    "ChosenSettings.write": lambda parts: (
        parts.chosen.write,
        {"path": parts.folder / "chosen.toml"},
    ),
    "estimate": lambda parts: (
        nk.estimate,
        {"a": parts.signature.values, "b": parts.signature.values, "spec": parts.signature.spec},
    ),
    "explain": lambda parts: (nk.explain, {"a": TEXTS[0], "b": TEXTS[1]}),
    "plan": lambda parts: (nk.plan, {"workload": 1000}),
    "tune": lambda parts: (nk.tune, {}),
    "warm_up": lambda parts: (nk.warm_up, {}),
    "simhash": lambda parts: (
        nk.simhash,
        {"features": {"a": 1.0}, "spec": nk.Spec(measure="simhash")},
    ),
    "simhash_of": lambda parts: (nk.signatures.simhash_of, {"hashes": [1], "weights": [1.0]}),
    "report": lambda parts: (
        nk.report,
        {"source": parts.result, "out": parts.folder / "report.html"},
    ),
    "Signature": lambda parts: (nk.Signature, {"values": parts.signature.values}),
    "Signature.from_text": lambda parts: (nk.Signature.from_text, {"text": "a b c"}),
    "Signature.from_tokens": lambda parts: (nk.Signature.from_tokens, {"tokens": ["a", "b", "c"]}),
    "Signature.from_set": lambda parts: (nk.Signature.from_set, {"elements": {"a"}}),
    "Signature.from_hashes": lambda parts: (nk.Signature.from_hashes, {"hashes": HASHES}),
    "Signature.from_bytes": lambda parts: (
        nk.Signature.from_bytes,
        {"data": parts.signature.to_bytes()},
    ),
    "Signature.to_bytes": lambda parts: (parts.signature.to_bytes, {}),
    "Signature.jaccard": lambda parts: (parts.signature.jaccard, {"other": parts.signature}),
    "Signature.similarity": lambda parts: (parts.signature.similarity, {"other": parts.signature}),
    "Signature.merge": lambda parts: (parts.signature.merge, {"other": parts.signature}),
    "SignatureIndex": lambda parts: (nk.SignatureIndex, {}),
    "SignatureIndex.add": lambda parts: (parts.signatures.add, {"id": "a", "document": "a b c"}),
    "SignatureIndex.add_many": lambda parts: (
        parts.signatures.add_many,
        {"ids": ["b"], "documents": ["b c d"]},
    ),
    "SignatureIndex.query": lambda parts: (parts.signatures.query, {"document": "a b c"}),
    "SignatureIndex.query_many": lambda parts: (
        parts.signatures.query_many,
        {"documents": ["a b c"]},
    ),
    "SignatureIndex.remove": lambda parts: (parts.signatures.remove, {"id": "x"}),
    "SignatureIndex.remove_many": lambda parts: (parts.signatures.remove_many, {"ids": ["x"]}),
    "SignatureIndex.merge": lambda parts: (parts.signatures.merge, {"other": nk.SignatureIndex()}),
    "SignatureIndex.save": lambda parts: (
        parts.signatures.save,
        {"path": parts.folder / "signatures.arrow"},
    ),
    "SignatureIndex.load": lambda parts: (
        nk.SignatureIndex.load,
        {"path": parts.folder / "signatures.arrow"},
    ),
    "Blocklist": lambda parts: (nk.Blocklist, {"spec": parts.spec}),
    "Blocklist.open": lambda parts: (nk.Blocklist.open, {"path": parts.folder / "block.list"}),
    "Blocklist.add": lambda parts: (parts.blocklist.add, {"texts": TEXTS[:1], "ids": ["x"]}),
    "Blocklist.remove": lambda parts: (parts.blocklist.remove, {"texts": TEXTS[:1]}),
    "Blocklist.remove_ids": lambda parts: (parts.blocklist.remove_ids, {"ids": []}),
    "Blocklist.match": lambda parts: (parts.blocklist.match, {"texts": TEXTS, "threshold": 0.5}),
    "Blocklist.save": lambda parts: (
        parts.blocklist.save,
        {"path": parts.folder / "block.list"},
    ),
    "HammingIndex": lambda parts: (nk.HammingIndex, {"bits": 64, "distance": 3}),
    "HammingIndex.add": lambda parts: (parts.hamming.add, {"id": 1, "signature": 1}),
    "HammingIndex.add_many": lambda parts: (
        parts.hamming.add_many,
        {"ids": [1], "signatures": SIGNS[:1]},
    ),
    "HammingIndex.remove": lambda parts: (parts.hamming.remove, {"id": 5}),
    "Index.decide": lambda parts: (parts.index.decide, {"scope": "a", "decisions": []}),
    "Index.decisions": lambda parts: (parts.index.decisions, {"scope": "a"}),
    "Index.decisions_version": lambda parts: (parts.index.decisions_version, {"scope": "a"}),
    "Index.use_blocklist": lambda parts: (
        parts.index.use_blocklist,
        {"blocklist": parts.blocklist},
    ),
    "Index.check_document": lambda parts: (parts.index.check_document, {"document": "a b c"}),
    "Index.require_writable": lambda parts: (parts.index.require_writable, {"scope": "a"}),
    "IndexSettings.from_env": lambda parts: (
        nk.index_types.IndexSettings.from_env,
        {"environment": {}},
    ),
    "Spec.keyed_with": lambda parts: (parts.spec.keyed_with, {"secret": KEY}),
    "Spec.require_key": lambda parts: (parts.spec.require_key, {"secret": None}),
    "SpecResources.write": lambda parts: (
        nk.SpecResources().write,
        {"folder": parts.folder, "spec": parts.spec},
    ),
    "SpecResources.weights": lambda parts: (nk.SpecResources().weights, {"spec": parts.spec}),
    "SpecResources.shingler": lambda parts: (nk.SpecResources().shingler, {"spec": parts.spec}),
    "SynthSettings.bytes_at": lambda parts: (
        nk.results.SynthSettings().bytes_at,
        {"quantile": 0.5},
    ),
    "HammingIndex.query": lambda parts: (parts.hamming.query, {"signature": 1}),
    "HammingIndex.query_many": lambda parts: (parts.hamming.query_many, {"signatures": SIGNS}),
    "HammingIndex.save": lambda parts: (
        parts.hamming.save,
        {"path": parts.folder / "hamming.npz"},
    ),
    "HammingIndex.load": lambda parts: (
        nk.HammingIndex.load,
        {"path": parts.folder / "hamming.npz"},
    ),
    "BottomK.of": lambda parts: (nk.BottomK.of, {"hashes": HASHES}),
    "BottomK.jaccard": lambda parts: (parts.sketch.jaccard, {"other": parts.sketch}),
    "BottomK.intersection": lambda parts: (parts.sketch.intersection, {"other": parts.sketch}),
    "BottomK.containment_in": lambda parts: (parts.sketch.containment_in, {"other": parts.sketch}),
    "BottomK.containment_error": lambda parts: (
        parts.sketch.containment_error,
        {"other": parts.sketch, "containment": 0.5},
    ),
    "BottomK": lambda parts: (nk.BottomK, {"k": 8, "hashes": HASHES}),
    "MinHashBuilder": lambda parts: (nk.MinHashBuilder, {"spec": parts.spec}),
    "MinHashBuilder.update_hashes": lambda parts: (
        parts.builder.update_hashes,
        {"hashes": HASHES},
    ),
    "MinHashBuilder.merge": lambda parts: (parts.builder.merge, {"other": parts.builder}),
    "CountingMinHash": lambda parts: (nk.signatures.CountingMinHash, {"spec": parts.spec}),
    "CountingMinHash.add": lambda parts: (parts.counting.add, {"text": "a"}),
    "CountingMinHash.discard": lambda parts: (
        parts.counting.discard,
        {"text": "one two three four"},
    ),
    "CountingMinHash.add_hashes": lambda parts: (parts.counting.add_hashes, {"hashes": HASHES}),
    "CountingMinHash.discard_hashes": lambda parts: (
        parts.counting.discard_hashes,
        {"hashes": HASHES},
    ),
    "CountingMinHash.rebuild": lambda parts: (parts.counting.rebuild, {"hashes": HASHES}),
    "DocumentFrequencies": lambda parts: (
        nk.signatures.DocumentFrequencies,
        {"documents": 3, "hashes": HASHES, "counts": HASHES.astype(np.uint32)},
    ),
    "DocumentFrequencies.above": lambda parts: (parts.frequencies.above, {"share": 0.5}),
    "DocumentFrequencies.weights_of": lambda parts: (
        parts.frequencies.weights_of,
        {"hashes": HASHES},
    ),
    "SpecResources": lambda parts: (nk.SpecResources, {}),
    "HashKey": lambda parts: (nk.HashKey, {"secret": b"0123456789abcdef"}),
    "HashKey.read": lambda parts: (nk.HashKey.read, {"source": "env:NO"}),
    "Index.open": lambda parts: (nk.Index.open, {"url": "memory://"}),
    "Index.upsert": lambda parts: (parts.index.upsert, {"scope": "a", "document": TEXTS[0]}),
    "Index.upsert_many": lambda parts: (
        parts.index.upsert_many,
        {"scope": "a", "documents": TEXTS},
    ),
    "Index.query": lambda parts: (parts.index.query, {"scope": "a", "document": TEXTS[0]}),
    "Index.related_many": lambda parts: (
        nk.Index.open("memory://", related=0.5).related_many,
        {"scope": "a", "documents": TEXTS},
    ),
    "Index.passages": lambda parts: (
        nk.Index.open("memory://", passages=4).passages,
        {"scope": "a", "text": TEXTS[0]},
    ),
    "Index.near_misses": lambda parts: (
        parts.index.near_misses,
        {"scope": "a", "document": TEXTS[0]},
    ),
    "Index.get": lambda parts: (parts.index.get, {"scope": "a", "id": "x"}),
    "Index.get_many": lambda parts: (parts.index.get_many, {"scope": "a", "ids": ["x"]}),
    "Index.cluster": lambda parts: (parts.index.cluster, {"scope": "a", "id": "x"}),
    "Index.cluster_part": lambda parts: (parts.index.cluster_part, {"scope": "a", "id": "x"}),
    "Index.explain": lambda parts: (parts.index.explain, {"scope": "a", "a": "x", "b": "x"}),
    "Index.remove": lambda parts: (parts.index.remove, {"scope": "a", "id": "nope"}),
    "Index.add_part": lambda parts: (
        parts.index.add_part,
        {"scope": "a", "id": "p", "part": "a b c d"},
    ),
    "Index.finish": lambda parts: (parts.index.finish, {"scope": "a", "id": "p"}),
    "Index.merge_into_older": lambda parts: (
        parts.index.merge_into_older,
        {"scope": "a", "id": "x"},
    ),
    "Index.expire": lambda parts: (parts.index.expire, {}),
    "Index.sweep": lambda parts: (parts.index.sweep, {"every": 1.0}),
    "Index.export": lambda parts: (parts.index.export, {"path": parts.folder / "index.parquet"}),
    "Client": lambda parts: (nk.Client, {}),
    "AsyncClient": lambda parts: (nk.AsyncClient, {}),
    "Client.upsert": lambda parts: (
        parts.client.upsert,
        {"scope": "a", "document": "x", "id": None},
    ),
    "Client.query": lambda parts: (
        parts.client.query,
        {"scope": "a", "document": "x", "top": 3, "members": False},
    ),
    "Client.related": lambda parts: (
        parts.client.related,
        {"scope": "a", "document": "x", "top": 3},
    ),
    "Client.passages": lambda parts: (parts.client.passages, {"scope": "a", "text": "x", "top": 3}),
    "Client.near_misses": lambda parts: (
        parts.client.near_misses,
        {"scope": "a", "document": "x", "top": 3},
    ),
    "Client.get": lambda parts: (parts.client.get, {"scope": "a", "id": "x"}),
    "Client.remove": lambda parts: (parts.client.remove, {"scope": "a", "id": "x"}),
    "Client.add_part": lambda parts: (
        parts.client.add_part,
        {"scope": "a", "id": "x", "part": "t"},
    ),
    "Client.finish": lambda parts: (parts.client.finish, {"scope": "a", "id": "x"}),
    "Client.cluster": lambda parts: (parts.client.cluster, {"scope": "a", "id": "x"}),
    "Client.decide": lambda parts: (parts.client.decide, {"scope": "a", "decisions": []}),
    "Client.decisions": lambda parts: (parts.client.decisions, {"scope": "a"}),
    "Client.changes": lambda parts: (parts.client.changes, {"after": "now", "limit": 10}),
    "Client.explain": lambda parts: (parts.client.explain, {"scope": "a", "a": "x", "b": "y"}),
    "Client.tune": lambda parts: (
        parts.client.tune,
        {"threshold": 0.8, "recall": 0.9, "k": None, "documents": 100, "points": 10},
    ),
    "requests.clusters_request": lambda parts: (
        requests.clusters_request,
        {"scope": "a", "order": "largest", "limit": 3, "cursor": "0"},
    ),
    "DedupResult.examples": lambda parts: (parts.result.examples, {"count": 3}),
    "DedupResult.rethreshold": lambda parts: (parts.result.rethreshold, {"threshold": 0.9}),
    "DedupResult.write": lambda parts: (
        parts.result.write,
        {"folder": parts.folder / "none" / "none"},
    ),
    "DedupResult.filter": lambda parts: (parts.result.filter, {"data": TEXTS}),
    "DedupResult.cluster_columns": lambda parts: (parts.result.cluster_columns, {}),
    "synth": lambda parts: (
        nk.synth,
        {"out": parts.folder / "texts.parquet", "settings": nk.results.SynthSettings(documents=3)},
    ),
    "golden_set_from_clusters": lambda parts: (golden_set_from_clusters, {"clusters": {"a": "1"}}),
    "score_clusters": lambda parts: (
        score_clusters,
        {"golden": parts.golden, "clusters": {"a": "1", "b": "1", "c": "1"}},
    ),
    "SpecResources.read": lambda parts: (
        nk.SpecResources.read,
        {"folder": parts.folder, "spec": parts.spec},
    ),
    "DocumentFrequencies.write": lambda parts: (
        parts.frequencies.write,
        {"path": parts.folder / "frequencies.arrow", "spec": parts.spec},
    ),
    "DocumentFrequencies.read": lambda parts: (
        nk.signatures.DocumentFrequencies.read,
        {"path": parts.folder / "frequencies.arrow", "spec": parts.spec},
    ),
    "Spec.from_json": lambda parts: (nk.Spec.from_json, {"text": parts.spec.to_json()}),
    "Spec.require": lambda parts: (parts.spec.require, {"other": parts.spec, "what": "x"}),
    "read_golden_set": lambda parts: (read_golden_set, {"path": parts.folder / "none.jsonl"}),
    "golden_set_from_pairs": lambda parts: (
        golden_set_from_pairs,
        {"pairs": [("a", "b")], "labels": None},
    ),
    "spark.check": lambda parts: (
        nearkin.spark.check,
        {"first": object(), "second": object(), "id": "id"},
    ),
    "spark.dedup": lambda parts: (nearkin.spark.dedup, {"frame": object(), "id": "id"}),
    "spark.decontaminate": lambda parts: (
        nearkin.spark.decontaminate,
        {"frame": object(), "against": {}, "id": "id"},
    ),
    "spark.passages": lambda parts: (nearkin.spark.passages, {"frame": object(), "id": "id"}),
    "spark.split": lambda parts: (nearkin.spark.split, {"frame": object(), "id": "id"}),
}
"""What is called, with valid arguments, by the name of the function."""
SLOW = {"dedup", "pairs", "passages", "decontaminate", "split", "check", "synth", "fit", "choose"}
"""Functions that take seconds for all values that have the right type."""


def find_faults(
    function: Callable[..., Any], valid: dict[str, Any], *, only_refused: bool
) -> list[str]:
    """Calls a function with each wrong value for each keyword, beside valid ones.

    Returns:
        The keywords and values that are accepted although their type is wrong, and the errors that
        are no UsageError.
    """
    faults: list[str] = []
    for name, annotation in keywords_of(function).items():
        parameter = inspect.signature(function).parameters.get(name)
        accepted = accepted_kinds(annotation)
        if parameter is not None and parameter.default is None:
            accepted = accepted | {"None"}
        for kind, value in WRONG.items():
            if kind in accepted and only_refused:
                continue
            try:
                function(**{**valid, name: value})
            except UsageError:
                continue
            except NearkinError as error:
                if kind in accepted:
                    continue
                faults.append(f"{name} as {kind}: {type(error).__name__}: {error}")
            except Exception as error:  # noqa: BLE001
                faults.append(f"{name} as {kind}: {type(error).__name__}: {error}")
            else:
                if kind not in accepted:
                    faults.append(f"{name} as {kind} is accepted")
    return faults


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_arguments_of_another_type_are_usage_errors(
    name: str,
    parts: Parts,
    full: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    function, valid = CASES[name](parts)
    assert find_faults(function, valid, only_refused=name in SLOW and not full) == []


RESULTS = {
    "WarmUp",
    "PairExample",
    "PairExamples",
    "Advice",
    "Profile",
    "SimHash",
    "BlockedMatch",
    "Decision",
    "Decisions",
    "Verdict",
    "Change",
    "ChangePage",
    "Cluster",
    "ClusterPage",
    "ClusterPart",
    "Entry",
    "Evidence",
    "Explanation",
    "DiffResult",
    "SyncResult",
    "Distribution",
    "FitRecord",
    "FitResult",
    "ChosenSettings",
    "TriedSettings",
    "GoldenSet",
    "IndexFacts",
    "IndexStats",
    "Layer",
    "MatchedPassage",
    "PassageMatch",
    "PassageMatches",
    "Match",
    "Neighbour",
    "OperatingPoint",
    "OperatingPointRecord",
    "Outcome",
    "OutcomeKind",
    "PairsResult",
    "PassagesResult",
    "DecontaminationResult",
    "SplitResult",
    "CheckResult",
    "Plan",
    "PlannedSettings",
    "RelatedDocument",
    "Progress",
    "ReportData",
    "ResultTable",
    "SettingChange",
    "SignatureLimits",
    "SignatureMatch",
    "SignatureMatches",
    "ScopeStatus",
    "StoredDocument",
    "Tuning",
    "TuningRecord",
    "TuningResult",
    "NewDocument",
}
"""Classes that the library returns, and those whose content a request checks."""
WITHOUT_A_CASE = {
    "AsyncIndex": "its methods call those of Index",
    "Blocklist.add_documents": "nearkin block add calls it",
    "Blocklist.remove_documents": "nearkin block remove calls it",
    "Blocklist.name_matches": "what searches the entries calls it",
    "Blocklist.search": "runs and indexes call it",
    "Blocklist.require_spec": "runs and indexes call it",
    "Client.clusters": "the request for a page checks its arguments",
    "Client.upsert_many": "the requests of a batch check the documents",
    "DedupResult.__init__": "the library makes results",
    "DedupResult.filter": "it takes tables of every library",
    "DedupResult.plot": "it takes axes of Matplotlib",
    "Index.__init__": "Index.open makes indexes",
    "Index.refresh": "it has no arguments",
    "MinHashBuilder.update": "its arguments have no names",
    "BottomK.merge": "its arguments have no names",
    "Retries.options": "clients call it",
    "Retries.should_retry": "clients call it",
    "Retries.wait": "clients call it",
    "SpecResources.complete": "runs call it",
    "TextAndVector.__init__": "an index checks the documents that it is given",
    "VectorEvidence.keyed_with": "Index.open calls it",
}


def test_every_public_function_has_a_case() -> None:
    missing = []
    for qualified_name, public in public_objects().items():
        name = qualified_name.rpartition(".")[2]
        if name in RESULTS | set(WITHOUT_A_CASE) or not callable(public):
            continue
        if inspect.isclass(public) and issubclass(public, Exception):
            continue
        if name not in CASES and f"{name}.__init__" not in WITHOUT_A_CASE:
            missing.append(name)
        if not inspect.isclass(public) or public is nk.AsyncClient:
            continue
        for method, function in vars(public).items():
            function = getattr(function, "__func__", function)
            is_own = inspect.isfunction(function) and function.__module__.startswith("nearkin")
            has_arguments = is_own and len(keywords_of(function)) > 1
            full_name = f"{name}.{method}"
            if has_arguments and not method.startswith("_"):
                missing += [full_name] * (full_name not in CASES.keys() | WITHOUT_A_CASE.keys())
    assert missing == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nk.Spec(seed=1.5), r"seed=1\.5 is of type float; give a whole number"),
        (lambda: nk.Spec(k=True), "k=True is of type bool; give a whole number"),
        (lambda: nk.Spec(k="8"), "k='8' is of type str; give a whole number"),
        (lambda: nk.dedup(TEXTS, threshold="x"), "threshold='x' is of type str; give a number"),
        (lambda: nk.dedup(TEXTS, bands=1.5), r"bands=1\.5 .*; give a whole number or None"),
        (lambda: nk.dedup(TEXTS, threshold=math.nan), "threshold=nan is not a number"),
        (lambda: nk.dedup(TEXTS, text=3), "text=3 .*; give a text, a list of texts or None"),
        (lambda: nk.pairs(TEXTS, seed=10**400), "seed is a number of more than 300 digits"),
        (lambda: nk.dedup(TEXTS, tresh=1), "unknown setting 'tresh'; did you mean 'threshold'"),
        (lambda: nk.simhash({"a": "b"}, nk.Spec()), "give a mapping of texts to numbers"),
        (lambda: nk.Index.open("memory://", store=3), "store=3 is of type int; give a Store or N"),
    ],
)
def test_a_message_names_the_argument_the_value_and_what_is_possible(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def test_values_without_a_written_form_are_left_out_of_messages() -> None:
    nested: list[object] = []
    for _ in range(1_000_000):
        nested = [nested]
    for value in (nested, [10**5000], {"digits": 10**5000}):
        with pytest.raises(UsageError, match=r"^threshold= is of type (list|dict); give a number"):
            nk.dedup(TEXTS, threshold=value)  # type: ignore[arg-type]


def test_long_lists_are_not_written_out_for_a_message() -> None:
    class Document:
        written = 0

        def __repr__(self) -> str:
            Document.written += 1
            return "text"

    with pytest.raises(UsageError, match=r"^scope=\[text, text, .*… is of type list; give a text$"):
        nk.Index.open("memory://").get([Document()] * 10_000, "id")  # type: ignore[arg-type]
    assert Document.written < 100


def test_no_message_shows_a_secret() -> None:
    with pytest.raises(UsageError, match=r"^key= is of type str; give a HashKey or None$"):
        nk.dedup(TEXTS, key="0123456789abcdef")  # type: ignore[arg-type]
    with pytest.raises(UsageError) as raised:
        nk.Client(token=b"secret")  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)


def test_numbers_of_numpy_are_numbers() -> None:
    spec = nk.Spec(k=np.int64(64), seed=np.uint8(3))  # type: ignore[arg-type]
    assert spec == nk.Spec(k=64, seed=3)
    assert type(spec.k) is int
    assert spec.fingerprint == nk.Spec(k=64, seed=3).fingerprint
    result = nk.dedup(TEXTS, threshold=np.float32(0.5))  # type: ignore[arg-type]
    assert result.kept.tolist() == nk.dedup(TEXTS, threshold=0.5).kept.tolist()


def test_lists_become_tuples_where_tuples_are_documented() -> None:
    assert nk.Spec(normalise=["lower"]).normalise == ("lower",)  # type: ignore[arg-type]


class Keywords(TypedDict, total=False):
    size: int
    later: "NotImported | None"  # type: ignore[name-defined]


@check_arguments
def collect(name: str, *others: int, **keywords: Unpack[Keywords]) -> tuple[object, ...]:
    return name, *others, *keywords.items()


class NotImported:
    """A class that annotations name, and that is not loaded where they are evaluated."""


def test_keywords_of_a_typed_dictionary_are_checked() -> None:
    assert collect("a", 1, size=2) == ("a", 1, ("size", 2))
    with pytest.raises(UsageError, match="size='2' is of type str"):
        collect("a", size="2")  # type: ignore[arg-type]
    with pytest.raises(
        UsageError,
        match=r"unknown setting 'sizes'; did you mean 'size'\?; valid settings are size, later",
    ):
        collect("a", sizes=2)  # type: ignore[call-arg]


def test_python_reports_arguments_that_do_not_exist() -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        nk.estimate(SIGNS, SIGNS, speck=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        nk.estimate(SIGNS, SIGNS, None, None)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Settings:
    size: int = 3
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


def test_fields_of_a_dataclass_are_checked() -> None:
    assert Settings(np.int8(2), ["a"]) == Settings(2, ("a",))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="names='ab' is of type str; give a list of texts"):
        Settings(names="ab")  # type: ignore[arg-type]


def test_coroutines_stay_coroutines() -> None:
    assert inspect.iscoroutinefunction(nk.AsyncIndex.open)
    assert inspect.signature(nk.Index.upsert).parameters["id"].default is None
