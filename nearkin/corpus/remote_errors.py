"""The protocols of remote storage, and the errors of their drivers in the words of nearkin."""

from collections.abc import Iterator
from contextlib import contextmanager

from nearkin.corpus.foreign_errors import translate_foreign_errors
from nearkin.errors import RunError, UsageError

HUB = "hf"
"""The protocol of the Hugging Face Hub."""
CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws configure`",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`",
    "abfs": "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or run `az login`",
    HUB: "set HF_TOKEN, or run `hf auth login`",
}
CHECKS = {
    HUB: "the names of the repository (hf://datasets/ORG/NAME), the revision and the path, and "
    "that HF_TOKEN may read it"
}
"""The advice for a URL that does not exist, by protocol."""
WITHOUT_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "DefaultCredentialsError",
    "ProfileNotFound",
)
NO_ACCESS_TOKEN = (
    "Could not create a OAuth2 access token",
    "Failed to get token from DefaultAzureCredential",
)
"""The messages of the drivers of pyarrow if there are no credentials."""
DENIALS = ("ACCESS_DENIED", "PERMISSION_DENIED", "UNAUTHENTICATED", "Forbidden")
"""The messages of drivers if a storage refuses credentials."""


def parse_protocol(url: str) -> str:
    """Returns the protocol of a URL. A chained URL has the last of its protocols.

    Examples:
        >>> parse_protocol("s3a://bucket/a"), parse_protocol("simplecache::gcs://bucket/a")
        ('s3', 'gs')
    """
    name = url.partition("://")[0].rpartition("::")[2].lower()
    return {"s3a": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs"}.get(name, name)


def make_storage_error(url: str, error: BaseException) -> UsageError | OSError:
    """Returns the error to raise for an exception of a driver or file system."""
    lacks_token = any(text in str(error) for text in NO_ACCESS_TOKEN)
    if lacks_token or type(error).__name__ in WITHOUT_CREDENTIALS:
        way = CREDENTIALS.get(parse_protocol(url), "configure them for this protocol")
        return UsageError(f"no credentials for {url}; {way}")
    text = " ".join(str(error).split()) or type(error).__name__
    return OSError(f"cannot reach {url}: {text[:300]}")


def make_listing_error(url: str, error: BaseException) -> UsageError | RunError:
    """Returns the error to raise if the files of a URL cannot be listed."""
    known = make_storage_error(url, error)
    if isinstance(known, UsageError):
        return known
    if is_denied(error):
        advice = CREDENTIALS.get(parse_protocol(url), "configure credentials")
        return UsageError(
            f"no permission to list {url} ({first_line(error)}); "
            f"check the policy of the bucket and the credentials: {advice}"
        )
    if isinstance(error, FileNotFoundError):
        checked = CHECKS.get(parse_protocol(url), "the name of the bucket and the path")
        return UsageError(f"{url} does not exist ({first_line(error)}); check {checked}")
    return UsageError(f"cannot list {url}: {first_line(error)}")


def is_denied(error: BaseException) -> bool:
    """Returns True if a storage refused the credentials, for which gcsfs has errors of its own."""
    if isinstance(error, PermissionError) or str(getattr(error, "code", "")) in ("401", "403"):
        return True
    return any(text in str(error) for text in DENIALS)


def first_line(error: BaseException) -> str:
    """Returns the message of an exception on a line of at most 300 characters."""
    return " ".join(str(error).split())[:300] or type(error).__name__


@contextmanager
def translate_driver_errors(url: str) -> Iterator[None]:
    """Raises the exceptions of drivers that are no OSError as errors of nearkin."""

    def translate(error: BaseException) -> BaseException:
        return error if isinstance(error, OSError) else make_storage_error(url, error)

    with translate_foreign_errors(translate):
        yield


@contextmanager
def translate_listing_errors(url: str) -> Iterator[None]:
    """Raises the exceptions of drivers while the files of a URL are listed as errors of nearkin."""
    with translate_foreign_errors(lambda error: make_listing_error(url, error)):
        yield
