"""Writes the types of the keywords of the library, which follow from the table of settings.

A type checker and an editor read types from the text of a module, so they cannot be made when it is
imported. A test compares the file with what this script would write.

Run: python -m scripts.write_keywords
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Any

from nearkin.settings.table import (
    FIRST_KEYWORDS,
    KEYWORDS,
    READ_KEYWORDS,
    SPEC_KEYWORDS,
)

PACKAGE = Path(__file__).parents[1] / "nearkin"
HEAD = '''"""{description} `scripts/write_keywords.py` writes them.

`nearkin.settings.table` says what they mean.
"""

{imports}
'''


def keyword_modules() -> dict[Path, str]:
    """Returns the texts of the modules, by their paths."""
    of_others = {*READ_KEYWORDS, *SPEC_KEYWORDS, *FIRST_KEYWORDS}
    others = [name for name in KEYWORDS if name not in of_others]
    parts = (
        HEAD.format(
            description="The keywords that runs and indexes share.",
            imports="from collections.abc import Sequence\nfrom typing import TypedDict",
        ),
        _typed_dict("ReadKeywords", "The reading of inputs.", READ_KEYWORDS),
        _typed_dict(
            "SpecOptionKeywords",
            "The options of a Spec. A given Spec replaces them all, and None is not given.",
            SPEC_KEYWORDS,
        ),
    )
    of_runs = (
        HEAD.format(description="The keywords of runs.", imports=IMPORTS_OF_RUNS),
        _typed_dict(
            "FurtherParameters",
            "The keywords of a run that a function collects.",
            others,
            bases="SpecOptionKeywords, ReadKeywords",
        ),
        _typed_dict(
            "RunParameters",
            "The keywords of a run, which compares one kind of content.",
            FIRST_KEYWORDS,
            bases="FurtherParameters",
        ),
    )
    return {
        PACKAGE / "settings" / "keywords.py": _formatted(parts),
        PACKAGE / "engine" / "keywords.py": _formatted(of_runs),
    }


IMPORTS_OF_RUNS = """from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nearkin.settings.keys import HashKey
from nearkin.settings.keywords import ReadKeywords, SpecOptionKeywords
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import DocumentFrequencies"""


def _formatted(parts: Sequence[str]) -> str:
    """Returns the text of a module as ruff formats it."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "keywords.py", "-"],
        input="\n\n".join(parts),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _typed_dict(name: str, description: str, keywords: Any, bases: str = "TypedDict") -> str:
    """Returns the text of a class with a field for each keyword."""
    lines = [f"class {name}({bases}, total=False):", f'    """{description}"""', ""]
    lines += [f"    {keyword}: {type_text(keyword)}" for keyword in keywords]
    return "\n".join([*lines, ""])


def type_text(name: str) -> str:
    """Returns the type of a keyword as it is written in Python."""
    declared = KEYWORDS[name]
    kind = declared.kind
    text = declared.setting.keyword
    if not text:
        text = str(kind) if isinstance(kind, UnionType | GenericAlias) else kind.__name__
    if name in SPEC_KEYWORDS and "None" not in text:
        text = f"{text} | None"
    return text


if __name__ == "__main__":
    for path, text in keyword_modules().items():
        path.write_text(text, "utf-8")
