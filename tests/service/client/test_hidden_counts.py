"""Clients with a token that may only read do not learn how nearly a search misses."""

from pathlib import Path

import nearkin as nk
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.client.conftest import ClientMaker
from tests.services import nearkin_server

WORDS = [f"word{number}" for number in range(40)]
NEAR = " ".join([*WORDS, "more"])
FAR = " ".join(WORDS[:31])


def test_clients_of_readers_do_not_learn_how_nearly_a_search_misses(
    make_client: ClientMaker, tmp_path: Path
) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    rights = {"reader": ("read",), "boss": ("admin",)}
    tokens = {name: file.create(Principal(name, ("*",), rights[name])) for name in rights}
    settings = ("--index", "bands=64", "--index", "rows=1")
    options = ("--store", "memory://", "--tokens", str(file.path), *settings)
    with nearkin_server(tmp_path, *options) as address:
        clients = {name: make_client(address, token=token) for name, token in tokens.items()}
        for id, text in (("a", " ".join(WORDS)), ("b", NEAR), ("c", FAR)):
            clients["boss"].upsert("s", text, id)
        for name, client in clients.items():
            explained: nk.results.Explanation = client.explain("s", "a", "c")
            matches = client.query("s", NEAR) + client.near_misses("s", " ".join(WORDS[9:]))
            counts = [match.shared for match in matches]
            counts += [explained.agreeing, explained.estimate, explained.shared_bands]
            assert len(counts) >= 4
            assert {count is None for count in counts} == {name == "reader"}
            assert ("slots agree" in repr(explained) + explained._repr_html_()) is False
            assert ("estimate" in explained._repr_html_()) == (name == "boss")
