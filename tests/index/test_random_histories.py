"""Random histories of an index with random settings, against an oracle that compares all documents.

`pytest --full` draws more of them. A failure names its seed, and `--seed N` repeats that history.
"""

import itertools
import random
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.settings.decisions import Decision, Decisions, Verdict
from tests.index.conftest import Clock
from tests.index.oracle import Resolution, rank, resolve
from tests.index.test_decided_pairs import require_followed
from tests.seeds import list_seeds
from tests.stages.shingle import oracle

SEEDS = {False: 12, True: 4000}
"""The number of histories in the quick and in the full form."""
STEPS = 25
SCOPE = "a"
EVERY_PAIR = {"bands": 128, "rows": 1}
"""A banding by which documents with a common shingle are candidates, with near certainty."""
IDS = [f"d{number}" for number in range(14)]
DAY = 86400.0


class History:
    """An index, what is stored in it, and random steps.

    Args:
        seed: Seed of the settings and of the steps.
        folder: Folder for the files of the index.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.draw = random.Random(seed)
        self.clock = Clock()
        self.words = [f"w{number}" for number in range(self.draw.choice((8, 30, 200)))]
        unit = self.draw.choice(("words", "words", "chars"))
        self.spec = nk.Spec(unit=unit, n=self.draw.randint(1, 3))
        self.settings = self._draw_settings()
        self.url: str | list[str] = self.draw.choice(("memory://", f"sqlite:///{folder}/{seed}.db"))
        if self.draw.random() < 0.2:
            self.url = [f"sqlite:///{folder}/{seed}-{shard}.db" for shard in "xy"]
        self.texts: dict[str, str] = {}
        """The texts that are stored, by their ids."""
        self.decisions: dict[tuple[str, str], Decision] = {}
        self.log: list[str] = []
        self._stack = ExitStack()
        self.index = self._open()

    def _draw_settings(self) -> dict[str, Any]:
        draw = self.draw
        threshold = draw.choice((0.4, 0.6, 0.8, 1.0))
        return {
            "threshold": threshold,
            "related": draw.choice((None, 0.3)),
            "postings": draw.choice(("leaders", "leaders", "all")),
            "store_text": draw.random() < 0.8,
            "member_content": draw.random() < 0.3,
            "cache": draw.choice((0, 3, 500_000)),
            "record_ttl": draw.choice((None, None, 10.5 * DAY)),
            "bucket_ttl": draw.choice((None, None, 5.5 * DAY)),
            "window": draw.choice((None, None, 3.5 * DAY)),
        }

    def _open(self) -> nk.Index:
        settings = {**self.settings, **EVERY_PAIR, "clock": self.clock}
        return self._stack.enter_context(nk.Index.open(self.url, self.spec, **settings))

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def threshold(self) -> float:
        return float(self.settings["threshold"])

    def similarity(self, a: str, b: str) -> float:
        """Returns the Jaccard similarity of the shingles of two texts. Empty texts have none."""
        first, second = (shingles_of(text, self.spec.unit, self.spec.n) for text in (a, b))
        return len(first & second) / len(first | second) if first and second else 0.0

    def entries(self) -> dict[str, Entry]:
        """Returns the documents that the index stores, oldest first."""
        entries = sorted(self.index.scan(SCOPE), key=lambda entry: entry.ref)
        return {entry.id: entry for entry in entries}

    def found(self, entries: dict[str, Entry], *, leaders: bool) -> dict[str, str]:
        """Returns the texts of documents that a search finds if they are similar, oldest first."""
        limits = [self.settings[name] for name in ("record_ttl", "bucket_ttl", "window")]
        oldest = self.clock.now - min(limit for limit in (*limits, 1e18) if limit is not None)
        return {
            id: self.texts[id]
            for id, entry in entries.items()
            if entry.posted and entry.seen >= oldest and (entry.is_leader or not leaders)
        }

    def draw_text(self) -> str:
        """Returns a new text, or a copy of a stored one with up to two changed words."""
        draw = self.draw
        if draw.random() < 0.04:
            return ""
        if not self.texts or draw.random() < 0.3:
            return " ".join(draw.choices(self.words, k=draw.randint(1, 12)))
        tokens = draw.choice(list(self.texts.values())).split() or [draw.choice(self.words)]
        for _ in range(draw.randrange(3)):
            tokens[draw.randrange(len(tokens))] = draw.choice(self.words)
        return " ".join(tokens)

    # -- Steps

    def step(self) -> None:
        """Takes a random step, and verifies its result and the index."""
        steps: list[tuple[Callable[[], None], float]] = [
            (self.upsert, 6),
            (self.upsert_many, 3),
            (self.remove, 2),
            (self.remove_many, 1),
            (self.expire, 1),
            (self.decide, 0.7),
            (self.merge, 0.5),
            (self.reopen, 0.5),
        ]
        (step,) = self.draw.choices([step for step, _ in steps], [often for _, often in steps])
        self.clock.now += self.draw.random() * 0.5 * DAY
        self.log.append(step.__name__)
        step()
        self.verify()
        self.search()

    def upsert(self) -> None:
        """Upserts one document, whose outcome is that of a comparison with all documents."""
        id = self.draw.choice([None, *IDS])
        text = self.draw_text()
        before = self.entries()
        outcome = self.index.upsert(SCOPE, text, id)
        known = before.get(outcome.id)
        self.log[-1] += f" {outcome.id} {text!r}: {outcome.kind}"
        if known is not None and self.texts[outcome.id] == text:
            kind = "exact" if known.is_leader else "resolved"
            assert (outcome.kind, outcome.representative) == (kind, known.leader)
            return
        self.texts[outcome.id] = text
        leads = known is not None and any(
            entry.leader == known.id != entry.id for entry in before.values()
        )
        if self.decisions or leads:
            return
        before.pop(outcome.id, None)
        expected = self.resolve(outcome.id, text, self.found(before, leaders=True))
        assert outcome.representative == expected.leader
        assert outcome.similarity == pytest.approx(expected.similarity)
        assert outcome.kind == (expected.kind if known is None else "updated")
        if self.settings["related"] is not None:
            assert outcome.related is not None
            assert [(one.id, one.similarity) for one in outcome.related] == expected.related

    def resolve(self, id: str, text: str, leaders: dict[str, str]) -> Resolution:
        return resolve(
            id,
            text,
            leaders,
            self.similarity,
            threshold=self.threshold,
            related=self.settings["related"],
        )

    def upsert_many(self) -> None:
        """Upserts new documents, of which each is compared with those before it."""
        ids = self.draw.sample(IDS, self.draw.randint(1, 6))
        texts = [self.draw_text() for _ in ids]
        before = self.entries()
        leaders = self.found(before, leaders=True)
        outcomes = self.index.upsert_many(SCOPE, texts, ids)
        self.log[-1] += f" {list(zip(ids, texts, strict=True))}"
        is_simple = not set(ids) & set(before) and not self.decisions
        for id, text, outcome in zip(ids, texts, outcomes, strict=True):
            self.texts[id] = text
            if is_simple:
                expected = self.resolve(id, text, leaders)
                assert (outcome.kind, outcome.representative) == expected[:2]
                if expected.leader == id:
                    leaders[id] = text

    def remove(self) -> None:
        """Deletes a document, if it is stored."""
        id = self.draw.choice([*IDS, *self.texts])
        self.log[-1] += f" {id}"
        assert self.index.remove(SCOPE, id) == (id in self.texts)
        self.texts.pop(id, None)

    def remove_many(self) -> None:
        """Deletes some of the stored documents at once, and names one that is not stored."""
        ids = self.draw.sample(sorted(self.texts), self.draw.randint(0, len(self.texts)))
        self.log[-1] += f" {ids}"
        assert self.index.remove_many(SCOPE, [*ids, "none", *ids[:1]]) == len(ids)
        for id in ids:
            del self.texts[id]

    def expire(self) -> None:
        """Deletes the members that are due, and then the representatives without members."""
        self.clock.now += self.draw.random() * 4 * DAY
        before = self.entries()
        self.index.expire(trust_clock=True)
        lifetime = self.settings["record_ttl"]
        if lifetime is None:
            return
        due = {id for id, entry in before.items() if entry.seen < self.clock.now - lifetime}
        for leaders in (False, True):
            leading = {before[id].leader for id in self.texts if not before[id].is_leader}
            for id in [id for id in due if before[id].is_leader == leaders and id not in leading]:
                del self.texts[id]

    def decide(self) -> None:
        """Decides about pairs, unless that contradicts what was decided before."""
        pair = tuple(sorted(self.draw.sample(IDS, 2)))
        verdict = self.draw.choice((Verdict.SAME, Verdict.DIFFERENT, Verdict.DIFFERENT))
        decision = Decision(pair[0], pair[1], verdict)
        self.log[-1] += f" {decision}"
        try:
            self.index.decide(SCOPE, [decision])
        except UsageError:
            return
        self.decisions[decision.pair] = decision

    def merge(self) -> None:
        """Merges clusters, so that no two representatives are similar."""
        merge_clusters(self.index)
        leaders = self.found(self.entries(), leaders=True)
        if not self.decisions:
            for a, b in itertools.combinations(leaders.values(), 2):
                assert self.similarity(a, b) < self.threshold

    def reopen(self) -> None:
        """Opens the index again, as after the end of a process."""
        if self.url == "memory://":
            return
        self._stack.close()
        self.index = self._open()

    # -- What holds after each step

    def verify(self) -> None:
        """Verifies that the index stores the documents, each with a representative like it."""
        entries = self.entries()
        assert set(entries) == set(self.texts)
        decided = {id for pair in self.decisions for id in pair}
        for id, entry in entries.items():
            leader = entries[entry.leader]
            assert leader.is_leader
            assert leader.cluster == entry.cluster
            if self.settings["store_text"]:
                assert entry.text is None or entry.text == self.texts[id]
            similarity = self.similarity(self.texts[id], self.texts[leader.id])
            if entry.is_leader or id in decided:
                continue
            if self.settings["store_text"]:
                assert entry.similarity == pytest.approx(similarity)
                assert similarity >= self.threshold
            else:
                # it follows its representative to another one, with a lower bound
                assert entry.similarity <= similarity + 1e-6
        require_followed(self.index, Decisions(self.decisions))
        report = check_index(self.index)
        assert (report.problems, report.stray) == ((), 0)

    def search(self) -> None:
        """Verifies what searches find."""
        text = self.draw_text()
        found = self.found(self.entries(), leaders=self.settings["postings"] == "leaders")
        ranked = [pair for pair in rank(text, found, self.similarity) if pair[1] >= self.threshold]
        matches = [(match.id, match.similarity) for match in self.index.query(SCOPE, text, 100)]
        assert matches == [(id, pytest.approx(similarity)) for id, similarity in ranked]
        (best,) = self.index.match_many(SCOPE, [text])
        assert (best and best.id) == (ranked[0][0] if ranked else None)


@cache
def shingles_of(text: str, unit: str, n: int) -> frozenset[int]:
    """Returns the shingles of a text with the default steps of a Spec."""
    slow = oracle.word_shingles if unit == "words" else oracle.character_shingles
    spec = nk.Spec(unit=unit, n=n)
    return frozenset(slow(text, n, spec.normalise, spec.version))


@pytest.mark.parametrize("part", range(4))
def test_random_histories_have_the_results_of_an_oracle(
    part: int, tmp_path: Path, request: pytest.FixtureRequest, full: bool
) -> None:
    for seed in list_seeds(request, SEEDS[full])[part::4]:
        with History(seed, tmp_path) as history:
            try:
                for _ in range(STEPS):
                    history.step()
            except BaseException as fault:
                steps = "\n".join(history.log)
                fault.add_note(f"seed {seed}: {history.settings} {history.url}\n{steps}")
                raise
