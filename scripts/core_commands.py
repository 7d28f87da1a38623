"""Runs every command where the core dependencies alone are installed.

Each command prints its help page, and runs over a few documents. A command that cannot do its work
must name the extra that it needs. A command that this script does not run is an error, so that new
ones are added.

Run: python scripts/core_commands.py                  in an environment made by `pip install .`
     python scripts/core_commands.py --hide-extras    in any environment; modules of distributions
     that the core dependencies do not bring are hidden
"""

import argparse
import contextlib
import io
import json
import os
import pty
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any

DISTRIBUTION = "nearkin"
COMMANDS = (
    "demo --out demo",
    "dedup docs.jsonl --id id --save-signatures --out run",
    "dedup docs.csv --id id --settings settings.toml --out run-csv",
    "pairs docs.jsonl --id id --out pairs.csv",
    "pairs docs.jsonl --id id --relation containment --out contained.parquet",
    "split docs.jsonl --id id --groups 0.5,0.5 --out split",
    "passages docs.jsonl --id id --min 20 --out passages",
    "passages docs.jsonl --id id --repeated-lines 2 --out lines",
    "decontaminate docs.jsonl --id id --against suite.jsonl --out leaks",
    "check docs.jsonl other.jsonl --id id --max 100",
    "info run",
    "diff run run --html diff.html",
    "work run.partial --wait 0",
    "card run",
    "explain d0 d1 --run run",
    "explain left-text right-text",
    "review run --table doubtful.csv",
    "audit run --sample 20",
    "eval run --golden labels.csv",
    "fit docs.jsonl --id id --labels labels.csv --text text --out fitted.toml",
    "shadow run --against b=16,r=8",
    "tune --threshold 0.8",
    "tune docs.jsonl",
    "plan --docs 1M",
    "config show",
    "index build docs.jsonl --id id --store sqlite:///kin.db",
    "index add other.jsonl --id id --store sqlite:///kin.db",
    "sync docs.jsonl --id id --store sqlite:///kin.db --max-removed 1",
    "index match other.jsonl --id id --store sqlite:///kin.db --out matches.csv",
    "index query page.txt --store sqlite:///kin.db",
    "index remove d3 --store sqlite:///kin.db",
    "index info --store sqlite:///kin.db",
    "index check --store sqlite:///kin.db",
    "index compact --store sqlite:///kin.db",
    "index decide decisions.csv --store sqlite:///kin.db",
    "index decisions --store sqlite:///kin.db",
    "index history --history 30d --store sqlite:///kin.db",
    "index scope acme --max-documents 1000 --store sqlite:///kin.db",
    "index expire --store sqlite:///kin.db",
    "index export --store sqlite:///kin.db --out export.parquet",
    "index backup --store sqlite:///kin.db --out backup.db",
    "index restore backup.db --store sqlite:///restored.db",
    "index migrate --store sqlite:///kin.db --to sqlite:///moved.db",
    "index rotate-key --store sqlite:///moved.db --to sqlite:///keyed.db --new-key-file new.key",
    "index rebuild --store sqlite:///restored.db --to sqlite:///rebuilt.db --threshold 0.7",
    "block add other.jsonl --id id --list blocked.list",
    "block info blocked.list",
    "block remove --entry o1 --list blocked.list",
    "purge run --like other.jsonl --out purged",
    "lab sketch docs.jsonl --id id --out first.arrow",
    "lab sketch other.jsonl --id id --out second.arrow",
    "lab frequencies docs.jsonl --out frequencies.arrow",
    "lab merge first.arrow second.arrow --out merged.arrow",
    "lab synth --documents 50 --out synth",
    "lab bands --largest 100",
    "help all",
    "warm-up --use index",
)
NEED_EXTRA = {
    "serve --port 0": "server",
    "server init service": "server",
    "server token create anna": "server",
    "server token list": "server",
    "server token revoke anna": "server",
    "mcp --run run": "mcp",
    "stream redis://localhost:1/0?stream=s --store sqlite:///kin.db": "stream",
    "stream kafka://localhost:1/topic --store sqlite:///kin.db": "kafka",
    "dedup docs.jsonl --executor spark --out spark": "spark",
    "dedup docs.jsonl --executor ray --out ray": "ray",
    "index info --store redis://localhost:1/0": "redis",
    "index info --store postgresql://localhost:1/x": "postgres",
    "tune docs.jsonl --plot curves.svg": "plot",
    "dedup hf://datasets/some/set --out hub": "hub",
    "dedup docs.jsonl --stem english --out stemmed": "stem",
    "passages docs.jsonl --cut sentence --min 20 --out cut": "cut",
    "dedup docs.jsonl --url id --out urls": "urls",
}
"""Commands that cannot do their work, with the extra that their message names."""


class VisibleModules(MetaPathFinder):
    """A finder that finds what another one finds, without the modules of extras.

    Args:
        finder: The other finder.
        hidden: Names of the modules of extras.
    """

    def __init__(self, finder: Any, hidden: set[str]) -> None:
        self._finder = finder
        self._hidden = hidden

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module, or None if it is hidden or does not exist."""
        if fullname.partition(".")[0] in self._hidden:
            return None
        spec: ModuleSpec | None = self._finder.find_spec(fullname, path, target)
        return spec


def hide_extras() -> None:
    """Hides the modules of distributions that the core dependencies do not bring."""
    core = core_distributions()
    hidden = {
        module
        for module, names in packages_distributions().items()
        if not core & {normalize(name) for name in names}
    }
    sys.meta_path[:] = [VisibleModules(finder, hidden) for finder in sys.meta_path]


def normalize(name: str) -> str:
    """Returns the name of a distribution in the form in which names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def core_distributions(name: str = DISTRIBUTION, found: set[str] | None = None) -> set[str]:
    """Returns the normalized names of a distribution and of all that it brings without extras."""
    found = set() if found is None else found
    if normalize(name) not in found:
        found.add(normalize(name))
        for requirement in distribution(name).requires or ():
            needed, _, marker = requirement.partition(";")
            if "extra" not in marker and "Windows" not in marker:
                match = re.match(r"[A-Za-z0-9._-]+", needed.strip())
                assert match is not None
                core_distributions(match[0], found)
    return found


def write_documents() -> None:
    """Writes the inputs of the commands into the current folder."""
    rows = [
        {"id": f"d{i}", "text": " ".join(f"w{i // 2}x{j}" for j in range(60)) + f" {i}"}
        for i in range(40)
    ]
    others = [{**row, "id": f"o{i}"} for i, row in enumerate(rows[:6])]
    for name, documents in (("docs.jsonl", rows), ("other.jsonl", others)):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in documents))
    lines = [f"{row['id']},{row['text']}\n" for row in rows]
    Path("docs.csv").write_text("".join(["id,text\n", *lines]))
    Path("suite.jsonl").write_text(json.dumps({"question": rows[0]["text"]}) + "\n")
    labels = [f"d{i},c{i // 2}\n" for i in range(40)]
    Path("labels.csv").write_text("".join(["id,cluster\n", *labels]))
    Path("decisions.csv").write_text("id_a,id_b,decision\nd0,d2,different\n")
    Path("new.key").write_text("00112233445566778899aabbccddeeff")
    Path("new.key").chmod(0o600)
    Path("page.txt").write_text(rows[0]["text"])
    Path("settings.toml").write_text("threshold = 0.7\n")


def run_command(line: str) -> tuple[int, str]:
    """Runs a command in this process, and returns its exit code and all that it prints."""
    from nearkin.cli import app

    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = app.run(line.split())
    return code, output.getvalue()


def review_on_terminal() -> tuple[int, str]:
    """Runs `nearkin review` on a terminal, where it waits for a key, and presses q."""
    from nearkin.cli import app

    child, terminal = pty.fork()
    if not child:
        os._exit(app.run(["review", "run", "--decisions", "decisions.jsonl"]))
    printed = b""
    # Linux reports the end of the other side of a terminal as an error.
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 4096):
            printed += part
            # What was typed before a program asks for a key is lost.
            os.write(terminal, b"q")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), printed.decode(errors="replace")


def list_commands() -> Iterator[str]:
    """Yields all commands, and the commands of groups."""
    from nearkin.cli.app import all_entries
    from nearkin.cli.command_table import COMMANDS as ENTRIES

    yield from dict.fromkeys(entry.path for entry in (*ENTRIES, *all_entries()))


def find_faults() -> list[str]:
    """Runs all commands, and returns what is wrong with them."""
    faults = []
    tried = [*COMMANDS, *NEED_EXTRA]
    for command in list_commands():
        code, printed = run_command(f"{command} --help")
        if code or "Usage" not in printed:
            faults.append(f"{command} --help: exit code {code}\n{printed}")
        is_tried = any(f"{line} ".startswith(f"{command} ") for line in tried)
        if not is_tried:
            faults.append(f"{command}: scripts/core_commands.py does not run this command")
    for line in COMMANDS:
        code, printed = run_command(line)
        if code:
            faults.append(f"{line}: exit code {code}\n{printed}")
    code, printed = review_on_terminal()
    if code:
        faults.append(f"review run: exit code {code}\n{printed}")
    for line, extra in NEED_EXTRA.items():
        code, printed = run_command(line)
        if code != 1 or f'pip install ".[{extra}]"' not in printed:
            faults.append(f"{line}: exit code {code}, and no message about {extra}\n{printed}")
    return faults


def main() -> None:
    """Runs all commands in a temporary folder."""
    parser = argparse.ArgumentParser(description="Runs every command without extras.")
    parser.add_argument("--hide-extras", action="store_true", help="hide modules of extras")
    if parser.parse_args().hide_extras:
        hide_extras()
    with tempfile.TemporaryDirectory(prefix="nearkin-core-") as folder, contextlib.chdir(folder):
        write_documents()
        faults = find_faults()
    if faults:
        raise SystemExit("\n\n".join(faults))
    print(f"{len(COMMANDS) + len(NEED_EXTRA) + 1} commands run without extras")


if __name__ == "__main__":
    main()
