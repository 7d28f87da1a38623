"""`nearkin stream`: an event stream into an index, or to a server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli import options as o
from nearkin.cli.index import opened, say

if TYPE_CHECKING:
    from nearkin.consumer.consumer import Sink


def stream(
    source: Annotated[str, typer.Argument(help="redis://host:6379/0?stream=documents", metavar="URL")],
    store: Annotated[str | None, typer.Option(help="Of the index: sqlite:///file.db, redis://…", metavar="URL")] = None,
    server: Annotated[str | None, typer.Option(help="Of nearkin serve; its token in NEARKIN_TOKEN.", metavar="URL")] = None,
    group: Annotated[str, typer.Option(help="Consumers of one group share the events.")] = "nearkin",
    consumer: Annotated[str | None, typer.Option(help="Name of this one.  [default: the machine's]")] = None,
    scope: Annotated[str, typer.Option(help="Of documents whose events name none.")] = "default",
    text: Annotated[str, typer.Option(help="Field of a text.")] = "text",
    vector: Annotated[str, typer.Option(help="Field of a vector, a JSON array.")] = "vector",
    id_field: Annotated[str, typer.Option("--id", help="Field of the id; where there is none, it is the content's.")] = "id",
    scope_field: Annotated[str, typer.Option(help="Field of the scope.")] = "scope",
    batch: Annotated[int, typer.Option(help="Events that are worked on at once.")] = 500,
    idle: Annotated[str, typer.Option(help="Time after which a dead consumer's events are taken over.")] = "60s",
    max_event: Annotated[
        int, typer.Option(help="Maximum size of an event in bytes; larger ones go to the dead letters.", metavar="BYTES")
    ] = 16_000_000,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is left.")] = False,
    tables: o.SpecTables = None,
    key_file: o.KeyFile = None,
    json: o.Json = False,
) -> None:
    """Upsert the documents of an event stream: each at least once, none with a second effect. SIGTERM ends it gracefully.

    Examples:

        nearkin stream "redis://localhost/0?stream=documents" --store sqlite:///kin.db

        nearkin stream "redis://localhost/0?stream=documents" --server https://kin.example --group crawl --consumer one
    """
    import logging
    from threading import Event

    from nearkin.cli.signals import set_by_signals
    from nearkin.consumer.consumer import Consumer, RedisSource, StreamSettings

    logging.basicConfig(level=logging.WARNING, format="nearkin: %(message)s")
    seconds = o.seconds(idle, "--idle") or 0.0
    settings = StreamSettings(
        scope=scope,
        text=text,
        vector=vector,
        id=id_field,
        scope_field=scope_field,
        batch=batch,
        idle=seconds,
        max_event=max_event,
    )
    stop = Event()
    with (
        set_by_signals(stop),
        sink_of(store, server, tables=tables, key_file=key_file) as sink,
        RedisSource(source, group, consumer, seconds) as events,
    ):
        say(Consumer(events, sink, settings, stop).run(until_empty).to_dict(), json)


@contextmanager
def sink_of(store: str | None, server: str | None, **fields: Any) -> "Iterator[Sink]":
    """Where the documents go."""
    from nearkin.consumer.consumer import IndexSink, ServerSink
    from nearkin.errors import UsageError

    if (store is None) == (server is None):
        raise UsageError("say where the documents go: --store URL, or --server URL")
    if server is not None:
        from nearkin.client.clients import Client

        with Client(server) as client:
            yield ServerSink(client)
    else:
        with opened(store or "", fields.pop("key_file"), **fields) as index:
            yield IndexSink(index)
