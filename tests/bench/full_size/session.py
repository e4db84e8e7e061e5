"""State that the measurements share: their scale, the checkpoint, the server, the peers, and where figures go."""

import dataclasses

from . import checkpoint, machine, networks, server
from .processes import Failure

PROMPT = "a large yellow star on a purple background"
GUIDANCE = 5.0
LATENTD, EAGER, COMPILE = "latentd", "eager", "compile"
# Models that a server has; behind them may stand further flags.
SDXL, SD15, TWO_BASES = checkpoint.SDXL, (checkpoint.SD15,), ("base", checkpoint.OTHER)
CONTROLLED = ("base", checkpoint.ADAPTERS)
CROWDED = (*CONTROLLED, "--rows=1,2,4,8")  # images of 512x512, with a set of LoRAs merged for each
CROWDED_BASE = ("base", "--rows=1,2,4,8")
SLOTS = (*CROWDED, "--adapter-slots=8")
TWO_DEVICES = ("base", "--devices=0,1")
SPLIT, WHOLE, AUTO = (*TWO_DEVICES, "--split=always"), (*TWO_DEVICES, "--split=never"), (*TWO_DEVICES, "--split=auto")
VIDEO = (checkpoint.SVD,)
BESIDE = ("base", checkpoint.SVD)
CACHING = ("base", "--feature-cache")
READY_SECONDS = 900  # the longest that a start or a network may take
MIB = machine.MIB


@dataclasses.dataclass(frozen=True)
class Scale:
    """Scale of one bench: sizes, steps and repetitions."""

    architecture: str
    main: tuple = (1024, 1024)
    other: tuple = (1152, 896)
    unet_sizes: tuple = ((512, 512), (768, 768), (1152, 896), (1536, 1536), (2048, 2048))
    vae_sizes: tuple = ((512, 512), (768, 768), (1152, 896), (1536, 1536))
    large: tuple = (2048, 2048)
    small: tuple = (512, 512)
    video: tuple = (1024, 576)
    frames: int = 25
    chunk: int = 7  # frames that are decoded together
    clip_steps: int = 25
    clips: int = 3
    beside: int = 100  # images beside a video, so many that there is a 99th percentile
    beside_steps: int = 25  # steps of that video
    rows: tuple = (1, 4, 8)
    steps: int = 30
    few_steps: int = 4
    crowd_steps: int = 20
    crowd_pictures: int = 4  # by each client
    cached_steps: int = 30
    runs: int = 30
    pictures: int = 2  # a round
    rounds: int = 5
    starts: int = 3


FULL = Scale("full")
REDUCED = Scale("reduced", main=(64, 64), other=(96, 64), unet_sizes=((96, 64),), vae_sizes=((96, 64),), large=(128, 128),
                small=(64, 64), video=(64, 64), frames=3, chunk=2, clip_steps=3, clips=1, beside=4, beside_steps=60, rows=(1,), steps=3,
                few_steps=2, crowd_steps=2, crowd_pictures=1, cached_steps=10,
                runs=2, pictures=1, rounds=2, starts=1)


def text(size):
    return f"{size[0]}x{size[1]}"


def shape(rows, size):
    return f"{rows}@{text(size)}"


class Bench:
    """State that the measurements share: the checkpoint, one server, one process for each kind of peer, and where figures go."""

    def __init__(self, options, scale, folder_of_models, folder, results, start_peer):
        self.options, self.scale, self.checkpoint, self.folder, self.results = options, scale, folder_of_models, folder, results
        self.cache = folder / "cache"
        self.peers = {}
        self.compiled = set()  # graphs that the compiling peer has run: (network, rows, size)
        self._start_peer = start_peer
        self._server, self._served = None, None
        self._clients = {}

    def flags_of(self, models):
        """The first is the base; another one is loaded when a request names it. Behind the one for videos may stand the frames of a
        chunk, behind others further flags."""
        video = f"--video={self.checkpoint / checkpoint.SVD},buckets={text(self.scale.video)}x{self.scale.frames}"
        if models[0] == checkpoint.SVD:
            return [video + "".join(f",decode-chunk={chunk}" for chunk in models[1:])]
        (base, *others), further = ([name for name in models if name.startswith("--") is is_flag] for is_flag in (False, True))
        special = {"refiner": f"--refiner={self.checkpoint / 'refiner'}", checkpoint.ADAPTERS: f"--adapters={self.checkpoint / checkpoint.ADAPTERS}",
                   checkpoint.SVD: video}
        return [f"--base={self.checkpoint / base}",
                *(special.get(model, f"--model={model}={self.checkpoint / model}") for model in others), *further]

    def start_server(self, models=SDXL):
        """One that is new, from the cache as it is; not ready yet."""
        self.stop_server()
        size = self.scale.small if models in (SD15, BESIDE, CROWDED, SLOTS) else self.scale.main
        bucket = None if models[0] == checkpoint.SVD else text(size)
        self._server, self._served = server.Latentd(self.options, self.flags_of(models), bucket, self.cache, self.folder), models
        return self._server

    def server(self, models=SDXL):
        """One that is ready. One of other models ends before."""
        if self._server is None or self._served != models:
            self.start_server(models).wait_until_ready(READY_SECONDS)
        return self._server

    def stop_server(self):
        for client in self._clients.values():
            client.stop()
        self._clients = {}
        if self._server is not None:
            self._server.stop()
        self._server = None

    def client(self, models, **request):
        """Always the same for a request, so that its connection is there."""
        latentd, key = self.server(models), tuple(sorted(request.items()))  # a server that ends takes its clients along
        if key not in self._clients:
            self._clients[key] = server.Client(self.options, latentd, self.folder, **request)
        return self._clients[key]

    def crowd(self, count, models, size, of=None):
        """So many clients of one server, each with a connection of its own; of(i) is what the i-th asks for beside the rest."""
        width, height = size
        return [self.client(models, prompt=PROMPT, seed=number, width=width, height=height, num_inference_steps=self.scale.crowd_steps,
                            guidance_scale=GUIDANCE, **(of(number) if of else {})) for number in range(count)]

    def picture(self, size=None, steps=None, guidance=GUIDANCE, models=SDXL, seed=7, **more):
        width, height = size or self.scale.main
        return self.client(models, prompt=PROMPT, seed=seed, width=width, height=height, num_inference_steps=steps or self.scale.steps,
                           guidance_scale=guidance, **more)

    def other_picture(self, **more):
        """An image of the size that is no bucket."""
        return self.picture(size=self.scale.other, bucket_policy=server.Text("BUCKET_POLICY_COLD_OK"), **more)

    def ask_peer(self, mode, do, **arguments):
        if mode not in self.peers:
            self.peers[mode] = self._start_peer(mode)
            self.results.note("peer versions", self.peers[mode].versions)
        answer = self.peers[mode].ask(do, **arguments)
        if "memory_bytes" in answer:
            memory = self.results.document["figures"].setdefault("memory_peer", {})
            memory[mode] = {"samples": [answer["memory_bytes"] / MIB]}
        return answer

    def stop_peer(self, mode):
        if mode in self.peers:
            self.peers.pop(mode).stop()
        if mode == COMPILE:
            self.compiled.clear()

    def stop(self):
        self.stop_server()
        for mode in list(self.peers):
            self.stop_peer(mode)

    # Networks.

    def doubt(self, figure, contestant, not_finite):
        """Numbers like NaN take less power than others, so that what makes them is not as slow as it should be."""
        if not_finite:
            self.results.note(f"{figure}, {contestant}: not what it says", f"{not_finite} values were not finite")

    def our_network(self, figure, component, shapes, model="base", kernels=False, runs=None):
        """Adds a figure for each shape that came about; what networks.parse says of them."""
        found = networks.measure(self.options, self.checkpoint / model, component, shapes,
                                 min(self.scale.runs, runs or self.scale.runs), READY_SECONDS, kernels)
        for network in found:
            kernel_lines = network.pop("kernels")
            self.doubt(f"{figure} {network['shape']}", LATENTD, network.get("not_finite"))
            if kernel_lines:
                self.results.note(f"kernels of {figure} {network['shape']}", kernel_lines)
            self.results.add(f"{figure} {network['shape']}", LATENTD, network.pop("samples"), **network, state=machine.state())
        if "ended" in found[-1]:
            raise Failure(f"after {found[-1]['shape']}: {found[-1]['ended']}")
        return found

    def peer_network(self, mode, figure, network, rows, size, runs=None, which=None):
        """Adds a figure; the seconds of the first run."""
        answer = self.ask_peer(mode, "network", network=network, rows=rows, width=size[0], height=size[1],
                               runs=min(self.scale.runs, runs or self.scale.runs))
        self.compiled.add((network, rows, size))
        which = which or shape(rows, size)
        self.doubt(f"{figure} {which}", mode, answer["not_finite"])
        self.results.add(f"{figure} {which}", mode, answer["samples"], first_seconds=answer["first"], state=machine.state())
        return answer["first"]
