"""Tests of the script that runs the examples of the documentation."""

import subprocess
from pathlib import Path

import pytest

from nearkin.runtime.compilation import ANNOUNCEMENT
from scripts.run_readme import (
    DifferentOutputError,
    find_pages,
    keep_elisions,
    prepared_commands,
    require_same_output,
    run_file,
    run_from_clone,
)


def test_different_numbers_and_blanks_are_equal() -> None:
    require_same_output("Kept  18,358  91.8%\n", "\nKept 7   3%\n")


def test_different_words_are_a_difference() -> None:
    with pytest.raises(DifferentOutputError, match="the commands print"):
        require_same_output("Kept 3\n", "Removed 3\n")


def test_elision_matches_any_lines() -> None:
    require_same_output("first\n…\nlast\n", "first\nsecond\nthird\nlast\n")
    with pytest.raises(DifferentOutputError):
        require_same_output("first\n…\nlast\n", "first\nsecond\n")


def test_new_output_is_shortened_like_the_old_one() -> None:
    assert keep_elisions("a\n…\nd\n", "1\n2\n3\n4\n") == "1\n…\n4\n"


def test_page_with_a_different_output_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\necho hello\n```\n\n```text\ngoodbye\n```\n")
    with pytest.raises(SystemExit, match="block 1"):
        run_file(str(page), write=False)
    run_file(str(page), write=True)
    assert page.read_text() == "```bash\necho hello\n```\n\n```text\nhello\n```\n"
    run_file(str(page), write=False)


def test_compilation_of_a_first_command_is_not_a_part_of_the_output(tmp_path: Path) -> None:
    lines = [
        f"nearkin: {ANNOUNCEMENT}: sketch ...",
        "Kept 3",
    ]
    page = tmp_path / "page.md"
    commands = "\n".join(f"echo '{line}'" for line in lines)
    page.write_text(f"```bash\n{commands}\n```\n\n```text\nKept 3\n```\n")
    run_file(str(page), write=False)


def test_slow_examples_run_only_on_request(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- slow: it waits -->\n```bash\necho hello\n```\n\n```text\nbye\n```\n")
    assert run_file(str(page), write=False).endswith("0 examples run")
    with pytest.raises(SystemExit, match="block 1"):
        run_file(str(page), write=False, slow=True)


def test_examples_that_are_not_run_do_not_run_as_slow_ones(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: it fails -->\n```bash\nexit 1\n```\n")
    assert run_file(str(page), write=False, slow=True).endswith("0 examples run")


def test_pages_of_a_built_site_are_not_run(tmp_path: Path) -> None:
    for folder in ("docs/guides", "docs/_build", "docs/_generated"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "page.md").write_text("")
    assert list(find_pages([str(tmp_path)])) == [str(tmp_path / "docs/guides/page.md")]


ACTIVATING = """<!-- not run: only in a clone -->
```bash
mkdir -p .venv/bin
printf '#!/bin/sh\\necho found' > .venv/bin/only-here && chmod +x .venv/bin/only-here
{activate}
```

```bash
only-here
```
"""


def commit_page(repository: Path, text: str) -> None:
    """Makes a repository whose only commit has the page."""
    (repository / "README.md").write_text(text)
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "Add a page"], check=True)


def test_a_clone_needs_what_the_page_activates(tmp_path: Path) -> None:
    """The state of the shell carries over from block to block, and nothing else is there."""
    commit_page(tmp_path, ACTIVATING.format(activate="export PATH=$PWD/.venv/bin:$PATH"))
    assert run_from_clone("README.md", tmp_path) == "README.md: 2 blocks run from a clone"


def test_program_runs_at_the_end_with_what_the_page_activates(tmp_path: Path) -> None:
    program = "import shutil\nraise SystemExit(shutil.which('only-here'))\n"
    (tmp_path / "at_end.py").write_text(program)
    activate = "export PATH=$PWD/.venv/bin:$PATH; ln -s $(command -v python3) .venv/bin/python"
    commit_page(tmp_path, ACTIVATING.format(activate=activate))
    with pytest.raises(SystemExit, match=r"clone/\.venv/bin/only-here"):
        run_from_clone("README.md", tmp_path, then="at_end.py")


def test_a_clone_without_activation_fails(tmp_path: Path) -> None:
    commit_page(tmp_path, ACTIVATING.format(activate="true"))
    with pytest.raises(SystemExit, match="only-here"):
        run_from_clone("README.md", tmp_path)


def test_commands_of_the_running_environment_are_hidden_from_a_clone(tmp_path: Path) -> None:
    commit_page(tmp_path, "```bash\nnearkin --version\n```\n")
    with pytest.raises(SystemExit, match="nearkin"):
        run_from_clone("README.md", tmp_path)


@pytest.mark.full
def test_readme_works_literally_from_a_clean_clone() -> None:
    assert "blocks run from a clone" in run_from_clone("README.md")


PREPARED = """```bash
mkdir folder
cd folder
nearkin dedup missing --out run || echo "exit code $?"
nearkin plan --docs 1M --json | head -c 1
PYTHONHASHSEED=1 nearkin --version | head -n 1
OWN=variable python -c 'import os, sys; print(os.environ["OWN"], sys.argv, os.getcwd()[-7:])' word
echo 'raise SystemExit(input())' > code.py
(echo told | python code.py) || echo "exit code $?"
{ python -c 'import os; os.kill(os.getpid(), 15)'; } 2>/dev/null || echo "exit code $?"
```

```text
nearkin: no such file or folder: missing
exit code 2
{nearkin 0.1.0
variable ['-c', 'word'] /folder
told
exit code 1
exit code 143
```

```python
import nearkin as nk
print(nk.dedup({"text": ["a b c d", "a b c d"]}).kept.tolist(), __name__)
```
"""


@pytest.mark.parametrize("prepared", [True, pytest.param(False, marks=pytest.mark.full)])
def test_prepared_commands_print_and_end_like_real_ones(tmp_path: Path, *, prepared: bool) -> None:
    """The command with another PYTHONHASHSEED and the file of Python run in real processes."""
    page = tmp_path / "page.md"
    page.write_text(PREPARED)
    if not prepared:
        run_file(str(page), write=False)
        return
    folder = tmp_path / "commands"
    folder.mkdir()
    with prepared_commands(folder) as commands:
        run_file(str(page), write=False, commands=commands)
