"""The check that a Redis server keeps what it acknowledged when its memory is full."""

import logging
from typing import Any

from nearkin.errors import UsageError

log = logging.getLogger("nearkin.redis")

KEEPS_EVERYTHING = "noeviction"
"""The policy of a Redis server that refuses writes when its memory is full."""
EVICTS_ANY_KEY = "allkeys-"
"""The beginning of the names of policies that delete keys without a time to live, too."""


def require_no_eviction(client: Any, where: str) -> None:
    """Verifies the eviction policy of a Redis server.

    A server with another policy than `noeviction` deletes keys when `maxmemory` is reached, without
    an error. Policies that begin with `allkeys-` delete any key, so documents that were
    acknowledged are lost. Policies that begin with `volatile-` delete keys with a time to live
    only; nearkin sets one for its notes of which step a writer did last, but other programs may
    have set more.
    """
    import redis

    try:
        facts = client.info("memory")
    except redis.exceptions.ResponseError as error:
        # Other errors mean that the server cannot be reached, which the caller reports.
        facts = {"reason": str(error)}
    policy = facts.get("maxmemory_policy")
    if policy is None:
        reason = f" ({facts['reason']})" if "reason" in facts else ""
        log.warning(
            "%s: cannot read maxmemory-policy%s; with another policy than noeviction a full server "
            "loses documents silently",
            where,
            reason,
        )
    elif policy.startswith(EVICTS_ANY_KEY) and facts.get("maxmemory"):
        raise UsageError(
            f"{where}: maxmemory-policy is {policy}, so a full server deletes acknowledged "
            f"documents without an error; "
            "set it to noeviction (CONFIG SET maxmemory-policy noeviction)"
        )
    elif policy != KEEPS_EVERYTHING:
        log.warning(
            "%s: maxmemory-policy is %s; when maxmemory is reached, keys may be deleted without an "
            "error; set it to noeviction",
            where,
            policy,
        )
