"""The decisions that an index stores: entries of a reserved scope, which every copy takes along.

The entry of a decision has the ids, the verdict, who decided and when as its text. One more entry,
the head, is replaced by each step that writes decisions. So of two such steps at once one fails,
and is repeated with the decisions of the other. The digest of the head tells a process if decisions
were written since it read them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import RESERVED, Entry, internal_entry, reserved_scope
from nearkin.index.stores.base import Store

if TYPE_CHECKING:
    from nearkin.settings.decisions import Decision, Decisions

DECISIONS_PREFIX = f"{RESERVED}decided:"
"""The prefix of the scopes that hold decisions. It is stored, so it does not change."""
HEAD = "head"
"""The id of the head. Those of decisions are 64 hexadecimal digits."""


def is_decisions_scope(scope: str) -> bool:
    """Returns True if a scope holds decisions."""
    return scope.startswith(DECISIONS_PREFIX)


def decisions_scope(scope: str) -> str:
    """Returns the scope that holds the decisions about the documents of a scope.

    Callers cannot name it.

    Examples:
        >>> decisions_scope("a") == decisions_scope("a"), is_decisions_scope(decisions_scope("a"))
        (True, True)
    """
    return reserved_scope(DECISIONS_PREFIX, scope)


def decision_id(pair: tuple[str, str]) -> str:
    """Returns the id of the entry that stores the decision about a pair."""
    return hashlib.sha256(json.dumps(pair).encode()).hexdigest()


class StoredDecision(NamedTuple):
    """A decision, and the scope of the documents that it is about."""

    scope: str
    decision: "Decision"


class DecisionStep(NamedTuple):
    """A step that writes decisions."""

    scope: str
    """The scope of the documents."""
    epoch: int
    """The epoch of the index, which the step has."""
    now: float
    """The time of the step, in seconds of the clock."""


def read_head(store: Store, scope: str) -> Entry | None:
    """Returns the head of the decisions about a scope, or None if it has no decisions."""
    return store.entries(decisions_scope(scope), [HEAD])[0]


def read_epoch(head: Entry) -> int | None:
    """Returns the epoch in which the last decisions about a scope were written."""
    epoch: int | None = json.loads(head.text or "{}").get("epoch")
    return epoch


def parse_entry(entry: Entry) -> StoredDecision | None:
    """Returns the decision that an entry stores, or None for the head."""
    if entry.id == HEAD:
        return None
    # Few indexes have decisions, and every process with an index imports this module.
    from nearkin.settings.decisions import Decision, Verdict

    values = json.loads(entry.text or "{}")
    return StoredDecision(
        scope=values["scope"],
        decision=Decision(
            values["id_a"],
            values["id_b"],
            Verdict(values["decision"]),
            values["by"],
            datetime.fromisoformat(values["at"]),
        ),
    )


def read_stored(store: Store, scope: str) -> "Decisions":
    """Returns the decisions about the documents of a scope that a store holds."""
    from nearkin.settings.decisions import Decisions

    parsed = map(parse_entry, store.scan(decisions_scope(scope)))
    decisions = [stored.decision for stored in parsed if stored is not None]
    return Decisions({decision.pair: decision for decision in decisions})


def stage_decisions(
    store: Store, step: DecisionStep, head: Entry | None, decisions: Sequence["Decision"]
) -> Changes:
    """Returns the changes by which decisions replace earlier ones about their pairs."""
    scope = step.scope
    place = decisions_scope(scope)
    texts = {decision_id(decision.pair): _format_text(scope, decision) for decision in decisions}
    previous = [entry for entry in store.entries(place, list(texts)) if entry is not None]
    changes = Changes(dropped=[KeyedEntry(entry, None) for entry in previous])
    new = [_make_entry(place, id, text, step.now) for id, text in texts.items()]
    history = b"" if head is None else head.digest
    if head is not None:
        changes.dropped.append(KeyedEntry(head, None))
    mark = history.hex() + "".join(entry.digest.hex() for entry in new)
    text = json.dumps({"scope": scope, "epoch": step.epoch})
    new.append(_make_entry(place, HEAD, mark, step.now)._replace(text=text))
    changes.new = [KeyedEntry(entry, None) for entry in new]
    return changes


def _format_text(scope: str, decision: "Decision") -> str:
    assert decision.at is not None
    first, second = decision.pair
    values: Mapping[str, str | None] = {
        "scope": scope,
        "id_a": first,
        "id_b": second,
        "decision": str(decision.verdict),
        "by": decision.by,
        "at": decision.at.astimezone(UTC).isoformat(timespec="microseconds"),
    }
    return json.dumps(values)


def _make_entry(place: str, id: str, text: str, now: float) -> Entry:
    """Returns the entry of a decision, or of the head of a scope."""
    return internal_entry(place, id, hashlib.sha256(text.encode()).digest()[:16], now, text)


def scopes_with_decisions(store: Store) -> list[str]:
    """Returns the scopes of a store that hold decisions, sorted."""
    return sorted(scope for scope in store.scopes() if is_decisions_scope(scope))
