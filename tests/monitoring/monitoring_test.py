#!/usr/bin/env python3
"""Rules, alerts and dashboard, as far as they can be checked without a server: tests/integration/test_prometheus.py has one.

promtool is Debian's, of the package prometheus.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import run  # noqa: E402
from monitoring_files import DASHBOARD, PROJECT, PROMETHEUS, dashboard, queries, rules  # noqa: E402

sys.path.insert(0, str(run.install_client()))
os.environ["PATH"] = f"{run.PROGRAMS / 'bin'}{os.pathsep}{os.environ['PATH']}"


# latentd_requests_total has the same by gRPC code, and the time of a step how many there were.
SHOWN_OTHERWISE = {"latentd_requests_received_total", "latentd_requests_finished_total", "latentd_requests_cancelled_total",
                   "latentd_denoise_steps_total"}


def promtool(*arguments):
    """(true if it succeeded, its output)"""
    done = subprocess.run(["promtool", *arguments], cwd=HERE, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def metrics_in(expression):
    return set(re.findall(r"\b(?:\w+:)?(?:latentd|process)_\w+(?::\w+)?", expression))


class RulesTest(unittest.TestCase):
    def test_promtool_takes_the_files(self):
        for command, *names in (("config", "prometheus.yml"), ("rules", "recording.yml", "alerts.yml")):
            content, said = promtool("check", command, *(str(PROMETHEUS / name) for name in names))
            self.assertTrue(content, said)

    def test_alerts_fire_when_they_should_and_are_silent_otherwise(self):
        content, said = promtool("test", "rules", "alerts_test.yml")
        self.assertTrue(content, said)

    def test_that_test_can_fail(self):
        """With one case, since all of them take a minute."""
        import yaml

        with tempfile.TemporaryDirectory() as folder:
            content = yaml.safe_load((HERE / "alerts_test.yml").read_text())
            content["rule_files"] = [str(HERE / name) for name in content["rule_files"]]
            content["tests"] = [next(case for case in content["tests"] if case["name"] == "LatentdHangs")]
            right = yaml.safe_dump(content)
            wrong = right.replace("severity=\"page\"", "severity=\"ticket\"")
            self.assertNotEqual(wrong, right)
            path = pathlib.Path(folder) / "alerts_test.yml"
            for text, holds in ((right, True), (wrong, False)):
                path.write_text(text)
                succeeded, said = promtool("test", "rules", str(path))
                self.assertEqual(succeeded, holds, said)

    def test_every_alert_and_every_recording_rule_has_a_case(self):
        cases = (HERE / "alerts_test.yml").read_text()
        named = set(re.findall(r"^  - name: (Latentd\w+)", cases, re.MULTILINE))
        self.assertEqual(named, set(rules("alerts.yml")))
        asked = set(re.findall(r"expr: '(?:round\()?([\w:]+)", cases))
        self.assertEqual(set(rules("recording.yml")) - asked, set())


class OperatorTest(unittest.TestCase):
    """Objects in deploy/kubernetes/monitoring for the Prometheus Operator."""

    folder = PROJECT / "deploy" / "kubernetes" / "monitoring"

    @classmethod
    def setUpClass(cls):
        import yaml

        rendered = subprocess.run(["kubectl", "kustomize", cls.folder], capture_output=True, text=True, check=True).stdout
        cls.objects = {made["kind"]: made for made in yaml.safe_load_all(rendered)}
        cls.sources = [yaml.safe_load((PROMETHEUS / name).read_text()) for name in ("recording.yml", "alerts.yml")]

    def test_the_file_of_rules_is_what_its_source_prints(self):
        printed = subprocess.run([self.folder / "prometheus_rule.py"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed, (self.folder / "prometheus-rule.yaml").read_text(),
                         "run deploy/kubernetes/monitoring/prometheus_rule.py > deploy/kubernetes/monitoring/prometheus-rule.yaml")

    def test_it_gets_all_rules_as_prometheus_does(self):
        self.assertEqual(set(self.objects), {"PodMonitor", "PrometheusRule"})
        self.assertEqual(self.objects["PrometheusRule"]["spec"],
                         {"groups": [group for source in self.sources for group in source["groups"]]})

    def test_it_knows_every_field(self):
        """The fields of its version 1; it refuses others."""
        for group in self.objects["PrometheusRule"]["spec"]["groups"]:
            self.assertLessEqual(group.keys(), {"name", "interval", "limit", "rules"})
            for rule in group["rules"]:
                self.assertLessEqual(rule.keys(), {"alert", "record", "expr", "for", "labels", "annotations"})

    def test_it_finds_the_pods(self):
        import yaml

        spec = self.objects["PodMonitor"]["spec"]
        deployment = yaml.safe_load((PROJECT / "deploy" / "kubernetes" / "base" / "deployment.yaml").read_text())
        pod = deployment["spec"]["template"]
        wanted = spec["selector"]["matchLabels"]
        self.assertEqual(len(wanted), 2)
        self.assertLessEqual(wanted.items(), pod["metadata"]["labels"].items())
        endpoint, = spec["podMetricsEndpoints"]
        self.assertIn(endpoint["port"], {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]})


class RunbookTest(unittest.TestCase):
    page = (PROJECT / "docs" / "operations.md").read_text()

    def anchors(self):
        sections = re.findall(r"^#+ (.+)$", self.page, re.MULTILINE)
        return {re.sub(r"[^\w -]", "", section).lower().replace(" ", "-") for section in sections}

    def test_every_alert_has_a_severity_and_a_section_of_its_own(self):
        for name, text in rules("alerts.yml").items():
            self.assertRegex(text, r"severity: (page|ticket)\n")
            self.assertIn(f"runbook_url: docs/operations.md#{name.lower()}\n", text)
            self.assertIn(name.lower(), self.anchors())

    def test_every_metric_is_documented(self):
        documented = set(re.findall(r"^\| `(\w+)` \|", (PROJECT / "docs" / "metrics.md").read_text(), re.MULTILINE))
        asked = {name: text for file in ("alerts.yml", "recording.yml") for name, text in rules(file).items()}
        asked.update(queries(dashboard()))
        for where, expression in asked.items():
            for metric in metrics_in(expression) - set(rules("recording.yml")):
                self.assertIn(re.sub("_(bucket|sum|count)$", "", metric), documented, where)


class DashboardTest(unittest.TestCase):
    def setUp(self):
        self.dashboard = dashboard()
        self.panels = self.dashboard["panels"]

    def test_it_is_what_its_source_prints(self):
        printed = subprocess.run([DASHBOARD.parent / "dashboard.py"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed, DASHBOARD.read_text(), "run deploy/grafana/dashboard.py > deploy/grafana/latentd.json")

    def test_it_shows_all_that_is_known_of_requests_queue_steps_and_http(self):
        documented = re.findall(r"^\| `(latentd_(?:requests?|deadline|time|queue|split|steps?|denoise|lanes?|http|api)_?\w*)` \|",
                                (PROJECT / "docs" / "metrics.md").read_text(), re.MULTILINE)
        self.assertGreater(len(documented), 15)
        recorded = rules("recording.yml")
        shown = set().union(*(metrics_in(expression) for _, expression in queries(self.dashboard)))
        shown |= set().union(*(metrics_in(recorded[name]) for name in shown & recorded.keys()))
        self.assertEqual(set(documented) - {re.sub("_(bucket|sum|count)$", "", metric) for metric in shown}, SHOWN_OTHERWISE)

    def test_panels_have_their_own_ids_and_places(self):
        self.assertEqual(len({panel["id"] for panel in self.panels}), len(self.panels))
        taken = set()
        for panel in self.panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(taken & cells, panel["title"])
            taken |= cells

    def test_panels_can_be_read(self):
        for panel in self.panels:
            if panel["type"] == "row":
                continue
            self.assertTrue(panel["title"] and panel["description"], panel)
            self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
            self.assertTrue(panel["targets"] and all(target["expr"] for target in panel["targets"]), panel["title"])
            if panel["type"] == "timeseries":
                self.assertTrue(all(target["legendFormat"] for target in panel["targets"]), panel["title"])

    def test_prometheus_and_replicas_can_be_chosen(self):
        variables = [variable["name"] for variable in self.dashboard["templating"]["list"]]
        self.assertEqual(variables, ["datasource", "job", "instance", "bucket"])
        for panel in self.panels:
            for target in panel.get("targets", []):
                self.assertEqual(target["datasource"]["uid"], "${datasource}")
                for metric in metrics_in(target["expr"]):
                    self.assertRegex(target["expr"], re.escape(metric) + self.selection(metric))

    def selection(self, metric):
        """The selector that has to follow: a job's records know no replica, and what is promised is the same for all."""
        by_level = {"job": r'\{job=~"\$job"\}', "slo": r"\)"}
        return by_level.get(metric.partition(":")[0], r'\{job=~"\$job", instance=~"\$instance"')

    def test_every_query_parses(self):
        groups = [{"name": "queries", "rules": [{"record": "a:query:number", "expr": expression, "labels": {"number": str(number)}}
                                                for number, (_, expression) in enumerate(queries(self.dashboard))]}]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "queries.yml"
            path.write_text(json.dumps({"groups": groups}))
            content, said = promtool("check", "rules", str(path))
        self.assertTrue(content, said)

    def test_it_is_what_grafana_takes(self):
        """Grafana's own types know every field, but for those of Prometheus' annotations, which they leave to Prometheus."""
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard

        register_default_plugins()
        for one in self.dashboard["annotations"]["list"]:
            for field in ("step", "titleFormat", "useValueForTime"):
                one.pop(field, None)
        understood = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(self.dashboard)))
        self.assertEqual(list(unlike(self.dashboard, understood)), [])


def unlike(wanted, found, where="dashboard"):
    """Places where `found` lacks a part of `wanted`."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from unlike(value, found.get(key), f"{where}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (value, other) in enumerate(zip(wanted, found)):
            yield from unlike(value, other, f"{where}[{number}]")
    elif wanted != found:
        yield where


if __name__ == "__main__":
    unittest.main()
