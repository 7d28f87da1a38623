"""Access to remote storage through pyarrow and fsspec, with uniform errors and bounded waits."""

import os
import re
from typing import Any

from nearkin.corpus.foreign_errors import describe_error, translate_foreign_errors
from nearkin.corpus.remote_errors import HUB, first_line, parse_protocol, translate_driver_errors
from nearkin.errors import MissingExtraError, RunError, UsageError

EXTRAS = {"http": "remote", "https": "remote"}
PINNED = re.compile(rf"^{HUB}://[^@]+@[0-9a-f]{{40}}/")
"""The URL of a file of a commit of the hub, which never changes."""
ADDRESS = re.compile(r"://([^/@]*@)?\[")
"""The beginning of a URL with an address of IPv6 in place of a host."""
CLOUDS = ("s3", "gs", "abfs")
"""The protocols for which pyarrow has drivers."""
SHORT_WAITS = {"AWS_METADATA_SERVICE_TIMEOUT": "1", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "1"}
"""Environment variables that bound the search for the metadata service of a cloud, which does not
exist on other machines."""


def make_url(listed: str, name: str) -> str:
    """Returns the URL of a file that the listing of another URL found.

    Examples:
        >>> make_url("s3://bucket/a/", "bucket/a/b.csv")
        's3://bucket/a/b.csv'
        >>> make_url("abfs://box@account.dfs.core.windows.net/a", "box/a/b.csv")
        'abfs://box@account.dfs.core.windows.net/a/b.csv'
    """
    if "://" in name:
        return name
    protocol, _, path = listed.partition("://")
    name = name.lstrip("/")
    container, at, account = path.partition("/")[0].partition("@")
    if at and parse_protocol(listed) == "abfs":
        name = f"{container}@{account}{name.removeprefix(container)}"
    return f"{protocol}://{name}"


def open_filesystem(url: str) -> tuple[Any, str]:
    """Returns the file system of a URL, with the interface of fsspec, and the path in it.

    pyarrow has the drivers for S3, Google Cloud Storage and Azure Blob Storage, and fsspec those
    for other protocols and for chained URLs.
    """
    for name, value in SHORT_WAITS.items():
        os.environ.setdefault(name, value)
    protocol = parse_protocol(url)
    if ADDRESS.search(url):
        # The colons of such an address also join the parts of a chained URL.
        raise UsageError(
            f"cannot open {url}: addresses in brackets are not supported; use the name of the host"
        )
    if protocol in CLOUDS and "::" not in url:
        try:
            from nearkin.corpus.cloud_storage import open_cloud_storage
        except ImportError as error:
            raise MissingExtraError(
                f"{url} requires a build of pyarrow with the driver for {protocol}: {error}; "
                "install pyarrow from PyPI"
            ) from error
        return open_cloud_storage(protocol, url)
    if protocol == HUB and "::" not in url:
        from nearkin.corpus.hub import open_hub

        return open_hub(url)
    # Importing fsspec takes longer than reading the files of a small local run.
    import fsspec

    with translate_foreign_errors(lambda error: _make_opening_error(url, error)):
        filesystem, path = fsspec.core.url_to_fs(url)
    return filesystem, path


def _make_opening_error(url: str, error: BaseException) -> UsageError | MissingExtraError:
    if isinstance(error, TypeError | AttributeError):
        # file systems of fsspec that read other ones fail so without them
        return UsageError(
            f"cannot open {url}: file systems of {url.partition('://')[0]}:// need options, which "
            "nearkin cannot give; give local paths, or URLs of https, s3, gs, abfs or hf"
        )
    if not isinstance(error, ImportError):
        return UsageError(
            f"cannot open {url}: {describe_error(error)}; check the URL and what its protocol needs"
        )
    extra = EXTRAS.get(url.partition("://")[0])
    need = f"{url} requires a package that is not installed"
    if extra is None:
        return MissingExtraError(f"{need}: {error}")
    return MissingExtraError.for_extra(need, extra)


def read_file_info(url: str) -> dict[str, Any]:
    """Returns the size and the time of modification of a file, and its ETag if there is one."""
    with translate_driver_errors(url):
        filesystem, path = open_filesystem(url)
        if not PINNED.match(url):
            filesystem.invalidate_cache()
        info: dict[str, Any] = dict(filesystem.info(path))
        if hasattr(filesystem, "metadata"):
            info |= filesystem.metadata(path)
    return info


FAILURES: dict[str, RunError] = {}
"""The latest failure to read each URL. Decoders in C++ may raise it as damage of the file."""


def raise_hidden_failure(url: str) -> None:
    """Raises the failure of a storage that a decoder took for damage of a file, if any."""
    failure = FAILURES.pop(url, None)
    if failure is not None:
        raise failure


class RemoteStream:
    """An open remote file.

    A failure of the network or the storage is an error of the run. It is not treated as damage
    of the file.
    """

    def __init__(self, url: str, file: Any) -> None:
        self._url = url
        self._file = file
        FAILURES.pop(url, None)

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes."""
        with translate_foreign_errors(self._make_error):
            data: bytes = self._file.read(size)
        return data

    def _make_error(self, error: BaseException) -> RunError:
        failure = RunError(
            f"cannot read {self._url}: {first_line(error)}; run again when it can be reached"
        )
        FAILURES[self._url] = failure
        return failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
