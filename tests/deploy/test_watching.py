"""Prometheus and Grafana: their queries use existing metrics, and alerts are raised."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.deploy.conftest import DEPLOY, QUANTILES, ROOT
from tests.services import found

RULES = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "nearkin.json").read_text())
NAME = re.compile(r"\b(?:nearkin|process)_[a-z0-9_]+")
FOREIGN = {"instance", "job", "le", "alertname", "alertstate"}
"""Labels that Prometheus adds."""


def rules() -> list[dict[str, Any]]:
    """Returns the alerts of all groups."""
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


def panels() -> list[dict[str, Any]]:
    """Returns the panels that show data."""
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> Iterator[str]:
    """Returns all PromQL queries, without the variables of Grafana."""
    for rule in rules():
        yield rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")


def selectors(query: str) -> list[tuple[str, set[str]]]:
    """Returns names and labels of the series that a query reads."""
    read: list[tuple[str, set[str]]] = []

    def look(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            read.append((node.name, {matcher.name for matcher in node.matchers.matchers}))

    promql_parser.walk(promql_parser.parse(query), look)
    return read


@pytest.mark.parametrize("query", list(queries()))
def test_dashboard_queries_use_declared_metrics(
    query: str, exposed: Mapping[str, set[str]]
) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule} | {"up", "ALERTS"}
    read = selectors(query)
    assert read
    for name, labels in read:
        if name not in recorded:
            assert name in exposed
            assert labels - FOREIGN <= exposed[name]


def test_dashboard_shows_every_metric(exposed: Mapping[str, set[str]]) -> None:
    queried = {
        name
        for panel in panels()
        for target in panel["targets"]
        for name in NAME.findall(target["expr"])
    }
    names = {name for name in exposed if not name.endswith("_created")}
    families = {re.sub(f"({'|'.join(QUANTILES)})$", "", name) for name in names}
    assert families == {re.sub(f"({'|'.join(QUANTILES)})$", "", name) for name in queried}


def test_dashboard_can_be_imported() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert next((one["name"], one["type"]) for one in DASHBOARD["templating"]["list"]) == (
        "datasource",
        "datasource",
    )
    for panel in panels():
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in DASHBOARD["panels"])


def test_each_alert_names_its_section_of_the_runbook() -> None:
    headings = re.findall(
        r"^#+ (.+)$", (ROOT / "docs" / "how-to" / "operate.md").read_text(), re.MULTILINE
    )
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for rule in rules():
        if "alert" in rule:
            page, _, anchor = rule["annotations"]["runbook"].partition("#")
            assert page == "docs/how-to/operate.md"
            assert anchor in anchors, rule["alert"]
            assert rule["annotations"]["summary"]
            assert rule["labels"]["severity"] in ("warning", "critical")


def test_alerts_use_declared_metrics() -> None:
    fed = {
        one["alertname"]
        for test in yaml.safe_load((Path(__file__).parent / "alerts.yml").read_text())["tests"]
        for one in test["alert_rule_test"]
        if one["exp_alerts"]
    }
    assert fed == {rule["alert"] for rule in rules() if "alert" in rule}


def promtool(*arguments: str | Path) -> None:
    """Runs promtool if it is installed.

    The tests above parse and look without it.
    """
    program = found("promtool")
    if program is None:
        pytest.skip(
            "promtool is not installed (apt-get install prometheus); queries were parsed, rules "
            "were not evaluated"
        )
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_are_raised_for_exceeded_limits() -> None:
    promtool("test", "rules", Path(__file__).parent / "alerts.yml")


def test_prometheus_accepts_its_configuration() -> None:
    promtool("check", "config", "--syntax-only", DEPLOY / "prometheus" / "prometheus.yml")


def test_prometheus_sends_a_token_and_reads_the_rules() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert [(RULES.parent / name).is_file() for name in config["rule_files"]] == [True]
    (scrape,) = config["scrape_configs"]
    assert scrape["job_name"] == "nearkin"
    assert scrape["metrics_path"] == "/metrics"
    assert scrape["authorization"].keys() == {"type", "credentials_file"}


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "nearkin.yml").read_text())[
        "providers"
    ]
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"
    mounted = [volume.split(":")[:2] for volume in compose["grafana"]["volumes"]]
    assert ["./grafana/dashboards", provider["options"]["path"]] in mounted
    assert ["./grafana/provisioning", "/etc/grafana/provisioning"] in mounted
