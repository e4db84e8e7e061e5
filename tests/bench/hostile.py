#!/usr/bin/env python3
"""The cost of a crowd of hostile clients to one that is not. README.md beside this describes them."""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import run  # noqa: E402

sys.path.insert(0, str(run.install_client()))
os.environ["no_proxy"] = "*"
import grpc  # noqa: E402
import http_crowd  # noqa: E402
import promises  # noqa: E402
import server_process  # noqa: E402
from certificates import Authority  # noqa: E402
from hostile_clients import NOT_READING, crowd  # noqa: E402
from metrics import METRICS, scrape  # noqa: E402
from server_process import DEADLINE, Api, Server, wait_until  # noqa: E402

P99_BAR = 1.5  # times that without the crowd
KEPT_BAR_MIB = 64
GIVEN_BACK_SECONDS = 10  # after the last of the crowd has left
MOST_CONNECTIONS = 13_000  # more than the crowd over HTTP has
GENERATE = "/latent.v1.ImageGeneration/GenerateStream"


class Measurement:
    """Quiet and crowded rounds turn about, so that a machine that gets slower does so for both."""

    def __init__(self, options, arguments=(), credentials=None, rounds=None, **server):
        self.options = options
        self.credentials = credentials
        self.quiet, self.crowded, self.peak_mib = [], [], 0
        self.server = Server(METRICS, *arguments, **server).start()
        try:
            self.connect()
            self.draw()  # the first pictures take longer
            files, size = self.server.descriptors(), self.server.resident_bytes()
            for _ in range(rounds or options.rounds):
                self.quiet += self.draw()
                self.crowded += self.draw_in_the_crowd(files)
            time.sleep(GIVEN_BACK_SECONDS)
            self.kept_mib = (self.server.resident_bytes() - size) / 2**20
            self.peak_mib = max(0, self.peak_mib - size / 2**20)
        finally:
            self.server.kill()

    def connect(self):
        """The client that means no harm."""
        self.api = Api(self.server.address, self.credentials)
        self.request = self.api.request(num_inference_steps=self.options.steps)

    def draw_one(self):
        self.api.generate(self.request)

    def draw(self):
        seconds = []
        for _ in range(self.options.pictures):
            start = time.monotonic()
            self.draw_one()
            seconds.append(time.monotonic() - start)
        return seconds

    @contextlib.contextmanager
    def crowd(self):
        """All of it is there, and its pictures are drawn."""
        def drawn():
            return scrape(self.server).sum("latentd_images_generated_total")

        before = drawn()
        picture = self.api.request(num_inference_steps=1).SerializeToString()
        with crowd(self.server.address, GENERATE, picture, self.credentials is not None):
            wait_until(lambda: drawn() >= before + NOT_READING, "the pictures of the crowd are not drawn")
            yield

    def draw_in_the_crowd(self, files):
        with self.crowd():
            seconds = self.draw()
            self.peak_mib = max(self.peak_mib, self.server.resident_bytes() / 2**20)
        wait_until(lambda: self.server.descriptors() <= files, "connections of those who left stay open")
        return seconds

    def growth(self):
        return percentile(self.crowded, 0.99) / percentile(self.quiet, 0.99)


class HttpMeasurement(Measurement):
    """The same over HTTP, beside a larger crowd."""

    def __init__(self, options):
        super().__init__(options, ["--http-listen=127.0.0.1:0", f"--max-connections={MOST_CONNECTIONS}"], rounds=options.http_rounds,
                         buckets="64x64,256x256")

    def connect(self):
        line = self.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        self.address = line.removeprefix("http on ")
        self.connection = http.client.HTTPConnection(self.address, timeout=DEADLINE)
        self.body = json.dumps({"prompt": "a red circle", "size": "64x64", "num_inference_steps": self.options.steps, "seed": 7})

    def draw_one(self):
        self.connection.request("POST", "/v1/images/generations", self.body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:1000]

    def crowd(self):
        self.connection.close()  # it may have been idle for long
        return http_crowd.crowd(self.address, self.options.http_crowd)


def percentile(seconds, share):
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def with_tls(options):
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(pathlib.Path(folder), "authority")
        shown = authority.issue("server")
        return Measurement(options, [f"--tls-cert={shown.certificate}", f"--tls-key={shown.key}"],
                           grpc.ssl_channel_credentials(authority.pem.read_bytes()))


WAYS = {"plain": Measurement, "tls": with_tls, "http": HttpMeasurement}


def report(name, measured):
    """True if the promises hold."""
    for when, seconds in (("quiet", measured.quiet), ("in the crowd", measured.crowded)):
        print(f"{name:10}  {when:12}  {len(seconds):5} pictures  p50 {percentile(seconds, 0.5) * 1000:6.1f} ms  "
              f"p99 {percentile(seconds, 0.99) * 1000:6.1f} ms  longest {max(seconds) * 1000:6.1f} ms")
    made = ((f"the p99 grows by less than half: {measured.growth() - 1:+.0%}", measured.growth() < P99_BAR),
            (f"all but {KEPT_BAR_MIB} MiB go back: {measured.peak_mib:.0f} MiB more in the crowd, "
             f"{measured.kept_mib:.0f} MiB after it", measured.kept_mib < KEPT_BAR_MIB))
    return promises.tell(made)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="quiet ones, and as many in the crowd")
    parser.add_argument("--pictures", type=int, default=100, help="in a round")
    parser.add_argument("--steps", type=int, default=1, help="of a picture")
    parser.add_argument("--http-rounds", type=int, default=3, help="likewise, over HTTP")
    parser.add_argument("--http-crowd", type=float, default=1, help="share of the crowd over HTTP that is there")
    parser.add_argument("--only", choices=WAYS, help="of the ways in (default: all)")
    promises.add_server_flags(parser)
    return parser.parse_args()


def main():
    options = parse()
    server_process.configure(options)
    good = [report(name, measure(options)) for name, measure in WAYS.items() if options.only in (None, name)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
