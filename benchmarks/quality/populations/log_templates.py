"""Templates of log lines, some of which differ from another one in one word."""

import random
from functools import lru_cache

from benchmarks.quality.logs import (
    SERVER_TEMPLATES,
    SERVICE_VERBS,
    STORAGE_TEMPLATES,
    invent_templates,
)

INVENTED = 250
"""The number of invented templates of services."""
SIBLING_SHARE = 0.2
"""The share of these that have a sibling with another verb, such as started and finished."""


@lru_cache
def list_templates(seed: int) -> tuple[str, ...]:
    """Returns the templates of a server, of a storage and of invented services, in random order.

    Args:
        seed: Seed of the invented templates and of the order.
    """
    rng = random.Random(seed)
    templates = dict.fromkeys((*SERVER_TEMPLATES, *STORAGE_TEMPLATES))
    for template in invent_templates(INVENTED, seed):
        templates[template] = None
        if rng.random() < SIBLING_SHARE:
            verb = next(verb for verb in SERVICE_VERBS if f" {verb} " in f"{template} ")
            other = rng.choice([each for each in SERVICE_VERBS if each != verb])
            templates[template.replace(f" {verb}", f" {other}", 1)] = None
    listed = list(templates)
    rng.shuffle(listed)
    return tuple(listed)
