"""Names of people, streets and cities, the most frequent ones first."""

from benchmarks.quality.populations.words import read_words

GIVEN_NAMES = read_words("given_names")
NICKNAMES = {
    "James": "Jim", "Robert": "Bob", "John": "Jack", "Jennifer": "Jenny", "Michael": "Mike",
    "Elizabeth": "Liz", "William": "Bill", "Richard": "Rick", "Susan": "Sue", "Joseph": "Joe",
    "Thomas": "Tom", "Christopher": "Chris", "Charles": "Charlie", "Daniel": "Dan",
    "Matthew": "Matt", "Anthony": "Tony", "Steven": "Steve", "Kimberly": "Kim", "Andrew": "Andy",
    "Joshua": "Josh", "Kenneth": "Ken", "Deborah": "Debbie", "Timothy": "Tim", "Rebecca": "Becky",
    "Edward": "Ed", "Jeffrey": "Jeff", "Nicholas": "Nick", "Jonathan": "Jon", "Katherine": "Kate",
    "Benjamin": "Ben", "Samuel": "Sam", "Gregory": "Greg", "Alexander": "Alex", "Patrick": "Pat",
    "Nathan": "Nate", "Margaret": "Maggie", "Patricia": "Pat", "Victoria": "Vicky",
    "Theodore": "Ted", "Lawrence": "Larry", "Gerald": "Gerry", "Leonard": "Len",
}  # fmt: skip
SURNAMES = read_words("surnames")
STREETS = read_words("streets")
STREET_KINDS = ("Street", "Road", "Avenue", "Drive", "Lane", "Court", "Place", "Boulevard")
STREET_SHORT = {
    "Street": "St", "Road": "Rd", "Avenue": "Ave", "Drive": "Dr", "Lane": "Ln", "Court": "Ct",
    "Place": "Pl", "Boulevard": "Blvd",
}  # fmt: skip
CITIES = tuple(entry.split(":") for entry in read_words("cities"))
"""The name, a postcode and the area code of a city."""
PROVIDERS = (
    "gmail.com", "yahoo.com", "hotmail.com", "outlook.com", "icloud.com", "aol.com", "mail.com",
    "comcast.net", "proton.me", "gmx.com",
)  # fmt: skip
