"""Gives wheels with compiled kernels the tags of the wheel of Numba that is installed.

    python scripts/tag_wheel.py dist/*.whl

Compiled kernels run where this Numba does: with the same version of Python, on the same kind of
machine. Without the tags, pip would install the wheel everywhere.
"""

import subprocess
import sys
from importlib.metadata import distribution


def read_tags(text: str) -> dict[str, str]:
    """Returns the parts of the tags in a file `WHEEL`, by the options of `python -m wheel tags`.

    Examples:
        >>> read_tags("Tag: cp313-cp313-linux_x86_64")["--platform-tag"]
        'linux_x86_64'
    """
    tags = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Tag: ")]
    columns = zip(*(tag.split("-") for tag in tags), strict=True)
    names = ("--python-tag", "--abi-tag", "--platform-tag")
    return {
        name: ".".join(dict.fromkeys(column)) for name, column in zip(names, columns, strict=True)
    }


def main() -> None:
    """Replaces the tags of wheels."""
    text = distribution("numba").read_text("WHEEL")
    if text is None:
        raise SystemExit("Numba was not installed from a wheel")
    options = [word for option in read_tags(text).items() for word in option]
    command = [sys.executable, "-m", "wheel", "tags", "--remove", *options, *sys.argv[1:]]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
