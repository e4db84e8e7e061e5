"""Reads deploy/prometheus and deploy/grafana, for tests."""

import json
import pathlib
import re

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PROMETHEUS = PROJECT / "deploy" / "prometheus"
DASHBOARD = PROJECT / "deploy" / "grafana" / "latentd.json"


def dashboard():
    return json.loads(DASHBOARD.read_text())


def queries(found):
    """(place, expression) of every query of the dashboard, its variables filled in as Grafana would."""
    asked = [(f"panel {panel['title']}", target["expr"]) for panel in found["panels"] for target in panel.get("targets", [])]
    asked += [(f"annotation {one['name']}", one["expr"]) for one in found["annotations"]["list"]]
    for variable in found["templating"]["list"]:
        if variable["type"] == "query":  # label_values(SELECTOR, LABEL)
            selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
            asked.append((f"variable {variable['name']}", f"count by ({label}) ({selector})"))
    return [(where, filled_in(expression)) for where, expression in asked]


def filled_in(expression):
    for name, value in (("$__rate_interval", "1m"), ("$__from", "0"), ("$__to", "1e15"), ("$job", ".*"), ("$instance", ".*"),
                        ("$bucket", ".*")):
        expression = expression.replace(name, value)
    return expression


def rules(name):
    """{rule: its text} of alerts.yml or recording.yml."""
    text = (PROMETHEUS / name).read_text()
    blocks = re.split(r"^ +- (?:alert|record): ", text, flags=re.MULTILINE)[1:]
    return {block.split("\n", 1)[0]: block for block in blocks}


def autoscaler_query(by):
    """The query of prometheus-adapter for latentd_queue_depth, for each `by`."""
    adapter = (PROJECT / "deploy" / "kubernetes" / "autoscaling" / "prometheus-adapter.yaml").read_text()
    query = re.search(r"metricsQuery: '(.+)'", adapter)[1]
    series = re.search(r"seriesQuery: '(\w+)", adapter)[1]
    for name, value in (("<<.Series>>", series), ("<<.LabelMatchers>>", f'{by}=~".+"'), ("<<.GroupBy>>", by)):
        query = query.replace(name, value)
    return query
