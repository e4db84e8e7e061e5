#!/usr/bin/env python3
"""Prints the rules of deploy/prometheus as one object for the Prometheus Operator: prometheus_rule.py > prometheus-rule.yaml in
this folder (a test compares the two)."""

import pathlib
import textwrap

PROMETHEUS = pathlib.Path(__file__).resolve().parents[2] / "prometheus"
HEAD = """\
# Made by prometheus_rule.py of deploy/prometheus/recording.yml and alerts.yml: change those.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: latentd
  labels:
    app.kubernetes.io/name: latentd
spec:
  groups:
"""


def groups(name):
    """The list below `groups:`, as it is written there."""
    return (PROMETHEUS / name).read_text().partition("\ngroups:\n")[2]


if __name__ == "__main__":
    print(HEAD + textwrap.indent(groups("recording.yml") + "\n" + groups("alerts.yml"), "  "), end="")
