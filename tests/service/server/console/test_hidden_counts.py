"""Pages show only administrators how nearly two documents share a bucket."""

import re
from pathlib import Path

import pytest

from nearkin.service.server.console.mount import PAGES
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.conftest import Serve
from tests.service.server.console.documents import variant
from tests.service.server.console.pages import SAME_ORIGIN, page_content, sent

COUNTS = re.compile(r"bands shared|bands agree|\d rows agree|slots agree")
"""The words of pages about slots and bands that agree."""


@pytest.mark.promise("Pages of the console do not show it either.")
@pytest.mark.parametrize(
    ("rights", "shown"),
    [
        (("read",), set()),
        (("read", "write"), set()),
        (("admin",), {"clusters", "match", "near miss"}),
    ],
)
def test_pages_hide_how_nearly_a_search_misses(
    serve: Serve, tmp_path: Path, rights: tuple[str, ...], shown: set[str]
) -> None:
    token = TokenFile(tmp_path / "tokens.json").create(Principal("one", ("*",), rights))
    client = serve(index={"related": "0.3", "bands": "64", "rows": "1"})
    for id, text in (("a", variant()), ("b", variant(1)), ("c", variant(*range(3, 40, 3)))):
        client.app.state.service.index.upsert("s", text, id)  # type: ignore[attr-defined]
    client.post("/console/login", data={"token": token}, headers=SAME_ORIGIN)
    contents = {
        path: page_content(client, f"{path}?scope=s&id=a&member=b&a=a&b=c") for path in PAGES
    }
    contents["match"] = sent(client, "try", text=variant(2), scope="s")
    contents["near miss"] = sent(client, "try", text=variant(*range(0, 40, 3)), scope="s")
    contents["search"] = sent(client, "clusters", text=variant(2), scope="s")
    pair = '{"scope": "s", "pairs": [["a", "c"], ["a", "b"]], "position": 0}'
    contents["answer"] = sent(client, "review", answer="unsure", state=pair)
    assert "similar or more" in contents["match"]
    assert "Near misses" in contents["near miss"]
    assert "Why they match" in contents["clusters"]
    assert {path for path, content in contents.items() if COUNTS.search(content)} == shown
