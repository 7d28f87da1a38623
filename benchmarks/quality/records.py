"""Records of invented people and products, with the errors of typists and catalogues."""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.quality.corruption import add_character_errors
from benchmarks.quality.labelled_set import LabelledRow
from benchmarks.quality.vocabulary import GIVEN_NAMES, choose_frequent, invent_words

SURNAMES = invent_words(11, 400)
STREETS = invent_words(12, 250)
SUBURBS = tuple(
    (name, f"{code:04d}")
    for name, code in zip(invent_words(13, 180), range(2000, 7400, 30), strict=True)
)
STREET_KINDS = ("street", "road", "avenue", "place", "crescent", "drive", "close", "court")
STREET_SHORT = {
    "street": "st", "road": "rd", "avenue": "ave", "place": "pl", "crescent": "cres",
    "drive": "dr", "close": "cl", "court": "ct",
}  # fmt: skip
STATES = ("nsw", "vic", "qld", "wa", "sa", "tas", "act", "nt")
HOUSEHOLD_SHARE = 0.15
"""Share of the people who live at the address of another one, under the same name."""

Person = dict[str, str | None]


class PersonErrors(NamedTuple):
    """The amount by which a copied record of a person differs.

    Attributes:
        copies: Smallest and largest number of copies of a record.
        errors: Smallest and largest number of errors of characters in a copy.
        missing: Probability that a field is missing in a copy.
        swapped: Probability that the names are swapped in a copy.
        has_identifier: Whether records have a number of social insurance.
    """

    copies: tuple[int, int]
    errors: tuple[int, int]
    missing: float
    swapped: float
    has_identifier: bool


LIGHT_ERRORS = PersonErrors((0, 2), (1, 2), 0.02, 0.02, has_identifier=True)
HEAVY_ERRORS = PersonErrors((0, 4), (3, 7), 0.08, 0.08, has_identifier=False)


def invent_birthday(rng: random.Random) -> str:
    """Returns a date as eight digits."""
    year = rng.randint(1925, 2005)
    month = rng.randint(1, 12)
    return f"{year}{month:02d}{rng.randint(1, 28):02d}"


def invent_person(rng: random.Random, relative: Mapping[str, str | None] | None) -> Person:
    """Returns the record of a person.

    Args:
        rng: Source of random numbers.
        relative: Record of a person of the same household, or None.
    """
    suburb, code = choose_frequent(rng, SUBURBS)
    person: Person = {
        "given_name": choose_frequent(rng, GIVEN_NAMES),
        "surname": choose_frequent(rng, SURNAMES),
        "street_number": str(rng.randint(1, 250)),
        "address": f"{choose_frequent(rng, STREETS)} {rng.choice(STREET_KINDS)}",
        "suburb": suburb,
        "postcode": code,
        "state": STATES[int(code) % 3 if rng.random() < 0.8 else rng.randrange(len(STATES))],
        "date_of_birth": invent_birthday(rng),
        "identifier": f"{rng.randrange(10_000_000):07d}",
    }
    if relative is not None:
        for field in ("surname", "street_number", "address", "suburb", "postcode", "state"):
            person[field] = relative[field]
    return person


def copy_person(rng: random.Random, person: Person, errors: PersonErrors) -> Person:
    """Returns a copy of a record with errors.

    Args:
        rng: Source of random numbers.
        person: The record.
        errors: How much the copy differs.
    """
    copied = dict(person)
    for field in copied:
        if rng.random() < errors.missing:
            copied[field] = None
    if rng.random() < errors.swapped:
        given_name = copied["given_name"]
        copied["given_name"] = copied["surname"]
        copied["surname"] = given_name
    address = copied["address"]
    if address and rng.random() < 0.3:
        name, _, kind = address.rpartition(" ")
        copied["address"] = f"{name} {STREET_SHORT[kind]}"
    for _ in range(rng.randint(*errors.errors)):
        field = rng.choice([name for name, value in copied.items() if value])
        copied[field] = add_character_errors(rng, str(copied[field]), 1)
    return copied


def make_people(people: int, seed: int, errors: PersonErrors) -> list[LabelledRow]:
    """Returns records of people and their copies.

    Args:
        people: Number of people.
        seed: Seed of the records.
        errors: How much a copy differs.
    """
    rng = random.Random(seed)
    rows = []
    persons: list[Person] = []
    for number in range(people):
        has_relative = bool(persons) and rng.random() < HOUSEHOLD_SHARE
        person = invent_person(rng, rng.choice(persons) if has_relative else None)
        persons.append(person)
        copies = [copy_person(rng, person, errors) for _ in range(rng.randint(*errors.copies))]
        for record in (person, *copies):
            if not errors.has_identifier:
                record = {name: value for name, value in record.items() if name != "identifier"}
            rows.append(LabelledRow(str(number), record))
    return rows


BRANDS = invent_words(21, 40, ("o", "ix", "on", "tech", "ra"))
PRODUCT_KINDS = (
    ("digital camera", ("12 megapixel", "5x optical zoom", "2.7 inch display", "compact")),
    ("lcd television", ("42 inch", "full hd", "1080p", "widescreen", "120 hz")),
    ("home theater system", ("5.1 channel", "1000 watts", "wireless rear speakers")),
    ("refrigerator", ("25 cubic feet", "energy star", "ice maker", "stainless steel")),
    ("laser printer", ("24 pages per minute", "duplex", "network ready", "monochrome")),
    ("cordless phone", ("dect 6.0", "answering machine", "two handsets", "caller id")),
    ("gps navigator", ("4.3 inch touchscreen", "text to speech", "lifetime maps")),
    ("noise cancelling headphones", ("foldable", "carrying case", "rechargeable battery")),
    ("microwave oven", ("1.6 cubic feet", "1100 watts", "sensor cooking", "turntable")),
    ("car stereo", ("cd receiver", "bluetooth", "usb input", "detachable face")),
)
COLOURS = ("black", "silver", "white", "red", "blue", "titanium")
MARKETING = (
    "with free shipping", "new in box", "factory sealed", "great value", "best seller",
    "limited offer", "refurbished grade a", "retail packaging", "ideal for home and office",
)  # fmt: skip
PRODUCT_SOURCES = ("shop", "catalogue")


class Product(NamedTuple):
    """A product: the facts that both sources describe in their own words."""

    brand: str
    letters: str
    digits: str
    kind: str
    features: Sequence[str]
    colour: str
    price: float


def invent_products(rng: random.Random, count: int) -> list[Product]:
    """Returns products in families, whose members differ in the model and the colour.

    Args:
        rng: Source of random numbers.
        count: Number of products.
    """
    products: list[Product] = []
    while len(products) < count:
        brand = choose_frequent(rng, BRANDS)
        kind, features = rng.choice(PRODUCT_KINDS)
        letters = "".join(rng.choice("abcdefghklmnprstvwxz") for _ in range(rng.randint(2, 4)))
        first = rng.randrange(100, 9000)
        for step in range(rng.choice((1, 1, 2, 3, 4))):
            products.append(
                Product(
                    brand=brand,
                    letters=letters,
                    digits=str(first + 10 * step),
                    kind=kind,
                    features=tuple(rng.sample(features, 2)),
                    colour=rng.choice(COLOURS),
                    price=round(rng.uniform(20, 2000), 2),
                )
            )
    return products[:count]


def describe_for_shop(rng: random.Random, product: Product) -> dict[str, str | None]:
    """Returns the short record of a shop."""
    name = f"{product.brand} {product.kind} {product.letters}{product.digits}"
    if rng.random() < 0.6:
        name += f" {product.colour}"
    return {
        "title": name,
        "description": f"{product.brand} {product.kind} {product.features[0]} {product.colour}"
        if rng.random() < 0.6
        else None,
        "price": f"{product.price:.2f}" if rng.random() < 0.7 else None,
    }


def describe_for_catalogue(rng: random.Random, product: Product) -> dict[str, str | None]:
    """Returns the long record of a catalogue."""
    code = f"{product.letters}{rng.choice(('', '-', ' '))}{product.digits}"
    words = [product.brand, code, *product.features, product.kind]
    if rng.random() < 0.2:
        words.remove(product.brand)
    if rng.random() < 0.5:
        words.append(rng.choice(MARKETING))
    if rng.random() < 0.3:
        words.append(product.colour)
    name = " ".join(words)
    if rng.random() < 0.2:
        name = add_character_errors(rng, name, 1)
    return {
        "title": name,
        "description": rng.choice(MARKETING) if rng.random() < 0.3 else None,
        "price": f"{product.price * rng.uniform(0.9, 1.1):.2f}" if rng.random() < 0.6 else None,
    }


def make_products(products: int, seed: int) -> list[LabelledRow]:
    """Returns products of two sources. Half of the products are in both.

    Args:
        products: Number of products.
        seed: Seed of the records.
    """
    rng = random.Random(seed)
    rows = []
    for number, product in enumerate(invent_products(rng, products)):
        place = rng.random()
        if place < 0.75:
            fields = describe_for_shop(rng, product)
            rows.append(LabelledRow(str(number), fields, PRODUCT_SOURCES[0]))
        if place > 0.25:
            fields = describe_for_catalogue(rng, product)
            rows.append(LabelledRow(str(number), fields, PRODUCT_SOURCES[1]))
    return rows
