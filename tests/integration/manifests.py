"""deploy/kubernetes as kubectl renders it, for tests."""

import pathlib
import re
import subprocess

import yaml

import server_process

PROJECT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = PROJECT / "deploy" / "kubernetes"
UNITS = {"s": 1, "m": 60, "h": 3600, "": 1, "Mi": 2**20, "Gi": 2**30, "MiB": 2**20, "GiB": 2**30}


def amount(text):
    """"90s", "512Mi", "8GiB" or "2" as a number."""
    number, unit = re.fullmatch(r"(\d+)([A-Za-z]*)", str(text)).groups()
    return int(number) * UNITS[unit]


def render(overlay, kubectl="kubectl"):
    done = subprocess.run([kubectl, "kustomize", KUBERNETES / "overlays" / overlay], capture_output=True, text=True,
                          check=False, timeout=server_process.DEADLINE)
    if done.returncode != 0:
        raise AssertionError(f"{kubectl} kustomize {overlay}: {done.stderr}")
    return list(yaml.safe_load_all(done.stdout))


class Overlay:
    """The objects that an overlay renders; those asked for by kind are the application's own."""

    def __init__(self, name, objects, application="latentd"):
        self.name = name
        self.objects = objects
        self._application = application

    def all(self, kind):
        return [each for each in self.objects if each["kind"] == kind and self._is_own(each["metadata"])]

    def _is_own(self, metadata):
        """By its label; ConfigMaps, which kustomize makes, have none, but their name and a digest."""
        labels = metadata.get("labels") or {"app.kubernetes.io/name": re.sub("-[a-z0-9]{10}$", "", metadata["name"])}
        return labels["app.kubernetes.io/name"] == self._application

    def one(self, kind, name=None):
        found, = [each for each in self.all(kind)
                  if re.sub("-[a-z0-9]{10}$", "", each["metadata"]["name"]) == (name or self._application)]
        return found

    def workloads(self):
        """Objects that have pods."""
        return self.all("Deployment") + self.all("Job")

    def server(self):
        return pod(self.one("Deployment"))

    def config_text(self):
        return self.one("ConfigMap")["data"]["latentd.conf"]


def pod(workload):
    return workload["spec"]["template"]["spec"]


def pod_labels(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def container(workload):
    only, = pod(workload)["containers"]
    return only


def ports(workload):
    return {port["name"]: port["containerPort"] for port in container(workload).get("ports", [])}


def matches(selector, labels):
    return bool(selector) and selector.items() <= labels.items()


def assert_confined(test, workload):
    """Asserts the restricted Pod Security Standard, and a root file system that cannot be written."""
    spec = pod(workload)
    context = spec["securityContext"]
    test.assertEqual((context["runAsNonRoot"], context["runAsUser"], context["seccompProfile"]),
                     (True, 65532, {"type": "RuntimeDefault"}))
    for each in spec.get("initContainers", []) + spec["containers"]:
        own = each["securityContext"]
        test.assertEqual((own["allowPrivilegeEscalation"], own["privileged"], own["readOnlyRootFilesystem"],
                          own["capabilities"]), (False, False, True, {"drop": ["ALL"]}))
        test.assertFalse([port for port in each.get("ports", []) if "hostPort" in port])
    for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
        test.assertNotIn(forbidden, spec)
    for volume in spec["volumes"]:
        test.assertEqual(len(volume.keys() & {"configMap", "emptyDir", "persistentVolumeClaim"}), 1, volume)
