"""Lines of logs, where lines of the same template are duplicates, whatever their numbers are."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.quality.labelled_set import LabelledRow
from benchmarks.quality.vocabulary import GIVEN_NAMES, invent_words

HOSTS = invent_words(51, 30, ("", "db", "web", "io"))
FILES = invent_words(52, 60, ("", "log", "data", "tmp"))
PARAMETER = re.compile(r"<(\w+)>")
HERE = Path(__file__).parent
SERVER_TEMPLATES = tuple((HERE / "server_log.txt").read_text("utf-8").splitlines())
"""Templates in the manner of the system log of a server."""
STORAGE_TEMPLATES = tuple((HERE / "storage_log.txt").read_text("utf-8").splitlines())
"""Templates in the manner of a distributed file system."""

SERVICE_VERBS = (
    "started",
    "finished",
    "rejected",
    "retried",
    "queued",
    "loaded",
    "flushed",
    "evicted",
)
SERVICE_NOUNS = (
    "request",
    "job",
    "session",
    "upload",
    "order",
    "payment",
    "message",
    "index",
    "page",
)
SERVICE_DETAILS = (
    "in <number> ms", "for user <user>", "from <ip>", "with id <hex>", "after <digit> attempts",
    "on shard <number>", "to <host>:<port>", "status=<number>", "path=/<file>/<hex>",
    "bytes=<number>", "queue depth <number>", "version <digit>.<digit>.<number>",
)  # fmt: skip


def _address(rng: random.Random) -> str:
    return ".".join(str(rng.randint(1, 254)) for _ in range(4))


PARAMETERS: Mapping[str, Callable[[random.Random], str]] = {
    "user": lambda rng: rng.choice((*GIVEN_NAMES, "root", "admin", "test")),
    "ip": _address,
    "port": lambda rng: str(rng.randint(1024, 65535)),
    "number": lambda rng: str(rng.randint(1, 10 ** rng.randint(1, 8))),
    "digit": lambda rng: str(rng.randint(0, 9)),
    "hex": lambda rng: f"{rng.getrandbits(64):016x}",
    "host": lambda rng: f"{rng.choice(HOSTS)}{rng.randint(1, 40)}",
    "file": lambda rng: rng.choice(FILES),
    "block": lambda rng: f"blk_{rng.choice(('', '-'))}{rng.getrandbits(62)}",
}
"""How the value of each parameter is made."""


def fill_template(rng: random.Random, template: str) -> str:
    """Returns a line of a template, with random values of its parameters."""
    return PARAMETER.sub(lambda match: PARAMETERS[match.group(1)](rng), template)


def make_lines(lines: int, seed: int, templates: Sequence[str]) -> list[LabelledRow]:
    """Returns lines of templates, of which some are much more frequent than others.

    Args:
        lines: Number of lines.
        seed: Seed of the lines.
        templates: The templates.
    """
    rng = random.Random(seed)
    shares = [1 / (rank + 2) for rank in range(len(templates))]
    numbers = rng.choices(range(len(templates)), shares, k=lines)
    return [
        LabelledRow(str(number), {"text": fill_template(rng, templates[number])})
        for number in numbers
    ]


def invent_templates(count: int, seed: int) -> list[str]:
    """Returns templates of an invented service, with one to four details each.

    Args:
        count: Number of templates.
        seed: Seed of the templates.
    """
    rng = random.Random(seed)
    components = invent_words(53, 12, ("d", "r", "x", ""))
    templates: dict[str, None] = {}
    while len(templates) < count:
        details = rng.sample(SERVICE_DETAILS, rng.randint(1, 4))
        level = rng.choice(("INFO", "INFO", "WARN", "ERROR"))
        component = rng.choice(components)
        event = f"{rng.choice(SERVICE_NOUNS)} {rng.choice(SERVICE_VERBS)}"
        head = f"{level} [{component}] {event}"
        templates[f"<number> {head} {' '.join(details)}"] = None
    return list(templates)
