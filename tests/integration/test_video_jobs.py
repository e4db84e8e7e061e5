"""Jobs of /v1/videos: whose they are, and the trace that they belong to."""

import base64
import http.client
import json
import pathlib
import subprocess
import tempfile
import unittest

import server_process
import video_checkpoint
from collector import Collector, attributes
from server_process import DEADLINE, Server, wait_until
from test_video import image

FIRST, SECOND = "the-first-key-of-all", "the-second-key-of-all"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
JOB = {"input_reference": {"image_url": f"data:image/png;base64,{base64.b64encode(image()).decode()}"}, "size": "64x64",
       "num_frames": 5, "num_inference_steps": 3, "seed": 7, "output_format": "apng"}


class VideoJobsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        checkpoint = video_checkpoint.write_checkpoint(cls.folder / "svd")
        keys = cls.folder / "keys"
        keys.touch(0o600)
        keys.write_text(f"web {FIRST}\nshop {SECOND}\n")
        cls.collector = Collector()
        cls.addClassCleanup(cls.collector.stop)
        cls.server = Server("--http-listen=127.0.0.1:0", f"--api-key-file={keys}",
                            f"--video={checkpoint},buckets={video_checkpoint.BUCKET},decode-chunk={video_checkpoint.CHUNK}",
                            f"--otlp-endpoint={cls.collector.address}", demo=False).start()
        cls.addClassCleanup(cls.server.kill)
        cls.http = cls.server.wait_for_log(
            lambda entry: entry["message"].startswith("http on "))["message"].removeprefix("http on ")

    def ask(self, key, method, path="", body=None, **headers):
        """(code, the answer's bytes)"""
        connection = http.client.HTTPConnection(self.http, timeout=DEADLINE)
        try:
            connection.request(method, f"/v1/videos{path}", body and json.dumps(body),
                               {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def create(self, key, request_id="", **headers):
        code, answer = self.ask(key, "POST", body={**JOB, "request_id": request_id}, **headers)
        self.assertEqual(code, 200, answer)
        return json.loads(answer)["id"]

    def wait_for_end(self, key, job):
        def status():
            return json.loads(self.ask(key, "GET", f"/{job}")[1])["status"]
        wait_until(lambda: status() in ("completed", "failed"), "the job does not end")
        self.assertEqual(status(), "completed")

    def listed(self, key):
        return [video["id"] for video in json.loads(self.ask(key, "GET")[1])["data"]]

    def test_the_jobs_of_a_key_are_no_other_keys(self):
        job = self.create(FIRST)
        other = self.create(SECOND)
        for path in ("", "/content"):
            self.assertEqual(self.ask(SECOND, "GET", f"/{job}{path}")[0], 404)
        self.assertEqual(self.ask(SECOND, "DELETE", f"/{job}")[0], 404)
        self.wait_for_end(FIRST, job)
        self.wait_for_end(SECOND, other)
        for path in ("", "/content"):
            self.assertEqual(self.ask(SECOND, "GET", f"/{job}{path}")[0], 404)
        self.assertEqual(self.ask(SECOND, "DELETE", f"/{job}")[0], 404)
        self.assertIn(job, self.listed(FIRST))
        self.assertEqual(self.listed(SECOND), [other])
        code, file = self.ask(FIRST, "GET", f"/{job}/content")
        self.assertEqual((code, file[1:4]), (200, b"PNG"))
        self.assertEqual(self.ask(FIRST, "DELETE", f"/{job}")[0], 200)
        self.assertEqual(self.ask(FIRST, "GET", f"/{job}")[0], 404)
        self.assertEqual(self.listed(SECOND), [other])
        self.assertEqual(self.ask("no-key-at-all-of-these", "GET")[0], 401)

    def test_its_file_counts_until_it_is_deleted(self):
        """Guard: client_memory() in server/grpc_server.cc."""
        def held():
            said = subprocess.run([server_process.options.latent, "memory", "--json", f"--server={self.server.address}"], check=True,
                                  capture_output=True, text=True, timeout=DEADLINE).stdout
            kinds = {kind["kind"]: kind for kind in json.loads(said)["clients"]}
            self.assertGreater(int(kinds["video_files"]["limit_bytes"]), 0)
            return int(kinds["video_files"].get("bytes", 0))
        before = held()
        job = self.create(FIRST)
        self.wait_for_end(FIRST, job)
        file = self.ask(FIRST, "GET", f"/{job}/content")[1]
        self.assertEqual(held() - before, len(file))
        self.assertEqual(self.ask(FIRST, "DELETE", f"/{job}")[0], 200)
        wait_until(lambda: held() == before, "the file is held no longer")

    def test_a_job_belongs_to_the_trace_of_its_request(self):
        job = self.create(FIRST, request_id="traced-job", traceparent=f"00-{TRACE}-{PARENT}-01")
        self.wait_for_end(FIRST, job)
        self.assertEqual(self.server.request_line("traced-job")["trace_id"], TRACE)
        call, work = self.collector.wait_for_call("traced-job")
        self.assertEqual((call.trace_id.hex(), call.parent_span_id.hex()), (TRACE, PARENT))
        self.assertEqual(attributes(call)["latentd.images"], 5)
        self.assertIn("steps", [span.name for span in work])
        for span in work:
            self.assertEqual((span.trace_id, span.parent_span_id), (call.trace_id, call.span_id))
