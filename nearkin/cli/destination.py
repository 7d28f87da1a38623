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
        if not isinstance(out, Path) or ":" not in str(out):
            command(*arguments, **options)
            return
        from nearkin.runs.destinations import open_destination

        overwrite = bool(options.get("overwrite"))
        destination = open_destination(out, may_exist=overwrite or bool(options.get("resume")))
        local = out if destination is None else destination.local
        command(*arguments, **{**options, "out": local})
        if destination is None or options.get("dry_run"):
            return
        published = destination.publish(overwrite=overwrite)
        if not options.get("quiet"):
            print_line(published)

    return run_command
