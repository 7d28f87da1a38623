"""Settings of a server.

Flags override environment variables (NEARKIN_…), which override a TOML file and the defaults.
"""

import ipaddress
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from nearkin.errors import UsageError
from nearkin.index.settings import SERVER_TIMES, IndexSettings
from nearkin.server.http.rates import RateLimiter, parse_rate

PREFIX = "NEARKIN_"
READ_AHEAD = 2 << 20
"""Bytes that a stream may hold in addition to its longest line or message: metadata, and bytes that
were read ahead."""


def parse_index_setting(text: str) -> tuple[str, str]:
    """Parses a setting of the index of the form `name=value`.

    Raises:
        UsageError: If the text has no equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"index setting {text!r} is not of the form threshold=0.7")
    return name.strip(), value.strip()


def parse_decisions_setting(text: str) -> tuple[str, str]:
    """Parses a file of decisions of the form `scope=file`.

    Raises:
        UsageError: If the text has no equals sign.
    """
    scope, equals, file = text.partition("=")
    if not equals:
        raise UsageError(f"decisions {text!r} are not of the form SCOPE=FILE")
    return scope.strip(), file.strip()


class ServerSettings(BaseSettings):
    """The settings of `nearkin serve`.

    Each is a flag, a variable NEARKIN_NAME, and a key of the TOML file.

    The settings of the index (threshold, bands, shingle and others) are the table [index] of the
    file, variables NEARKIN_TEXT_… or NEARKIN_VECTOR_…, and the flag `--index name=value`. See
    `IndexSettings`.

    Examples:
        >>> ServerSettings.read(port=9000).port
        9000
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", case_sensitive=False
    )

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
    index: Annotated[dict[str, str], NoDecode] = Field(
        {}, description="Setting of the index, for example threshold=0.7. Can be repeated."
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
    decisions: Annotated[dict[str, Path], NoDecode] = Field(
        {},
        description="File of decisions about pairs of documents of a scope, as SCOPE=FILE. Can be "
        "repeated. It is read when the server starts.",
    )
    tokens: Path = Field(
        Path("nearkin-tokens.json"),
        description="File of hashed tokens, which `nearkin token` writes.",
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
        description="Rate of requests of one client address that need no token: the sign-in page, "
        "the console's files and "
        "/openapi.json.",
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
    console: bool = Field(True, description="Serve the console at /console.")
    metrics: bool = Field(True, description="Serve metrics at /metrics.")
    otlp: str | None = Field(
        None, description="OTLP endpoint for traces, for example http://collector:4318."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level of log lines: debug, info, warning or error."
    )

    file: ClassVar[Path | None] = None
    """The TOML file, which `read` sets on a subclass."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Returns the sources in order of priority: flags, environment, file.

        Args:
            settings_cls: The class of the settings.
            init_settings: Values of options of the command line.
            env_settings: Values of environment variables.
            dotenv_settings: Values of a file of variables, which is not used.
            file_secret_settings: Values of files of secrets, which are not used.
        """
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, cls.file)

    @classmethod
    def read(cls, config: Path | None = None, **flags: Any) -> Self:
        """Reads the settings from all sources.

        Args:
            config: TOML file, or None without one.
            **flags: Settings by name. None stands for a flag that was not given.

        Returns:
            The validated settings.

        Raises:
            UsageError: If a setting is unknown or out of range, or if the file is missing or not
                valid. The message names it.
        """
        with_file = type(cls.__name__, (cls,), {"file": config, "__doc__": cls.__doc__})
        try:
            if config is not None:
                _require_toml(config)
            settings: Self = with_file(
                **{name: value for name, value in flags.items() if value is not None}
            )
            if config is not None and "index" not in flags and f"{PREFIX}INDEX" not in os.environ:
                # variables of the index override the file
                prefix = settings._index_prefix
                index = {
                    name: value
                    for name, value in settings.index.items()
                    if prefix + name.upper() not in os.environ
                }
                settings = settings.model_copy(update={"index": index})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = _as_written(".".join(map(str, first["loc"])), flags)
            raise UsageError(
                f"{name} {first.get('input')!r} is not valid: {first['msg']}"
            ) from error
        return settings

    @field_validator("index", mode="before")
    @classmethod
    def _parse_index(cls, value: Any) -> Any:
        """Parses the variable NEARKIN_INDEX: a JSON object, or `name=value` pairs."""
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("{"):
            return json.loads(value)
        return dict(parse_index_setting(part) for part in value.split(",") if part)

    @field_validator("decisions", mode="before")
    @classmethod
    def _parse_decisions(cls, value: Any) -> Any:
        """Parses the variable NEARKIN_DECISIONS: a JSON object, or `scope=file` pairs."""
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("{"):
            return json.loads(value)
        return dict(parse_decisions_setting(part) for part in value.split(",") if part)

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Checks settings that depend on each other."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("tls_cert and tls_key must be set together")
        for path in filter(None, (self.tls_cert, self.tls_key)):
            if not path.is_file():
                raise UsageError(f"the TLS file {path} does not exist")
        if self.workers > 1 and any(url.startswith("memory:") for url in self.urls):
            raise UsageError(
                f"workers={self.workers} cannot share memory://; use sqlite:///…, redis://… or "
                f"postgresql://…"
            )
        if self.shadow_store is not None and (
            self.shadow_bands is None or self.shadow_rows is None
        ):
            raise UsageError("shadow_store requires shadow_bands and shadow_rows")
        if self.shadow_store is not None and any(
            url.startswith("memory:") for url in (*self.urls, self.shadow_store)
        ):
            raise UsageError(
                "shadow_store does not work with memory://, because both indexes must outlive the "
                "process; use another store"
            )
        parse_rate(self.source_rate)
        parse_rate(self.failures)
        parse_rate(self.anonymous_rate)
        parse_rate(self.byte_rate)
        caller_share = int(self.max_inflight * self.token_share) - READ_AHEAD
        for name in ("max_body", "max_line", "max_message"):
            if getattr(self, name) > caller_share:
                raise UsageError(
                    f"{name} ({getattr(self, name):,} bytes) exceeds the share of max_inflight "
                    f"that one token may use ({caller_share:,} bytes); increase max_inflight or "
                    "token_share"
                )
        RateLimiter(self.limits_store)
        return self

    @property
    def urls(self) -> list[str]:
        """The URLs of the stores."""
        return [url.strip() for url in self.store.split(",")]

    @property
    def is_in_memory(self) -> bool:
        """True if documents are lost when the process ends."""
        return all(url.startswith("memory:") for url in self.urls)

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server."""
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
        """Returns the settings of the index.

        Flags override variables, which override the file (see `read`). Unlike elsewhere, documents
        of a server have times to live by default; a `record_ttl` or `bucket_ttl` of 0 turns them
        off.

        Args:
            environment: Environment variables; those of the process by default.
        """
        prefix = self._index_prefix
        variables = dict(os.environ if environment is None else environment)
        defaults = {prefix + name.upper(): str(value) for name, value in SERVER_TIMES.items()}
        merged = dict(defaults)
        merged |= {name: value for name, value in variables.items() if name.startswith(prefix)}
        merged |= {prefix + name.upper(): value for name, value in self.index.items()}
        for name in defaults:
            if merged[name] in ("0", "0.0", ""):
                del merged[name]
        return IndexSettings.from_env(prefix, merged)

    def as_environment(self) -> dict[str, str]:
        """Returns environment variables from which another process reads the same settings."""
        settings = self.model_dump(mode="json", exclude_none=True)
        return {
            PREFIX + name.upper(): json.dumps(value) if isinstance(value, dict) else str(value)
            for name, value in settings.items()
        }


def _require_toml(config: Path) -> None:
    """Requires a file of TOML.

    Raises:
        UsageError: If the file does not exist or is not valid TOML.
    """
    if not config.is_file():
        raise UsageError(f"the settings file {config} does not exist")
    try:
        tomllib.loads(config.read_bytes().decode())
    except (ValueError, RecursionError) as error:
        # Python refuses integers of thousands of digits and deeply nested values.
        raise UsageError(f"the settings file {config} is not valid TOML: {error}") from error


def _as_written(name: str, flags: Mapping[str, object]) -> str:
    """Returns how a setting was written: as an option, a variable or the name in a file.

    Args:
        name: Name of the setting.
        flags: Settings that were given as options; None stands for an option that was not given.
    """
    if flags.get(name) is not None:
        return f"--{name.replace('_', '-')}"
    variable = PREFIX + name.upper()
    return variable if variable in os.environ else name
