"""Settings of a server.

Flags override environment variables (NEARKIN_…), which override a TOML file and the defaults.
"""

import ipaddress
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from nearkin.errors import UsageError
from nearkin.index.settings import LIFETIMES, IndexSettings, merge_settings
from nearkin.service.server.http.rates import RateLimiter, hide_url, parse_rate
from nearkin.service.server.setting_fields import ServerFields

PREFIX = "NEARKIN_"
READ_AHEAD = 2 << 20
"""Bytes that a stream may hold in addition to its longest line or message: metadata, and bytes that
were read ahead."""


NAMED_SETTINGS = {"index": "threshold=0.7", "decisions": "SCOPE=FILE"}
"""The settings that consist of named values, with the form of one of them."""


def parse_named(setting: str, texts: Iterable[str]) -> dict[str, str]:
    """Returns the values of a setting that consists of named ones, by their names."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise UsageError(f"{text!r} is not of the form {NAMED_SETTINGS[setting]}")
        if name in values:
            raise UsageError(
                f"{name} is named twice ({values[name]} and {value}); leave one of them out"
            )
        values[name] = value
    return values


class ServerSettings(ServerFields, BaseSettings):
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
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        case_sensitive=False,
        # Validators parse the variables of settings that are not plain values.
        enable_decoding=False,
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
        """Returns the sources in order of priority: flags, environment, file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, cls.file)

    @classmethod
    def read(cls, config: Path | None = None, **flags: Any) -> Self:
        """Reads the settings from all sources."""
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
            cause = first.get("ctx", {}).get("error")
            if isinstance(cause, UsageError):
                # the value of settings that depend on each other is a dictionary of all settings
                raise UsageError(f"{name}: {cause}" if name else str(cause)) from error
            value = hide_url(str(first.get("input")))
            raise UsageError(f"{name} {value!r} is not valid: {first['msg']}") from error
        return settings

    @field_validator(*NAMED_SETTINGS, mode="before")
    @classmethod
    def _parse_named(cls, value: Any, info: ValidationInfo) -> Any:
        """Parses a list of options, or a variable: a JSON object, or `name=value` pairs."""
        setting = str(info.field_name)
        if isinstance(value, list):
            return parse_named(setting, value)
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("{"):
            return json.loads(value)
        return parse_named(setting, filter(None, value.split(",")))

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

        Flags override variables, which override the file (see `read`). A time to live of 0 in one
        of them turns off the one that another sets.
        """
        prefix = self._index_prefix
        variables = dict(os.environ if environment is None else environment)
        merged = {name: value for name, value in variables.items() if name.startswith(prefix)}
        merged |= {prefix + name.upper(): value for name, value in self.index.items()}
        for name in LIFETIMES:
            if merged.get(prefix + name.upper()) in ("0", "0.0"):
                del merged[prefix + name.upper()]
        base = merge_settings(self.settings, self.preset, None, None, {})
        return IndexSettings.from_env(prefix, merged, base)

    def as_environment(self) -> dict[str, str]:
        """Returns environment variables from which another process reads the same settings."""
        settings = self.model_dump(mode="json", exclude_none=True)
        return {
            PREFIX + name.upper(): json.dumps(value) if isinstance(value, dict) else str(value)
            for name, value in settings.items()
        }


def _require_toml(config: Path) -> None:
    """Requires a file of TOML."""
    if not config.is_file():
        raise UsageError(f"the settings file {config} does not exist")
    try:
        tomllib.loads(config.read_bytes().decode())
    except (ValueError, RecursionError) as error:
        # Python refuses integers of thousands of digits and deeply nested values.
        raise UsageError(f"the settings file {config} is not valid TOML: {error}") from error


def _as_written(name: str, flags: Mapping[str, object]) -> str:
    """Returns how a setting was written: as an option, a variable or the name in a file."""
    if flags.get(name) is not None:
        return f"--{name.replace('_', '-')}"
    variable = PREFIX + name.upper()
    return variable if variable in os.environ else name
