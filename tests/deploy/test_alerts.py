"""Each alert: a server is driven into the state, and the rule is evaluated on what it exposes.

A clock that the tests move takes the place of waiting. Prometheus scrapes once a minute of it.
"""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from nearkin.errors import StoreError
from nearkin.index.index import Index
from nearkin.service.server.app import create_app
from nearkin.service.server.golden_probe import read_golden_pairs
from nearkin.service.server.resources import ServerResources
from nearkin.service.server.service import Service
from nearkin.service.server.settings import ServerSettings
from nearkin.settings.spec import Spec
from tests.deploy.conftest import DEPLOY
from tests.deploy.promql import Samples
from tests.services import wait_until

RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
SECONDS = {"m": 60, "h": 3600}
MINUTES_BEFORE = 35
"""The minutes of states that are driven before the alert's own duration begins."""


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A server in this process, and the Prometheus that scrapes it.

    Attributes:
        client: Client of the server.
        clock: Clock of the index.
        samples: What Prometheus has scraped.
    """

    def __init__(self, client: TestClient, clock: Clock) -> None:
        self.client = client
        self.clock = clock
        self.samples = Samples()

    @property
    def service(self) -> Service:
        service: Service = self.client.app.state.service  # type: ignore[attr-defined]
        return service

    def upsert(self, text: str, scope: str = "shop") -> None:
        answer = self.client.post(f"/v1/scopes/{scope}/documents", json={"text": text})
        assert answer.status_code == 200, answer.text

    def scrape(self) -> None:
        """Scrapes the metrics, and evaluates the recording rules."""
        answer = self.client.get("/metrics")
        self.samples.scrape(answer.text if answer.status_code == 200 else None, self.clock())
        for name, query in RECORDED.items():
            for labels, value in self.samples.evaluate(query, self.clock()).items():
                key = {key: text for key, text in labels if key != "__name__"}
                self.samples.add(name, key, self.clock(), value)

    def drive(self, minutes: int, step: Callable[[], None] = lambda: None) -> None:
        """Repeats a step and a scrape every minute."""
        for _ in range(minutes):
            step()
            self.scrape()
            self.clock.now += 60

    def is_raised(self, alert: str, step: Callable[[], None] = lambda: None) -> bool:
        """Returns whether an alert is pending for its whole duration while a step is repeated."""
        return self.find_raised([alert], step) == [alert]

    def find_raised(self, alerts: list[str], step: Callable[[], None]) -> list[str]:
        """Returns those of some alerts of one duration that `is_raised` is true for."""
        (duration,) = {ALERTS[alert].get("for", "0m") for alert in alerts}
        minutes = int(duration[:-1]) * SECONDS[duration[-1]] // 60
        for _ in range(minutes + 1):
            step()
            self.scrape()
            alerts = [
                alert
                for alert in alerts
                if self.samples.evaluate(ALERTS[alert]["expr"], self.clock())
            ]
            if not alerts:
                break
            self.clock.now += 60
        return alerts


Watch = Callable[..., Watched]


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Starts a server with some settings, whose index uses the clock of the test."""
    monkeypatch.setattr("nearkin.service.server.index_gauges.REFRESH_SECONDS", -1.0)
    with ExitStack() as stack:

        def start(index: dict[str, Any] | None = None, **settings: Any) -> Watched:
            clock = Clock()
            served = ServerSettings.read(
                store="memory://",
                tokens=tmp_path / "tokens.json",
                console=False,
                source_rate="1000000/second",
                live_probe_every=10_000.0,
                golden_every=10_000.0,
                **settings,
            )
            opened = Index.open("memory://", clock=clock, **{"threshold": 0.8, **(index or {})})
            pairs = [] if served.golden is None else read_golden_pairs(served.golden)
            app = create_app(served, ServerResources(opened, None, pairs))
            client = stack.enter_context(
                TestClient(app, "http://localhost", raise_server_exceptions=False)
            )
            wait_until(lambda: client.get("/readyz").status_code == 200, "the server is ready", 120)
            return Watched(client, clock)

        yield start


def colliding_texts(count: int, seed: int = 1, own: int = 30) -> list[str]:
    """Texts that share many of their words, but are not near-duplicates.

    Args:
        count: Number of texts.
        seed: Random seed.
        own: Number of words of 60 that a text shares with no other.
    """
    rng = random.Random(seed)
    shared = [f"shared{i}" for i in range(60 - own)]
    return [
        " ".join(shared + [f"own{rng.randrange(10**9)}" for _ in range(own)]) for _ in range(count)
    ]


LOOSE = {"bands": 20, "rows": 1}
"""A banding in which texts meet that share little."""


def test_no_alert_is_raised_by_a_healthy_server(watch: Watch, tmp_path: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    text = " ".join(f"word{i}" for i in range(100))
    golden.write_text(json.dumps({"a": text, "b": f"{text} more"}) + "\n")
    watched = watch(golden=golden, memory_budget=10**9)
    rng = random.Random(5)
    wait_until(lambda: watched.service.golden_result is not None, "golden pairs were queried", 60)

    def step() -> None:
        text = " ".join(f"word{rng.randrange(10**6)}" for _ in range(400))
        watched.upsert(text)
        watched.upsert(f"{text} today")
        watched.service.live_probes.probe(watched.service.index)

    watched.drive(65, step)
    raised = [
        alert
        for alert, rule in ALERTS.items()
        # how fast this machine is does not say whether the server is healthy
        if alert not in ("NearkinLatencyHigh", "NearkinSketchingSlow")
        and watched.samples.evaluate(rule["expr"], watched.clock() - 60)
    ]
    assert raised == []


def test_down_is_raised_if_metrics_are_not_answered(watch: Watch) -> None:
    watched = watch(metrics=False)
    assert watched.is_raised("NearkinDown")


def test_absent_is_raised_without_a_target() -> None:
    assert Samples().evaluate(ALERTS["NearkinAbsent"]["expr"], 0.0)
    scraped = Samples()
    scraped.scrape("", 0.0)
    assert not scraped.evaluate(ALERTS["NearkinAbsent"]["expr"], 0.0)


def advancing_time(seconds: float) -> SimpleNamespace:
    """A module `time` whose every reading is later than the one before."""
    now = [0.0]

    def read() -> float:
        now[0] += seconds
        return now[0]

    return SimpleNamespace(perf_counter=read, time=read, monotonic=read)


def test_latency_high_is_raised_by_slow_upserts(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch()
    watched.drive(2, lambda: watched.upsert("the cat sat on the mat"))
    monkeypatch.setattr("nearkin.service.server.service.time", advancing_time(0.2))
    watched.drive(5, lambda: watched.upsert("the cat sat on the mat"))
    assert watched.is_raised("NearkinLatencyHigh", lambda: watched.upsert("the cat sat"))


def test_sketching_slow_is_raised_and_ends_with_its_window(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch()
    # a week of fast documents must not hide what happens now
    for text in colliding_texts(300):
        watched.upsert(text)
    watched.clock.now += 7 * 86_400
    with monkeypatch.context() as slow:
        slow.setattr("nearkin.index.upsert.time", advancing_time(0.1))
        texts = iter(colliding_texts(10, seed=2))
        assert watched.is_raised("NearkinSketchingSlow", lambda: watched.upsert(next(texts)))
    watched.clock.now += 700
    watched.scrape()
    assert not watched.samples.evaluate(ALERTS["NearkinSketchingSlow"]["expr"], watched.clock())


def test_store_errors_are_raised_by_a_failing_store(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch()
    watched.drive(6)

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the store is gone")

    monkeypatch.setattr(watched.service.index, "query", fail)
    answer = watched.client.post("/v1/scopes/shop/query", json={"text": "the cat"})
    assert answer.json()["code"] == "store-unavailable"
    assert watched.is_raised("NearkinStoreErrors")


def test_internal_errors_are_raised_by_a_fault(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch()
    watched.drive(6)

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(watched.service.index, "query", fail)
    watched.client.post("/v1/scopes/shop/query", json={"text": "the cat"})
    assert watched.is_raised("NearkinInternalErrors")


def test_queue_alerts_are_raised_while_documents_wait(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(queue=5, batch=1, token_share=1.0)
    batcher = watched.service.batcher
    is_released = threading.Event()
    upsert_many = watched.service.index.upsert_many

    def wait_and_upsert(*arguments: Any) -> Any:
        is_released.wait(120)
        return upsert_many(*arguments)

    monkeypatch.setattr(watched.service.index, "upsert_many", wait_and_upsert)
    statuses: list[int] = []

    def send(number: int) -> None:
        answer = watched.client.post("/v1/scopes/shop/documents", json={"text": f"word {number}"})
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(30)]
    try:
        for thread in threads:
            thread.start()
        wait_until(lambda: batcher.depth == 5 and 503 in statuses, "the queue is full", 60)

        def refuse() -> None:
            send(100)

        watched.drive(5, refuse)
        assert watched.is_raised("NearkinBusy", refuse)
        assert watched.is_raised("NearkinQueueNearLimit", refuse)
    finally:
        is_released.set()
        for thread in threads:
            thread.join()


def test_search_alerts_are_raised_by_templates(watch: Watch) -> None:
    watched = watch(LOOSE)
    rng = random.Random(3)

    def add_pair() -> None:
        text = " ".join(f"word{rng.randrange(10**9)}" for _ in range(60))
        watched.upsert(text)
        watched.upsert(f"{text} today")

    watched.drive(65, add_pair)
    for alert in ("NearkinManyCandidates", "NearkinHotBuckets", "NearkinVerifyDropRising"):
        assert not watched.samples.evaluate(ALERTS[alert]["expr"], watched.clock() - 60)
    watched.clock.now += 660
    texts = iter(colliding_texts(900))

    def flood() -> None:
        for _ in range(25):
            watched.upsert(next(texts))

    watched.drive(11, flood)
    alerts = ["NearkinVerifyDropRising", "NearkinManyCandidates", "NearkinHotBuckets"]
    assert watched.find_raised(alerts, flood) == alerts


def test_estimates_biased_is_raised_if_estimates_pass_dissimilar_documents(watch: Watch) -> None:
    watched = watch({"spec": Spec(k=8, n=1), "bands": 8, "rows": 1})
    texts = iter(colliding_texts(1000))

    def flood() -> None:
        for _ in range(20):
            watched.upsert(next(texts))

    assert watched.is_raised("NearkinEstimatesBiased", flood)


def test_eviction_and_live_recall_alerts_are_raised_by_full_buckets(watch: Watch) -> None:
    # few of the bands of such a text come from its own words
    watched = watch({"threshold": 0.95, "bands": 5, "rows": 1, "bucket_capacity": 10})
    texts = colliding_texts(200, own=8)
    for text in texts[:10]:
        watched.upsert(text)

    def probe() -> None:
        watched.service.live_probes.probe(watched.service.index)

    watched.drive(1, probe)
    assert not watched.samples.evaluate(
        ALERTS["NearkinLiveRecallLow"]["expr"], watched.clock() - 60
    )
    for text in texts[10:]:
        watched.upsert(text)
    watched.clock.now += 660
    assert watched.is_raised("NearkinLiveRecallLow", probe)
    assert watched.is_raised("NearkinEvicting")


def test_recall_low_is_raised_by_golden_pairs_that_are_not_found(
    watch: Watch, tmp_path: Path
) -> None:
    golden = tmp_path / "golden.jsonl"
    golden.write_text(json.dumps({"a": "one two three four", "b": "other words in here"}) + "\n")
    watched = watch(golden=golden)
    wait_until(lambda: watched.service.golden_result is not None, "golden pairs were queried", 60)
    assert watched.is_raised("NearkinRecallLow")


def test_memory_near_budget_is_raised_by_many_documents(watch: Watch) -> None:
    watched = watch(memory_budget=1_000_000)
    watched.drive(1)
    assert not watched.samples.evaluate(
        ALERTS["NearkinMemoryNearBudget"]["expr"], watched.clock() - 60
    )
    for text in colliding_texts(100):
        # a long word makes a long text of few shingles
        watched.upsert(f"{text} {'x' * 10_000}")
    assert watched.is_raised("NearkinMemoryNearBudget")


def test_empty_bins_rising_is_raised_by_shorter_documents(watch: Watch) -> None:
    watched = watch()
    rng = random.Random(7)

    def add(words: int) -> None:
        for _ in range(16):
            watched.upsert(" ".join(f"word{rng.randrange(10**9)}" for _ in range(words)))

    watched.drive(3)
    # a day of long documents must not hide that they are short now
    for _ in range(24):
        watched.clock.now += 3600
        add(500)
        watched.drive(1)
    watched.drive(60, lambda: add(500) if watched.clock() % 300 < 60 else None)
    watched.clock.now += 660
    add(20)
    watched.drive(1)
    assert watched.is_raised("NearkinEmptyBinsRising", lambda: add(20))


def test_each_alert_has_a_test_that_drives_a_server_into_its_state() -> None:
    text = Path(__file__).read_text("utf-8")
    undriven = [alert for alert in ALERTS if f'"{alert}"' not in text]
    assert undriven == []
