"""Object storage through pyarrow: S3, Google Cloud Storage and Azure Blob Storage.

pyarrow has drivers for these protocols. They have limits for attempts and times, so that a storage
that cannot be reached is reported within seconds.
"""

import io
import os
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow import fs

from nearkin.errors import UsageError

CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 30.0
ATTEMPTS = 3
"""The number of attempts for a request to S3."""
GOOGLE_RETRIES = timedelta(seconds=3)
"""The time in which a failed request to Google Cloud Storage is repeated."""
BUFFER = 4 << 20
"""The number of bytes that are requested at a time from a file that is read from its beginning."""


class CloudStorage(ArrowFSWrapper):  # type: ignore[misc]
    """The interface of fsspec for a file system of pyarrow."""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        # names of objects may contain any characters of a URL
        return path.rstrip("/")

    def isdir(self, path: str) -> bool:
        """Returns whether a path is a folder.

        Unlike that of fsspec, it raises the errors of the storage, which would be repeated by the
        next request after the same time.
        """
        try:
            return bool(self.info(path)["type"] == "directory")
        except FileNotFoundError:
            return False

    def metadata(self, path: str) -> dict[str, str]:
        """Returns the ETag or generation of an object, if the storage has them."""
        with self.fs.open_input_stream(path, compression=None) as stream:
            return dict(stream.metadata() or {})

    def _open(self, path: str, mode: str = "rb", **_: object) -> Any:
        return io.BufferedReader(self.fs.open_input_file(path), BUFFER)


def open_cloud_storage(protocol: str, url: str) -> tuple[CloudStorage, str]:
    """Returns the file system of a URL, and the path in it."""
    path = url.partition("://")[2]
    bucket, _, key = path.partition("/")
    if protocol == "s3":
        return CloudStorage(_connect_s3(bucket), skip_instance_cache=True), path
    if protocol == "gs":
        return CloudStorage(_connect_google(), skip_instance_cache=True), path
    container, _, host = bucket.partition("@")
    account = host.partition(".")[0] or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    if not account:
        raise UsageError(
            f"{url} names no storage account; write it after the container, as in "
            "CONTAINER@ACCOUNT.dfs.core.windows.net, or set AZURE_STORAGE_ACCOUNT_NAME"
        )
    return CloudStorage(_connect_azure(account), skip_instance_cache=True), f"{container}/{key}"


@cache
def _connect_s3(bucket: str) -> fs.S3FileSystem:
    """Returns the driver for a bucket, in whose region requests are sent."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    options: dict[str, str] = {}
    if endpoint:
        parsed = urlsplit(endpoint)
        if parsed.scheme not in ("http", "https") or not parsed.netloc:
            raise UsageError(
                f"AWS_ENDPOINT_URL={endpoint} is not a URL of HTTP; write it like "
                "http://localhost:9000"
            )
        options = {"endpoint_override": parsed.netloc, "scheme": parsed.scheme}
    elif not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
        try:
            options = {"region": fs.resolve_s3_region(bucket)}
        except (OSError, pa.ArrowInvalid):
            # the first request says what is wrong
            options = {}
    return fs.S3FileSystem(
        connect_timeout=CONNECT_SECONDS,
        request_timeout=REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        # a small object is written by one request
        allow_delayed_open=True,
        **options,
    )


@cache
def _connect_google() -> fs.GcsFileSystem:
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if not emulator:
        return fs.GcsFileSystem(retry_time_limit=GOOGLE_RETRIES)
    parsed = urlsplit(emulator if "://" in emulator else f"http://{emulator}")
    return fs.GcsFileSystem(
        anonymous=True,
        endpoint_override=parsed.netloc,
        scheme=parsed.scheme,
        retry_time_limit=GOOGLE_RETRIES,
    )


@cache
def _connect_azure(account: str) -> fs.AzureFileSystem:
    account_key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
    sas_token = os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    if account_key and sas_token:
        raise UsageError(
            "AZURE_STORAGE_ACCOUNT_KEY and AZURE_STORAGE_SAS_TOKEN are both set; unset one of them"
        )
    return fs.AzureFileSystem(account, account_key=account_key, sas_token=sas_token)
