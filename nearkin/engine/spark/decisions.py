"""Decisions of people about the documents of a run over Spark.

Decisions are few, so the driver holds them, with the documents that they are about. Groups of equal
documents are formed without them first. Only groups that then have two documents that are decided
to be different are collected and formed again, as the local engine does.
"""

from collections.abc import Sequence

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.local.decisions import number_pairs_of
from nearkin.settings.decisions import Decisions
from nearkin.stages.cluster.decided_pairs import DecidedPairs, join_decided_groups


def number_decisions(decisions: Decisions, documents: DataFrame) -> DecidedPairs:
    """Returns the decided pairs of a run, by the numbers of the documents."""
    names = sorted({id for decision in decisions for id in decision.pair})
    if not names:
        return DecidedPairs()
    frame = documents.sparkSession.createDataFrame([(name,) for name in names], "id string")
    rows = documents.select("doc", "id").join(f.broadcast(frame), "id").collect()
    return number_pairs_of(decisions, {row["id"]: row["doc"] for row in rows})


def list_same_pairs(decided: DecidedPairs, documents: DataFrame) -> DataFrame:
    """Returns (doc, head): the pairs that are decided to be the same."""
    return documents.sparkSession.createDataFrame(decided.same.tolist(), "doc long, head long")


def divide_components(
    components: DataFrame,
    relations: Sequence[DataFrame],
    facts: DataFrame,
    decided: DecidedPairs,
) -> DataFrame:
    """Returns groups of equal documents in which no two are decided to be different."""
    spark = components.sparkSession
    decided_docs = np.unique(decided.different).tolist()
    if not decided_docs:
        return components
    frame = spark.createDataFrame([(doc,) for doc in decided_docs], "doc long")
    rows = components.join(f.broadcast(frame), "doc").collect()
    component_of = {row["doc"]: row["component"] for row in rows}
    ends = [[component_of.get(doc) for doc in pair] for pair in decided.different.tolist()]
    joined = sorted({first for first, second in ends if first is not None and first == second})
    if not joined:
        return components
    broken = f.broadcast(spark.createDataFrame([(number,) for number in joined], "component long"))
    members = components.join(broken, "component").select("doc")
    ordered = members.join(facts, "doc").orderBy("empty", "sort", "doc").select("doc").collect()
    docs = np.array([row["doc"] for row in ordered], np.int64)
    place = {doc: number for number, doc in enumerate(docs.tolist())}
    representatives = []
    for relation in relations:
        representative = np.arange(len(docs), dtype=np.uint32)
        for row in relation.join(f.broadcast(members), "doc").collect():
            representative[place[row["doc"]]] = place[row["head"]]
        representatives.append(representative)
    order = np.arange(len(docs), dtype=np.uint32)
    groups = join_decided_groups(representatives, _select_pairs(decided, place), order)
    divided = zip(docs.tolist(), docs[groups].tolist(), strict=True)
    others = components.join(broken, "component", "left_anti").select("doc", "component")
    return others.unionByName(spark.createDataFrame(list(divided), "doc long, component long"))


def _select_pairs(decided: DecidedPairs, place: dict[int, int]) -> DecidedPairs:
    """Returns the decided pairs among some documents, by their places."""
    selected = [
        [(place[a], place[b]) for a, b in pairs.tolist() if a in place and b in place]
        for pairs in (decided.same, decided.different)
    ]
    same, different = (np.array(pairs, np.int64).reshape(-1, 2) for pairs in selected)
    return DecidedPairs(same, different)


def list_pairs_apart(decided: DecidedPairs, copies: DataFrame) -> np.ndarray:
    """Returns the pairs of first documents that are never in one cluster, int64 (m, 2)."""
    docs = np.unique(decided.different).tolist()
    if not docs:
        return decided.different
    frame = copies.sparkSession.createDataFrame([(doc,) for doc in docs], "doc long")
    heads = {doc: doc for doc in docs}
    for row in copies.join(f.broadcast(frame), "doc").collect():
        heads[row["doc"]] = row["head"]
    pairs = {tuple(sorted((heads[a], heads[b]))) for a, b in decided.different.tolist()}
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)
