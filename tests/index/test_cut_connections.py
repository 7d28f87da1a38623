"""Tests of connections that are cut at any byte.

Acknowledged documents are stored, refused ones are not, and a repeated call has one effect.

The suite covers the index as a whole, over its stores, and not one module.
"""

import random
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.errors import OutcomeUnknownError, RacedError, StoreError
from nearkin.index.maintenance import check_index
from nearkin.service.client.clients import Client, Retries
from tests.index.conftest import NUMBERS, corpus
from tests.index.cutting import cutting
from tests.index.dropping import url_of
from tests.services import nearkin_server

IDS = 20
ATTEMPTS = 200


def opened(url: str) -> nk.Index:
    for _ in range(ATTEMPTS):
        try:
            return nk.Index.open(url, threshold=0.6)
        except StoreError:
            continue
    raise AssertionError(f"{url} was not opened")


def carry_out(
    index: nk.Index, sure: nk.Index, name: str, text: str | None, before: str | None
) -> None:
    """Upserts or removes a document, and repeats the call until it succeeds.

    Each error and each result is compared with the store.
    """
    unknown = False
    for _ in range(ATTEMPTS):
        try:
            if text is None:
                removed = index.remove("a", name)
                assert removed == (before is not None) or (unknown and not removed)
            else:
                index.upsert("a", text, name)
        except OutcomeUnknownError:
            unknown = True
        except RacedError:
            continue
        except StoreError:
            # this attempt wrote nothing
            entry = sure.get("a", name)
            assert unknown or (None if entry is None else entry.text) == before
        else:
            return
    raise AssertionError(f"{name} was not written in {ATTEMPTS} attempts")


@pytest.mark.all_stores
@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_connections_to_a_store_are_cut_at_any_byte(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    monkeypatch.setattr("nearkin.index.stores.postgres.TIMEOUT", 5.0)
    port = request.getfixturevalue(f"{kind}_port")
    name = f"cut{next(NUMBERS)}"
    drawn, texts = random.Random(7), corpus(100)
    documents: dict[str, str] = {}
    with (
        nk.Index.open(url_of(kind, port, name), threshold=0.6) as sure,
        cutting(port, 7, least=300) as proxy,
    ):
        with opened(url_of(kind, proxy.port, name)) as index:
            for _ in range(2000 if full else 150):
                document = f"d{drawn.randrange(IDS)}"
                text = drawn.choice(texts) if drawn.random() < 0.6 else None
                carry_out(index, sure, document, text, documents.get(document))
                documents.pop(document, None)
                if text is not None:
                    documents[document] = text
        assert proxy.cuts > 3
        assert {entry.id: entry.text for entry in sure.scan()} == documents
        assert check_index(sure).sound


def test_connections_to_a_server_are_cut_at_any_byte(tmp_path: Path, full: bool) -> None:
    """The client repeats a request whose response was cut.

    No acknowledged document is lost, and none is stored twice.
    """
    drawn, texts = random.Random(8), corpus(100)
    documents: dict[str, str] = {}
    with nearkin_server(
        tmp_path, "--store", f"sqlite:///{tmp_path}/kin.db", "--allow-anonymous"
    ) as address:
        port = int(address.rpartition(":")[2])
        with (
            cutting(port, 8, most=3000) as proxy,
            Client(
                f"http://127.0.0.1:{proxy.port}", retries=Retries(attempts=40, longest=0.01)
            ) as client,
        ):
            for _ in range(1000 if full else 120):
                document = f"d{drawn.randrange(IDS)}"
                if drawn.random() < 0.6:
                    documents[document] = drawn.choice(texts)
                    client.upsert("a", documents[document], document)
                else:
                    client.remove("a", document)
                    documents.pop(document, None)
            assert proxy.cuts > 10
    with nk.Index.open(f"sqlite:///{tmp_path}/kin.db") as index:
        assert {entry.id: entry.text for entry in index.scan()} == documents
