"""The one exception family. A message names the value that was wrong and the way out."""


class NearkinError(Exception):
    """Base of every error that nearkin raises on purpose."""


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
    """Bytes that are no signature of the Spec they are read for; `nearkin.sketch.wire` tells the faults apart."""


class RebuildDueError(NearkinError, RuntimeError):
    """A counting signature has forgotten too much to be right; it must be rebuilt from the elements that are left."""


class StoreError(RunError):
    """A store could not do what an index asked: connection lost, timeout, read-only, full. Nothing was written by that step."""


class MovedError(StoreError):
    """The index is being moved to another store, or has been; an index looks where to and tries again there."""


class RacedError(StoreError):
    """Another process changed what a step was about to change; the index looks again and tries once more."""
