"""Tests of the public names of the package and of the cost of importing it."""

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest

import nearkin as nk
from tests.public_names import public_objects


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True
    ).stdout


MODULES = (nk.errors, nk.index_types, nk.results, nk.signatures)
"""The modules of the public names that most programs do not need."""


def test_public_names_exist() -> None:
    objects = public_objects()
    for name, value in objects.items():
        assert value.__name__ == name.rpartition(".")[2]
    assert len(set(map(id, objects.values()))) == len(objects)


def test_the_package_itself_offers_what_users_call() -> None:
    assert len([name for name in nk.__all__ if not inspect.ismodule(getattr(nk, name))]) <= 45


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_modules_of_names_say_what_they_contain(module: ModuleType) -> None:
    assert module.__doc__
    names = getattr(module, "__all__", [])
    assert list(names) == sorted(set(names))


def test_no_subpackage_has_the_name_of_a_public_function() -> None:
    packages = {module.name for module in pkgutil.iter_modules(nk.__path__)}
    adapters = {name for name in nk.__all__ if inspect.ismodule(getattr(nk, name))}
    assert packages & set(nk.__all__) == adapters


def test_import_loads_neither_compiler_nor_arrow() -> None:
    """The compiler and Arrow are loaded when they are needed."""
    shown = python(
        "import sys, nearkin; print([m for m in ('numba', 'pyarrow', 'numpy', 'matplotlib', "
        "'rich', 'pandas', 'polars') if m in sys.modules])"
    )
    assert shown == "[]\n"


def test_modules_for_missing_libraries_name_the_install_command() -> None:
    shown = python(
        """
        import sys, nearkin
        for module, library in (
            ("duckdb", "duckdb"), ("pandas", "pandas"), ("polars", "polars"), ("sklearn", "sklearn")
        ):
            sys.modules[library] = None
            try:
                getattr(nearkin, module)
            except nearkin.errors.MissingExtraError as error:
                print(error)
        """
    )
    assert [
        line.rpartition("run pip install ")[2].partition(" ")[0] for line in shown.splitlines()
    ] == ['".[duckdb]"', '".[pandas]"', '".[polars]"', '".[sklearn]"']


def test_error_for_an_unknown_name_lists_valid_names() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'dedupe'; valid names are .*dedup"):
        nk.dedupe  # noqa: B018


def test_the_lists_of_public_names_agree() -> None:
    tree = ast.parse(inspect.getsource(nk))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {**nk._HOMES, **dict.fromkeys(nk._MODULES, "nearkin")}
    assert imported == homes
    assert sorted(nk.__all__) == sorted([*homes, "__version__"])
    assert len(nk.__all__) == len(set(nk.__all__))


INTERNAL = {
    "Banding",
    "EntrySearch",
    "IndexHeader",
    "KeyReference",
    "Measure",
    "Payload",
    "Phase",
    "QualityMetrics",
    "RetryArguments",
    "SearchStats",
    "Shingler",
    "WeightTable",
}
"""Types that are returned for other parts of nearkin and for stores."""


def returned_classes(scope: Any) -> set[str]:
    """The names of nearkin's classes that public functions of a class or function return."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(scope)))
    returns = [
        function.returns
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and not function.name.startswith("_")
        and function.returns is not None
    ]
    names = set(re.findall(r"\w+", " ".join(map(ast.unparse, returns))))
    module = vars(sys.modules[scope.__module__])
    classes = [module.get(name) for name in names]
    return {
        value.__name__
        for value in classes
        if inspect.isclass(value) and value.__module__.startswith("nearkin")
    }


def test_every_type_that_is_returned_is_public() -> None:
    returned = set()
    objects = public_objects()
    for value in objects.values():
        scopes = inspect.getmro(value) if inspect.isclass(value) else (value,)
        for scope in scopes:
            if getattr(scope, "__module__", "").startswith("nearkin"):
                returned |= returned_classes(scope)
    assert returned - {name.rpartition(".")[2] for name in objects} - INTERNAL == set()


def _is_function(code: object) -> bool:
    """Returns whether a member is a function or a method, and not a cached property."""
    return inspect.isroutine(code) and callable(code)


def public_functions() -> dict[str, Any]:
    """Returns the functions of the public face, and the methods of its classes, by their names."""
    values = public_objects()
    for name in nk.__all__:
        value = getattr(nk, name)
        if inspect.ismodule(value) and value not in MODULES:
            own = [
                member
                for member, code in vars(value).items()
                if getattr(code, "__module__", None) == value.__name__
            ]
            names = getattr(value, "__all__", own)
            values.update({f"{name}.{member}": getattr(value, member) for member in names})
    functions = {}
    for name, value in values.items():
        if inspect.isclass(value):
            methods = inspect.getmembers(value, _is_function)
            functions.update({f"{name}.{method}": code for method, code in methods})
        elif inspect.isfunction(value):
            functions[name] = value
    return {
        name: inspect.unwrap(function)
        for name, function in functions.items()
        if (getattr(function, "__module__", None) or "").startswith("nearkin")
        and not name.rpartition(".")[2].startswith("_")
    }


def test_public_functions_document_their_arguments() -> None:
    for name, function in public_functions().items():
        parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
        section = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
        documented = re.findall(r"^    [*]{0,2}(\w+)", section, re.MULTILINE)
        assert section or len(parameters) < 3, name
        assert not section or parameters <= set(documented), name
