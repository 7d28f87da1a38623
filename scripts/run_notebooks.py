"""Runs the example notebooks, and compares what they show with what is stored in them.

Pictures are not compared, because they depend on the fonts of the machine. Warnings are not stored.

Run: python scripts/run_notebooks.py            runs all notebooks of examples/
     python scripts/run_notebooks.py --write    runs them and stores what they show
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).parents[1] / "examples"
LONGEST = 600
"""Seconds that a cell may take."""


def main() -> int:
    """Runs the notebooks. Returns 1 if one failed or shows something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store what the notebooks show")
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")))
    options = parser.parse_args()
    # The kernel imports the package of this checkout.
    os.environ["PYTHONPATH"] = str(FOLDER.parent)
    faults = 0
    for path in options.notebooks:
        fault = run_notebook(path, write=options.write)
        print(f"{path.name}: {fault or 'ran'}")
        faults += fault is not None
    return 1 if faults else 0


def run_notebook(path: Path, *, write: bool) -> str | None:
    """Runs a notebook in an empty folder.

    Args:
        path: The notebook.
        write: True to store what it shows.

    Returns:
        What is wrong with it, or None.
    """
    stored = nbformat.read(path, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=LONGEST,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute()
        except CellExecutionError as error:
            return f"failed:\n{error.traceback}"
    notebook.metadata = stored.metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if is_stored(output)]
    if write:
        nbformat.write(notebook, path)
        return None
    for number, cells in enumerate(zip(stored.cells, notebook.cells, strict=True), 1):
        expected, shown = map(texts_of, cells)
        if expected != shown:
            return f"cell {number} shows {shown}, and not {expected}; run with --write"
    return None


def is_stored(output: Any) -> bool:
    """Returns whether an output is kept: not a warning, and not a progress bar that disappeared."""
    if output["output_type"] == "stream":
        return bool(output["name"] == "stdout")
    return any(output["data"].values())


def texts_of(cell: Any) -> list[str]:
    """Returns what a cell shows as text and HTML, without pictures."""
    texts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if output["output_type"] == "stream":
            texts.append(output["text"])
        elif "image/png" not in data:
            texts += [data[kind] for kind in ("text/plain", "text/html") if data.get(kind)]
    return texts


if __name__ == "__main__":
    sys.exit(main())
