"""A plugin of pytest: the session fails if its tests leave out a kernel.

The machine code of each kernel begins with an instruction that stores a mark, so kernels that are
called by kernels only, or inlined, are noticed too. `tests/runtime/test_jit.py` uses it.
"""

from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba.core import config
from numba.core.caching import NullCache
from numba.core.lowering import Lower

from tests.runtime.all_kernels import all_kernels

KERNELS = all_kernels()
MARKS = np.zeros(len(KERNELS), np.uint8)
"""1 for each kernel that has run."""


def pytest_configure() -> None:
    """Makes the compiler mark kernels, and compile all of them."""
    assert config.BOUNDSCHECK == 1
    # a mark has an address in this process, so no machine code is stored or loaded
    for kernel in KERNELS:
        kernel._cache = NullCache()
    addresses = {
        kernel.py_func: MARKS.ctypes.data + number for number, kernel in enumerate(KERNELS)
    }
    extract_function_arguments = Lower.extract_function_arguments

    def begin_function(lower: Lower) -> Any:
        arguments = extract_function_arguments(lower)
        address = addresses.get(lower.func_ir.func_id.func)
        if address is not None:
            mark = ir.Constant(ir.IntType(64), address).inttoptr(ir.IntType(8).as_pointer())
            lower.builder.store(ir.Constant(ir.IntType(8), 1), mark)
        return arguments

    Lower.extract_function_arguments = begin_function


def find_missing() -> list[str]:
    """Returns the names of the kernels that have not run."""
    return [
        f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
        for kernel, mark in zip(KERNELS, MARKS, strict=True)
        if not mark
    ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the session if all tests passed and a kernel has not run."""
    if session.exitstatus == pytest.ExitCode.OK and find_missing():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the names of the kernels that have not run."""
    if missing := find_missing():
        terminalreporter.line(f"kernels that no test of the check runs: {', '.join(missing)}")
