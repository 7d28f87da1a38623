"""`nearkin stream`: documents of an event stream, into an index or to a server."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs, urlsplit

import typer

from nearkin.cli import options as o
from nearkin.cli.index import open_index
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_facts
from nearkin.runtime.number_range import COUNT
from nearkin.settings.setting import INPUT, OUTPUT, RUN, setting
from nearkin.settings.table import IndexKeySettings

if TYPE_CHECKING:
    from nearkin.service.consumer.events import DocumentSink
    from nearkin.service.consumer.kafka_source import KafkaSource
    from nearkin.service.consumer.kafka_topic import KafkaTarget
    from nearkin.service.consumer.redis_source import RedisSource, RedisTarget


@dataclass(frozen=True)
class FieldOptions:
    """The options that say how an event becomes a document."""

    scope: str = setting("default", "Scope of documents whose events do not name one.", INPUT)
    text: str = setting(
        "text", "Field that holds the text.", INPUT, names_columns=True, is_list=True
    )
    vector: str = setting(
        "vector", "Field that holds the vector, a JSON array.", INPUT, names_columns=True
    )
    id_field: str = setting(
        "id", "Field that holds the id. Without it the id is made from the content.", INPUT
    )
    scope_field: str = setting("scope", "Field or header that holds the scope.", INPUT)
    op_field: str = setting(
        "op",
        "Field or header that holds the operation, for example upsert or delete. Without it an "
        "event is an upsert, and a message of Kafka without a value is a deletion.",
        INPUT,
    )
    version_field: str | None = setting(
        None,
        "Field or header that holds the version, a number or a time. An older version never "
        "replaces a newer one. By default the last event counts.",
        INPUT,
        excludes={"server": "the consumer compares versions in the index"},
    )
    max_event: int = setting(
        16_000_000,
        "Maximum size of an event in bytes. Larger events become dead letters.",
        INPUT,
        metavar="BYTES",
        range=COUNT,
    )


@with_option_groups
def stream(
    *,
    source: Annotated[
        str,
        typer.Argument(
            help="URL of the event stream: redis://host:6379/0?stream=documents, or "
            "kafka://host:9092/documents.",
            metavar="URL",
        ),
    ],
    fields: FieldOptions,
    resources: IndexKeySettings,
    store: str | None = setting(
        None,
        "URL of the index that receives the documents: sqlite:///file.db, redis://…",
        OUTPUT,
        metavar="URL",
        excludes={"server": "documents have one destination"},
    ),
    server: str | None = setting(
        None,
        "URL of the server that receives the documents. Its token is read from NEARKIN_TOKEN.",
        OUTPUT,
        metavar="URL",
        excludes=dict.fromkeys(("key_file", "spec_resources"), "the server has its own"),
    ),
    blocklist: o.IndexBlocklist = None,
    to: str | None = setting(
        None,
        "URL of the stream that receives an event for each outcome: "
        "redis://host:6379/0?stream=outcomes, or kafka://host:9092/outcomes.",
        OUTPUT,
        metavar="URL",
        excludes={"server": "a server does not tell which documents were promoted"},
    ),
    group: str = setting("nearkin", "Name of the group whose consumers share events.", RUN),
    consumer: str | None = setting(
        None, "Name of this consumer.", RUN, shown_default="the name of the machine"
    ),
    batch: int = setting(500, "Maximum number of events in a batch.", RUN, range=COUNT),
    idle: str = setting(
        "60s",
        "Time after which the events of a dead consumer are taken over, for example 60s.",
        RUN,
        metavar="TIME",
    ),
    until_empty: bool = setting(False, "End when no event is left in the stream.", RUN),
    json: bool = False,
) -> None:
    """Upsert the documents of an event stream into an index.

    Events may delete documents, too. A server can be the destination instead. Each event is processed at least once, and repeating it has no second effect. SIGTERM ends the command after the current
    batch.

    Examples:
        nearkin stream "redis://localhost/0?stream=documents" --store sqlite:///kin.db

        nearkin stream "kafka://localhost:9092/documents" --id key --store sqlite:///kin.db

        nearkin stream "kafka://localhost:9092/documents" --store sqlite:///kin.db --to "kafka://localhost:9092/outcomes"

        nearkin stream "redis://localhost/0?stream=documents" --server https://kin.example --group crawl --consumer one
    """  # noqa: E501
    import logging
    from threading import Event

    from nearkin.cli.signals import set_by_signals
    from nearkin.errors import UsageError
    from nearkin.index.stores.urls import recorded_url

    if to is not None and stream_of(to) == stream_of(source):
        raise UsageError(f"--to {recorded_url(to)} is the stream that is read; name another one")
    # The kind of stream decides which extra is needed.
    open_source = load_source(source)
    from nearkin.service.consumer.consumer import Consumer
    from nearkin.service.consumer.events import StreamSettings

    logging.basicConfig(level=logging.WARNING, format="nearkin: %(message)s")
    seconds = o.parse_seconds(idle, "--idle") or 0.0
    settings = StreamSettings(
        scope=fields.scope,
        text=fields.text,
        vector=fields.vector,
        id=fields.id_field,
        scope_field=fields.scope_field,
        op=fields.op_field,
        version=fields.version_field,
        batch=batch,
        idle=seconds,
        max_event=fields.max_event,
    )
    stop = Event()
    with (
        set_by_signals(stop),
        nullcontext() if to is None else load_target(to)(to) as target,
        open_sink(store, server, resources, blocklist) as sink,
        open_source(source, group, consumer, seconds) as events,
    ):
        consumed = Consumer(events, sink, settings, stop, target).run(until_empty=until_empty)
    print_facts(consumed.to_dict(), as_json=json)


def stream_of(url: str) -> tuple[str, str, str, list[str]]:
    """Returns what tells two streams apart in their URLs."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # It is refused when it is opened.
        return url, "", "", []
    host = parts.netloc.rpartition("@")[2]
    return parts.scheme, host, parts.path, parse_qs(parts.query).get("stream", [])


def load_target(url: str) -> "type[RedisTarget | KafkaTarget]":
    """Returns the class of the stream of a URL that receives outcomes."""
    if url.startswith("kafka:"):
        from nearkin.service.consumer.kafka_topic import KafkaTarget

        return KafkaTarget
    from nearkin.service.consumer.redis_source import RedisTarget

    return RedisTarget


def load_source(url: str) -> "type[RedisSource | KafkaSource]":
    """Returns the class of the event stream of a URL, whose scheme decides the kind."""
    if url.startswith("kafka:"):
        from nearkin.service.consumer.kafka_source import KafkaSource

        return KafkaSource
    from nearkin.service.consumer.redis_source import RedisSource

    return RedisSource


@contextmanager
def open_sink(
    store: str | None,
    server: str | None,
    resources: IndexKeySettings,
    blocklist: Path | None = None,
) -> "Iterator[DocumentSink]":
    """Opens the index or the server that receives the documents."""
    from nearkin.errors import UsageError
    from nearkin.service.consumer.sinks import IndexSink, ServerSink

    if (store is None) == (server is None):
        raise UsageError("give the destination of the documents: --store URL, or --server URL")
    if server is not None:
        if blocklist is not None:
            raise UsageError(
                f"--blocklist {blocklist} is for an index, and a server has its own blocklist; "
                "leave it out, or start the server with --blocklist"
            )
        from nearkin.service.client.clients import Client

        with Client(server) as client:
            yield ServerSink(client)
    elif store is not None:
        from nearkin.engine.blocklist.blocklist import Blocklist

        opened = None if blocklist is None else Blocklist.open(blocklist)
        with open_index(store, resources, blocklist=opened) as index:
            yield IndexSink(index)
