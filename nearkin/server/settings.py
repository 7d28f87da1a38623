"""How a server is run: flags before environment variables (NEARKIN_…) before a TOML file before defaults."""

import ipaddress
import json
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from nearkin.errors import UsageError
from nearkin.index.settings import SERVER_TIMES, IndexSettings
from nearkin.server.http.rates import RateLimiter, parse_rate

PREFIX = "NEARKIN_"
READ_AHEAD = 2 << 20
"""Bytes that a stream may hold beside its longest line or message: its metadata, and what has been read too far."""


def pair(text: str) -> tuple[str, str]:
    """A setting of the index.

    Raises:
        UsageError: It is none.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"index setting {text!r} is not of the form threshold=0.7")
    return name.strip(), value.strip()


class ServerSettings(BaseSettings):
    """Parameters of `nearkin serve`; every one is a flag, a variable NEARKIN_NAME, and a line of the TOML file.

    Those of the index itself (threshold, bands, shingle, …) are the table [index], variables NEARKIN_TEXT_… or
    NEARKIN_VECTOR_…, and `--index name=value`; see `IndexSettings`.

    Examples:
        >>> ServerSettings.read(port=9000).port
        9000
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", case_sensitive=False)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 for a free one.")
    store: str = Field("sqlite:///nearkin.db", description="URL of the store; several, separated by commas, are shards.")
    workers: int = Field(1, ge=1, le=64, description="Processes over a shared store.")
    kind: Literal["text", "vector"] = Field("text", description="What the index holds, and which variables describe it.")
    index: Annotated[dict[str, str], NoDecode] = Field(
        {}, description="A setting of the index, as threshold=0.7; may be repeated."
    )
    keyed: bool = Field(True, description="Hash with a secret key where this server makes the index.")
    key_file: str = Field(
        "nearkin.key", description="The key, 32 hexadecimal digits: a file, made with mode 0600, or env:NAME."
    )
    tables: Path | None = Field(None, description="A run's folder with the tables that the index' Spec names.")
    tokens: Path = Field(Path("nearkin-tokens.json"), description="Tokens, hashed; written by nearkin token.")
    allow_anonymous: bool = Field(False, description="Listen beyond this machine without tokens.")
    tls_cert: Path | None = Field(None, description="Certificate chain, PEM; with tls-key.")
    tls_key: Path | None = Field(None, description="Private key, PEM.")
    trusted_proxies: str = Field("127.0.0.1", description="Addresses whose X-Forwarded-For is believed, separated by commas.")
    source_rate: str = Field("2000/second", description="Documents of one source address; tokens have rates of their own.")
    failures: str = Field("20/minute", description="Failed authentications of one source address.")
    anonymous_rate: str = Field(
        "500/second",
        description="Requests of one source address that need no token: sign-in page, the console's files, /openapi.json.",
    )
    limits_store: str = Field("memory://", description="Where rates are counted: memory://, or redis://… for all workers.")
    max_body: int = Field(16_000_000, ge=1024, description="Bytes of a request that is no stream.")
    max_line: int = Field(2_000_000, ge=1024, description="Bytes of a line, or of a document, in a stream.")
    max_stream: int = Field(10_000_000_000, ge=1024, description="Bytes of a stream.")
    max_top: int = Field(100, ge=1, description="Matches of a query, at most.")
    queue: int = Field(2000, ge=1, description="Documents waiting, beyond which requests are answered with 503.")
    requests: int = Field(1000, ge=1, description="Requests at once, beyond which they are answered with 503.")
    token_share: float = Field(
        0.25,
        gt=0,
        le=1,
        description="Share of queue, requests, streams, max-inflight and spill that one token, or one address without a token, "
        "may hold. Programs of this machine may hold all of it on a server without tokens that only they can reach.",
    )
    max_inflight: int = Field(
        320_000_000,
        ge=4 << 20,
        description="Bytes of bodies, unfinished batches of streams, waiting documents and answers with texts in memory.",
    )
    byte_rate: str = Field("100000000/second", description="Bytes of documents of one token, or one address without a token.")
    streams: int = Field(256, ge=1, description="Streams at once, beyond which they are answered with 503.")
    max_message: int = Field(64_000_000, ge=1024, description="Bytes of a record batch in an Arrow stream.")
    spill: int = Field(
        1_000_000_000, ge=1 << 20, description="Bytes of answers of streams that clients have not read, on disk; more waits."
    )
    head_timeout: float = Field(10.0, gt=0, description="Seconds for a TLS handshake, and for the head of a request.")
    max_head: int = Field(65_536, ge=1024, description="Bytes of the head of a request: its address and headers.")
    connections: int = Field(4096, ge=1, description="Connections at once, beyond which new ones are closed.")
    source_connections: int = Field(
        256, ge=1, description="Connections of one source address, or /64 network, at once; trusted proxies are not counted."
    )
    batch: int = Field(256, ge=1, le=10_000, description="Documents that are worked on at once.")
    timeout: float = Field(30.0, gt=0, description="Seconds for a request that is no stream.")
    idle_timeout: float = Field(60.0, gt=0, description="Seconds that a stream may pause.")
    expire_every: float = Field(60.0, gt=0, description="Seconds between sweeps for what is over its time to live.")
    golden: Path | None = Field(None, description="Known pairs (JSON lines: a, b, similar) to be asked for regularly.")
    golden_every: float = Field(60.0, gt=0, description="Seconds between two such rounds.")
    shadow_store: str | None = Field(None, description="URL of a store for a second banding, fed beside the live one.")
    shadow_bands: int | None = Field(None, ge=1, description="Its bands.")
    shadow_rows: int | None = Field(None, ge=1, description="Its rows.")
    shadow_probes: int = Field(0, ge=0, description="Its probes.")
    memory_budget: int | None = Field(None, ge=1, description="Bytes that the index may take; what alerts compare with.")
    audit: Path | None = Field(None, description="Result of nearkin audit --json, shown in the console.")
    console: bool = Field(True, description="Serve the console at /console.")
    metrics: bool = Field(True, description="Serve /metrics.")
    otlp: str | None = Field(None, description="OTLP endpoint for traces, as http://collector:4318.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe log lines.")

    file: ClassVar[Path | None] = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, environment, file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, cls.file)

    @classmethod
    def read(cls, config: Path | None = None, **flags: Any) -> Self:
        """From all sources.

        Raises:
            UsageError: A value is no setting, or not in its range; the message names it.
        """
        named = type(cls.__name__, (cls,), {"file": config, "__doc__": cls.__doc__})
        try:
            if config is not None and not config.is_file():
                raise UsageError(f"no such file: {config}")
            found: Self = named(**{name: value for name, value in flags.items() if value is not None})
            if config is not None and "index" not in flags and f"{PREFIX}INDEX" not in os.environ:
                # variables of the index come before the file
                prefix = found._index_prefix
                own = {name: value for name, value in found.index.items() if prefix + name.upper() not in os.environ}
                found = found.model_copy(update={"index": own})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "settings"
            raise UsageError(f"{where}={first.get('input')!r}: {first['msg']}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{config} is no TOML: {error}") from error
        return found

    @field_validator("index", mode="before")
    @classmethod
    def _pairs(cls, given: Any) -> Any:
        """Of a variable: name=value, separated by commas, or JSON."""
        if not isinstance(given, str) or given.lstrip().startswith("{"):
            return json.loads(given) if isinstance(given, str) else given
        return dict(map(pair, filter(None, given.split(","))))

    @model_validator(mode="after")
    def _check(self) -> Self:
        """What goes together, and what must not."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("tls_cert and tls_key go together")
        for path in filter(None, (self.tls_cert, self.tls_key)):
            if not path.is_file():
                raise UsageError(f"no such file: {path}")
        if self.workers > 1 and any(url.startswith("memory:") for url in self.urls):
            raise UsageError(f"{self.workers} workers cannot share memory://; use sqlite:///…, redis://… or postgresql://…")
        if self.shadow_store is not None and (self.shadow_bands is None or self.shadow_rows is None):
            raise UsageError("shadow_store needs shadow_bands and shadow_rows")
        if self.shadow_store is not None and any(url.startswith("memory:") for url in (*self.urls, self.shadow_store)):
            raise UsageError("a shadow and what it may take over from outlive the process: use another store than memory://")
        parse_rate(self.source_rate)
        parse_rate(self.failures)
        parse_rate(self.anonymous_rate)
        parse_rate(self.byte_rate)
        part = int(self.max_inflight * self.token_share) - READ_AHEAD
        for name in ("max_body", "max_line", "max_message"):
            if getattr(self, name) > part:
                raise UsageError(
                    f"{name}={getattr(self, name):,} is more than one token may hold of max_inflight ({part:,} bytes); raise "
                    "max_inflight or token_share"
                )
        RateLimiter(self.limits_store)
        return self

    @property
    def urls(self) -> list[str]:
        """Of the stores."""
        return [url.strip() for url in self.store.split(",")]

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def _index_prefix(self) -> str:
        return f"{PREFIX}{self.kind.upper()}_"

    def index_settings(self, environment: dict[str, str] | None = None) -> IndexSettings:
        """Of the index: flags before its variables before the file (see `read`) before what suits a server.

        A server's documents have times to live; `record_ttl` and `bucket_ttl` of 0 mean none.
        """
        prefix = self._index_prefix
        given = dict(os.environ if environment is None else environment)
        usual = {prefix + name.upper(): str(value) for name, value in SERVER_TIMES.items()}
        named = {prefix + name.upper(): value for name, value in self.index.items()}
        merged = {**usual, **{name: value for name, value in given.items() if name.startswith(prefix)}, **named}
        endless = [name for name in usual if merged[name] in ("0", "0.0", "")]
        return IndexSettings.from_env(prefix, {name: value for name, value in merged.items() if name not in endless})

    def as_environment(self) -> dict[str, str]:
        """Variables from which another process reads the same settings."""
        given = self.model_dump(mode="json", exclude_none=True)
        return {
            PREFIX + name.upper(): json.dumps(value) if isinstance(value, dict) else str(value) for name, value in given.items()
        }
