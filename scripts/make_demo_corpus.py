"""Writes the press releases that `nearkin demo` deduplicates.

The story: a news archive collects press releases from their issuers, and again from a wire service,
a daily newspaper and a portal, which change them. All companies, towns and people are invented. The
output is the same on every machine.

Run: python scripts/make_demo_corpus.py
"""

import json
import random
import re
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "nearkin" / "quality" / "lab" / "press_releases.jsonl"
SEED = 15
RELEASES = 112
FIRST_DAY = date(2025, 3, 3)

TOWNS = (
    "Aldermouth", "Brackenfold", "Carrowick", "Dunsley", "Eastmere", "Farrowdale", "Glenharrow",
    "Hollin Bay", "Inverlay", "Kestrel Point", "Lowmarsh", "Millbrook", "Northwold", "Oakhaven",
    "Penrick", "Quarry Hill", "Ravensea", "Saltburn Reach", "Thornby", "Westering",
)  # fmt: skip
RIVERS = ("Lenn", "Ardle", "Sower", "Tamble", "Wick", "Ouseley", "Brant", "Calder Water")
COMPANIES = (
    ("Lantern Ferries", "runs passenger and car ferries between the islands of the north coast"),
    ("Corbel & Vane", "designs and restores public buildings"),
    ("Tidewater Energy", "builds and operates wind farms and tidal turbines"),
    ("Hearthline Foods", "bakes bread and pastry for shops, schools and hospitals"),
    ("Brightwell Rail", "operates regional trains and keeps their tracks in repair"),
    ("Nimbus Instruments", "makes weather stations and sensors for farms and airports"),
    ("Meadowlark Seeds", "breeds vegetables and grain for dry and cold regions"),
    ("Stonebridge Mutual", "insures homes, boats and small firms"),
    ("Greyfriars Press", "prints school books, maps and music"),
    ("Oriel Glassworks", "makes windows, lenses and laboratory glass"),
    ("Pellworth Cycles", "builds bicycles for cities and for freight"),
    ("Saffron Street Clinics", "runs medical practices in small towns"),
)
NAMES = (
    "Ada Marlowe", "Bram Castell", "Cora Whitlock", "Desmond Achebe", "Elin Sorby", "Farid Nasser",
    "Greta Holm", "Hugo Pereira", "Imani Clarke", "Jonas Lind", "Keiko Arden", "Luca Ferrante",
    "Mina Rao", "Noor Haddad", "Owen Tarrant", "Petra Novak",
)  # fmt: skip
ROLES = (
    "the managing director", "the head of operations", "who leads the project",
    "the chair of the works council", "the chief engineer", "the company's spokesperson",
)  # fmt: skip

TOPICS = (
    (
        "{company} opens a new branch in {town}",
        "{company} will open a branch in {town} on {day}. It is the company's first site in the "
        "valley of the {river} and offers {count} new jobs, {small} of them for apprentices.",
        (
            "The old {building} on Harbour Street was empty for {years} years and has been rebuilt "
            "with {material} and a roof of solar panels.",
            "Visitors can look at the rooms from ten in the morning; coffee and cake are free, and "
            "children get a small {gift}.",
            "Rents in the quarter are about {percent} percent lower than in the centre, which made "
            "the decision easy.",
            "The town pays for the new bus stop in front of the door and for {count2} parking "
            "spaces for bicycles.",
            "Applications are accepted until the end of {month}; no letter of motivation is "
            "needed.",
        ),
    ),
    (
        "{company} recalls {product} after tests in {town}",
        "{company} asks customers to return {product} that were sold in {town} and nearby between "
        "{month} and {month2}. About {count} pieces are affected; nobody has been hurt.",
        (
            "A weekly check in the laboratory found that a {part} can come loose after {small} "
            "weeks of daily use.",
            "The number of the batch is printed in {colour} on the bottom of the package and ends "
            "with {count2}.",
            "Shops refund the full price, with or without a receipt, or exchange the product at "
            "once.",
            "Production stopped on {day} and starts again when an independent examiner from "
            "{town2} has approved the change.",
            "A free telephone line is open from seven in the morning until nine in the evening, "
            "also on Sundays.",
        ),
    ),
    (
        "{town} and {company} agree on a bridge over the {river}",
        "The council of {town} and {company} have signed a contract for a bridge over the {river}. "
        "It will cost {money} million crowns and carry its first pedestrians in {month} of next "
        "year.",
        (
            "The arch has a span of {count} metres and stands on {small} pillars of {material}.",
            "Until now the way from the market to the hospital has taken {minutes} minutes by car "
            "and longer on foot.",
            "Otters and kingfishers breed on the eastern bank, so work rests there from {month2} "
            "until the young have left the nest.",
            "The council had rejected two earlier drafts because of their price and because of "
            "their view from the castle.",
            "Tolls are not planned; the contract forbids them for {years} years.",
        ),
    ),
    (
        "{company} reports a strong year and raises wages",
        "{company} earned {money} million crowns last year, {percent} percent more than the year "
        "before. From {month} on, all {count} employees receive a higher wage.",
        (
            "The largest share of the growth came from {town}, where sales have doubled in "
            "{small} years.",
            "Costs for energy fell because the roofs of both halls now carry panels and heat is "
            "taken from the {river}.",
            "The board proposes to pay no dividend and to spend the money on {material} and new "
            "machines instead.",
            "An outlook for the next quarter is difficult: orders from abroad have been "
            "{adjective} since {month2}.",
            "The full report with all tables will be published on {day} and can be ordered in "
            "print.",
        ),
    ),
    (
        "Students from {town} win the prize of {company}",
        "A class of the grammar school in {town} has won this year's prize of {company} for young "
        "inventors. The {small} students built a {invention} from parts that others had thrown "
        "away.",
        (
            "The jury read {count2} entries from {percent} schools and tried the best of them on "
            "the banks of the {river}.",
            "The prize is worth {count} crowns, most of which the class wants to spend on a trip "
            "to {town2}.",
            "Their teacher says that the first model sank, the second caught fire, and the third "
            "worked better than the plan.",
            "The second place went to a {gift} that wakes its owner by the smell of toast.",
            "All entries are shown in the town library until the last week of {month}.",
        ),
    ),
    (
        "{company} tests {adjective2} vehicles in {town}",
        "From {day} on, {company} will test {small} vehicles without drivers in the streets of "
        "{town}. They carry parcels of up to {percent} kilograms at the speed of a pedestrian.",
        (
            "A person with a red flag walks behind each vehicle during the first {years} weeks, as "
            "the permit demands.",
            "Cameras blur faces before an image is stored, and images are deleted after "
            "{minutes} minutes.",
            "The battery lasts for {count2} stops; at noon the vehicles return to the {building} "
            "to be charged.",
            "Snow and the cobbles of the old town are the hardest part, and the engineers hope for "
            "a bad winter.",
            "Whoever meets a vehicle that does not know its way can press the {colour} button on "
            "its side.",
        ),
    ),
    (
        "{company} appoints {name2} to its board",
        "{name2} joins the board of {company} in {month}. The engineer from {town} follows "
        "{name3}, who retires after {years} years and {count2} meetings.",
        (
            "{surname2} began as an apprentice in the {building} of {town2} and studied in the "
            "evenings.",
            "Later stations were a shipyard on the {river}, a start-up that sold {product}, and "
            "the ministry of transport.",
            "The board now has {small} members, for the first time as many women as men.",
            "First tasks are the new site and a plan to use {percent} percent less {material} by "
            "the end of the decade.",
            "Shareholders vote on the appointment on {day}; their consent is considered certain.",
        ),
    ),
    (
        "Storm delays the work of {company} near {town}",
        "The storm of last {weekday} has damaged {count} metres of cable and a crane of {company} "
        "near {town}. Repairs take about {small} weeks, and deliveries to {town2} will be late.",
        (
            "Gusts of {percent2} kilometres an hour were measured at the lighthouse before the "
            "instrument itself blew away.",
            "All {count2} workers had left the site in time, because a fisherman had given "
            "warning.",
            "Households are supplied over a second line, which was finished in {month} against "
            "much criticism.",
            "The damage is estimated at {money} million crowns, most of which is insured.",
            "Walkers should stay away from the bank of the {river} until the loose {material} has "
            "been removed.",
        ),
    ),
)
QUOTES = (
    "We have waited a long time for this, and I am glad that it happens in {town}",
    "Nobody here did this alone, and the next step will be harder than the first",
    "I know that many people had doubts, and some of them were right to ask",
    "It is a small step for a company of our size but a large one for the {river}",
    "If it goes well, {town2} could be next, and if it does not, we will say so",
    "The work of {count2} people is in this, and most of them will never be in a photograph",
    "We made mistakes in {month2}, and we have learnt more from them than from our plans",
    "Ask me again in {years} years whether it was worth the money; I believe so",
    "My grandmother would not have believed it, and she lived on the {river} all her life",
    "There will be noise and dust for a while, and then there will be something to be proud of",
)

NUMBERS = {
    "count": (40, 980), "count2": (14, 96), "small": (3, 12), "percent": (13, 48),
    "percent2": (97, 151), "money": (4, 88), "minutes": (20, 55), "years": (5, 31),
}  # fmt: skip
WORDS = {
    "building": ("warehouse", "mill", "post office", "fire station", "dairy", "tram depot"),
    "material": ("oak", "brick", "steel", "sandstone", "larch", "recycled glass", "slate"),
    "gift": ("kite", "whistle", "lantern", "puzzle", "alarm clock", "compass"),
    "product": ("kettles", "bicycle lamps", "rain gauges", "bread knives", "window handles"),
    "part": ("screw", "hinge", "seal", "spring", "handle", "washer"),
    "colour": ("green", "white", "blue", "yellow", "orange"),
    "invention": ("solar boat", "storm bell", "seed drill", "wind pump", "tide clock"),
    "adjective": ("hard to predict", "rising slowly", "falling", "late", "uneven"),
    "adjective2": ("electric", "silent", "self-driving", "three-wheeled"),
    "month": ("January", "February", "April", "May", "June"),
    "month2": ("August", "September", "October", "November", "December"),
    "weekday": ("Tuesday", "Wednesday", "Thursday", "Friday"),
}
SYNONYMS = (
    (r"\babout\b", "roughly"), (r"\bAbout\b", "Around"), (r"\bbecause\b(?! of)", "since"),
    (r"\bUntil now\b", "So far"), (r"\bnear\b", "close to"),
    (r"\bmost of which\b", "the bulk of which"),
    (r"\bfinished\b", "completed"), (r"\bwill open\b", "is opening"), (r"\basks\b", "is asking"),
    (r"\bearned\b", "made"), (r"\bjoins\b", "is to join"), (r"\bhave signed\b", "signed"),
    (r"\bhas won\b", "won"), (r"\bwill test\b", "is testing"), (r"\bhas damaged\b", "damaged"),
)  # fmt: skip


@dataclass(frozen=True)
class Release:
    """A press release as its issuer wrote it.

    Attributes:
        number: The number of the release, from 1.
        day: The day on which it was published.
        town: The town that it is about.
        headline: The first line.
        paragraphs: The text below the headline.
        about: The description of the company, which all of its releases share.
    """

    number: int
    day: date
    town: str
    headline: str
    paragraphs: tuple[str, ...]
    about: str

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n\n".join((self.headline, *self.paragraphs, self.about))


def write_release(number: int, rng: random.Random) -> Release:
    """Returns a release that is filled in at random.

    Args:
        number: The number of the release, which decides its topic.
        rng: The source of randomness.
    """
    headline, lead, sentences = TOPICS[number % len(TOPICS)]
    company, business = rng.choice(COMPANIES)
    town, town2 = rng.sample(TOWNS, 2)
    name, name2, name3 = rng.sample(NAMES, 3)
    day = FIRST_DAY + timedelta(days=number * 2)
    values: dict[str, str] = {
        "company": company,
        "town": town,
        "town2": town2,
        "river": rng.choice(RIVERS),
        "name2": name2,
        "surname2": name2.split()[-1],
        "name3": name3,
        "day": f"{day + timedelta(days=rng.randrange(5, 25)):%d %B}".lstrip("0"),
    }
    for slot, (low, high) in NUMBERS.items():
        values[slot] = str(rng.randint(low, high))
    for slot, choices in WORDS.items():
        values[slot] = rng.choice(choices)
    chosen = rng.sample(sentences, 3)
    quote = f"“{rng.choice(QUOTES)},” says {name}, {rng.choice(ROLES)}."
    body = (lead, " ".join(chosen[:2]), f"{quote} {chosen[2]}")
    about = f"About {company}: the company {business}."
    paragraphs = tuple(paragraph.format(**values) for paragraph in body)
    return Release(number, day, town, headline.format(**values), paragraphs, about)


def edit_for_wire(release: Release, rng: random.Random) -> str:
    """Returns the release with a dateline, without the description of the company."""
    dateline = f"{release.town.upper()}, {release.day:%d.%m.} (wire) - "
    ending = rng.choice(("(end)", "Editors: photographs on request.", "Embargo lifted at noon."))
    return "\n\n".join(
        (release.headline, dateline + release.paragraphs[0], *release.paragraphs[1:], ending)
    )


def edit_for_daily(release: Release, rng: random.Random) -> str:
    """Returns the release in the words of a newspaper: some other words, and a remark."""
    text = "\n\n".join(release.paragraphs)
    for pattern, replacement in SYNONYMS:
        text = re.sub(pattern, replacement, text, count=1)
    opening = rng.choice(("LOCAL NEWS", "FROM THE REGION", "BUSINESS"))
    return f"{opening}\n{release.headline}\n\n{text}"


def correct_number(release: Release, rng: random.Random) -> str:
    """Returns the release with another number, as an issuer sends it a day later."""
    numbers = list(re.finditer(r"\b\d{2,3}\b", release.text))
    if not numbers:
        return f"CORRECTION\n{release.text}"
    wrong = rng.choice(numbers)
    right = int(wrong.group()) + rng.randint(1, 9)
    corrected = f"{release.text[: wrong.start()]}{right}{release.text[wrong.end() :]}"
    return f"CORRECTED VERSION\n{corrected}"


def shorten_for_portal(release: Release, _rng: random.Random) -> str:
    """Returns the beginning of the release, whose similarity is mostly below the threshold."""
    return f"{release.headline}\n\n{' '.join(release.paragraphs[:2])}\n\nRead more on our portal."


COPIES = (
    ("wire", 0.42, edit_for_wire),
    ("daily", 0.3, edit_for_daily),
    ("issuer", 0.1, correct_number),
    ("portal", 0.16, shorten_for_portal),
)
"""The source of a copy, the share of the releases that it copies, and how it changes them."""


def write_corpus(rng: random.Random, releases: int = RELEASES) -> list[dict[str, str | int]]:
    """Returns the documents, in the order in which the archive received them.

    The field `release` says which release a document is a copy of.

    Args:
        rng: The source of randomness.
        releases: Number of releases, of which some are copied.
    """
    received: list[tuple[date, str, int, str]] = []
    for number in range(1, releases + 1):
        release = write_release(number, rng)
        received.append((release.day, "issuer", number, release.text))
        for source, share, edit in COPIES:
            if rng.random() < share:
                day = release.day + timedelta(days=rng.randrange(4))
                received.append((day, source, number, edit(release, rng)))
        if rng.random() < 0.06:  # sent twice, in capitals for an old telex
            received.append((release.day, "wire", number, release.text.upper()))
    received.sort(key=lambda entry: entry[0])
    return [
        {
            "id": f"{source}/{place:03}",
            "source": source,
            "received": day.isoformat(),
            "release": number,
            "text": text,
        }
        for place, (day, source, number, text) in enumerate(received, 1)
    ]


def to_json_lines(documents: list[dict[str, str | int]]) -> str:
    """Returns the documents as JSON lines."""
    return "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)


def main() -> None:
    """Writes the corpus into the package."""
    documents = write_corpus(random.Random(SEED))
    OUTPUT.write_text(to_json_lines(documents), "utf-8")
    print(f"{len(documents)} documents, {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
