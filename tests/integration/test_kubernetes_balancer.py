"""HAProxy in deploy/kubernetes: of one mind with the replicas behind it, and with the configuration that it reads."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import server_process
from manifests import Overlay, amount, assert_confined, container, matches, pod, pod_labels, ports, render

CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / "deploy/haproxy/haproxy.cfg"


class BalancerManifestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        objects = render("balanced")
        cls.replicas = Overlay("balanced", objects)
        cls.balancer = Overlay("balanced", objects, "latentd-balancer")
        cls.deployment = cls.balancer.one("Deployment")
        cls.environment = {each["name"]: each for each in container(cls.deployment)["env"]}

    def value(self, name):
        return self.environment[name]["value"]

    def test_the_configuration_is_the_one_of_deploy_haproxy_and_is_mounted(self):
        config = self.balancer.one("ConfigMap")
        self.assertEqual(config["data"], {"haproxy.cfg": CONFIGURATION.read_text()})
        volume, = pod(self.deployment)["volumes"]
        self.assertEqual(volume["configMap"]["name"], config["metadata"]["name"])
        mount, = container(self.deployment)["volumeMounts"]
        self.assertEqual(mount["name"], volume["name"])
        self.assertEqual(container(self.deployment)["command"][-1], f"{mount['mountPath']}/haproxy.cfg")

    def test_haproxy_takes_it_with_the_containers_variables(self):
        variables = {name: each.get("value", "1") for name, each in self.environment.items()}
        variables["LATENTD_REPLICAS"] = variables["LATENTD_REPLICAS"].replace("$(LATENTD_NAMESPACE)", "pictures")
        for changed, taken in (({}, True), ({"LATENTD_MAX_REPLICAS": "many"}, False)):
            done = subprocess.run(["haproxy", "-c", "-f", CONFIGURATION], env={**os.environ, **variables, **changed},
                                  capture_output=True, text=True, check=False, timeout=server_process.DEADLINE)
            self.assertEqual(done.returncode == 0, taken, done.stdout + done.stderr)

    def test_it_listens_where_the_ports_say(self):
        listening = {name: int(self.value(variable).rpartition(":")[2]) for name, variable in (
            ("grpc", "LATENTD_LISTEN"), ("health", "LATENTD_HEALTH"), ("metrics", "LATENTD_STATS"))}
        self.assertEqual(ports(self.deployment), listening)
        for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
            asked = container(self.deployment)[probe]["httpGet"]
            self.assertEqual((asked["port"], asked["path"]), ("health", path))
            self.assertIn(f"if {{ path {path} }}", CONFIGURATION.read_text())

    def test_it_asks_for_the_headless_services_whole_name_and_port(self):
        service = self.replicas.one("Service", "latentd-replicas")
        self.assertEqual(service["spec"]["clusterIP"], "None")
        port = next(each["port"] for each in service["spec"]["ports"] if each["name"] == "grpc")
        self.assertEqual(self.value("LATENTD_REPLICAS"),
                         f"{service['metadata']['name']}.$(LATENTD_NAMESPACE).svc.cluster.local:{port}")
        # Kubernetes puts in only what is defined before it.
        self.assertLess(list(self.environment).index("LATENTD_NAMESPACE"), list(self.environment).index("LATENTD_REPLICAS"))

    def test_there_is_room_for_the_replicas_and_for_those_that_they_follow(self):
        most = Overlay("shared-cache", render("shared-cache")).one("HorizontalPodAutoscaler")["spec"]["maxReplicas"]
        self.assertGreaterEqual(int(self.value("LATENTD_MAX_REPLICAS")), 2 * most)

    def test_all_balancers_together_fill_a_replicas_queue_and_no_more(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "latentd.conf")
            path.write_text(self.replicas.config_text())
            printed = subprocess.run([server_process.options.latentd, f"--config={path}", "--print-config"],
                                     capture_output=True, text=True, check=True, timeout=server_process.DEADLINE).stdout
        capacity = dict(line.split(": ", 1) for line in printed.splitlines())["queue_capacity"]
        self.assertEqual(int(self.value("LATENTD_MAX_CALLS")) * self.deployment["spec"]["replicas"], int(capacity))

    def test_clients_reach_the_balancer_as_they_reach_a_replica(self):
        own, theirs = (overlay.one("Service")["spec"] for overlay in (self.balancer, self.replicas))
        self.assertEqual(own["ports"], theirs["ports"])
        self.assertTrue(matches(own["selector"], pod_labels(self.deployment)))
        self.assertFalse(matches(theirs["selector"], pod_labels(self.deployment)))
        self.assertFalse(matches(own["selector"], pod_labels(self.replicas.one("Deployment"))))

    def test_selectors_match_the_balancers(self):
        spread, = pod(self.deployment)["topologySpreadConstraints"]
        for selector in (self.deployment["spec"]["selector"], spread["labelSelector"],
                         self.balancer.one("PodDisruptionBudget")["spec"]["selector"]):
            self.assertTrue(matches(selector["matchLabels"], pod_labels(self.deployment)))
        self.assertGreater(self.deployment["spec"]["replicas"],
                           self.balancer.one("PodDisruptionBudget")["spec"]["maxUnavailable"])

    def test_the_policy_lets_it_reach_replicas_and_names_and_nobody_else(self):
        policy = self.balancer.one("NetworkPolicy")["spec"]
        self.assertTrue(matches(policy["podSelector"]["matchLabels"], pod_labels(self.deployment)))
        self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
        to_replicas, to_names = policy["egress"]
        self.assertTrue(matches(to_replicas["to"][0]["podSelector"]["matchLabels"],
                                pod_labels(self.replicas.one("Deployment"))))
        self.assertEqual([each["port"] for each in to_replicas["ports"]], [ports(self.replicas.one("Deployment"))["grpc"]])
        self.assertEqual({each["port"] for each in to_names["ports"]}, {53})
        opened = {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}
        self.assertEqual(opened, {"grpc": None, "health": None, "metrics": self.prometheus()})

    def prometheus(self):
        """Whom the replicas' policy lets scrape."""
        source, = [rule["from"] for rule in self.replicas.one("NetworkPolicy")["spec"]["ingress"]
                   if [each["port"] for each in rule["ports"]] == ["metrics"]]
        return source

    def test_the_grace_period_is_longer_than_the_drain(self):
        command, seconds = container(self.deployment)["lifecycle"]["preStop"]["exec"]["command"]
        self.assertEqual(command, "sleep")
        self.assertGreater(pod(self.deployment)["terminationGracePeriodSeconds"],
                           int(seconds) + amount(self.value("LATENTD_DRAIN_TIMEOUT")))

    def test_it_is_confined_and_asks_for_what_it_may_have(self):
        assert_confined(self, self.deployment)
        resources = container(self.deployment)["resources"]
        self.assertEqual(resources["requests"], resources["limits"])
        self.assertLessEqual({"cpu", "memory", "ephemeral-storage"}, resources["limits"].keys())
        account = self.balancer.one("ServiceAccount", pod(self.deployment)["serviceAccountName"])
        self.assertIs(account["automountServiceAccountToken"], False)
        self.assertIs(pod(self.deployment)["automountServiceAccountToken"], False)


if __name__ == "__main__":
    unittest.main()
