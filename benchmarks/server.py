"""Measures rates, latencies and memory of a server, for the tables of docs/reference/http.md.

Server and client run on the same cores.

python -m benchmarks.server                 quick sizes, to the terminal
python -m benchmarks.server --full --write  full sizes; writes benchmarks/server.json and the tables
of docs/reference/http.md

The script needs wrk and curl (packages of Debian). The server runs as `nearkin serve` does, but
without the rate limit of a source, which would limit the client of the benchmark. The goals are
1,200 single upserts per second with a p99 of at most 60 ms, at 200,000 documents, over 32
connections; 8,000 (memory) and 3,000 (SQLite) documents per second in streams; after 200,000
requests at most 10 % more memory than the growth of the index; and at most twice the CPU time of a
refusal for anything that is sent without a token.
"""

import http.client
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import httpx2
import orjson
import psutil

import nearkin as nk
from benchmarks.index import texts
from benchmarks.pages import describe
from benchmarks.tables import Table, main
from nearkin.quality.lab.measurements import describe_machine
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.services import free_port, program, wait_for

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reference" / "http.md"
STORES = ("memory", "sqlite")
CONNECTIONS, THREADS = 32, 2
SCOPE = "/v1/scopes/bench/documents"
WARM = 3
"""The duration of requests before the measured ones, in seconds."""


class Server(NamedTuple):
    """A running server."""

    url: str
    process: psutil.Process

    @property
    def resident(self) -> int:
        """The memory of the process in bytes."""
        return int(self.process.memory_info().rss)


class Load(NamedTuple):
    """The results of wrk."""

    requests: int
    seconds: float
    p50: float
    p99: float
    failed: int
    ended: list[int]
    """Returns the line of its file that each thread would have sent next."""


@contextmanager
def start_server(store: str, *more: str, with_token: bool = False) -> Iterator[Server]:
    """Yields a server over a new store, which is ready, in a new folder.

    Args:
        store: `memory` or `sqlite`.
        *more: Further options of `nearkin serve`.
        with_token: Whether the server has a token, so that it refuses requests without one.
    """
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        url = "memory://" if store == "memory" else "sqlite:///kin.db"
        options = ("--port", str(port), "--store", url, "--source-rate", "1000000000/second", *more)
        if with_token:
            TokenFile(Path(folder) / "nearkin-tokens.json").create(
                Principal("bench", ("bench",), ("read",))
            )
        line = [sys.executable, "-m", "nearkin", "serve", *options]
        with subprocess.Popen(line, cwd=folder, stderr=subprocess.DEVNULL) as process:
            try:
                wait_for(port, process, 120)
                server = Server(f"http://127.0.0.1:{port}", psutil.Process(process.pid))
                while httpx2.get(f"{server.url}/readyz", timeout=60).status_code != 200:
                    time.sleep(0.2)
                yield server
            finally:
                process.terminate()


def write_lines(path: Path, some: Sequence[str], prefix: str) -> None:
    """Writes documents with ids, one per line.

    Args:
        path: Path of the file.
        some: Texts.
        prefix: Beginning of each id; the number of the text follows.
    """
    path.write_bytes(
        b"".join(
            orjson.dumps({"id": f"{prefix}{at}", "text": text}) + b"\n"
            for at, text in enumerate(some)
        )
    )


def send_streams(
    server: Server, folder: Path, parts: Sequence[Sequence[str]], prefix: str
) -> float:
    """Sends all parts at the same time as streams of NDJSON. Returns the documents per second.

    Args:
        server: The server.
        folder: Folder for the files that are sent and received.
        parts: Texts of each stream.
        prefix: Beginning of each id.
    """
    curl, running = program("curl"), []
    for number, part in enumerate(parts):
        write_lines(folder / f"stream-{number}.ndjson", part, f"{prefix}{number}-")
    began = time.perf_counter()
    for number in range(len(parts)):
        sent, answered = folder / f"stream-{number}.ndjson", folder / f"answers-{number}.ndjson"
        line = [
            curl,
            "-sf",
            "-X",
            "POST",
            "-T",
            str(sent),
            "-H",
            "Content-Type: application/x-ndjson",
            "-H",
            "Expect:",
        ]
        running.append(subprocess.Popen([*line, "-o", str(answered), f"{server.url}{SCOPE}"]))
    statuses = [process.wait() for process in running]
    if any(statuses):
        raise SystemExit(f"a stream failed: curl ended with {max(statuses)}")
    seconds = time.perf_counter() - began
    for number, part in enumerate(parts):
        answers = (folder / f"answers-{number}.ndjson").read_bytes().splitlines()
        if len(answers) != len(part) or any(b'"problem"' in answer for answer in answers):
            raise SystemExit(
                f"{len(part):,} documents were sent and {len(answers):,} answered, or an answer is "
                f"a problem"
            )
    return sum(map(len, parts)) / seconds


def run_load(
    server: Server, folder: Path, seconds: int, starts: Sequence[int] = (0,) * THREADS
) -> Load:
    """Runs single upserts over CONNECTIONS connections, from a line of each file of the folder.

    Args:
        server: The server.
        folder: Folder of the files of documents, as `bodies` writes them.
        seconds: Duration of the load, in seconds.
        starts: First line of each file that is sent.
    """
    line = [program("wrk"), f"-t{THREADS}", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s"]
    line += [
        "-s",
        str(HERE / "upserts.lua"),
        f"{server.url}{SCOPE}",
        "--",
        str(folder),
        *map(str, starts),
    ]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    output = json.loads(done.stderr.strip().splitlines()[-1])
    ended = [start + sent for start, sent in zip(starts, output.pop("sent"), strict=True)]
    load = Load(**output, ended=ended)
    if load.failed:
        raise SystemExit(f"{load.failed:,} of {load.requests:,} requests failed")
    return load


def bodies(folder: Path, some: Sequence[str], prefix: str) -> int:
    """Writes a file of documents for each thread of wrk. Returns the lines of each file.

    Args:
        folder: Folder of the files.
        some: Texts.
        prefix: Beginning of each id.
    """
    per = len(some) // THREADS
    for number in range(THREADS):
        write_lines(
            folder / f"{number}.jsonl",
            some[number * per : (number + 1) * per],
            f"{prefix}{number}-",
        )
    return per


def upserts(full: bool) -> Table:
    """Measures single upserts into an index of a given size."""
    documents, seconds, fresh = (200_000, 30, 160_000) if full else (10_000, 5, 30_000)
    rows = []
    with texts(documents + fresh, 21) as some:
        for store in STORES:
            with start_server(store) as server, tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                send_streams(server, folder, [some[:documents]], "first-")
                per = bodies(folder, some[documents:], "single-")
                warm = run_load(server, folder, WARM)
                load = run_load(server, folder, seconds, warm.ended)
                if max(load.ended) > per:
                    raise SystemExit(
                        f"{per:,} documents for each thread were not enough; give more"
                    )
            rate = load.requests / load.seconds
            times = (f"{1000 * load.p50:.1f} ms", f"{1000 * load.p99:.1f} ms")
            rows.append((store, f"{documents:,}", f"{rate:,.0f}", *times, "≥ 1,200/s, p99 ≤ 60 ms"))
    note = (
        f"Upserts of single documents of 1.5 kB, none sent before, 30 % near-duplicates of others, "
        f"by wrk over {CONNECTIONS} "
        f"connections for {seconds} seconds."
    )
    return Table(
        "upserts", note, ("store", "documents", "upserts/s", "median", "p99", "goal"), rows
    )


def streams(full: bool) -> Table:
    """Measures one stream of NDJSON, and two at the same time."""
    documents = 100_000 if full else 10_000
    goals = {"memory": "≥ 8,000", "sqlite": "≥ 3,000"}
    rows = []
    with texts(4 * documents, 22) as some, tempfile.TemporaryDirectory() as name:
        for store in STORES:
            with start_server(store) as server:
                folder, half = Path(name), documents // 2
                send_streams(server, folder, [some[:documents]], "warm-")
                one = send_streams(server, folder, [some[documents : 2 * documents]], "one-")
                parts = [
                    some[2 * documents : 2 * documents + half],
                    some[2 * documents + half : 3 * documents],
                ]
                two = send_streams(server, folder, parts, "two-")
            rows.append((store, f"{documents:,}", f"{one:,.0f}", f"{two:,.0f}", goals[store]))
    note = (
        "Documents per second of NDJSON streams that curl sends: new documents of 1.5 kB, 30 % "
        "near-duplicates."
    )
    return Table("streams", note, ("store", "documents", "one stream", "two at once", "goal"), rows)


def memory(full: bool) -> Table:
    """Compares the growth of a server in many single requests with that of its index alone."""
    documents, requests = (200_000, 200_000) if full else (10_000, 10_000)
    rows = []
    with texts(documents + 2 * requests, 23) as some:
        for store in STORES:
            with start_server(store) as server, tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                send_streams(server, folder, [some[:documents]], "first-")
                per = bodies(folder, some[documents:], "single-")
                starts = ends = run_load(server, folder, WARM).ended
                resident, sent = server.resident, 0
                while sent < requests and max(ends) < per:
                    load = run_load(server, folder, 5, ends)
                    ends = load.ended
                    sent += load.requests
                grown, own = (
                    server.resident - resident,
                    in_a_process(index_growth, store, folder, starts, ends),
                )
            rows.append(
                (
                    store,
                    f"{sent:,}",
                    f"{grown / 1e6:,.0f} MB",
                    f"{own / 1e6:,.0f} MB",
                    f"{grown / own:.2f}",
                    "≤ 1.10",
                )
            )
    note = (
        "Resident memory that a server grew by in so many single upserts of fresh documents, with "
        f"{documents:,} documents in the index before, and what an index grew by in a process "
        f"without a server, given the same."
    )
    return Table(
        "memory", note, ("store", "requests", "server", "index alone", "times", "goal"), rows
    )


STRANGERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "a refusal: /v1/spec": ("GET", "/v1/spec", {}),
    "/healthz": ("GET", "/healthz", {}),
    "/healthz with a query of 8 kB": ("GET", "/healthz?" + "%41=%42&" * 1000, {}),
    "/healthz with a value of 8 kB": ("GET", "/healthz?a=" + "%41" * 2700, {}),
    "/healthz with a path of 60 kB": ("GET", "/healthz/" + "%41" * 20_000, {}),
    "/v1/spec with 1,000 headers": ("GET", "/v1/spec", {f"X-{at}": "y" for at in range(1000)}),
    "/v1/spec with an invalid token": (
        "GET",
        "/v1/spec",
        {"Authorization": "Bearer nk_bench_" + "x" * 43},
    ),
    "/readyz": ("GET", "/readyz", {}),
    "/docs": ("GET", "/docs", {}),
    "/openapi.json": ("GET", "/openapi.json", {}),
    "/console/": ("GET", "/console/", {}),
    "/console/ with 100 cookies": ("GET", "/console/", {"Cookie": 'a="\\054"; ' * 99}),
    "/console/ with 6,000 cookies": ("GET", "/console/", {"Cookie": 'a="\\054"; ' * 6000}),
    "/console/login": ("GET", "/console/login", {}),
    "/console/static/console.css": ("GET", "/console/static/console.css", {}),
    "an unknown path": ("GET", "/unknown", {}),
    "a method that is not allowed": ("DELETE", "/docs", {}),
}
"""Method, path and headers of requests without a token, by description. The first is a refusal."""


def strangers(full: bool) -> Table:
    """Measures the CPU time of the server for each kind of request without a token."""
    count = 2000 if full else 300
    rate = "1000000000/second"
    rows = []
    refusal = 0.0
    options = ("--anonymous-rate", rate, "--failures", rate, "--log-level", "warning")
    with start_server("memory", *options, with_token=True) as server:
        for what, request in STRANGERS.items():
            cpu_milliseconds(server, request, count // 10)
            cost = cpu_milliseconds(server, request, count)
            refusal = refusal or cost
            rows.append((what, f"{cost:.2f} ms", f"{cost / refusal:.1f}", "≤ 2"))
    note = (
        f"CPU time of the server for a request without a token, the mean of {count:,} on one "
        "connection, or on one connection each if the server closes it. "
        + describe(describe_machine()).strip()
    )
    return Table("strangers", note, ("request", "CPU time", "refusals", "goal"), rows)


def cpu_milliseconds(server: Server, request: tuple[str, str, dict[str, str]], count: int) -> float:
    """Returns the CPU time of a server for one request, in milliseconds.

    Args:
        server: The server.
        request: Method, path and headers.
        count: Number of requests over which the time is averaged.
    """
    method, path, headers = request
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    before = server.process.cpu_times()
    for _ in range(count):
        try:
            connection.request(method, path, headers=headers)
            connection.getresponse().read()
        except OSError:
            # the server has refused the head before all of it was sent
            connection.close()
    connection.close()
    after = server.process.cpu_times()
    return 1000 * float(after.user + after.system - before.user - before.system) / count


def index_growth(store: str, folder: Path, starts: Sequence[int], ends: Sequence[int]) -> int:
    """Returns the growth of a process in bytes while its index takes lines of each file.

    Args:
        store: `memory` or `sqlite`.
        folder: Folder of the files of documents.
        starts: First measured line of each file. The lines before it are upserted first.
        ends: Line of each file after the last measured one.
    """
    with tempfile.TemporaryDirectory() as own:
        url = "memory://" if store == "memory" else f"sqlite:///{own}/kin.db"
        with nk.Index.open(url) as index:
            _fill(index, folder / "stream-0.ndjson", 0, None)
            for number, start in enumerate(starts):
                _fill(index, folder / f"{number}.jsonl", 0, start)
            before = psutil.Process().memory_info().rss
            for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
                _fill(index, folder / f"{number}.jsonl", start, end)
            return int(psutil.Process().memory_info().rss) - before


def _fill(index: nk.Index, path: Path, start: int, end: int | None) -> None:
    with path.open("rb") as lines:
        wanted = islice(lines, start, end)
        while some := [orjson.loads(line) for line in islice(wanted, CONNECTIONS)]:
            index.upsert_many("bench", [one["text"] for one in some], [one["id"] for one in some])


def in_a_process(measure: Callable[..., int], *arguments: object) -> int:
    """Returns the result of a function that is called in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


if __name__ == "__main__":
    main(__doc__, (upserts, streams, memory, strangers), HERE / "server.json", PAGE)
