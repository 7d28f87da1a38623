"""`nearkin server token`: the tokens of a server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli.commands import make_group
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.runtime.number_range import NumberRange
from nearkin.settings.setting import setting

if TYPE_CHECKING:
    from nearkin.service.server.http.tokens import Principal, TokenFile

token = make_group("token", "Create, list and revoke the tokens of a server.")

File = Annotated[
    Path,
    typer.Option(
        "--file",
        help="File that holds the hashes of the tokens; the --tokens setting of the server.",
        metavar="FILE",
        envvar="NEARKIN_TOKENS",
    ),
]
FILE = Path("nearkin-tokens.json")
SECONDS_OF_DAY = 86400


def open_tokens(path: Path) -> "TokenFile":
    """Opens the tokens of a file."""
    from nearkin.errors import MissingExtraError

    try:
        from nearkin.service.server.http.tokens import TokenFile
    except ImportError as error:
        raise MissingExtraError.for_extra(
            f"nearkin server token requires {error.name}", "server"
        ) from error
    return TokenFile(path)


def _split_list(text: str) -> tuple[str, ...]:
    """Returns the parts of a text that are separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@token.command()
@with_option_groups
def create(
    *,
    name: Annotated[
        str, typer.Argument(help="Name of the token, of the characters a-z, 0-9 and -.")
    ],
    scopes: str = setting(
        "*",
        "Scopes that the token may use, separated by commas; team-* for a prefix, * for all.",
        "",
    ),
    rights: str = setting(
        "read,write", "Rights, separated by commas: read, write, metrics, admin.", ""
    ),
    rate: str | None = setting(
        None,
        "Maximum rate of documents, for example 100/second.",
        "",
        shown_default="none of its own",
    ),
    days: float | None = setting(
        None,
        "Number of days after which the token expires.",
        "",
        shown_default="never",
        range=NumberRange(0, 365000, excludes_least=True),
    ),
    file: File = FILE,
    json: bool = False,
) -> None:
    """Create a token and print it. It is shown once, and only its hash is stored.

    Examples:
        nearkin server token create crawler --scopes web --rights write --rate 5000/second
    """
    import time

    tokens = open_tokens(file)
    from nearkin.service.server.http.tokens import Principal

    expires = None if days is None else time.time() + days * SECONDS_OF_DAY
    secret = tokens.create(Principal(name, _split_list(scopes), _split_list(rights), rate, expires))
    if json:
        print_json({"name": name, "token": secret})
    else:
        typer.echo(secret)


@token.command("list")
@with_option_groups
def list_(*, file: File = FILE, json: bool = False) -> None:
    """List names, scopes and rights of tokens. The tokens themselves are not stored."""
    from dataclasses import asdict

    principals = open_tokens(file).principals()
    if json:
        print_json({"tokens": [asdict(principal) for principal in principals]})
        return
    for principal in principals:
        facts = (
            principal.name,
            ",".join(principal.scopes),
            ",".join(principal.rights),
            principal.rate or "no rate limit of its own",
            _format_expiry(principal),
        )
        typer.echo("  ".join(facts))


def _format_expiry(principal: "Principal") -> str:
    from datetime import UTC, datetime

    if principal.expires is None:
        return "does not expire"
    at = datetime.fromtimestamp(principal.expires, UTC)
    verb = "expired" if at <= datetime.now(UTC) else "expires"
    return f"{verb} {at:%Y-%m-%d %H:%M} UTC"


@token.command()
@with_option_groups
def revoke(
    *, name: Annotated[str, typer.Argument(help="Name of the token.")], file: File = FILE
) -> None:
    """Revoke a token. Running servers refuse it within seconds."""
    from nearkin.errors import UsageError

    if not open_tokens(file).revoke(name):
        raise UsageError(
            f"{file} has no token {name!r}; nearkin server token list shows the tokens"
        )
    typer.echo(f"{name} is no longer valid")
