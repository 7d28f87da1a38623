"""The public names of the package, for tests that concern all of them."""

import inspect
from typing import Any

import nearkin as nk
from nearkin import errors


def public_objects() -> dict[str, Any]:
    """Returns the public functions and classes by the names under which users import them.

    Those of `nearkin` itself come first. A name of a module has it as its prefix, for example
    `results.DedupResult`. An object that `nearkin` has itself has no second name.
    """
    objects = {
        name: getattr(nk, name)
        for name in nk.__all__
        if not inspect.ismodule(getattr(nk, name)) and not name.startswith("__")
    }
    for module in (nk.results, nk.index_types, nk.signatures):
        prefix = module.__name__.rpartition(".")[2]
        objects |= {f"{prefix}.{name}": getattr(module, name) for name in module.__all__}
    own = [value for value in vars(errors).values() if inspect.isclass(value)]
    objects |= {
        f"errors.{error.__name__}": error
        for error in own
        if error.__module__ == errors.__name__ and error not in objects.values()
    }
    return objects
