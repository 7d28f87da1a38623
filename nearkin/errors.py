"""The one exception family. A message names the value that was wrong and the way out."""

from typing import Any

from nearkin.redaction import redact


class NearkinError(Exception):
    """Base of every error that nearkin raises on purpose.

    Passwords in URLs are replaced in the message.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*(redact(one) if isinstance(one, str) else one for one in arguments))


class UsageError(NearkinError, ValueError):
    """What was asked for cannot be asked: no such file, column or option value. The command line exits with 2."""


class IncompatibleError(UsageError):
    """Two artefacts were made under different Specs, so comparing them would miss silently."""


class KeyRequiredError(UsageError):
    """A Spec names a secret key that was not given, or another one was."""


class RunError(NearkinError, RuntimeError):
    """Something failed while running (disk full, unreadable file). The command line exits with 1; a run can be resumed."""


class MissingExtraError(NearkinError, ImportError):
    """An optional dependency is not installed; the message names the command that installs it."""


class WireError(NearkinError, ValueError):
    """Bytes that are no signature of the Spec they are read for; `nearkin.sketch.record` tells the faults apart."""


class RebuildDueError(NearkinError, RuntimeError):
    """A counting signature has forgotten too much to be right; it must be rebuilt from the elements that are left."""


class StoreError(RunError):
    """A store could not do what an index asked: connection lost, timeout, read-only, full.

    The step wrote nothing, unless the error is an OutcomeUnknownError.
    """


class OutcomeUnknownError(StoreError):
    """The answer of a store to a step was lost, so whether the step was done is unknown. The call may be repeated safely."""


class ClockError(StoreError):
    """The clock of this process is not plausible, so nothing is swept by it."""


class MovedError(StoreError):
    """The index is being moved to another store, or has been; an index looks where to and tries again there."""


class RacedError(StoreError):
    """Another process changed what a step was about to change; the index looks again and tries once more."""


class LargeClusterError(StoreError):
    """A step would have to resolve more documents at once than it may; some of them must be resolved in steps before it.

    Attributes:
        leader: Id of the representative whose members are too many.
        into: Id of the representative that it is merged into; None where it goes.
        inherits: Whether the first document that then stands for itself inherits the cluster's id.
    """

    def __init__(self, leader: str, into: str | None, inherits: bool) -> None:
        super().__init__("a representative has too many members for one step")
        self.leader = leader
        self.into = into
        self.inherits = inherits


class ServiceError(NearkinError, RuntimeError):
    """A server refused a request, or gave no answer.

    Attributes:
        code: Kind of problem, as `invalid-request`; it does not change. `unreachable`, `no-answer` and `unexpected-answer` are
            the client's own.
        detail: What was wrong.
        status: Of the answer; None without one.
        field: Member of the request that is wrong, as `/text`.
        request_id: By which the server's log knows it.
        line: Of a batch, counted from 1; None for the whole request.
        retry_after: Seconds after which the server wants to be asked again.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        field: str | None = None,
        request_id: str | None = None,
        line: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        where = "" if line is None else f"line {line}: "
        known = "" if request_id is None else f" (request {request_id})"
        super().__init__(f"{where}{code}{'' if status is None else f' ({status})'}: {detail}{known}")
        self.code = code
        self.detail = redact(detail)
        self.status = status
        self.field = field
        self.request_id = request_id
        self.line = line
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in ("unreachable", "no-answer") or self.status in (429, 502, 503, 504)
