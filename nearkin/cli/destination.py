"""Outputs of commands that are not paths: `--out s3://BUCKET/FOLDER`, for example."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

from nearkin.cli.standard_streams import print_line


def with_destination(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command whose output can be a URL.

    The command makes the output at a local path, and it is published when the command has ended.
    """
    if "out" not in signature(command).parameters:
        return command

    @wraps(command)
    def run_command(*arguments: Any, **options: Any) -> None:
        out = options.get("out")
        mode = options.get("write_mode")
        if not isinstance(out, Path) or (":" not in str(out) and mode in (None, "create")):
            command(*arguments, **options)
            return
        from nearkin.runs.destinations import WriteRequest, open_destination

        request = None
        if mode is not None and options.get("extend") is None:
            request = WriteRequest(mode, options.get("id_column"), tuple(options["inputs"] or ()))
        overwrite = bool(options.get("overwrite"))
        resume = bool(options.get("resume"))
        destination = open_destination(out, request, may_exist=overwrite or resume)
        if destination is None:
            command(*arguments, **options)
            return
        changed: dict[str, Any] = {"out": destination.local, **destination.options}
        if not resume and destination.is_published():
            changed["overwrite"] = True
        command(*arguments, **{**options, **changed})
        if options.get("dry_run"):
            return
        published = destination.publish(overwrite=overwrite)
        if not options.get("quiet"):
            print_line(published)

    return run_command
