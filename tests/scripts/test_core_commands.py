"""Every command runs with the core dependencies alone, or names the extra that it needs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_command_runs_without_extras_or_names_one() -> None:
    line = [sys.executable, ROOT / "scripts" / "core_commands.py", "--hide-extras"]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "commands run without extras" in ended.stdout
