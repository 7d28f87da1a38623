"""Takes the screenshots of the documentation: the report, pages of the console, and the terminal.

Run: python -m scripts.docs_screenshots    (writes docs/_static/*.png and terminal.svg; the files
    are committed)

It needs Chromium (scripts/services.sh installs it) and about two minutes.
"""

import argparse
import contextlib
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, Page, sync_playwright
from pyarrow import parquet
from rich.console import Console
from rich.text import Text

import nearkin as nk

FOLDER = Path(__file__).parent.parent / "docs" / "_static"
LARGEST = 150_000
"""Bytes that a picture may have."""
COLUMNS = 96
"""Width of the terminal, in characters."""
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rules with which rich would load its font from the network."""
NUMBER = re.compile(r"[\d.,]+(%| [kM]B)?")
"""A number, a share or a size, which differ between corpora and machines."""
DATE = re.compile(r"\d+ [A-Z][a-z]+ \d{4}")
WORDS = "words"
"""The name of the text in a picture that has the words of its page."""

Save = Callable[[Page, str], None]
"""A function that receives a page and the name of its picture."""

BRIDGE = (
    "The city council voted on Tuesday to build a second bridge over the river, after ten years of "
    "debate about its cost and "
    "its route. Work begins in spring, and the first cars will cross in four years."
)
STORM = (
    "A storm closed the harbour for two days. Ferries will run again from Friday, the port "
    "authority said, if the wind drops "
    "below sixty kilometres an hour. Two boats were damaged, and nobody was hurt."
)
MUSEUM = (
    "The museum opens a new wing for photography next spring, with a collection that a retired "
    "teacher left to the town. "
    "Entry is free on the first Sunday of each month."
)
TRAINS = (
    "Trains between the capital and the coast will take twelve minutes less from December, the "
    "railway said, because a new "
    "tunnel replaces the line around the bay."
)

NEWS = {"bridge": BRIDGE, "storm": STORM, "museum": MUSEUM, "trains": TRAINS}


def nearkin(*arguments: str, folder: Path, terminal: bool = False) -> str:
    """Runs a command of nearkin and returns what it prints.

    Args:
        arguments: The command and its arguments.
        folder: The folder in which it runs.
        terminal: Whether the output has the colours of a terminal.
    """
    environment = {**os.environ, "COLUMNS": str(COLUMNS)}
    if terminal:
        environment.update({"FORCE_COLOR": "1", "TERM": "xterm-256color"})
    line = [sys.executable, "-m", "nearkin", *arguments]
    done = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def save_terminal(commands: list[tuple[str, str]], name: str) -> None:
    """Writes commands and their output as a picture of a terminal.

    Args:
        commands: Each command with what it printed.
        name: The name of the picture.
    """
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for command, printed in commands:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(printed.strip("\n")))
        console.print()
    picture = console.export_svg(title="nearkin", unique_id="nearkin")
    (FOLDER / name).write_text(FONT_FACE.sub("", picture), "utf-8")


def words_of_page(page: Page) -> str:
    """Returns the words of a page that are visible, without numbers, dates, version and folder."""
    words = " ".join(page.inner_text("body").split())
    words = words.replace(nk.__version__, "#").replace(f"{FOLDER.parents[1]}/", "")
    return NUMBER.sub("#", DATE.sub("#", words))


def save_picture(page: Page, name: str) -> None:
    """Writes a screenshot with as few colours as it needs to stay small.

    The words of the whole page are stored in it, so that a test can compare them with today's.

    Args:
        page: The page.
        name: The name of the picture.

    Raises:
        SystemExit: If the picture is larger than LARGEST bytes even so.
    """
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    words = PngInfo()
    words.add_text(WORDS, words_of_page(page), zip=True)
    image.quantize(128, dither=Image.Dither.NONE).save(FOLDER / name, optimize=True, pnginfo=words)
    size = (FOLDER / name).stat().st_size
    print(f"docs/_static/{name}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(
            f"{name} has {size:,} bytes, more than {LARGEST:,}; take a smaller part of the page"
        )


def take_report(browser: Browser, folder: Path, save: Save) -> None:
    """Takes the first screen of the report of the demo, and documents of a cluster in another one.

    Args:
        browser: Browser that opens the pages.
        folder: Empty folder for the data.
        save: Receives each page and the name of its picture.
    """
    documents: dict[str, list[str]] = {"id": [], "source": [], "text": []}
    for name, text in NEWS.items():
        for number, variant in enumerate(variants(text)):
            documents["id"].append(f"{name}-{number}")
            documents["source"].append(("wire", "blog", "mail")[number % 3])
            documents["text"].append(variant)
    parquet.write_table(pa.table(documents), folder / "news.parquet")
    nearkin("demo", "--out", "report", folder=folder)
    nearkin(
        "dedup", "news.parquet", "--id", "id", "--source", "source", "--out", "news", folder=folder
    )
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.goto(f"file://{folder / 'report' / 'report.html'}")
    save(page, "report.png")
    page.goto(f"file://{folder / 'news' / 'report.html'}")
    page.locator("#clusters").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#clusters').scrollIntoView()")
    save(page, "report-clusters.png")
    page.close()


def take_terminal(folder: Path) -> None:
    """Takes a run and an explanation in a terminal."""
    nearkin("lab", "synth", "--documents", "20000", "--out", "corpus", folder=folder)
    (folder / "a.txt").write_text(STORM, "utf-8")
    (folder / "b.txt").write_text(STORM.replace("two days", "three days"), "utf-8")
    dedup = ["dedup", "corpus/documents", "--id", "id", "--out", "deduped/"]
    explain = ["explain", "a.txt", "b.txt"]
    commands = [
        (f"nearkin {' '.join(line)}", nearkin(*line, folder=folder, terminal=True))
        for line in (dedup, explain)
    ]
    save_terminal(commands, "terminal.svg")
    page = nearkin("--help", folder=folder, terminal=True)
    save_terminal([("nearkin --help", page)], "help.svg")
    print("docs/_static/terminal.svg and help.svg")


@contextlib.contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Starts a server in a folder, and yields its address until it is ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    line = [
        sys.executable,
        "-m",
        "nearkin",
        "serve",
        "--port",
        str(port),
        *("--store", "sqlite:///kin.db", "--index", "threshold=0.7"),
    ]
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(line, cwd=folder, stdout=log, stderr=log)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz") as answer:
                if answer.status == 200:
                    break
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def variants(text: str) -> Iterator[str]:
    """Yields a text, and near-duplicates of it with one word changed in each."""
    yield text
    words = text.split()
    for place in range(3, len(words) - 3, 7):
        yield " ".join([*words[:place], "now", *words[place + 1 :]])


def fill_index(url: str) -> None:
    """Stores documents in the scope `news`, some of them near-duplicates of others."""
    client = nk.Client(url)
    for name, text in (
        ("bridge", BRIDGE),
        ("storm", STORM),
        ("museum", MUSEUM),
        ("trains", TRAINS),
    ):
        for number, variant in enumerate(variants(text)):
            client.upsert("news", variant, id=f"{name}-{number}")


def take_console(browser: Browser, folder: Path, save: Save) -> None:
    """Takes pages of the console.

    Args:
        browser: Browser that opens the pages.
        folder: Empty folder for the data.
        save: Receives each page and the name of its picture.
    """
    with running_server(folder) as url:
        fill_index(url)
        page = browser.new_page(viewport={"width": 1200, "height": 820})
        for path, name in (
            ("clusters?scope=news&id=bridge-2", "console-clusters.png"),
            ("review?scope=news", "console-review.png"),
            ("tuning?scope=news", "console-tuning.png"),
        ):
            page.goto(f"{url}/console/{path}")
            page.wait_for_load_state("networkidle")
            save(page, name)
        page.close()


def main() -> None:
    """Takes all screenshots."""
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        raise SystemExit("Chromium is not installed; run scripts/services.sh")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        take_terminal(folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take_console(browser, folder, save_picture)
        take_report(browser, folder, save_picture)
        browser.close()


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    main()
