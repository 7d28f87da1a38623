"""Records of people and of companies, with households, branches and changed copies."""

import random
from collections.abc import Iterator

from benchmarks.quality.populations.names import (
    CITIES,
    GIVEN_NAMES,
    NICKNAMES,
    PROVIDERS,
    STREET_KINDS,
    STREET_SHORT,
    STREETS,
    SURNAMES,
)
from benchmarks.quality.populations.planting import (
    Fields,
    add_typo,
    apply_changes,
    change_case,
)
from benchmarks.quality.populations.words import choose_by_rank, read_words

HOUSEHOLD_SHARE = 0.25
"""The share of the people who live with the previous person: same surname, address and telephone.
"""
SAME_PHONE_SHARE = 0.5
"""The share of them who have the telephone number of the household."""
BRANCH_SHARE = 0.25
"""The share of the companies that are a branch of the previous one: same name, another address."""
LANDLINE = (2, 9)
"""The smallest and the largest first digit of a telephone number without its area code."""


def invent_address(rng: random.Random) -> dict[str, str]:
    """Returns a street with a number, a postcode, a city, and the area code as `area`."""
    city, code, area = choose_by_rank(rng, CITIES)
    # A city has up to thirty postcodes in a row.
    postcode = f"{int(code) + int(rng.random() ** 2 * 30):05d}"
    street = f"{choose_by_rank(rng, STREETS)} {choose_by_rank(rng, STREET_KINDS)}"
    number = int(rng.random() ** 2 * 400) + 1
    return {"street": f"{number} {street}", "postcode": postcode, "city": city, "area": area}


def invent_phone(rng: random.Random, area: str) -> str:
    """Returns a telephone number with an area code."""
    return f"{area}-{rng.randint(*LANDLINE)}{rng.randrange(100):02d}-{rng.randrange(10_000):04d}"


def invent_email(rng: random.Random, given_name: str, surname: str) -> str:
    """Returns an address that is made of a name, mostly with one or two digits."""
    given = given_name.lower()
    family = surname.lower()
    name = rng.choice(
        (f"{given}.{family}", f"{given}.{family}", f"{given}{family}", f"{given[0]}{family}")
    )
    digits = rng.choice(("", str(rng.randrange(10)), f"{rng.randrange(100):02d}"))
    return f"{name}{digits}@{choose_by_rank(rng, PROVIDERS)}"


def invent_birthday(rng: random.Random) -> str:
    """Returns a date of birth in the form of ISO 8601."""
    return f"{rng.randint(1935, 2006)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def invent_people(rng: random.Random) -> Iterator[Fields]:
    """Yields people without end. A quarter of them live in the household of the previous one."""
    surname = ""
    address: dict[str, str] = {}
    phone = ""
    while True:
        if not surname or rng.random() >= HOUSEHOLD_SHARE:
            surname = choose_by_rank(rng, SURNAMES)
            address = invent_address(rng)
            phone = invent_phone(rng, address["area"])
        elif rng.random() >= SAME_PHONE_SHARE:
            phone = invent_phone(rng, address["area"])
        given_name = choose_by_rank(rng, GIVEN_NAMES)
        yield {
            "given_name": given_name,
            "surname": surname,
            "street": address["street"],
            "postcode": address["postcode"],
            "city": address["city"],
            "phone": phone,
            "email": invent_email(rng, given_name, surname),
            "birthday": invent_birthday(rng),
        }


CUSTOMER_GIVEN_NAMES = GIVEN_NAMES[:80]
CUSTOMER_SURNAMES = SURNAMES[:100]
CUSTOMER_STREETS = STREETS[:60]
CUSTOMER_CITIES = CITIES[:40]


def invent_customers(rng: random.Random) -> Iterator[Fields]:
    """Yields the customers of a company: no households, and few names that are equally frequent."""
    while True:
        given_name = rng.choice(CUSTOMER_GIVEN_NAMES)
        surname = rng.choice(CUSTOMER_SURNAMES)
        street = f"{rng.choice(CUSTOMER_STREETS)} {rng.choice(STREET_KINDS)}"
        city, postcode, area = rng.choice(CUSTOMER_CITIES)
        yield {
            "given_name": given_name,
            "surname": surname,
            "street": f"{rng.randint(1, 200)} {street}",
            "postcode": postcode,
            "city": city,
            "phone": invent_phone(rng, area),
            "email": f"{given_name}.{surname}{rng.randrange(100):02d}@example.com".lower(),
        }


def invent_members(rng: random.Random) -> Iterator[Fields]:
    """Yields people of whom a list has the name, the address and the e-mail address only.

    A quarter live with the previous one, and the e-mail address alone tells them apart from a copy.
    """
    for person in invent_people(rng):
        yield {name: value for name, value in person.items() if name not in ("phone", "birthday")}


def _abbreviate_street(street: str | None) -> str | None:
    """Returns a street with its kind abbreviated."""
    number, _, kind = (street or "").rpartition(" ")
    return f"{number} {STREET_SHORT[kind]}" if kind in STREET_SHORT else street


def _abbreviate_person(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Abbreviates the kind of the street or the given name."""
    given_name = fields.get("given_name") or ""
    if rng.random() < 0.6 or not given_name:
        fields["street"] = _abbreviate_street(fields["street"])
    elif given_name in NICKNAMES:
        fields["given_name"] = NICKNAMES[given_name]
    else:
        fields["given_name"] = f"{given_name[0]}."


def _drop_value(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Leaves out the telephone number, the e-mail address, the birthday or the postcode."""
    names = [name for name in ("phone", "email", "birthday", "postcode") if fields.get(name)]
    if names:
        fields[rng.choice(names)] = None


def _reformat(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Writes the telephone number or the date of birth in another form, or changes the case."""
    choice = rng.random()
    phone = fields.get("phone")
    birthday = fields.get("birthday")
    if choice < 0.4 and phone and phone.count("-") == 2:
        area, exchange, line = phone.split("-")
        fields["phone"] = rng.choice(
            (
                f"({area}) {exchange}-{line}",
                f"{area}{exchange}{line}",
                f"+1 {area} {exchange} {line}",
            )
        )
    elif choice < 0.7 and birthday and birthday.count("-") == 2:
        year, month, day = birthday.split("-")
        fields["birthday"] = rng.choice((f"{month}/{day}/{year}", f"{day}.{month}.{year}"))
    else:
        change_case(rng, fields)


def _swap_names(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Exchanges the given name and the surname."""
    fields["given_name"], fields["surname"] = fields["surname"], fields["given_name"]


def _replace_contact(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Replaces the telephone number or the provider of the e-mail address."""
    email = fields.get("email")
    if email and rng.random() < 0.5:
        fields["email"] = f"{email.partition('@')[0]}@{choose_by_rank(rng, PROVIDERS)}"
    elif fields.get("phone"):
        area = str(fields["phone"])[:3]
        fields["phone"] = invent_phone(rng, area)


PERSON_CHANGES = {
    add_typo: 0.4,
    _abbreviate_person: 0.15,
    _drop_value: 0.15,
    _reformat: 0.2,
    _swap_names: 0.05,
    _replace_contact: 0.05,
}
"""The changes of copied people, with their shares."""


def copy_person(rng: random.Random, fields: Fields) -> Fields:
    """Returns a changed copy of a person."""
    return apply_changes(rng, fields, PERSON_CHANGES)


COMPANY_WORDS = read_words("company_words")
TRADES = read_words("trades")
LEGAL_FORMS = (("Inc", "Incorporated"), ("LLC", "L.L.C."), ("Corp", "Corporation"),
               ("Ltd", "Limited"), ("Co", "Company"), ("Group", "Grp"))  # fmt: skip
"""The legal forms of companies, each with another way to write it."""


def invent_companies(rng: random.Random) -> Iterator[Fields]:
    """Yields companies without end. A quarter of them are branches of the previous one."""
    name = ""
    website = ""
    while True:
        if not name or rng.random() >= BRANCH_SHARE:
            owner = choose_by_rank(rng, SURNAMES)
            first = rng.choice((owner, choose_by_rank(rng, COMPANY_WORDS)))
            second = rng.choice(("", "", choose_by_rank(rng, COMPANY_WORDS), "& Sons"))
            trade = choose_by_rank(rng, TRADES)
            words = [word for word in (first, second, trade) if word]
            name = f"{' '.join(words)} {choose_by_rank(rng, LEGAL_FORMS)[0]}"
            letters = "".join(word.lower() for word in words if word != "& Sons")
            website = f"www.{letters}.{choose_by_rank(rng, ('com', 'net', 'biz', 'us'))}"
        address = invent_address(rng)
        yield {
            "name": name,
            "street": address["street"],
            "postcode": address["postcode"],
            "city": address["city"],
            "phone": invent_phone(rng, address["area"]),
            "website": website,
        }


def _abbreviate_company(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Abbreviates the kind of the street, or writes the legal form in another way or not at all."""
    name, _, form = (fields["name"] or "").rpartition(" ")
    others = dict(LEGAL_FORMS)
    if rng.random() < 0.4 or form not in others:
        fields["street"] = _abbreviate_street(fields["street"])
    else:
        fields["name"] = rng.choice((name, f"{name} {others[form]}", f"{name}, {form}."))


def _drop_company_value(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Leaves out the telephone number, the website or the postcode."""
    fields[rng.choice(("phone", "website", "postcode"))] = None


COMPANY_CHANGES = {
    add_typo: 0.4,
    _abbreviate_company: 0.2,
    _drop_company_value: 0.15,
    _reformat: 0.2,
    _replace_contact: 0.05,
}
"""The changes of copied companies, with their shares."""


def copy_company(rng: random.Random, fields: Fields) -> Fields:
    """Returns a changed copy of a company."""
    return apply_changes(rng, fields, COMPANY_CHANGES)


DENSE_GIVEN_NAMES = GIVEN_NAMES[:16]
DENSE_SURNAMES = SURNAMES[:12]
DENSE_STREETS = tuple(f"{street} Street" for street in STREETS[:8])
DENSE_CITIES = tuple(city for city, _, _ in CITIES[:6])


def invent_dense_people(rng: random.Random) -> Iterator[Fields]:
    """Yields people of 16 given names, 12 surnames, 8 streets and 6 cities, without households."""
    seen: set[tuple[str, ...]] = set()
    while True:
        given_name = rng.choice(DENSE_GIVEN_NAMES)
        surname = rng.choice(DENSE_SURNAMES)
        street = f"{rng.randint(1, 99)} {rng.choice(DENSE_STREETS)}"
        city = rng.choice(DENSE_CITIES)
        email = f"{given_name}.{surname}{rng.randrange(100):02d}@example.com".lower()
        person = (given_name, surname, street, city, email)
        if person not in seen:
            seen.add(person)
            names = ("given_name", "surname", "street", "city", "email")
            yield dict(zip(names, person, strict=True))


def copy_with_typo(rng: random.Random, fields: Fields) -> Fields:
    """Returns a copy with one error of a character."""
    copied = dict(fields)
    add_typo(rng, copied)
    return copied
