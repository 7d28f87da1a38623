"""The migration state in Aerospike, and the protection against late steps of an old epoch.

The migration state is one record and the plan of a step is another. Therefore the epoch cannot be a
condition of the write that commits a step. Instead, both sides write first and read afterwards, so
that at least one of them sees the other. A step writes its plan with its epoch, and then reads the
migration state. A new migration state is first *announced* beside the present one. Then all pending
plans of other epochs are refused: this changes their generation, so that the write that would
commit them fails. Then the announced state becomes the present one. A plan that was written too
late to be refused finds the announcement. A process that reads an announced state completes these
actions, so that no process waits for one that died.
"""

import json
from collections.abc import Callable
from typing import Any

from nearkin.errors import MovedError, RacedError
from nearkin.index.migration.state import MigrationState, StoreState
from nearkin.index.stores.aerospike_records import EXISTS, GENERATION, NOT_FOUND, Found, Records

META = "meta"
MOVE = "move"
GENERATIONS = "generation"
FINISHED = "finished"
"""The record of the number below which all steps have ended: `v`, and `n` while it is announced."""
Refuse = Callable[[int], None]
"""A function that refuses all running steps of other epochs than the given one."""


class Moves:
    """The migration state of a store, and its generation.

    The record of the migration has the present state in the bin `v`, and an announced one in `n`.
    The generation is the bin `v` of another record.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._never = records.life(None)

    def state(self, refuse: Refuse) -> StoreState:
        """Returns the state of the index, after an announced state became the present one."""
        while True:
            stored_state, generations = self._records.read(META, [MOVE, GENERATIONS])
            if stored_state is None or "n" not in stored_state.bins:
                return StoreState(
                    _move(stored_state), 0 if generations is None else generations.bins["v"]
                )
            self._enforce(stored_state, refuse)

    def redirect(self, migration: MigrationState, refuse: Refuse) -> None:
        """Writes the state of a migration, as `Store.redirect` does."""
        while True:
            (stored_state,) = self._records.read(META, [MOVE])
            now = _announced(stored_state) or _move(stored_state)
            if migration.epoch <= now.epoch:
                raise RacedError(f"{self._records.url} has reached epoch {now.epoch} already")
            if stored_state is not None and "n" in stored_state.bins:
                self._enforce(stored_state, refuse)
            elif self._announce(stored_state, migration):
                # another process that saw the announcement may have completed it already
                self.state(refuse)
                return

    def _announce(self, held: Found | None, migration: MigrationState) -> bool:
        """Announces a state. Returns False if another process was faster."""
        operations = self._records.put({"v": json.dumps(_move(held)), "n": json.dumps(migration)})
        if held is None:
            write = self._records.creation(META, MOVE, operations, self._never)
        else:
            write = self._records.exchange(META, MOVE, operations, self._never, held.generation)
        (answer,) = self._records.run([write], (EXISTS, GENERATION, NOT_FOUND))
        return answer.code == 0

    def _enforce(self, held: Found, refuse: Refuse) -> None:
        migration = _announced(held)
        assert migration is not None
        refuse(migration.epoch)
        settled = self._records.replacement(
            META, MOVE, {"v": held.bins["n"]}, self._never, held.generation
        )
        self._records.run([settled], (GENERATION, NOT_FOUND))

    def check_step(self, epoch: int | None, step: int) -> None:
        """Checks whether a step may continue. It must be called after its plan was written."""
        names = [MOVE, FINISHED] if epoch is not None else [FINISHED]
        if self._records.keeps_deletions:
            names.remove(FINISHED)
        meta_records = (
            dict(zip(names, self._records.read(META, names), strict=True)) if names else {}
        )
        if epoch is not None and (
            _announced(meta_records[MOVE]) is not None or _move(meta_records[MOVE]).epoch != epoch
        ):
            raise MovedError(f"{self._records.url} is being moved")
        if (finished := meta_records.get(FINISHED)) is not None and step < max(
            finished.bins.values()
        ):
            raise RacedError(
                f"{self._records.url}: the step took too long to begin; repeat the call"
            )

    def count(self) -> Any:
        """Returns a write that raises the generation."""
        adding = [self._records.library.operations.increment("v", 1)]
        return self._records.change(META, GENERATIONS, adding, self._never)


def _move(held: Found | None) -> MigrationState:
    return MigrationState() if held is None else _read(held.bins["v"])


def _announced(held: Found | None) -> MigrationState | None:
    return _read(held.bins["n"]) if held is not None and "n" in held.bins else None


def _read(text: str) -> MigrationState:
    epoch, phase, urls = json.loads(text)
    return MigrationState(epoch, phase, tuple(urls))
