"""Requests to large clusters and scopes read only one page, which is counted at the store."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.index.index import Index
from nearkin.index.stores import sql
from tests.index.conftest import ReadMeter, family, fill, store_of
from tests.service.server.conftest import Serve
from tests.service.server.console.pages import page_content

MEMBERS = 120


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> ReadMeter:
    read_meter = ReadMeter()
    made = sql.entry_of_row
    monkeypatch.setattr(sql, "entry_of_row", lambda row: read_meter.count(made(row)))
    return read_meter


@pytest.fixture
def client(serve: Serve, tmp_path: Any) -> TestClient:
    client = serve(store=f"sqlite:///{tmp_path}/kin.db", index={"threshold": "0.6"})
    index: Index = client.app.state.service.index  # type: ignore[attr-defined]
    fill(index, family(MEMBERS))
    assert store_of(index).member_count("a", "base") > 100
    return client


def test_page_of_a_large_cluster_reads_only_its_members(
    client: TestClient, meter: ReadMeter
) -> None:
    meter.reset()
    page = client.get("/v1/scopes/a/clusters/base", params={"limit": 1}).json()
    assert [member["id"] for member in page["members"]] == ["base"]
    assert page["size"] > 100
    assert meter.entries <= 2
    meter.reset()
    page = client.get("/v1/scopes/a/clusters/base", params={"limit": 2, "start": 50}).json()
    assert len(page["members"]) == 2
    assert meter.entries <= 4
    meter.reset()
    after = client.get(
        "/v1/scopes/a/clusters/base", params={"limit": 3, "after": page["members"][0]["id"]}
    ).json()
    assert after["members"][0] == page["members"][1]
    assert meter.entries <= 6


def test_console_page_reads_only_its_rows(client: TestClient, meter: ReadMeter) -> None:
    meter.reset()
    text = page_content(client, "clusters?scope=a&id=base&start=50")
    size = int(re.findall(r"([0-9]+) resolved to", text)[0])
    assert size > 100
    assert "start=25" in text
    assert "start=75" in text
    # two pages of 25 members without content, and some documents
    assert meter.entries <= 75
    assert meter.content <= 20 * 3_000


def test_lists_of_clusters_read_no_texts_and_no_other_scope(
    client: TestClient, meter: ReadMeter
) -> None:
    index: Index = client.app.state.service.index  # type: ignore[attr-defined]
    fill(index, family(40, seed=8), "other")
    meter.reset()
    page = client.get("/v1/scopes/a/clusters").json()
    assert page["clusters"][0]["representative"] == "base"
    assert meter.entries == len(family(MEMBERS))
    assert meter.content == 0


def test_scrape_of_metrics_reads_no_documents(client: TestClient, meter: ReadMeter) -> None:
    meter.reset()
    answer = client.get("/metrics")
    assert f"nearkin_records {MEMBERS + 1}.0" in answer.text
    assert meter.entries == 0
