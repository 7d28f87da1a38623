"""The state of a move in Aerospike, and what keeps steps of an earlier epoch from being committed after it.

The move is one record and the plan of a step another, so the epoch cannot be a condition of the write that commits a step.
Instead each of the two writes first and looks then, so that at least one sees the other. A step writes its plan, with the
epoch, and only then looks at the move. A new state of the move is first *announced* beside the one that holds; then every plan
of another epoch that is pending is refused, which changes its generation, so that the one write that would commit it fails;
then the announced state comes to hold. A plan that was written too late to be found there finds the announcement. Whoever asks
for the state while it is announced does the rest, so that a process that dies in between holds nobody up.
"""

import json
from collections.abc import Callable
from typing import Any

from nearkin.errors import MovedError, RacedError
from nearkin.index.migration.state import Move, StoreState
from nearkin.index.stores.aerospike_records import EXISTS, GENERATION, NOT_FOUND, Found, Records

META, MOVE, GENERATIONS = "meta", "move", "generation"
FINISHED = "finished"
"""Name of the record that says below which number every step has ended: `v`, and `n` while it is being raised."""
Refuse = Callable[[int], None]
"""Refuses every step that is under way and was made under another epoch than this."""


class Moves:
    """The record of a move: `v` the state that holds, `n` the one that is announced; and the generation, `v` of another one.

    Args:
        records: Of the store.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._never = records.life(None)

    def state(self, refuse: Refuse) -> StoreState:
        """As `Store.news`; what is announced comes to hold first."""
        while True:
            held, counted = self._records.read(META, [MOVE, GENERATIONS])
            if held is None or "n" not in held.bins:
                return StoreState(_move(held), 0 if counted is None else counted.bins["v"])
            self._enforce(held, refuse)

    def redirect(self, move: Move, refuse: Refuse) -> None:
        """As `Store.redirect`."""
        while True:
            (held,) = self._records.read(META, [MOVE])
            now = _announced(held) or _move(held)
            if move.epoch <= now.epoch:
                raise RacedError(f"{self._records.url} is in epoch {now.epoch} already, or beyond it")
            if held is not None and "n" in held.bins:
                self._enforce(held, refuse)
            elif self._announce(held, move):
                # whoever else saw it may have done it by now
                self.state(refuse)
                return

    def _announce(self, held: Found | None, move: Move) -> bool:
        """Unless somebody else was faster."""
        operations = self._records.put({"v": json.dumps(_move(held)), "n": json.dumps(move)})
        if held is None:
            write = self._records.creation(META, MOVE, operations, self._never)
        else:
            write = self._records.exchange(META, MOVE, operations, self._never, held.generation)
        (answer,) = self._records.run([write], (EXISTS, GENERATION, NOT_FOUND))
        return answer.code == 0

    def _enforce(self, held: Found, refuse: Refuse) -> None:
        move = _announced(held)
        assert move is not None
        refuse(move.epoch)
        settled = self._records.replacement(META, MOVE, {"v": held.bins["n"]}, self._never, held.generation)
        self._records.run([settled], (GENERATION, NOT_FOUND))

    def look(self, epoch: int | None, step: int) -> None:
        """Checks whether a step may go on; to be called when its plan is written.

        Args:
            epoch: Epoch that the step was made under; None for any.
            step: Number of the step.

        Raises:
            MovedError: If the store is in another epoch.
            RacedError: If the step took so long to begin that its number counts as finished; it needs a new one.
        """
        names = [MOVE, FINISHED] if epoch is not None else [FINISHED]
        if self._records.keeps_deletions:
            names.remove(FINISHED)
        found = dict(zip(names, self._records.read(META, names), strict=True)) if names else {}
        if epoch is not None and (_announced(found[MOVE]) is not None or _move(found[MOVE]).epoch != epoch):
            raise MovedError(f"{self._records.url} is being moved")
        if (finished := found.get(FINISHED)) is not None and step < max(finished.bins.values()):
            raise RacedError(f"{self._records.url}: the step took too long to begin; try again")

    def count(self) -> Any:
        """A write that raises the generation."""
        adding = [self._records.library.operations.increment("v", 1)]
        return self._records.change(META, GENERATIONS, adding, self._never)


def _move(held: Found | None) -> Move:
    return Move() if held is None else _read(held.bins["v"])


def _announced(held: Found | None) -> Move | None:
    return _read(held.bins["n"]) if held is not None and "n" in held.bins else None


def _read(text: str) -> Move:
    epoch, phase, urls = json.loads(text)
    return Move(epoch, phase, tuple(urls))
