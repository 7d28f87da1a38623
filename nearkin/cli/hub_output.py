"""Outputs of commands in repositories of the Hugging Face Hub: `--out hf://datasets/ORG/NAME`."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

from nearkin.cli.standard_streams import print_line

PREFIX = "hf:/"


def with_hub_output(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command whose output can be the URL of a dataset repository.

    The command makes the output in a local folder, which is uploaded when the command has ended.
    """
    if "out" not in signature(command).parameters:
        return command

    @wraps(command)
    def run_command(*arguments: Any, **options: Any) -> None:
        out = options.get("out")
        if not isinstance(out, Path) or not str(out).startswith(PREFIX):
            command(*arguments, **options)
            return
        # Imports huggingface_hub, or names the extra.
        import nearkin.corpus.hub  # noqa: F401
        from nearkin.runs.hub_output import HubOutput

        place = HubOutput.parse(out)
        if place is None:
            command(*arguments, **options)
            return
        overwrite = bool(options.get("overwrite"))
        place.require_writable(may_exist=overwrite or bool(options.get("resume")))
        command(*arguments, **{**options, "out": place.local})
        if options.get("dry_run"):
            return
        commit = place.upload(overwrite=overwrite)
        if not options.get("quiet"):
            print_line(f"uploaded {place.local} to {place.url}, commit {commit}")

    return run_command
