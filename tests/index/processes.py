"""Processes that work on an index, for tests of what several processes do.

Each is forked from a process that has loaded nearkin and the kernels of an index, because loading
them takes more than a second of processor time. That process starts at the first use.
"""

import contextlib
import gc
import itertools
import multiprocessing
import resource
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import nearkin as nk
from nearkin.errors import IndexFullError, RacedError
from tests.index.conftest import corpus

Url = str | list[str]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([f"{__package__}.loaded_kernels"])
ROOT = Path(__file__).parents[2]


@dataclass
class Worker:
    """A process, and this end of its pipe."""

    process: ForkServerProcess
    pipe: Connection

    def kill(self) -> None:
        """Ends the process at once."""
        self.process.kill()
        self.process.join()

    def end(self) -> None:
        """Waits until the process has ended without an error."""
        self.process.join()
        assert self.process.exitcode == 0


def start_process(work: Callable[..., None], *arguments: object) -> Worker:
    """Starts a process that calls a function of this module with a pipe and arguments."""
    here, there = CONTEXT.Pipe()
    process = CONTEXT.Process(target=work, args=(there, *arguments), daemon=True)
    # the process that loads the kernels finds the module that does so in its current folder
    with contextlib.chdir(ROOT):
        process.start()
    there.close()
    return Worker(process, here)


# -- What processes do


def upsert_texts(pipe: Connection, url: Url, seed: int, batch: int, documents: int) -> None:
    """Upserts texts in batches, and sends the ids that are acknowledged."""
    texts = corpus(documents, seed=seed)
    with nk.Index.open(url, threshold=0.7, bands=16, rows=5) as index:
        for at in range(0, documents, batch):
            done = index.upsert_many("a", texts[at : at + batch])
            pipe.send([outcome.id for outcome in done])


def upsert_numbers(pipe: Connection, url: Url) -> None:
    """Upserts documents without an end, whose ids are 000000, 000001 and so on, and sends each."""
    texts = corpus(500, seed=7)
    with nk.Index.open(url) as index:
        for number in itertools.count():
            index.upsert("s", f"{texts[number % 500]} {number}", id=f"{number:06d}")
            pipe.send(number)


def change_and_remove(pipe: Connection, url: Url, name: str, seed: int) -> None:
    """Upserts, changes and removes documents as long as True is received.

    What is acknowledged is sent: "has" with an id and a text or "gone" with an id, and the URLs of
    the store; and None after the changes for each True.
    """
    texts = corpus(1000, seed=seed)
    with nk.Index.open(url) as index:

        def send(what: str, at: int, text: str | None = None) -> None:
            pipe.send((what, f"{name}{at}", text, " ".join(index.public_urls)))

        for at in itertools.count():
            text = f"{texts[at % 1000]} {at}"
            index.upsert("a", text, f"{name}{at}")
            send("has", at, text)
            if at % 3 == 0:
                index.upsert("a", f"{text} once more changed", f"{name}{at}")
                send("has", at, f"{text} once more changed")
            if at % 5 == 4:
                index.remove("a", f"{name}{at - 2}")
                send("gone", at - 2)
            pipe.send(None)
            if not pipe.recv():
                break


def answer_questions(pipe: Connection, url: Url) -> None:
    """Answers whether a document is stored, or removes it, until None is received."""
    with nk.Index.open(url) as index:
        pipe.send("ready")
        while (question := pipe.recv()) is not None:
            what, id = question
            pipe.send(index.remove("a", id) if what == "remove" else index.get("a", id) is not None)


def change_the_same_documents(pipe: Connection, url: Url, rounds: int, name: str) -> None:
    """Upserts and removes documents that other processes change too, without garbage collection."""
    gc.disable()
    text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    with nk.Index.open(url, threshold=0.7) as index:
        pipe.send("ready")
        pipe.recv()
        for at in range(rounds):
            try:
                index.upsert("a", f"{text} {name}{at % 5}", "x")
                index.upsert("a", f"{text} y{at % 3}", f"{name}{at % 3}")
                index.remove("a", "x")
            except RacedError:
                pass
        pipe.send("done")


def measure_growth(pipe: Connection, url: Url, bound: int, most: int) -> None:
    """Upserts documents until the index is full, and sends the growth of this process in bytes.

    Without a bound, 0 is given. The number of documents is sent with the growth.
    """
    with nk.Index.open("memory://", threshold=0.7) as index:
        for at in range(0, 2000, 200):
            index.upsert_many("a", _distinct_texts(at, 200))
    settings = {"max_memory": bound} if bound else {}
    with nk.Index.open(url, threshold=0.7, store_text=False, **settings) as index:
        index.upsert_many("a", _distinct_texts(10**6, 200))
        before = _resident_bytes()
        with contextlib.suppress(IndexFullError):
            for at in range(0, most, 200):
                index.upsert_many("a", _distinct_texts(2 * 10**6 + at, 200))
        pipe.send((_resident_bytes() - before, index.stats()["records"]))


def _distinct_texts(first: int, count: int) -> list[str]:
    return [
        " ".join(f"w{(first + number) * 7919 + word}" for word in range(40))
        for number in range(count)
    ]


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
