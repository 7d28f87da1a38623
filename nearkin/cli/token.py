"""`nearkin token`: who may use a server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o

if TYPE_CHECKING:
    from nearkin.server.http.tokens import Principal, TokenFile

token = typer.Typer(no_args_is_help=True, help="Tokens of a server: create, list, revoke.")

File = Annotated[
    Path, typer.Option("--file", help="Where they are kept, hashed; the server's --tokens.", envvar="NEARKIN_TOKENS")
]
FILE = Path("nearkin-tokens.json")


def held(path: Path) -> "TokenFile":
    """The tokens of a file."""
    from nearkin.cli.serve import INSTALL
    from nearkin.errors import MissingExtraError

    try:
        from nearkin.server.http.tokens import TokenFile
    except ImportError as error:
        raise MissingExtraError(f"{INSTALL} ({error.name} is missing)") from error
    return TokenFile(path)


def parts(text: str) -> tuple[str, ...]:
    """Of a text with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@token.command()
def create(
    name: Annotated[str, typer.Argument(help="Of the token: a-z, 0-9 and -.")],
    scopes: Annotated[str, typer.Option(help="That it sees, separated by commas; team-* for a prefix, * for all.")] = "*",
    rights: Annotated[str, typer.Option(help="read, write, metrics, admin; separated by commas.")] = "read,write",
    rate: Annotated[str | None, typer.Option(help="Documents, as 100/second.")] = None,
    days: Annotated[float | None, typer.Option(help="After which it is no longer valid.")] = None,
    file: File = FILE,
    json: o.Json = False,
) -> None:
    """Make a token and print it; it is shown once and kept nowhere.

    Examples:

        nearkin token create crawler --scopes web --rights write --rate 5000/second
    """
    import time

    tokens = held(file)
    from nearkin.server.http.tokens import Principal

    expires = None if days is None else time.time() + days * 86400
    made = tokens.create(Principal(name, parts(scopes), parts(rights), rate, expires))
    if json:
        o.print_json({"name": name, "token": made})
    else:
        typer.echo(made)


@token.command("list")
def list_(file: File = FILE, json: o.Json = False) -> None:
    """Names, scopes and rights; tokens themselves are not kept."""
    from dataclasses import asdict

    every = held(file).principals()
    if json:
        o.print_json({"tokens": [asdict(one) for one in every]})
        return
    for one in every:
        facts = (one.name, ",".join(one.scopes), ",".join(one.rights), one.rate or "no limit of its own", _end(one))
        typer.echo("  ".join(facts))


def _end(one: "Principal") -> str:
    from datetime import UTC, datetime

    if one.expires is None:
        return "does not end"
    at = datetime.fromtimestamp(one.expires, UTC)
    return f"{'ended' if at <= datetime.now(UTC) else 'until'} {at:%Y-%m-%d %H:%M} UTC"


@token.command()
def revoke(name: Annotated[str, typer.Argument(help="Of the token.")], file: File = FILE) -> None:
    """Take a token back; servers know within seconds."""
    from nearkin.errors import UsageError

    if not held(file).revoke(name):
        raise UsageError(f"{file} has no token {name!r}; nearkin token list shows them")
    typer.echo(f"{name} is no longer valid")
