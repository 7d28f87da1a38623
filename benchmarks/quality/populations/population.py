"""Populations: generated rows of any number with known duplicates, for what depends on the size.

A population is a function of the number of rows and a seed. Vocabularies are small and follow
Zipf's law, so distinct rows resemble each other by chance, and more of them in a larger file.
Structures make others alike on purpose: households, branches, variants of a product, series of
publications, and families of pages and functions from one template. A tenth of the rows are copies
of an earlier one with one to three changes (`planting`, and the changes of each kind beside its
originals). Of log lines, those of one template are duplicates.

>>> rows = make_population("customers", 1000, seed=1)
>>> rows.fields
('given_name', 'surname', 'street', 'postcode', 'city', 'phone', 'email')
>>> len(rows.texts)
1000
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.quality.bibliography import write_reference
from benchmarks.quality.labelled_set import LabelledRow, LabelledSet, build_set
from benchmarks.quality.logs import make_lines
from benchmarks.quality.populations.code import invent_functions, revise_function, write_function
from benchmarks.quality.populations.log_templates import list_templates
from benchmarks.quality.populations.pages import (
    copy_article,
    copy_page,
    invent_articles,
    invent_texts,
    write_article,
    write_page,
)
from benchmarks.quality.populations.people import (
    copy_company,
    copy_person,
    copy_with_typo,
    invent_companies,
    invent_customers,
    invent_dense_people,
    invent_members,
    invent_people,
)
from benchmarks.quality.populations.planting import (
    COPIED_SHARE,
    Fields,
    Original,
    copy_fields,
    plant_copies,
)
from benchmarks.quality.populations.products import copy_product, invent_products
from benchmarks.quality.populations.references import invent_works
from benchmarks.quality.populations.titles import copy_title, invent_headlines, invent_titles

MakeRows = Callable[[int, int], Iterator[LabelledRow]]
"""Returns rows, from their number and a seed."""


class Population(NamedTuple):
    """A kind of rows that can be made in any number.

    Attributes:
        kind: Kind of data, which is the name of a preset.
        about: What the rows are.
        make: Returns the rows, from their number and a seed.
    """

    kind: str
    about: str
    make: MakeRows


def _plant(
    invent: Callable[[random.Random], Iterator[Original]],
    copy: Callable[[random.Random, Original], Fields],
    write: Callable[[random.Random, Original], Fields],
    copied_share: float = COPIED_SHARE,
) -> MakeRows:
    """Returns a function that makes originals with their copies."""

    def make(rows: int, seed: int) -> Iterator[LabelledRow]:
        rng = random.Random(seed)
        return plant_copies(rng, invent(rng), rows, write, copy, copied_share)

    return make


def _make_lines(rows: int, seed: int) -> Iterator[LabelledRow]:
    return iter(make_lines(rows, seed, list_templates(seed)))


POPULATIONS = {
    "people": Population(
        "records",
        "name, address, telephone, e-mail and birthday; a quarter live with another one",
        _plant(invent_people, copy_person, copy_fields),
    ),
    "companies": Population(
        "records",
        "name, address, telephone and website; a quarter are a branch of another one",
        _plant(invent_companies, copy_company, copy_fields),
    ),
    "customers": Population(
        "records",
        "name, address, e-mail and telephone; 80 given names, 100 surnames, 60 streets, 40 cities, "
        "and no households",
        _plant(invent_customers, copy_person, copy_fields),
    ),
    "members": Population(
        "records",
        "name, address and e-mail only; a quarter live with another one",
        _plant(invent_members, copy_person, copy_fields),
    ),
    "dense people": Population(
        "records",
        "16 given names, 12 surnames, 8 streets, 6 cities and e-mail; a fifth have a copy with "
        "one typing error",
        _plant(invent_dense_people, copy_with_typo, copy_fields, copied_share=0.2),
    ),
    "products": Population(
        "records",
        "title, brand, features, number and price; half are another colour or size of one",
        _plant(invent_products, copy_product, copy_fields),
    ),
    "paper titles": Population(
        "titles",
        "titles of publications; one in twenty belongs to a series",
        _plant(invent_titles, copy_title, copy_fields),
    ),
    "headlines": Population(
        "titles",
        "headlines; a tenth have one of ten forms",
        _plant(invent_headlines, copy_title, copy_fields),
    ),
    "references": Population(
        "bibliography",
        "references to publications in several styles; one in twenty belongs to a series",
        _plant(invent_works, write_reference, write_reference),
    ),
    "log lines": Population(
        "logs",
        "lines of some 340 templates, of which 100 differ from another one in a word",
        _make_lines,
    ),
    "functions": Population(
        "code",
        "functions and their revisions; three of ten follow the pattern of another one",
        _plant(invent_functions, revise_function, write_function),
    ),
    "articles": Population(
        "articles",
        "articles that others revise, shorten and quote; one in twenty follows a template",
        _plant(invent_articles, copy_article, write_article),
    ),
    "pages": Population(
        "web",
        "pages with navigation and footer, crawled twice; three of ten follow a template",
        _plant(invent_texts, copy_page, write_page),
    ),
}
"""The populations by name."""


def make_population(name: str, rows: int, seed: int) -> LabelledSet:
    """Returns the rows of a population in random order, with the columns of their fields.

    Args:
        name: Name of the population, one of `POPULATIONS`.
        rows: Number of rows.
        seed: Seed of the rows.
    """
    population = POPULATIONS[name]
    return build_set(name, population.kind, list(population.make(rows, seed)), seed)
