#!/usr/bin/env python3
"""The cost of HTTP beside gRPC: the same pictures of one server over both, in turns. README.md beside this describes it."""
import argparse
import base64
import http.client
import json
import os
import pathlib
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import run  # noqa: E402

sys.path.insert(0, str(run.install_client()))
os.environ["no_proxy"] = "*"
import promises  # noqa: E402
import server_process  # noqa: E402
from server_process import DEADLINE, Api, Server  # noqa: E402

BEYOND_BAR = 0.002  # seconds that HTTP may take more than gRPC, beside base64
P99_BAR = 1.1  # times that of gRPC, with many clients
PROMPT = "a red circle on a blue background"


class Grpc:
    """A stock client of GenerateStream."""
    name = "gRPC"

    def __init__(self, server, size, steps=1):
        self.api = Api(server.address)
        self.request = self.api.request(width=size, height=size, num_inference_steps=steps, guidance_scale=0)

    def draw(self):
        """(seconds, those of them that the server counts, the picture)."""
        start = time.perf_counter()
        chunks, counted = [], 0
        for event in self.api.stream(self.request):
            if event.HasField("image_chunk"):
                chunks.append(event.image_chunk.data)
            elif event.HasField("completed"):
                total = event.completed.timings.total
                counted = total.seconds + total.nanos / 1e9
        picture = b"".join(chunks)
        return time.perf_counter() - start, counted, picture

    def close(self):
        self.api.close()


class Http:
    """OpenAI's Images API by the standard library: to the last byte of the answer, before it is read as JSON."""
    name = "HTTP"

    def __init__(self, server, size):
        self.connection = http.client.HTTPConnection(http_address(server), timeout=DEADLINE)
        self.connection.connect()
        self.body = json.dumps({"prompt": PROMPT, "size": f"{size}x{size}", "num_inference_steps": 1, "guidance_scale": 0, "seed": 7})

    def draw(self):
        start = time.perf_counter()
        self.connection.request("POST", "/v1/images/generations", self.body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        body = answer.read()
        seconds = time.perf_counter() - start
        assert answer.status == 200, body[:1000]
        said = json.loads(body)
        return seconds, float(said["latentd"]["timings"]["total"].rstrip("s")), base64.b64decode(said["data"][0]["b64_json"])

    def close(self):
        self.connection.close()


def http_address(server):
    return server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"].removeprefix("http on ")


def percentile(seconds, share):
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def base64_seconds(picture):
    """Seconds that encoding takes here, median."""
    seconds = []
    for _ in range(21):
        start = time.perf_counter()
        base64.b64encode(picture)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def alone(server, size, pictures):
    """{transport: seconds beside what the server counts for the picture itself}, and the picture."""
    transports = [Grpc(server, size), Http(server, size)]
    beside, drawn = {transport.name: [] for transport in transports}, set()
    for turn in range(pictures + 1):
        for transport in transports:
            seconds, counted, picture = transport.draw()
            drawn.add(picture)
            if turn > 0:  # the first ones connect
                beside[transport.name].append(seconds - counted)
    for transport in transports:
        transport.close()
    assert len(drawn) == 1, "the pictures differ"
    return beside, drawn.pop()


def together(transport, server, size, clients, pictures):
    """Seconds of each picture, of so many clients at a time."""
    made = [transport(server, size) for _ in range(clients)]
    seconds = []

    def draw(client):
        for _ in range(pictures):
            seconds.append(client.draw()[0])

    threads = [threading.Thread(target=draw, args=(client,)) for client in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in made:
        client.close()
    assert len(seconds) == clients * pictures, "a client has failed"
    return seconds


def report_alone(server, size, options):
    beside, picture = alone(server, size, options.pictures)
    encoding = base64_seconds(picture)
    for name, seconds in beside.items():
        print(f"{size}x{size}  {name}  {len(seconds):4} pictures of {len(picture) / 2**20:.2f} MiB  beside drawing p50 "
              f"{statistics.median(seconds) * 1000:6.2f} ms  quartiles {percentile(seconds, 0.25) * 1000:6.2f} "
              f"{percentile(seconds, 0.75) * 1000:6.2f}")
    more = statistics.median(beside["HTTP"]) - statistics.median(beside["gRPC"])
    print(f"{size}x{size}  HTTP takes {more * 1000:+.2f} ms; base64 takes {encoding * 1000:.2f} ms of one core")
    return f"at {size}x{size} HTTP takes at most 2 ms more than gRPC and base64: {(more - encoding) * 1000:+.2f} ms", more - encoding <= BEYOND_BAR


def report_together(server, options):
    seconds = {Grpc: [], Http: []}
    for _ in range(options.rounds):
        for transport, drawn in seconds.items():
            drawn += together(transport, server, options.small, options.clients, options.each)
    for transport, drawn in seconds.items():
        print(f"{options.clients} clients  {transport.name}  {len(drawn):5} pictures  p50 {percentile(drawn, 0.5) * 1000:7.1f} ms  "
              f"p99 {percentile(drawn, 0.99) * 1000:7.1f} ms")
    ratio = percentile(seconds[Http], 0.99) / percentile(seconds[Grpc], 0.99)
    return f"with {options.clients} clients the p99 is within 10 % of gRPC's: {ratio - 1:+.0%}", ratio <= P99_BAR


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--pictures", type=int, default=50, help="of each transport and size, one at a time")
    parser.add_argument("--large", type=int, default=1024, help="side of the large picture")
    parser.add_argument("--small", type=int, default=64, help="side of the small one")
    parser.add_argument("--clients", type=int, default=50, help="at a time")
    parser.add_argument("--each", type=int, default=4, help="pictures of each of them in a round")
    parser.add_argument("--rounds", type=int, default=5, help="of each transport")
    promises.add_server_flags(parser)
    return parser.parse_args()


def main():
    options = parse()
    server_process.configure(options)
    server = Server("--http-listen=127.0.0.1:0", buckets=f"{options.small}x{options.small},{options.large}x{options.large}").start()
    try:
        made = [report_alone(server, size, options) for size in (options.small, options.large)]
        made.append(report_together(server, options))
    finally:
        server.kill()
    return 0 if promises.tell(made) else 1


if __name__ == "__main__":
    sys.exit(main())
