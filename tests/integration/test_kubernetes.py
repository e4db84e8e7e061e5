"""deploy/kubernetes as kubectl renders it: valid, whole, and of one mind with latentd, which reads its configuration here.

deploy/kubernetes/README.md lists the checks that only a cluster can make."""

import copy
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import kubernetes_validate
import yaml

import server_process
from manifests import (KUBERNETES, PROJECT, Overlay, amount, assert_confined, container, matches, pod, pod_labels, ports,
                       render)
from server_process import Api, Server

OVERLAYS = ("demo", "model-volume", "shared-cache", "gpu", "balanced", "http")
VERSIONS = ("1.27", "1.37")  # the oldest with probes over gRPC, and the newest that there are schemas of
YOURS = {"latentd-models"}  # claims that the operator who applies an overlay brings
END_AFTER_DRAINING = 15  # seconds; kEndAfterDraining in server/serve.cc


def kubectls():
    """Every kubectl that is found, Debian's first: an old one and, on many machines, a newer one."""
    found = [shutil.which("kubectl", path=folder) for folder in os.environ["PATH"].split(os.pathsep)]
    return list(dict.fromkeys(filter(None, found)))


def in_order(value):
    """The same without what says nothing: the order of lists, and metadata that is empty."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items() if each != {} or key not in ("annotations", "labels")}
    return sorted(map(in_order, value), key=str) if isinstance(value, list) else value


def effective_config(overlay, workload):
    """{field: value} of what latentd makes of a container's arguments and the ConfigMap's file."""
    mount = next(each for each in container(workload)["volumeMounts"] if each["name"] == "config")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "latentd.conf").write_text(overlay.config_text())
        arguments = [each.replace(mount["mountPath"], folder) for each in container(workload)["args"]]
        done = subprocess.run([server_process.options.latentd, *arguments, "--print-config"], capture_output=True,
                              text=True, check=False, timeout=server_process.DEADLINE)
    if done.returncode != 0:
        raise AssertionError(f"{overlay.name}: latentd {arguments}: {done.stderr}")
    return dict(line.replace('"', "").split(": ", 1) for line in done.stdout.splitlines())


def for_each_overlay(test):
    @functools.wraps(test)
    def run(self):
        for overlay in self.overlays:
            with self.subTest(overlay=overlay.name):
                test(self, overlay)
    return run


def for_each_workload(test):
    @functools.wraps(test)
    def run(self):
        for overlay in self.overlays:
            for workload in overlay.workloads():
                with self.subTest(overlay=overlay.name, kind=workload["kind"]):
                    test(self, overlay, workload)
    return run


class OverlaysTestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.overlays = [Overlay(name, render(name)) for name in OVERLAYS]


class SchemaTest(OverlaysTestCase):
    @for_each_overlay
    def test_every_object_is_valid(self, overlay):
        for each in overlay.objects:
            for version in VERSIONS:
                kubernetes_validate.validate(each, version, strict=True)

    def test_a_misspelt_field_would_be_found(self):
        deployment = copy.deepcopy(self.overlays[0].one("Deployment"))
        container(deployment)["startupProb"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)

    def test_old_and_new_kubectl_render_the_same(self):
        def plain(objects):
            # Versions of kustomize compute the suffix of generated names differently.
            text = re.sub(r"(name: latentd(?:-balancer)?)-[a-z0-9]{10}\b", r"\1", yaml.safe_dump_all(objects))
            return in_order(list(yaml.safe_load_all(text)))

        for kubectl in kubectls():
            for overlay in self.overlays:
                self.assertEqual(plain(render(overlay.name, kubectl)), plain(overlay.objects), kubectl)


class ReferencesTest(OverlaysTestCase):
    @for_each_overlay
    def test_services_select_the_servers_and_name_their_ports(self, overlay):
        for service in overlay.all("Service"):
            for workload in overlay.workloads():
                self.assertEqual(matches(service["spec"]["selector"], pod_labels(workload)),
                                 workload["kind"] == "Deployment")
            for port in service["spec"]["ports"]:
                self.assertEqual(ports(overlay.one("Deployment"))[port["targetPort"]], port["port"])

    @for_each_overlay
    def test_selectors_match_the_servers(self, overlay):
        deployment = overlay.one("Deployment")
        spread = [each["labelSelector"] for each in pod(deployment)["topologySpreadConstraints"]]
        for selector in [deployment["spec"]["selector"], overlay.one("PodDisruptionBudget")["spec"]["selector"],
                         *spread]:
            self.assertTrue(matches(selector["matchLabels"], pod_labels(deployment)))

    @for_each_workload
    def test_what_is_mounted_is_there(self, overlay, workload):
        volumes = {volume["name"]: volume for volume in pod(workload)["volumes"]}
        mounted = {mount["name"] for mount in container(workload)["volumeMounts"]}
        self.assertEqual(mounted, set(volumes))
        self.assertEqual(volumes["config"]["configMap"]["name"], overlay.one("ConfigMap")["metadata"]["name"])
        claims = {each["persistentVolumeClaim"]["claimName"] for each in volumes.values()
                  if "persistentVolumeClaim" in each}
        made = {each["metadata"]["name"] for each in overlay.all("PersistentVolumeClaim")}
        self.assertLessEqual(claims, made | YOURS)

    @for_each_overlay
    def test_the_autoscaler_scales_the_servers_and_is_alone_in_it(self, overlay):
        for scaler in overlay.all("HorizontalPodAutoscaler"):
            target = scaler["spec"]["scaleTargetRef"]
            self.assertEqual(overlay.one(target["kind"])["metadata"]["name"], target["name"])
            self.assertNotIn("replicas", overlay.one(target["kind"])["spec"])

    @for_each_workload
    def test_service_accounts_have_no_token(self, overlay, workload):
        account = overlay.one("ServiceAccount", pod(workload)["serviceAccountName"])
        self.assertIs(account["automountServiceAccountToken"], False)
        self.assertIs(pod(workload)["automountServiceAccountToken"], False)


class NetworkPolicyTest(OverlaysTestCase):
    def sources(self, overlay, port):
        """`from` of every rule that opens the port; None: open to all."""
        policy = overlay.one("NetworkPolicy")["spec"]
        return [rule.get("from") for rule in policy["ingress"] if port in [each["port"] for each in rule["ports"]]]

    @for_each_workload
    def test_covers_every_pod_and_lets_nothing_out(self, overlay, workload):
        policy = overlay.one("NetworkPolicy")["spec"]
        self.assertTrue(matches(policy["podSelector"]["matchLabels"], pod_labels(workload)))
        self.assertEqual((policy["policyTypes"], policy["egress"]), (["Ingress", "Egress"], []))

    @for_each_overlay
    def test_only_prometheus_reaches_the_metrics(self, overlay):
        (source,), = self.sources(overlay, "metrics")
        self.assertEqual(source["podSelector"]["matchLabels"], {"app.kubernetes.io/name": "prometheus"})
        self.assertIn("namespaceSelector", source)

    @for_each_overlay
    def test_clients_reach_http_where_they_reach_grpc(self, overlay):
        if "http" not in ports(overlay.one("Deployment")):
            self.assertNotEqual(overlay.name, "http")
            return
        self.assertEqual(self.sources(overlay, "http"), self.sources(overlay, "grpc"))
        for service in overlay.all("Service"):
            named = [port["name"] for port in service["spec"]["ports"]]
            self.assertEqual("http" in named, "grpc" in named, service["metadata"]["name"])

    @for_each_overlay
    def test_every_port_is_named_once(self, overlay):
        for port in ports(overlay.one("Deployment")):
            self.assertEqual(len(self.sources(overlay, port)), 1, port)


class ConfigurationTest(OverlaysTestCase):
    @for_each_overlay
    def test_latentd_listens_where_the_container_says(self, overlay):
        deployment = overlay.one("Deployment")
        config = effective_config(overlay, deployment)
        listening = {name: int(config[field].rpartition(":")[2]) for name, field in (
            ("grpc", "listen"), ("http", "http_listen"), ("health", "health_listen"), ("metrics", "metrics_listen"))
                     if field in config}
        self.assertEqual(listening, ports(deployment))

    @for_each_workload
    def test_operators_have_a_socket_in_a_volume_of_the_pods_own(self, overlay, workload):
        address = effective_config(overlay, workload)["admin_listen"]
        self.assertTrue(address.startswith("unix:/"), address)
        mount, = [each for each in container(workload)["volumeMounts"]
                  if each["mountPath"] == str(pathlib.PurePath(address.removeprefix("unix:")).parent)]
        volume, = [each for each in pod(workload)["volumes"] if each["name"] == mount["name"]]
        self.assertIn("emptyDir", volume)
        named = {each["name"]: each["value"] for each in container(workload).get("env", [])}
        self.assertEqual(named.get("LATENT_ADMIN"), address if workload["kind"] == "Deployment" else None)

    @for_each_overlay
    def test_probes_ask_the_health_port_by_service(self, overlay):
        deployment = overlay.one("Deployment")
        asked = {name: container(deployment)[name + "Probe"]["grpc"]
                 for name in ("startup", "readiness", "liveness")}
        self.assertEqual({probe["port"] for probe in asked.values()}, {ports(deployment)["health"]})
        self.assertEqual({name: probe["service"] for name, probe in asked.items()},
                         {"startup": "latent.v1.ImageGeneration", "readiness": "latent.v1.ImageGeneration",
                          "liveness": "liveness"})

    @for_each_overlay
    def test_the_grace_period_is_longer_than_the_drain(self, overlay):
        deployment = overlay.one("Deployment")
        command, seconds = container(deployment)["lifecycle"]["preStop"]["exec"]["command"]
        self.assertEqual(command, "sleep")
        drain = amount(effective_config(overlay, deployment)["drain_timeout"])
        self.assertGreater(pod(deployment)["terminationGracePeriodSeconds"],
                           int(seconds) + drain + END_AFTER_DRAINING)

    @for_each_workload
    def test_the_cache_is_smaller_than_its_volume(self, overlay, workload):
        config = effective_config(overlay, workload)
        self.assertTrue(config["cache_dir"].startswith("/cache/"))
        volume = next(each for each in pod(workload)["volumes"] if each["name"] == "cache")
        if "emptyDir" in volume:
            room = amount(volume["emptyDir"]["sizeLimit"])
            own = amount(container(workload)["resources"]["limits"]["ephemeral-storage"])
            self.assertGreater(own, room)
        else:
            claim = overlay.one("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
            room = amount(claim["spec"]["resources"]["requests"]["storage"])
        self.assertGreater(room, amount(config["cache_max_bytes"]))

    @for_each_workload
    def test_every_container_asks_for_what_it_may_have_and_computes_with_that_many_threads(self, overlay, workload):
        resources = container(workload)["resources"]
        self.assertEqual(resources["requests"], resources["limits"])
        self.assertLessEqual({"cpu", "memory", "ephemeral-storage"}, resources["limits"].keys())
        self.assertEqual(effective_config(overlay, workload)["threads"], resources["limits"]["cpu"])


    @for_each_workload
    def test_what_computes_on_a_gpu_asks_for_one_and_has_the_image_for_it(self, overlay, workload):
        wanted = effective_config(overlay, workload)["backend"] == "CUDA"
        self.assertEqual(wanted, overlay.name == "gpu")
        self.assertEqual(container(workload)["resources"]["limits"].get("nvidia.com/gpu"), "1" if wanted else None)
        self.assertEqual(container(workload)["image"].endswith("-cuda"), wanted)
        tolerated = [each["key"] for each in pod(workload).get("tolerations", [])]
        self.assertEqual(tolerated, ["nvidia.com/gpu"] if wanted else [])


class SecurityTest(OverlaysTestCase):
    @for_each_workload
    def test_every_pod_is_confined(self, _, workload):
        assert_confined(self, workload)


class SharedCacheTest(OverlaysTestCase):
    def setUp(self):
        self.overlay = self.overlays[OVERLAYS.index("shared-cache")]
        self.job, self.replicas = self.overlay.one("Job", "latentd-compile"), self.overlay.one("Deployment")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "latentd.conf").write_text(self.overlay.config_text())

    def run_here(self, workload):
        """latentd as in that container, but for where it listens and keeps its cache."""
        arguments = [each.replace("/etc/latentd", str(self.folder)) for each in container(workload)["args"]]
        server = Server(*arguments, "--admin-listen=", "--health-listen=", "--metrics-listen=", demo=False,
                        buckets=server_process.DEMO_BUCKETS, cache=self.folder / "cache")
        self.addCleanup(server.kill)
        return server

    def test_only_the_job_compiles_and_only_the_job_writes(self):
        job, replicas = (effective_config(self.overlay, each) for each in (self.job, self.replicas))
        self.assertEqual(job.pop("compile_at_start"), "true")
        self.assertEqual(replicas.pop("compile_at_start"), "false")
        self.assertEqual(job, replicas)
        self.assertEqual(replicas["forbid_compile_after_ready"], "true")
        volume = next(each for each in pod(self.replicas)["volumes"] if each["name"] == "cache")
        self.assertIs(volume["persistentVolumeClaim"]["readOnly"], True)

    def assert_it_fits(self, replica):
        """The container's memory is what docs/operations.md makes of the prediction."""
        api = Api(replica.listening().address)
        self.addCleanup(api.close)
        together = api.call("Admin", "GetMemoryReport").predicted.total_bytes
        config = effective_config(self.overlay, self.replicas)
        self.assertGreater(together, 100 * 2**20)
        needed = 1.1 * together + 200 * 2**20
        of_clients = min(needed / 3, 768 * 2**20) + amount(config["max_request_bytes"])
        self.assertGreaterEqual(amount(container(self.replicas)["resources"]["limits"]["memory"]), needed + of_clients)

    def test_rehearsal(self):
        """A replica before the Job ends; after it, it loads and is ready."""
        early = self.run_here(self.replicas)
        self.assertEqual(early.wait(), 1, early.log())
        job = self.run_here(self.job)
        self.assertEqual(job.wait(), 0, job.log())
        replica = self.run_here(self.replicas)
        ready = replica.wait_for_log(lambda entry: entry["message"] == "ready")
        self.assertEqual(ready["compiled"], 0)
        self.assertGreater(ready["loaded"], 0)
        self.assert_it_fits(replica)
        self.assertEqual(replica.stop(), 0)


class AutoscalingTest(OverlaysTestCase):
    RULE, = yaml.safe_load((KUBERNETES / "autoscaling" / "prometheus-adapter.yaml").read_text())["rules"]

    def test_the_metric_is_one_that_the_adapter_makes_of_one_that_latentd_has(self):
        self.assertIn(f"`{self.RULE['name']['as']}`", (PROJECT / "docs" / "metrics.md").read_text())
        scaled = [overlay.name for overlay in self.overlays if overlay.all("HorizontalPodAutoscaler")]
        self.assertEqual(scaled, ["model-volume", "shared-cache", "gpu"])
        for overlay in self.overlays:
            for scaler in overlay.all("HorizontalPodAutoscaler"):
                metric, = scaler["spec"]["metrics"]
                self.assertEqual(metric["pods"]["metric"]["name"], self.RULE["name"]["as"])

    def test_prometheus_answers_the_adapters_query(self):
        query = (self.RULE["metricsQuery"].replace("<<.Series>>", "latentd_queue_depth")
                 .replace("<<.LabelMatchers>>", 'namespace="pictures"').replace("<<.GroupBy>>", "pod"))
        series = [{"series": f'latentd_queue_depth{{namespace="{namespace}",pod="{name}",bucket="{bucket}"}}',
                   "values": values}
                  for namespace, name, bucket, values in (
                      ("pictures", "a", "256x256", "0 3 0 0"), ("pictures", "a", "other", "0 2 0 0"),
                      ("pictures", "b", "256x256", "1 1 1 1"), ("elsewhere", "c", "256x256", "9 9 9 9"))]
        test = {"evaluation_interval": "15s", "tests": [{
            "interval": "15s", "input_series": series,
            "promql_expr_test": [{"expr": query, "eval_time": "45s", "exp_samples": [
                {"labels": '{pod="a"}', "value": 5}, {"labels": '{pod="b"}', "value": 1}]}]}]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "test.yml")
            path.write_text(yaml.safe_dump(test))
            done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False,
                                  timeout=server_process.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
