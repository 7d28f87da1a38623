"""The queue of answers that a client has not read yet."""

import asyncio

import pytest

from nearkin.service.server.http.callers import SERVER_CALLER
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation, ResourcePool
from nearkin.service.server.streams.spool import MAX_IN_MEMORY, Spool


def test_spool_returns_written_bytes() -> None:
    async def write_and_read() -> bytes:
        spool = Spool(Reservation(ResourcePool("bytes", 1 << 30, 1.0), SERVER_CALLER))
        out = bytearray()

        async def write() -> None:
            for i in range(200):
                await spool.write(bytes([i]) * 20_000)
            spool.end()

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.01)
        async for chunk in spool.chunks():
            out.extend(chunk)
        await writing
        spool.close()
        return bytes(out)

    assert asyncio.run(write_and_read()) == b"".join(bytes([i]) * 20_000 for i in range(200))
    assert MAX_IN_MEMORY < 200 * 20_000


def test_last_bytes_follow_the_rest_of_what_found_no_room() -> None:
    """Otherwise the problem that ends a stream would follow half a line, or half a message."""
    data = b"answer\n" * 20_000

    async def write_and_read() -> bytes:
        spool = Spool(Reservation(ResourcePool("bytes", 100_000, 1.0), SERVER_CALLER))
        with pytest.raises(ProblemError, match="unread"):
            await spool.write(data)
        spool.write_last(b"problem\n")
        spool.end()
        out = b"".join([chunk async for chunk in spool.chunks()])
        spool.close()
        return out

    assert asyncio.run(write_and_read()) == data + b"problem\n"
