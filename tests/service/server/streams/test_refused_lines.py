"""Memory of a server after streams whose documents are refused."""

import gc
import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.service.server.exchange import ARROW, NDJSON, run, running

TEXT = "word " * 200


def ndjson(line: bytes) -> Callable[[int], bytes]:
    """Returns a function that makes a stream of a number of equal lines."""
    return lambda count: (line + b"\n") * count


def arrow(id: str, text: str | None) -> Callable[[int], bytes]:
    """Returns a function that makes a stream of record batches of 100 equal rows."""

    def stream(count: int) -> bytes:
        batch = pa.record_batch(
            {"id": pa.array([id] * 100), "text": pa.array([text] * 100, pa.string())}
        )
        out = io.BytesIO()
        with pa.ipc.new_stream(out, batch.schema) as writer:
            for _ in range(count // 100):
                writer.write_batch(batch)
        return out.getvalue()

    return stream


STREAMS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "misspelt member": (NDJSON, ndjson(json.dumps({"texd": TEXT}).encode())),
    "unknown members": (NDJSON, ndjson(json.dumps({str(at): 0 for at in range(60)}).encode())),
    "incomplete JSON": (NDJSON, ndjson(b'{"text": "' + TEXT.encode())),
    "invalid id": (NDJSON, ndjson(json.dumps({"id": "\n", "text": TEXT}).encode())),
    "too long": (NDJSON, ndjson(json.dumps({"text": TEXT * 3}).encode())),
    "other kind of document": (NDJSON, ndjson(json.dumps({"vector": [1.5] * 100}).encode())),
    "invalid id in Arrow": (ARROW, arrow("\n", TEXT)),
    "null in Arrow": (ARROW, arrow("a", None)),
    "too long in Arrow": (ARROW, arrow("a", TEXT * 3)),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Turns the garbage collector off, which a server runs rarely."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


@pytest.mark.promise("Refused documents of a stream leave nothing in memory.")
@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("name", STREAMS)
def test_refused_documents_leave_nothing_in_memory(tmp_path: Path, name: str, full: bool) -> None:
    kind, make_stream = STREAMS[name]
    count = 50_000 if full else 4000
    body = make_stream(count)

    async def test() -> None:
        async with running(tmp_path, "sender", max_line=2000, metrics=False) as app:

            async def count_refusals(data: bytes) -> int:
                stream = app.stream("sender", kind)
                for start in range(0, len(data), 1 << 16):
                    stream.send(data[start : start + (1 << 16)])
                stream.send(b"", more=False)
                await stream.finish()
                refusals = stream.body.count(b"urn:nearkin:problem:")
                if kind == ARROW:
                    column = pa.ipc.open_stream(bytes(stream.body)).read_all()["problem"]
                    refusals = len(column) - column.null_count
                stream.body.clear()
                return refusals

            assert await count_refusals(make_stream(100)) == 100
            before, _ = tracemalloc.get_traced_memory()
            assert await count_refusals(body) == count
            after, _ = tracemalloc.get_traced_memory()
            # a thread may still hold its last part, of at most 256 documents
            assert after - before < 1_000_000, f"{after - before:,} bytes after {count:,} lines"

    run(test())
