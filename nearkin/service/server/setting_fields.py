"""The settings of a server with their defaults, ranges and descriptions.

They are apart from `nearkin.service.server.settings`, which reads them, because the help page of
`nearkin serve` lists them where the libraries of a server are not installed.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field


class ServerFields(BaseModel):
    """The settings of `nearkin serve`, each with the text of its help page."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 chooses a free port.")
    store: str = Field(
        "sqlite:///nearkin.db",
        description="URL of the store. Several URLs, separated by commas, are shards.",
    )
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="Number of processes, 1 to 64. Several processes need a shared store.",
    )
    kind: Literal["text", "vector"] = Field(
        "text", description="Content of the documents: text or vector."
    )
    index: dict[str, str] = Field(
        {}, description="Setting of the index, for example threshold=0.7. Can be repeated."
    )
    settings: Path | None = Field(
        None,
        description="Settings file of runs, for example of `nearkin fit`. A new index has its "
        "Spec, its threshold and its bands. Values of --index replace them.",
    )
    preset: str | None = Field(
        None,
        description="Settings for a kind of data, as for `nearkin dedup`: web, articles, records, "
        "bibliography, logs, code or titles. Excludes --settings.",
    )
    keyed: bool = Field(True, description="Hash new indexes with a secret key.")
    key_file: str = Field(
        "nearkin.key",
        description="Secret key of 32 hexadecimal digits: a file, which is created with mode "
        "0600, or env:NAME for a variable.",
    )
    spec_resources: Path | None = Field(
        None,
        description="Folder of a run that contains the frequency cut and document frequencies of "
        "the index's Spec.",
    )
    blocklist: Path | None = Field(
        None,
        description="File of a blocklist, of the Spec and the key of the index. Documents that are "
        "like one of its entries are not stored. It is read again when it changes.",
    )
    decisions: dict[str, Path] = Field(
        {},
        description="File of decisions about pairs of documents of a scope, as SCOPE=FILE. Can be "
        "repeated. It is read when the server starts.",
    )
    tokens: Path = Field(
        Path("nearkin-tokens.json"),
        description="File of hashed tokens, which `nearkin server token` writes.",
    )
    allow_anonymous: bool = Field(
        False, description="Serve other machines without requiring a token."
    )
    tls_cert: Path | None = Field(
        None, description="TLS certificate chain in PEM format. Requires tls-key."
    )
    tls_key: Path | None = Field(
        None, description="TLS private key in PEM format, without a password."
    )
    trusted_proxies: str = Field(
        "127.0.0.1",
        description="Addresses of proxies whose X-Forwarded-For header is trusted, separated by "
        "commas.",
    )
    source_rate: str = Field(
        "2000/second",
        description="Rate of documents of one client address without a token, and of each token "
        "without a rate of its own.",
    )
    failures: str = Field(
        "20/minute", description="Rate of failed authentications of one client address."
    )
    anonymous_rate: str = Field(
        "500/second",
        description="Rate of requests of one client address without a valid token, also those "
        "that are refused. Probes (/healthz and /readyz) are not counted.",
    )
    limits_store: str = Field(
        "memory://",
        description="URL of the store in which rates are counted: memory://, or redis://… for all "
        "workers together.",
    )
    max_body: int = Field(
        16_000_000,
        ge=1024,
        description="Maximum size of a request that is not a stream, in bytes, at least 1024.",
    )
    max_line: int = Field(
        2_000_000,
        ge=1024,
        description="Maximum size of a line or a document in a stream, in bytes, at least 1024.",
    )
    max_stream: int = Field(
        10_000_000_000, ge=1024, description="Maximum size of a stream, in bytes, at least 1024."
    )
    max_top: int = Field(
        100,
        ge=1,
        description="Maximum number of matches of a query. Queries for more are refused.",
    )
    queue: int = Field(
        2000,
        ge=1,
        description="Maximum number of waiting documents. Further requests are answered with "
        "status 503.",
    )
    requests: int = Field(
        1000,
        ge=1,
        description="Maximum number of concurrent requests. Further requests are answered with "
        "status 503.",
    )
    token_share: float = Field(
        0.25,
        gt=0,
        le=1,
        description="Share of queue, requests, streams, max-inflight and spill that one token, or "
        "one address without a token, can use, in (0, 1]. On a server without tokens that only "
        "this "
        "machine can reach, local programs can use all of it.",
    )
    max_inflight: int = Field(
        320_000_000,
        ge=4 << 20,
        description="Maximum size of request bodies, unfinished batches of streams, waiting "
        "documents and responses with texts "
        "in memory, in bytes, at least 4 MiB.",
    )
    byte_rate: str = Field(
        "100000000/second",
        description="Rate of document bytes of one token, or of one address without a token.",
    )
    streams: int = Field(
        256,
        ge=1,
        description="Maximum number of concurrent streams. Further streams are answered with "
        "status 503.",
    )
    max_message: int = Field(
        64_000_000,
        ge=1024,
        description="Maximum size of a record batch in an Arrow stream, in bytes, at least 1024.",
    )
    spill: int = Field(
        1_000_000_000,
        ge=1 << 20,
        description="Maximum size of stream answers on disk that clients have not read, in bytes, "
        "at least 1 MiB. Beyond it, "
        "streams wait.",
    )
    head_timeout: float = Field(
        10.0,
        gt=0,
        description="Maximum number of seconds for a TLS handshake, and for the request line and "
        "headers.",
    )
    max_head: int = Field(
        65_536,
        ge=1024,
        description="Maximum size of the request line and headers, in bytes, at least 1024.",
    )
    connections: int = Field(
        4096, ge=1, description="Maximum number of connections. Further connections are closed."
    )
    source_connections: int = Field(
        256,
        ge=1,
        description="Maximum number of connections of one client address or IPv6 /64 network. "
        "Trusted proxies are exempt.",
    )
    batch: int = Field(
        256, ge=1, le=10_000, description="Maximum number of documents of a batch, 1 to 10,000."
    )
    timeout: float = Field(
        30.0, gt=0, description="Maximum number of seconds for a request that is not a stream."
    )
    idle_timeout: float = Field(
        60.0, gt=0, description="Maximum number of seconds that a stream can pause."
    )
    expire_every: float = Field(
        60.0, gt=0, description="Seconds between sweeps, which delete expired entries."
    )
    golden: Path | None = Field(
        None,
        description="File of golden pairs (JSON lines with a, b and similar), which are queried "
        "at regular intervals.",
    )
    golden_every: float = Field(
        60.0, gt=0, description="Seconds between two queries of the golden pairs."
    )
    live_probes: int = Field(
        20,
        ge=0,
        le=100,
        description="Number of stored documents of each scope that are looked up again, slightly "
        "altered, in each round that measures recall, 0 to 100; 0 turns it off.",
    )
    live_probe_every: float = Field(
        60.0, gt=0, description="Seconds between two rounds of look-ups of stored documents."
    )
    shadow_store: str | None = Field(
        None, description="URL of the store of a shadow index, which has another banding."
    )
    shadow_bands: int | None = Field(None, ge=1, description="Number of bands of the shadow index.")
    shadow_rows: int | None = Field(
        None, ge=1, description="Number of rows per band of the shadow index."
    )
    shadow_probes: int = Field(0, ge=0, description="Number of probes of the shadow index.")
    memory_budget: int | None = Field(
        None,
        ge=1,
        description="Expected maximum size of the index, in bytes. Only alerts use it; nothing "
        "enforces it.",
    )
    audit: Path | None = Field(
        None, description="Output of `nearkin audit --json` that the console shows."
    )
    run: Path | None = Field(
        None, description="Folder of an audited run, whose audit the console shows."
    )
    console: bool = Field(True, description="Serve the console at /console.")
    metrics: bool = Field(True, description="Serve metrics at /metrics.")
    otlp: str | None = Field(
        None, description="OTLP endpoint for traces, for example http://collector:4318."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level of log lines: debug, info, warning or error."
    )
    log_format: Literal["auto", "text", "json"] = Field(
        "auto",
        description="Form of log lines: text, json, or auto, which is text on a terminal and JSON "
        "otherwise.",
    )
