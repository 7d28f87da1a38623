"""Lines of logs. Lines of the same template, with other numbers, hosts and names, are duplicates."""

import random
import re
from collections.abc import Callable, Mapping, Sequence

from benchmarks.quality.labelled_set import LabelledRow
from benchmarks.quality.vocabulary import GIVEN_NAMES, invent_words

HOSTS = invent_words(51, 30, ("", "db", "web", "io"))
FILES = invent_words(52, 60, ("", "log", "data", "tmp"))
PARAMETER = re.compile(r"<(\w+)>")

SERVER_TEMPLATES = (
    "Failed password for <user> from <ip> port <port> ssh2",
    "Failed password for invalid user <user> from <ip> port <port> ssh2",
    "Accepted password for <user> from <ip> port <port> ssh2",
    "Accepted publickey for <user> from <ip> port <port> ssh2: RSA SHA256:<hex>",
    "Invalid user <user> from <ip>",
    "Connection closed by <ip> [preauth]",
    "Received disconnect from <ip>: 11: Bye Bye [preauth]",
    "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=<ip> user=<user>",
    "pam_unix(sshd:session): session opened for user <user> by (uid=<number>)",
    "pam_unix(sshd:session): session closed for user <user>",
    "reverse mapping checking getaddrinfo for <host>.example.net [<ip>] failed - POSSIBLE BREAK-IN ATTEMPT!",
    "Did not receive identification string from <ip>",
    "error: Received disconnect from <ip>: 3: com.jcraft.jsch.JSchException: Auth fail [preauth]",
    "PAM <number> more authentication failures; logname= uid=0 euid=0 tty=ssh ruser= rhost=<ip>",
    "Too many authentication failures for <user> [preauth]",
    "CRON[<number>]: (<user>) CMD (/usr/local/bin/<file> --quiet)",
    "kernel: [<number>.<number>] eth<digit>: link up, <number> Mbps, full-duplex",
    "kernel: [<number>.<number>] Out of memory: Kill process <number> (<file>) score <number> or sacrifice child",
    "systemd[1]: Started Session <number> of user <user>.",
    "systemd[1]: <file>.service: Main process exited, code=exited, status=<digit>/FAILURE",
    "systemd[1]: <file>.service: Unit entered failed state.",
    "ntpd[<number>]: adjusting local clock by <number>.<number>s",
    "postfix/smtpd[<number>]: connect from <host>[<ip>]",
    "postfix/smtpd[<number>]: disconnect from <host>[<ip>]",
    "named[<number>]: client <ip>#<port>: query (cache) '<host>/A/IN' denied",
)  # fmt: skip
STORE_TEMPLATES = (
    "INFO dfs.DataNode$PacketResponder: PacketResponder <digit> for block <block> terminating",
    "INFO dfs.DataNode$PacketResponder: Received block <block> of size <number> from /<ip>",
    "INFO dfs.DataNode$DataXceiver: Receiving block <block> src: /<ip>:<port> dest: /<ip>:<port>",
    "INFO dfs.DataNode$DataXceiver: <ip>:<port> Served block <block> to /<ip>",
    "WARN dfs.DataNode$DataXceiver: <ip>:<port>:Got exception while serving <block> to /<ip>:",
    "INFO dfs.FSNamesystem: BLOCK* NameSystem.addStoredBlock: blockMap updated: <ip>:<port> is added to <block> size <number>",
    "INFO dfs.FSNamesystem: BLOCK* NameSystem.allocateBlock: /user/<user>/<file>/part-<number>. <block>",
    "INFO dfs.FSNamesystem: BLOCK* NameSystem.delete: <block> is added to invalidSet of <ip>:<port>",
    "INFO dfs.FSDataset: Deleting block <block> file /mnt/hadoop/dfs/data/current/<block>",
    "INFO dfs.DataBlockScanner: Verification succeeded for <block>",
    "INFO dfs.DataNode: <ip>:<port> Starting thread to transfer block <block> to <ip>:<port>",
    "INFO dfs.FSNamesystem: BLOCK* ask <ip>:<port> to replicate <block> to datanode(s) <ip>:<port>",
    "WARN dfs.FSNamesystem: BLOCK* NameSystem.addStoredBlock: Redundant addStoredBlock request received for <block> on <ip>:<port> size <number>",
    "INFO dfs.DataNode$BlockReceiver: Exception in receiveBlock for block <block> java.io.IOException: Connection reset by peer",
    "INFO dfs.DataNode$BlockReceiver: Exception in receiveBlock for block <block> java.nio.channels.ClosedByInterruptException",
    "INFO dfs.DataNode$DataTransfer: <ip>:<port>:Transmitted block <block> to /<ip>:<port>",
    "ERROR dfs.DataNode: DatanodeRegistration(<ip>:<port>, storageID=DS-<number>-<ip>-<port>-<number>) exception",
    "INFO mapred.JobTracker: Adding task 'attempt_<number>_<digit>_m_<number>_<digit>' to tip task_<number> for tracker '<host>'",
    "INFO mapred.TaskTracker: attempt_<number>_<digit>_r_<number>_<digit> 0.<number>% reduce > copy (<number> of <number> at <number>.<digit> MB/s)",
    "INFO mapred.JobInProgress: Task 'attempt_<number>_<digit>_m_<number>_<digit>' has completed task_<number> successfully.",
)  # fmt: skip
SERVICE_VERBS = ("started", "finished", "rejected", "retried", "queued", "loaded", "flushed", "evicted")
SERVICE_NOUNS = ("request", "job", "session", "upload", "order", "payment", "message", "index", "page")
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
        head = f"{level} [{rng.choice(components)}] {rng.choice(SERVICE_NOUNS)} {rng.choice(SERVICE_VERBS)}"
        templates[f"<number> {head} {' '.join(details)}"] = None
    return list(templates)
