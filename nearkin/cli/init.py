"""`nearkin server init`."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.cli.standard_streams import print_line
from nearkin.settings.setting import OUTPUT, setting


@with_option_groups
def init(
    *,
    folder: Annotated[
        Path, typer.Argument(help="Folder of the key and the tokens.", metavar="DIR")
    ],
    monitoring: bool = setting(
        False,
        "Make a token for Prometheus and a password for Grafana, too. The group of DIR can read "
        "them.",
        OUTPUT,
    ),
    json: bool = False,
) -> None:
    """Make the key and the tokens that a service needs.

    What exists is never replaced, so the command can run before each start. The token of the operator is printed once, and only its hash is stored.

    Examples:
        nearkin server init /var/lib/nearkin

        nearkin server init secrets/ --monitoring
    """  # noqa: E501
    from nearkin.errors import MissingExtraError

    try:
        from nearkin.service.server.service_folder import complete_service_folder
    except ImportError as error:
        raise MissingExtraError.for_extra(
            f"nearkin server init requires {error.name}", "server"
        ) from error

    changes = complete_service_folder(folder, monitoring=monitoring)
    if json:
        created = [str(path) for path in changes.created]
        print_json({"created": created, "operator_token": changes.operator_token})
        return
    for path in changes.created:
        print_line(f"created {path}")
    if changes.operator_token is not None:
        print_line("token of the operator, which is shown only now:")
        typer.echo(changes.operator_token)
