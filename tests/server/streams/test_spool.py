"""The queue of answers that a client has not read yet."""

import asyncio

from nearkin.server.http.callers import SERVER_CALLER
from nearkin.server.http.shares import Reservation, ResourcePool
from nearkin.server.streams.spool import MAX_IN_MEMORY, Spool


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
