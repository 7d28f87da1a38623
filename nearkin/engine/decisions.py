"""Decisions of people about the documents of a run."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.unknown_ids import describe_unknown_ids, find_original_ids
from nearkin.engine.options import RunOptions
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.runtime.number_format import format_count
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.decisions import Decisions
from nearkin.stages.cluster.decided_pairs import DecidedPairs

DIFFERENT_PAIRS = "decided-different"


class UnknownDecisionsError(UsageError):
    """An error: no decision is about two documents of the inputs."""


def require_decidable(options: RunOptions, *, has_reference: bool) -> None:
    """Requires that the options of a run can be followed together with decisions."""
    decisions = name_setting("decisions")
    if has_reference:
        raise UsageError(
            f"{decisions} and {name_setting('against')} exclude each other: two documents that are "
            "decided to be different could repeat the same document of the reference; leave out "
            "one of them"
        )
    options.require_defaults(
        decisions,
        {
            "across": "documents that are decided to be the same are one group, whatever their "
            "sources are",
            "second_measure": "the second measure compares kept documents, whatever was decided "
            "about the others of their clusters",
        },
    )


def number_decisions(decisions: Decisions, ids: pa.ChunkedArray) -> DecidedPairs:
    """Returns the decided pairs of a run, by the numbers of the documents.

    Args:
        ids: Ids of all documents, each once, large_string (n,).

    Raises:
        UnknownDecisionsError: If no decision is about two of these documents.
    """
    names = sorted({id for decision in decisions for id in decision.pair})
    numbers: dict[str, int] = {}
    value_set = pa.array(names, pa.large_string())
    first = 0
    for portion in iterate_portions(ids):
        places = pc.index_in(portion, value_set=value_set)
        rows = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        decided = places.take(pa.array(rows)).to_pylist()
        for row, place in zip(rows.tolist(), decided, strict=True):
            numbers[names[place]] = first + row
        first += len(portion)
    decided = number_pairs_of(decisions, numbers)
    if not decided.absent:
        return decided
    unknown = dict.fromkeys(
        id for decision in decisions for id in decision.pair if id not in numbers
    )
    originals = find_original_ids(unknown, iterate_portions(ids))
    if decided.absent == len(decisions) and len(ids) > 1:
        raise UnknownDecisionsError(_describe_absent(len(decisions), originals, ids[0].as_py()))
    return decided._replace(unknown_ids=originals)


def _describe_absent(count: int, originals: dict[str, str], example: str) -> str:
    """Returns the error of decisions of which none is about two documents of the inputs."""
    decisions = name_setting("decisions")
    problem = (
        f"{decisions} has {format_count(count, 'decision')}, and none is about two documents of "
        f"the inputs, which do not have, for example, {describe_unknown_ids(originals)}"
    )
    if any(originals.values()):
        return problem
    return (
        f"{problem}; their ids are such as {example!r}: name the column of ids with "
        f"{name_setting('id')}, correct the decisions, or leave out {decisions}"
    )


def number_pairs_of(decisions: Decisions, numbers: dict[str, int]) -> DecidedPairs:
    """Returns the decided pairs of which both documents have a number."""
    same = _number_pairs(decisions.same, numbers)
    different = _number_pairs(decisions.different, numbers)
    return DecidedPairs(same, different, len(decisions) - len(same) - len(different))


def _number_pairs(pairs: Sequence[tuple[str, str]], numbers: dict[str, int]) -> np.ndarray:
    """Returns the pairs of which both documents have a number, int64 (m, 2)."""
    known = [(numbers[a], numbers[b]) for a, b in pairs if a in numbers and b in numbers]
    return np.array(known, np.int64).reshape(-1, 2)


def load_pairs_apart(work: WorkFolder) -> np.ndarray:
    """Returns the groups that are never in one cluster, as packed pairs of representatives.

    Returns:
        Packed pairs, sorted, uint64 (m,).
    """
    different = np.asarray(work.load(DIFFERENT_PAIRS))
    return DecidedPairs(different=different).different_representatives(work.load("representative"))
