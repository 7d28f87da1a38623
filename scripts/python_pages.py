"""Generates the pages of the Python reference: one for each public function or class.

What is public follows from `nearkin.__all__`: its names, and the names of its modules. The modules
of `nearkin.integrations` that pages mention are public, too. Names are in the order of their use:
those that the documentation mentions most come first.

The libraries of extras need not be installed: what is missing is replaced by stand-ins of autodoc.
"""

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from sphinx.ext.autodoc.mock import _MockObject, mock

import nearkin
from nearkin import integrations
from scripts.server_tables import table

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/how-to", "docs/tutorials", "docs/for", "docs/faq.md")
"""The pages whose mentions of a name are its uses."""
MENTION = re.compile(
    r"(?:\bnearkin\.(?:integrations|spark|polars|lance|duckdb)\.|\b(?:nk|nearkin)[. ]|import )"
    r"([A-Za-z]\w*)\b"
)
OPTIONAL = (
    "aerospike",
    "confluent_kafka",
    "datasets",
    "datatrove",
    "duckdb",
    "haystack",
    "lance",
    "langchain_core",
    "llama_index",
    "pandas",
    "polars",
    "psycopg",
    "psycopg_pool",
    "py4j",
    "pyspark",
    "ray",
    "redis",
    "sklearn",
)
"""The libraries that public modules import."""


class PublicName(NamedTuple):
    """A function or class that users import.

    Attributes:
        module: Name of the module from which they import it.
        name: Its name there.
        value: The object.
    """

    module: str
    name: str
    value: object

    @property
    def page(self) -> str:
        """The name of its page, which differs from others in more than the case of letters."""
        prefix = self.module.removeprefix("nearkin").removeprefix(".").replace(".", "-")
        kind = "class" if inspect.isclass(self.value) else ""
        return "-".join(part for part in (prefix, kind, self.name) if part)

    @property
    def shown(self) -> str:
        """The name as code uses it, for example `nk.dedup` or `nearkin.spark.dedup`."""
        return f"nk.{self.name}" if self.module == "nearkin" else f"{self.module}.{self.name}"

    @property
    def summary(self) -> str:
        """The first sentence of its description."""
        first = inspect.cleandoc(getattr(self.value, "__doc__", "") or "").partition("\n\n")[0]
        return re.split(r"(?<=[.:])\s", first.replace("\n", " "))[0].rstrip(":")

    def write(self, folder: Path) -> None:
        """Writes its page."""
        text = f"# {self.shown}\n\n{self.directive()}"
        write_changed(folder / f"{self.page}.md", text)

    def directive(self) -> str:
        """Returns the directive with which autodoc documents it."""
        options = ""
        directive = "autofunction"
        if inspect.isclass(self.value):
            directive = "autoexception" if is_exception(self.value) else "autoclass"
        if directive == "autoclass" and self.value.__base__.__module__.startswith("nearkin."):
            # methods that a public class has from a base class of the package
            options = "\n   :inherited-members:"
        return f"```{{eval-rst}}\n.. {directive}:: {self.module}.{self.name}{options}\n```\n"


def is_exception(value: object) -> bool:
    """Returns whether an object is a class of exceptions."""
    return inspect.isclass(value) and issubclass(value, BaseException)


def write_changed(path: Path, text: str) -> None:
    """Writes a file if its content differs."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def count_uses() -> Counter[str]:
    """Returns how often the pages mention each name."""
    uses: Counter[str] = Counter()
    for place in PAGES:
        path = ROOT / place
        for page in [path] if path.is_file() else sorted(path.glob("*.md")):
            uses.update(MENTION.findall(page.read_text("utf-8")))
    return uses


def public_modules(uses: Counter[str]) -> Iterator[ModuleType]:
    """Yields `nearkin` and its public modules."""
    yield nearkin
    for name in nearkin.__all__:
        value = getattr(nearkin, name)
        if inspect.ismodule(value):
            yield value
    for info in pkgutil.iter_modules(integrations.__path__):
        if uses[info.name]:
            yield importlib.import_module(f"nearkin.integrations.{info.name}")


def names_of(module: ModuleType) -> list[PublicName]:
    """Returns the functions and classes that users import from a module."""
    listed = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    values = ((name, getattr(module, name)) for name in listed if not name.startswith("__"))
    return [
        PublicName(module.__name__, name, value)
        for name, value in values
        if inspect.isclass(value) or inspect.isroutine(value)
    ]


def by_use(names: Iterable[PublicName], uses: Counter[str]) -> list[PublicName]:
    """Returns names in the order of their use; equal ones in alphabetical order."""
    return sorted(names, key=lambda one: (-uses[one.name], one.name))


def contents(title: str, about: str, names: list[PublicName]) -> str:
    """Returns a section with a table of names, and the entries of its pages in the sidebar."""
    rows = [(f"[`{one.shown}`](python/{one.page}.md)", one.summary) for one in names]
    entries = "\n".join(f"{one.name} <python/{one.page}>" for one in names)
    toctree = f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```"
    return f"## {title}\n\n{about}\n\n{table(('name', 'purpose'), rows)}\n\n{toctree}"


def module_section(module: ModuleType, uses: Counter[str]) -> tuple[str, list[PublicName]]:
    """Returns the section of a module, and the names that have pages.

    Exceptions are described in the section itself, because each has a sentence only.
    """
    names = by_use(names_of(module), uses)
    about = inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0]
    if names and all(is_exception(one.value) for one in names):
        parts = "\n".join(one.directive() for one in names)
        return f"## {module.__name__}\n\n{about}\n\n{parts}", []
    return contents(module.__name__, about, names), names


def write_python_pages(folder: Path) -> str:
    """Writes the pages of all public names.

    Args:
        folder: The folder of the pages, docs/reference/python. Other pages in it are deleted.

    Returns:
        The contents, for docs/reference/python.md.
    """
    folder.mkdir(parents=True, exist_ok=True)
    uses = count_uses()
    missing = [name for name in OPTIONAL if find_spec(name) is None]
    with mock(missing):
        complete_stand_ins(missing)
        first, *modules = public_modules(uses)
        names = by_use(names_of(first), uses)
        functions = [one for one in names if inspect.isroutine(one.value)]
        classes = [
            one for one in names if inspect.isclass(one.value) and not is_exception(one.value)
        ]
        parts = [
            contents("Functions", "", functions),
            contents("Classes", "", classes),
        ]
        written = functions + classes
        for module in modules:
            section, pages = module_section(module, uses)
            parts.append(section)
            written += pages
        for one in written:
            one.write(folder)
    for path in folder.glob("*.md"):
        if path.stem not in {one.page for one in written}:
            path.unlink()
    return "\n\n".join(parts) + "\n"


def complete_stand_ins(missing: list[str]) -> None:
    """Gives the stand-ins of Sphinx what modules use of a library while they are imported."""
    # annotations such as `StructType | None`
    _MockObject.__or__ = lambda stand_in, _: stand_in  # type: ignore[attr-defined]
    if "pyspark" in missing:
        importlib.import_module("pyspark").__version__ = "4"  # type: ignore[attr-defined]
