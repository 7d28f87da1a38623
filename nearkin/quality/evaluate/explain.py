"""Explains why two texts, or two documents of a finished run, are a match or not."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus import Columns, Corpus, carried_column_name, detect_dimensions
from nearkin.corpus.validation import content_arrow_type
from nearkin.engine.acceptance import TEXT_FACTS, text_facts_of, token_kinds_of
from nearkin.engine.document_facts import (
    block_hashes,
    compared_value_hashes,
    hash_text_facts,
    text_lengths,
)
from nearkin.engine.options import RunOptions, SecondMeasure
from nearkin.engine.pair_acceptance import PairAcceptance, add_weights, weigh_columns
from nearkin.engine.result_schema import MATCHED_IN
from nearkin.engine.second_measure import vector_columns
from nearkin.engine.token_runs import TokenRuns, create_token_reader
from nearkin.engine.value_keys import value_columns_of
from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.number_format import format_similarity
from nearkin.settings.acceptance import And, Differ, Expression, MatchWeight, Same
from nearkin.settings.acceptance.expression import (
    Predicate,
    collect_predicates,
    collect_weights,
    describe_briefly,
)
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.sign_bands import fixed_sign_banding
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.base import as_stored
from nearkin.stages.measures.compared_sets import payload_builder_for_run
from nearkin.stages.measures.explanation import (
    FIRST_PAIR,
    MISSED,
    Explanation,
    PairVerdict,
    VectorComparison,
    VectorRule,
    explain_pair,
)
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources


@check_arguments
def explain(
    a: str,
    b: str,
    *,
    settings: RunOptions | None = None,
    resources: SpecResources = NO_RESOURCES,
    names: tuple[str, str] = ("a", "b"),
    documents: int = 1_000_000,
    vectors: VectorComparison | None = None,
) -> Explanation:
    """Explains why two texts are a match or not, as in a run that uses banding if it can.

    Args:
        a: First text.
        b: Second text.
        settings: RunOptions of the run. The default settings are used if it is None.
        resources: Key, document frequencies and cut shingles that the Spec refers to.
        names: Names of the two texts.
        documents: Number of documents for which the bands of sign signatures are solved.
        vectors: Comparison of the vectors of the same documents, or None.

    Raises:
        UsageError: If the Spec is of vectors, which have no words.

    Examples:
        >>> pair = explain("the cat sat on the mat", "the cat sat on the mat today")
        >>> str(pair.verdict), pair.similarity, pair.shingles.containment
        ('match', 0.8, (1.0, 0.8))
    """
    settings = settings or RunOptions()
    measure = measure_of(settings.spec, resources, settings.distance)
    banding = settings.banding_if_possible(measure, documents)
    compares_all = banding is None
    if banding is None:
        # The layout of the signatures is read, and no band.
        banding = fixed_sign_banding(
            settings.threshold, settings.recall, settings.spec.k, documents, bands=1, rows=1
        )
    pair = explain_pair(
        a,
        b,
        spec=settings.spec,
        resources=resources,
        threshold=settings.threshold,
        banding=banding,
        distance=settings.distance,
        names=names,
        vectors=vectors,
    )
    if compares_all:
        reason = "no bands of signs reach the recall at the threshold, so a run compares every pair"
        return _as_compared(pair, reason)
    return pair


def _as_compared(pair: Explanation, reason: str) -> Explanation:
    """Returns the explanation of a pair that was compared although its signatures differ."""
    if pair.verdict not in MISSED:
        return pair
    is_near = pair.similarity >= pair.threshold
    return replace(
        pair,
        verdict=PairVerdict.MATCH if is_near else PairVerdict.BELOW_THRESHOLD,
        why=f"{reason}: the similarity is {format_similarity(pair.similarity, digits=4)}",
    )


@dataclass(frozen=True)
class RunDocument:
    """A document of a finished run.

    Attributes:
        text: Text of the document. It is empty for documents with several fields.
        row: Row of the document in the clusters table.
        carried: Values of the carried columns, by the names that they have in the inputs.
        place: Number of the file and row in it.
        content: Value of the column of documents in a batch.
    """

    text: str
    row: Mapping[str, Any]
    carried: Mapping[str, object]
    place: tuple[int, int]
    content: object


def find_documents(
    corpus: Corpus, columns: Columns, clusters: Path, ids: tuple[str, str]
) -> tuple[RunDocument, RunDocument]:
    """Finds two documents of a finished run by their ids."""
    table = pq.read_table(clusters)
    first, second = (_find_document(corpus, columns, table, clusters, name) for name in ids)
    return first, second


def _find_document(
    corpus: Corpus, columns: Columns, table: Any, clusters: Path, name: str
) -> RunDocument:
    ordinal = pc.index(table["id"], name).as_py()
    if ordinal < 0 and _is_in_reference(table, name):
        raise UsageError(
            f"{name!r} is a document of the reference, and a run explains only documents of its "
            "inputs; compare the two texts with nearkin explain FILE FILE"
        )
    if ordinal < 0:
        raise UsageError(f"the run has no document {name!r}; the ids are listed in {clusters}")
    document, place = _read_document(corpus, columns, ordinal)
    content = document[columns.content]
    text = content
    if not isinstance(content, str):
        text = "" if columns.fields else " ".join(map(str, content))
    return RunDocument(
        text=text,
        row=table.slice(ordinal, 1).to_pylist()[0],
        carried={name: document[carried_column_name(name)] for name in columns.carried_columns},
        place=place,
        content=content,
    )


def _is_in_reference(clusters: Any, name: str) -> bool:
    if "matched_in" not in clusters.column_names:
        return False
    of_reference = clusters.filter(pc.equal(clusters["matched_in"], MATCHED_IN[0]))
    return pc.index(of_reference["duplicate_of"], name).as_py() >= 0


def _read_document(
    corpus: Corpus, columns: Columns, ordinal: int
) -> tuple[dict[str, Any], tuple[int, int]]:
    """Returns the values of a document, by the names of the columns of a batch, and its place."""
    for batch in corpus.batches(columns):
        position = ordinal - batch.first
        if position < len(batch.rows):
            values = dict(batch.documents.slice(position, 1).to_pylist()[0])
            return values, (int(batch.files[position]), int(batch.rows[position]))
    raise UsageError(
        f"the corpus ends before document {ordinal}; the inputs have changed since the run, run it "
        "again"
    )


def compare_vectors(
    corpus: Corpus,
    columns: Columns,
    second_measure: SecondMeasure,
    documents: tuple[RunDocument, RunDocument],
) -> VectorComparison:
    """Compares two documents of a run by its second measure."""
    of_vectors = detect_dimensions(corpus, vector_columns(columns, second_measure.column))
    wanted = [document.place for document in documents]
    vectors: dict[tuple[int, int], pa.Array] = {}
    for batch in corpus.batches(of_vectors):
        places = list(zip(batch.files.tolist(), batch.rows.tolist(), strict=True))
        for place in set(wanted).intersection(places):
            vectors[place] = batch.documents[of_vectors.content].slice(places.index(place), 1)
    similarity = None
    is_near = False
    if all(place in vectors for place in wanted):
        measure = measure_of(Spec(measure="cosine", unit="vector", n=of_vectors.dimensions or 1))
        pair = pa.concat_arrays([vectors[place] for place in wanted])
        scored = measure.compare(FIRST_PAIR, as_stored(measure.payload_builder().build(pair)))
        similarity = float(scored.similarity[0])
        is_near = bool(scored.meets_threshold(second_measure.threshold)[0])
    return VectorComparison(similarity, is_near, second_measure.threshold, VectorRule.AFTER)


def add_run_outcome(
    pair: Explanation,
    documents: tuple[RunDocument, RunDocument],
    settings: RunOptions,
    *,
    compared_all: bool,
    conditions: "PairConditions | None" = None,
) -> Explanation:
    """Adds to an explanation what a run did with the two documents."""
    rows = (documents[0].row, documents[1].row)
    reason = find_shared_value(documents, settings)
    reason = reason or find_reason_not_to_compare(documents, settings)
    if reason is not None:
        pair = replace(pair, verdict=PairVerdict.NOT_COMPARED, why=reason)
    if compared_all:
        pair = _as_compared(pair, "the run compared every pair exactly")
    if conditions is not None:
        pair = _judge_conditions(pair, conditions)
    is_match = pair.verdict in (PairVerdict.MATCH, PairVerdict.EXACT)
    outcome = format_outcome(rows, is_match=is_match)
    if conditions is not None and not all(conditions.hold) and rows[0]["kept"] and rows[1]["kept"]:
        outcome = "; both are kept"
        if any(conditions.hold):
            outcome += ": of two documents, the later one in keep order is the one to be removed"
    return replace(pair, why=pair.why + outcome, run=rows)


def _judge_conditions(pair: Explanation, conditions: "PairConditions") -> Explanation:
    pair = replace(pair, condition=conditions.condition)
    if pair.verdict in (PairVerdict.EMPTY, PairVerdict.NOT_COMPARED):
        return pair
    why = conditions.describe()
    if not any(conditions.hold):
        return replace(pair, verdict=PairVerdict.NOT_ACCEPTED, why=why)
    if pair.verdict == PairVerdict.EXACT or (pair.verdict in MISSED and not conditions.is_indexed):
        return replace(pair, why=f"{pair.why}; {why}")
    return replace(pair, verdict=PairVerdict.MATCH, why=why)


def format_outcome(rows: tuple[Mapping[str, Any], Mapping[str, Any]], *, is_match: bool) -> str:
    """Returns what a run did with two documents, as the end of a sentence."""
    first, second = rows
    if first["cluster"] == second["cluster"]:
        return f"; both are in the cluster of {first['cluster']}"
    if not is_match:
        return ""
    outcome = ""
    removed = [row for row in rows if not row["kept"]]
    for row in removed:
        match = "because of an equal value"
        if row["similarity"] is not None:
            match = f"at {format_similarity(row['similarity'], digits=4)}"
        outcome += f"; {row['id']} joined the cluster of {row['cluster']}, {match}"
    if not removed:
        outcome = "; both are kept, because each was first compared with other kept documents"
    return outcome


def find_shared_value(
    documents: tuple[RunDocument, RunDocument], settings: RunOptions
) -> str | None:
    """Returns why a run joins two documents without comparing them: an equal value, or None."""
    first, second = documents
    if not _share_block(documents, settings):
        return None
    for column in value_columns_of(settings):
        values = [str(document.carried[column.name] or "") for document in documents]
        keys = column.build_keys(pa.array(values, pa.large_string()))
        if keys[0].any() and np.array_equal(keys[0], keys[1]):
            kind = "URL" if column.holds_urls else "value"
            return (
                f"the run joined them because they have the same {kind} in column "
                f"{column.name!r}: {first.carried[column.name]!r} and "
                f"{second.carried[column.name]!r}"
            )
    return None


def _share_block(documents: tuple[RunDocument, RunDocument], settings: RunOptions) -> bool:
    """Returns whether documents of the blocks of two documents are compared."""
    if settings.block_by is None:
        return True
    values = pa.array([document.carried[settings.block_by] for document in documents])
    scope = PairScope(block_hashes(values, settings.block_of_missing))
    return bool(scope.allows(np.array([0]), np.array([1]))[0])


def find_reason_not_to_compare(
    documents: tuple[RunDocument, RunDocument], settings: RunOptions
) -> str | None:
    """Returns why a run does not compare two documents: their block or their source, or None."""
    first, second = documents
    block_by = settings.block_by
    if block_by is not None and not _share_block(documents, settings):
        return (
            f"the run compared only documents with the same value in column {block_by!r}; they "
            f"have {first.carried[block_by]!r} and {second.carried[block_by]!r}"
        )
    across = settings.across
    if across is not None and first.carried[across] == second.carried[across]:
        return (
            "the run compared only documents of different sources; both have the value "
            f"{first.carried[across]!r} in column {across!r}"
        )
    return None


@dataclass(frozen=True)
class PairConditions:
    """The condition of a run for two documents, of which either one could be removed.

    Attributes:
        names: Ids of the two documents.
        condition: The condition, in words of its grammar.
        failing: Parts of the condition that do not hold if the first document is removed, and if
            the second one is.
        is_indexed: True if the run looked up all pairs for which the condition can hold, so that
            bands did not decide.
        weights: Sums of the weights of columns, with the weight of each, in words.
    """

    names: tuple[str, str]
    condition: str
    failing: tuple[tuple[str, ...], tuple[str, ...]]
    is_indexed: bool
    weights: tuple[str, ...] = ()

    @property
    def hold(self) -> tuple[bool, bool]:
        """The truth of the condition if the first, and if the second document is removed."""
        first, second = self.failing
        return not first, not second

    def describe(self) -> str:
        """Returns which of the documents could be removed in favour of the other, in words."""
        return "; ".join((self._describe_conditions(), *self.weights))

    def _describe_conditions(self) -> str:
        first, second = self.names
        if all(self.hold):
            return f"either could be removed in favour of the other, because {self.condition} holds"
        if self.failing[0] == self.failing[1]:
            return f"neither could be removed in favour of the other: {_deny(self.failing[0])}"
        return f"{self._describe(0, first, second)}; {self._describe(1, second, first)}"

    def _describe(self, position: int, removed: str, kept: str) -> str:
        failing = self.failing[position]
        if not failing:
            return f"{removed} could be removed in favour of {kept}, because {self.condition} holds"
        return f"{removed} could not be removed in favour of {kept}: {_deny(failing)}"


def _deny(conditions: tuple[str, ...]) -> str:
    verb = "does" if len(conditions) == 1 else "do"
    return f"{' and '.join(conditions)} {verb} not hold"


def explain_acceptance(
    documents: tuple[RunDocument, RunDocument],
    columns: Columns,
    settings: RunOptions,
    resources: SpecResources,
) -> PairConditions | None:
    """Evaluates the condition of a run for two of its documents, in both directions."""
    expression = settings.acceptance
    if expression is None:
        return None
    contents = pa.array([document.content for document in documents], content_arrow_type(columns))
    measure = measure_of(settings.spec, resources, settings.distance)
    stored = as_stored(payload_builder_for_run(measure).build(contents))
    runs = {}
    for kind in token_kinds_of(expression):
        tokens, counts = create_token_reader(kind, settings.spec, resources)(contents)
        starts = np.concatenate([[0], np.cumsum(counts)])
        runs[kind] = TokenRuns(np.arange(2, dtype=np.uint32), starts, tokens)
    text_facts = hash_text_facts(contents, text_facts_of(expression))

    def read_fact(predicate: Predicate) -> np.ndarray:
        if isinstance(predicate, Same | Differ):
            values = [document.carried[predicate.column] for document in documents]
            return compared_value_hashes(pa.array(values))
        return text_facts[TEXT_FACTS[predicate]]

    facts: dict[Predicate, np.ndarray] = {
        predicate: read_fact(predicate)
        for predicate in collect_predicates(expression)
        if not isinstance(predicate, MatchWeight)
    }
    weighted = collect_weights(expression)
    values = {
        weights.column: pa.chunked_array(
            [[document.carried[weights.column] for document in documents]], pa.large_string()
        )
        for condition in weighted
        for weights in condition.columns
    }
    scored = measure.compare(FIRST_PAIR, stored)
    operands = expression.operands if isinstance(expression, And) else (expression,)

    def fails(operand: Expression, rank: np.ndarray) -> bool:
        acceptance = PairAcceptance(
            expression=operand,
            measure=settings.spec.measure,
            stored=stored,
            rank=rank,
            lengths=text_lengths(contents),
            facts=facts,
            runs=runs,
            values=values,
        )
        return not len(acceptance.find_accepted(scored))

    # The later document in keep order is the one that would be removed.
    first_removed, second_removed = np.array([1, 0]), np.array([0, 1])
    return PairConditions(
        names=(documents[0].row["id"], documents[1].row["id"]),
        condition=describe_briefly(expression),
        failing=(
            tuple(describe_briefly(each) for each in operands if fails(each, first_removed)),
            tuple(describe_briefly(each) for each in operands if fails(each, second_removed)),
        ),
        is_indexed=settings.containment_threshold is not None,
        weights=tuple(_describe_weights(condition, values) for condition in weighted),
    )


def _describe_weights(condition: MatchWeight, values: Mapping[str, pa.ChunkedArray]) -> str:
    """Returns the sum of the weights of two documents, and the weight of each column."""
    weights = weigh_columns(condition, values, np.array([0]), np.array([1]))
    shown = (
        f"{column.column} {weight:+g}"
        for column, weight in zip(condition.columns, weights[:, 0].tolist(), strict=True)
    )
    total = float(add_weights(weights)[0])
    return f"the weights add up to {total:g} of {condition.least:g} ({', '.join(shown)})"
