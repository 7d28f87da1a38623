"""Products of a catalogue, with variants of one model and changed copies."""

import random
from collections.abc import Iterator

from benchmarks.quality.populations.planting import Fields, add_typo, apply_changes, change_case
from benchmarks.quality.populations.words import choose_by_rank
from benchmarks.quality.records import MARKETING, PRODUCT_KINDS
from benchmarks.quality.vocabulary import invent_words

BRANDS = invent_words(71, 60, ("o", "ix", "on", "tech", "ra"))
COLOURS = ("black", "silver", "white", "red", "blue", "titanium", "green", "gold")
SIZES = ("small", "medium", "large", "16 gb", "32 gb", "64 gb", "128 gb", "1 tb", "pack of 2")
VARIANT_SHARE = 0.5
"""The share of the products that are another variant of the previous one."""


def invent_products(rng: random.Random) -> Iterator[Fields]:
    """Yields products without end. Half of them are the previous one in another colour or size."""
    name = ""
    code = ""
    brand = ""
    features = ""
    price = 0.0
    variants: set[tuple[str, str]] = set()
    while True:
        if not name or len(variants) > 8 or rng.random() >= VARIANT_SHARE:
            kind, all_features = rng.choice(PRODUCT_KINDS)
            brand = choose_by_rank(rng, BRANDS)
            letters = "".join(rng.choice("abcdefghklmnprstvwxz") for _ in range(rng.randint(2, 3)))
            code = f"{letters}{rng.randrange(100, 9000)}"
            name = f"{brand} {kind} {code}"
            features = ", ".join(rng.sample(all_features, 2))
            price = round(rng.uniform(20, 2000), 2)
            variants = set()
        variant = (rng.choice(COLOURS), rng.choice(SIZES))
        if variant in variants:
            continue
        variants.add(variant)
        yield {
            "title": f"{name} {variant[0]} {variant[1]}",
            "brand": brand,
            "features": features,
            "number": f"{code}-{variant[0][:2]}{len(variants)}",
            "price": f"{price + 10 * len(variants):.2f}",
        }


def _drop_value(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Leaves out the brand, the features, the number or the price."""
    fields[rng.choice(("brand", "features", "number", "price"))] = None


def _advertise(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Adds what shops write into titles, or changes the price."""
    if fields["price"] and rng.random() < 0.4:
        fields["price"] = f"{rng.uniform(20, 2000):.2f}"
    else:
        fields["title"] = f"{fields['title']} {rng.choice(MARKETING)}"


PRODUCT_CHANGES = {add_typo: 0.35, _drop_value: 0.25, _advertise: 0.25, change_case: 0.15}
"""The changes of copied products, with their shares."""


def copy_product(rng: random.Random, fields: Fields) -> Fields:
    """Returns a changed copy of a product."""
    return apply_changes(rng, fields, PRODUCT_CHANGES)
