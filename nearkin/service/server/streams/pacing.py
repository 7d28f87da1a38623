"""Slows streams down to the rates of their token and their client address."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from nearkin.service.server.http.auth import Authenticator
from nearkin.service.server.http.callers import Caller
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.tokens import LOCAL_PRINCIPAL, Principal
from nearkin.service.server.service import Service
from nearkin.service.server.streams.format import StreamPart


class StreamPacer:
    """Admits the parts of a stream when the rates have room for them.

    Args:
        service: Counts bytes.
        caller: The caller that the bytes are counted for.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        service: Service,
        principal: Principal,
        caller: Caller,
        source: str,
    ) -> None:
        self._authenticator = authenticator
        self._service = service
        self._principal = principal
        self._caller = caller
        self._source = source
        self._session_mark = ""
        if principal is not LOCAL_PRINCIPAL:
            self._session_mark = authenticator.tokens.session_mark(principal.name)

    def require_token(self, scope: str) -> None:
        """Checks that the token of the stream is still valid and may still write to the scope."""
        if self._principal is LOCAL_PRINCIPAL:
            is_valid = self._authenticator.is_open
        else:
            current = self._authenticator.tokens.find_by_mark(
                self._principal.name, self._session_mark
            )
            is_valid = (
                current is not None and current.has_right("write") and current.can_access(scope)
            )
        if not is_valid:
            raise ProblemError("unauthenticated", "the token of the stream is not valid any more")

    async def admit(self, part: StreamPart) -> None:
        """Waits until the rates have room for a part of the stream."""
        await self._wait_for_room(lambda: self._take_bytes(part.size))
        step = self._authenticator.admission_step(self._principal)
        for start in range(0, part.rows, step):
            count = min(step, part.rows - start)
            await self._wait_for_room(
                partial(self._authenticator.take_documents, self._principal, self._source, count)
            )

    async def _take_bytes(self, size: int) -> float:
        return self._service.byte_rates.take(self._caller, size)

    async def _wait_for_room(self, take: Callable[[], Awaitable[float]]) -> None:
        """Calls a function until it returns 0.

        Other results are the seconds to wait before the next call.
        """
        deadline = time.monotonic() + self._service.settings.idle_timeout
        while wait := await take():
            if time.monotonic() > deadline:
                raise ProblemError(
                    "rate-limited",
                    "the rate had no room for more documents within the idle timeout",
                    retry_after=wait,
                )
            await asyncio.sleep(min(wait, 1.0))
