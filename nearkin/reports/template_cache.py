"""The cache of compiled page templates, which saves their compilation at the start of a command."""

import hashlib
import pickle
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, FileSystemBytecodeCache

from nearkin.runtime.cache_folder import find_cache_folder
from nearkin.runtime.version import VERSION

_FOLDER = Path(__file__).parent


class TemplateCache(FileSystemBytecodeCache):
    """A cache of templates that is only a shortcut: what it cannot read or write is compiled."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Loads the code of a template if it was compiled from the current source."""
        try:
            super().load_bytecode(bucket)
        except (OSError, EOFError, pickle.UnpicklingError):
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Writes the code of a template, if the disk has room for it."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


def open_template_cache() -> TemplateCache | None:
    """Returns the cache of the templates of reports, or None if no folder can be trusted.

    The code of a template contains what functions of Python returned for its constants, so the
    folder is named by a hash of those functions too.
    """
    digest = hashlib.sha256(f"{VERSION} {jinja2.__version__}".encode())
    for path in sorted(_FOLDER.glob("*.py")):
        digest.update(path.read_bytes())
    folder = find_cache_folder(f"templates-{digest.hexdigest()[:16]}")
    return None if folder is None else TemplateCache(str(folder))
