"""The exceptions of nearkin. A message names the invalid value and the remedy."""

from typing import Any

from nearkin.runtime.redaction import redact


class NearkinError(Exception):
    """The base class of all errors that nearkin raises.

    Passwords in URLs are replaced in the message.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*(redact(one) if isinstance(one, str) else one for one in arguments))

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, an error is unpickled by a call with its message, which some classes do not
        # take. A pool of processes hangs if that fails.
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(
    kind: type[NearkinError], arguments: tuple[Any, ...], attributes: dict[str, object]
) -> NearkinError:
    """Returns an unpickled error."""
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


class UsageError(NearkinError, ValueError):
    """An error: the request is invalid.

    A file, column or option value does not exist or is out of range. The command line exits with
    2.
    """


class IncompatibleError(UsageError):
    """An error: two artifacts have different Specs, so that their comparison would be wrong."""


class MissingIndexError(UsageError):
    """An error: a store has no index, and the request is for an existing one."""


class KeyRequiredError(UsageError):
    """An error: the hash key that a Spec names is missing, or another key was given."""


class ChangesGoneError(UsageError):
    """An error: the changes after a cursor are not kept. A follower starts from an export again."""


class OldVersionError(UsageError):
    """An error: a newer version of a document is stored. A consumer passes the event over."""


class RunError(NearkinError, RuntimeError):
    """An error: a run failed, for example because the disk is full.

    The run can be resumed. The command line exits with 1.
    """


class MissingExtraError(NearkinError, ImportError):
    """An error: an optional dependency is not installed. The message names the install command."""

    @classmethod
    def for_extra(cls, need: str, extra: str) -> "MissingExtraError":
        """Returns the error for an extra of nearkin that is not installed.

        Args:
            need: What requires which library, for example `to_pandas requires pandas`.
            extra: The name of the extra in pyproject.toml.

        Examples:
            >>> print(MissingExtraError.for_extra("to_pandas requires pandas", "pandas"))
            to_pandas requires pandas; run pip install ".[pandas]" in your clone of nearkin
        """
        return cls(f"{need}; {install_hint(extra)}")


def install_hint(extra: str) -> str:
    """Returns the remedy for an extra that is not installed, which works from a clone.

    Args:
        extra: The name of the extra in pyproject.toml.
    """
    return f'run pip install ".[{extra}]" in your clone of nearkin'


class QuotaError(UsageError):
    """An error: documents would exceed the quota of their scope. None of them was written."""


class WireError(NearkinError, ValueError):
    """An error: bytes are not a signature record of the expected Spec.

    `nearkin.stages.sketch.record` has a subclass for each kind of damage.
    """


class RebuildDueError(NearkinError, RuntimeError):
    """An error: a counting signature must be rebuilt from the remaining elements."""


class StoreError(RunError):
    """A failure of a store: a lost connection, a timeout, a full or read-only store.

    Nothing was written, unless the error is an OutcomeUnknownError.
    """


class IndexFullError(StoreError):
    """An error: an index would need more memory than its setting `max_memory`.

    Nothing was written. Documents can still be looked up and deleted.
    """


class OutcomeUnknownError(StoreError):
    """An error: the answer of a store was lost, so that a write may or may not have happened.

    It is safe to repeat the call.
    """


class ClockError(StoreError):
    """An error: the clock of this process is not plausible, so that nothing was swept."""


class MovedError(StoreError):
    """An error: the index was moved to another store. An index retries the step in that store."""


class RacedError(StoreError):
    """An error: another process changed the same data first. The index retries the step."""


class LargeClusterError(StoreError):
    """An error: a step would resolve too many documents. Some must be resolved in earlier steps.

    Attributes:
        leader: Id of the representative with too many members.
        into: Id of the representative that it is merged into, or None if it is removed.
        inherits: True if the first document that becomes a representative inherits the cluster id.
    """

    def __init__(self, leader: str, into: str | None, *, inherits: bool) -> None:
        super().__init__("a representative has too many members for one step")
        self.leader = leader
        self.into = into
        self.inherits = inherits


class ServiceError(NearkinError, RuntimeError):
    """An error: a server rejected a request or did not answer.

    Attributes:
        code: Code of the problem, for example `invalid-request`. Codes do not change between
            releases. `unreachable`, `no-answer` and `unexpected-answer` come from the client.
        detail: Description of the problem.
        status: HTTP status of the answer, or None without an answer.
        field: Invalid field of the request, for example `/text`.
        request_id: Id of the request in the log of the server.
        line: Line of a batch, counted from 1, or None for the whole request.
        retry_after: Number of seconds after which the request can be retried.
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
        super().__init__(
            f"{where}{code}{'' if status is None else f' ({status})'}: {detail}{known}"
        )
        self.code = code
        self.detail = redact(detail)
        self.status = status
        self.field = field
        self.request_id = request_id
        self.line = line
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """True if the same request can succeed later."""
        return self.code in ("unreachable", "no-answer") or self.status in (429, 502, 503, 504, 507)
