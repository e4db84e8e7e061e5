"""`latent graphs VERB`: what each verb does, seen on the server, in its cache directory and in what is printed."""

import json
import unittest

import grpc

from metrics import METRICS, compilations, scrape
from server_process import Api, Server
from test_graphs import COMPILED, READY, GraphsTestCase, latent

COLD = 1  # latent.v1.GraphState
SMALL, WIDE = "64x64", "96x64"  # the buckets
TEXT_ENCODERS = {"text_encoder", "text_encoder_2"}


class VerbTestCase(GraphsTestCase):
    def verb(self, name, *arguments, server=None, code=0):
        """Standard output and standard error."""
        found, out, error = latent(server or self.server, "graphs", name, *arguments)
        self.assertEqual(found, code, out + error)
        return out, error

    def listed(self, *arguments):
        return json.loads(self.verb("list", "--json", *arguments)[0])["graphs"]

    def states(self, api=None, **selector):
        """{(model, component, part, width, rows): state} of what is served."""
        return {(graph.model, graph.component, graph.part, graph.bucket.width, graph.rows): graph.state
                for graph in (api or self.api).graphs(**selector) if graph.users}

    def files(self, suffix=".latent", cache=None):
        return {path.name for path in ((cache or self.cache) / "artifacts").iterdir() if path.suffix == suffix}


class ChangingVerbsTest(VerbTestCase):
    def setUp(self):
        super().setUp()
        self.server, self.api = self.start()
        self.graphs = len(self.states())

    def test_pin_and_unpin(self):
        """Guard: `unpin` in PinGraphs (server/admin/graph_cache_service.cc) and UnpinGraphs (client)."""
        self.verb("pin", "--component=vae_decoder", f"--bucket={SMALL}")
        pinned = {graph["id"] for graph in self.listed() if graph.get("pinned")}
        self.assertEqual({name.removesuffix(".pin") for name in self.files(".pin")}, pinned)
        decoders = {graph.id for graph in self.api.graphs(components=["vae_decoder"])}
        self.assertLessEqual(decoders, pinned)
        self.assertIn("pinned", self.verb("show", sorted(decoders)[0])[0])
        out, _ = self.verb("evict", "--component=vae_decoder", "--tier=both", code=1)
        self.assertIn("is pinned", out)
        self.assertEqual(self.states(components=["vae_decoder"]), dict.fromkeys(
            [("base", "vae_decoder", "", 64, 1), ("base", "vae_decoder", "", 96, 1)], READY))
        self.verb("unpin", "--all")
        self.assertEqual(self.files(".pin"), set())
        self.assertFalse([graph for graph in self.api.graphs() if graph.pinned])
        self.verb("evict", "--component=vae_decoder", "--tier=both")

    def test_a_bucket_is_pinned_with_its_text_encoders(self):
        """Guard: AddByBucket and NeededByOthers in core/engine/reports/graph_selection.cc."""
        def pinned():
            return {graph.component for graph in self.api.graphs() if graph.pinned}

        self.verb("pin", f"--bucket={SMALL}")
        self.assertEqual(pinned(), {graph.component for graph in self.api.graphs()})
        self.assertLessEqual(TEXT_ENCODERS, {graph["component"] for graph in self.listed(f"--bucket={SMALL}")})
        self.verb("pin", f"--bucket={WIDE}")
        self.verb("unpin", f"--bucket={SMALL}")
        self.assertLessEqual(TEXT_ENCODERS, pinned())
        self.assertEqual({graph.pinned for graph in self.api.graphs(components=["vae_decoder"])
                          if graph.bucket.width == 64}, {False})
        self.verb("unpin", f"--bucket={WIDE}")
        self.assertEqual(pinned(), set())

    def test_evict_and_load(self):
        compiled = compilations(self.server)
        before = self.api.call("Admin", "GetMemoryReport").weights_bytes
        self.verb("evict", f"--bucket={SMALL}")
        states = self.states()
        for name, state in states.items():  # graphs that the other bucket needs stay
            self.assertEqual(state, COMPILED if name[3] == 64 else READY, name)
        self.verb("evict", "--all")
        self.assertEqual(set(self.states().values()), {COMPILED})
        self.assertEqual(self.api.call("Admin", "GetMemoryReport").weights_bytes, 0)
        self.assertEqual(len(self.files()), self.graphs)  # memory alone
        self.verb("load", "--component=text_encoder")
        self.assertEqual({name[1] for name, state in self.states().items() if state == READY}, {"text_encoder"})
        self.verb("load", "--all")
        self.assertEqual(set(self.states().values()), {READY})
        self.assertEqual(self.api.call("Admin", "GetMemoryReport").weights_bytes, before)
        self.assertEqual(compilations(self.server), compiled)

    def test_evict_from_disk_and_save(self):
        victim = self.api.graphs(components=["vae_encoder"])[0]
        self.verb("evict", victim.id, "--tier=disk")
        self.assertNotIn(f"{victim.id}.latent", self.files())
        self.assertEqual(set(self.states().values()), {READY})
        self.verb("save", victim.id)
        self.assertIn(f"{victim.id}.latent", self.files())
        self.assertEqual(len(self.files()), self.graphs)
        self.verb("evict", victim.id, "--tier=both")
        self.assertNotIn(f"{victim.id}.latent", self.files())
        self.assertEqual(self.api.call("GraphCache", "GetGraph", id=victim.id).state, COLD)
        _, error = self.verb("load", victim.id, code=1)
        self.assertIn("1 failed", error)
        _, error = self.verb("save", victim.id, code=4)
        self.assertIn("vae_encoder", error)

    def test_force_evicts_what_is_pinned(self):
        self.verb("pin", "--component=vae_decoder")
        self.verb("evict", "--component=vae_decoder", code=1)
        self.verb("evict", "--component=vae_decoder", "--force")
        self.assertEqual(set(self.states(components=["vae_decoder"]).values()), {COMPILED})

    def test_warm(self):
        compiled = compilations(self.server)
        self.verb("evict", f"--bucket={SMALL}", "--tier=both")
        self.assertEqual(self.states()["base", "vae_decoder", "", 64, 1], COLD)
        out, _ = self.verb("warm", f"--bucket={SMALL}", "--dry-run")
        self.assertIn("weights", out)
        self.assertEqual(self.states()["base", "vae_decoder", "", 64, 1], COLD)
        out, error = self.verb("warm", f"--bucket={SMALL}")
        self.assertEqual(set(self.states().values()), {READY})
        warmed = scrape(self.server).sum("latentd_graph_compilations_total", reason="warm")
        self.assertGreater(warmed, 0)
        self.assertEqual(compilations(self.server), compiled + warmed)
        self.assertTrue(out.startswith(f"{int(warmed)} compiled, "), out)
        self.assertEqual(error.count("compiled in"), warmed)

    def test_verify_sets_a_damaged_file_aside(self):
        victim = self.api.graphs(components=["vae_decoder"])[0].id
        path = self.cache / "artifacts" / f"{victim}.latent"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        self.verb("verify", "--component=text_encoder")
        self.assertIn(path.name, self.files())
        out, error = self.verb("verify", "--all", code=1)
        self.assertIn("1 failed", error)
        self.assertIn("damaged", out)
        self.assertNotIn(path.name, self.files())
        self.assertTrue((self.cache / "quarantine" / f"artifacts-{path.name}").exists())
        self.assertTrue(self.draw(self.api))  # it is loaded
        self.verb("save", victim)
        self.verb("verify", "--all")


class StrictModeTest(VerbTestCase):
    def test_warm_says_of_each_graph_why_it_is_not_compiled(self):
        """Guard: CheckMayCompile in core/compiler/artifact_slot.cc."""
        self.server, self.api = self.start("--forbid-compile-after-ready", buckets=SMALL)
        compiled = compilations(self.server)
        out, error = self.verb("warm", f"--bucket={WIDE}", code=1)
        refused = [line for line in error.splitlines() if "--forbid-compile-after-ready" in line]
        self.assertTrue(refused)
        self.assertIn(f"0 compiled, 0 loaded, {len(self.states()) - len(refused)} ready before, {len(refused)} failed",
                      out)
        for line in refused:
            self.assertIn(WIDE, line)
        events = self.api.call("GraphCache", "WarmBuckets", selector={"buckets": [{"width": 96, "height": 64}]})
        reasons = {event.progress.result.error.reason for event in events if event.progress.result.HasField("error")}
        self.assertEqual(reasons, {"COMPILE_FORBIDDEN"})
        self.assertEqual(compilations(self.server), compiled)


class TransferTest(VerbTestCase):
    def cold_server(self, *arguments):
        """One that has compiled nothing and takes graphs."""
        self.other_cache = self.folder / "other"
        server = Server(METRICS, "--compile-at-start=false", "--allow-import", *arguments,
                        cache=self.other_cache).listening()
        self.addCleanup(server.kill)
        server.wait_for_log(lambda entry: entry["message"] == "degraded")
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def export(self, *arguments):
        archive = self.folder / "graphs.latent"
        return archive, self.verb("export", *arguments, f"--output={archive}")[1]

    def test_export_and_import_carry_what_was_selected(self):
        self.server, self.api = self.start()
        archive, error = self.export("--component=vae_decoder")
        self.assertTrue(error.startswith("2 graphs"), error)
        other, api = self.cold_server()
        out, error = self.verb("import", str(archive), server=other)
        self.assertEqual(error, "2 done, 0 failed\n")
        self.assertEqual(out.count(" ok"), 2)
        names = {f"{graph.id}.latent" for graph in self.api.graphs(components=["vae_decoder"])}
        self.assertEqual(self.files(cache=self.other_cache), names)
        states = self.states(api)
        self.assertEqual({name[1] for name, state in states.items() if state == COMPILED}, {"vae_decoder"})
        self.verb("load", "--component=vae_decoder", server=other)
        self.assertEqual(set(self.states(api, components=["vae_decoder"]).values()), {READY})

    def test_what_the_server_does_not_need_is_said_to_be_unused(self):
        """Guard: WhyUnused in core/engine/reports/graph_selection.cc, and OutcomeText in client/commands/graphs_command.cc."""
        self.server, self.api = self.start()
        archive, _ = self.export("--all")
        other, api = self.cold_server("--precision=bf16", f"--buckets={SMALL}")
        out, error = self.verb("import", str(archive), server=other)
        lines = [line for line in out.splitlines() if "not used" in line]
        unused = sum("computes in fp32, wanted bf16" in line for line in lines)
        self.assertGreater(unused, 0)
        self.assertIn(f"no bucket of this server needs base vae_decoder {WIDE}", out)
        self.assertIn(f"warning: {len(lines)} of them are not used by this server", error)
        needed = sum(state == COMPILED for state in self.states(api).values())
        self.assertEqual(len(out.splitlines()), len(lines) + needed)
        entry = other.wait_for_log(lambda entry: entry.get("method") == "ImportGraphs")
        self.assertEqual((entry["graphs"], entry["unused"]), (len(out.splitlines()), len(lines)))

    def test_an_import_of_nothing_is_refused(self):
        """Guard: End in server/admin/graph_bytes_reader.cc."""
        server, api = self.cold_server()
        call = api.admin_channel.stream_unary("/latent.v1.GraphCache/ImportGraphs")
        with self.assertRaises(grpc.RpcError) as caught:
            call(iter([]))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("no graph", caught.exception.details())
        empty = self.folder / "empty.latent"
        empty.write_bytes(b"latgraf1")
        _, error = self.verb("import", str(empty), server=server, code=4)
        self.assertIn("no graph", error)


if __name__ == "__main__":
    unittest.main()
