"""Parts of steady.py that need no server: the images of its requests, those that are equal, and the promises on both."""
import collections
import dataclasses
import random

MIB = 1 << 20
PROMPT = "a large yellow star on a purple background"
GUIDANCE = {True: 5.0, False: 1.0}
MOST_IMAGES = 16  # images of one request
MOST_EVENTS = 8  # before who cancels does so: the shortest stream has some more
ALONE, BESIDE, LATER, RESTARTED = "alone at first", "beside others", "alone later", "alone after a restart"


@dataclasses.dataclass(frozen=True)
class Kind:
    """All that decides an image's bytes."""

    size: tuple
    guided: bool
    steps: int
    seed: int
    batch_invariant: bool = False
    images: int = 1

    def fields(self):
        """Fields of a GenerateRequest."""
        return {"prompt": PROMPT, "width": self.size[0], "height": self.size[1], "guidance_scale": GUIDANCE[self.guided],
                "num_inference_steps": self.steps, "seed": self.seed, "batch_invariant": self.batch_invariant,
                "num_images_per_prompt": self.images}


@dataclasses.dataclass(frozen=True)
class Order:
    """A request, and after how many events it is cancelled; -1: it is not."""

    kind: Kind
    cancelled_after: int = -1


def size_of(text):
    width, height = map(int, text.split("x"))
    return width, height


def kinds(sizes, steps, seeds):
    """Each size with and without guidance, for so many seeds; the steps go round. Each may be drawn by itself or may share steps."""
    found = [(size, guided, seed) for size in sizes for guided in (True, False) for seed in range(1, seeds + 1)]
    return [Kind(size, guided, steps[number % len(steps)], seed, invariant)
            for number, (size, guided, seed) in enumerate(found) for invariant in (False, True)]


def coverage(sizes, rows, steps):
    """A request for each size, row count and guidance, whose pictures take that many rows when it is alone."""
    return [Order(Kind(size, guided, steps, seed=1, images=count // (1 + guided)))
            for size in sizes for count in rows for guided in (True, False)
            if count % (1 + guided) == 0 and count // (1 + guided) <= MOST_IMAGES]


def crowd(sizes, steps):
    """To be asked for all at once: every size has a lane then, and pictures that wait for its rows."""
    return [Order(Kind(size, guided, steps, seed)) for seed, guided in ((1, True), (1, False), (2, True)) for size in sizes]


def mixture(of, count, cancelled, seed):
    """So many orders of these kinds; the same ones for a seed."""
    chance = random.Random(seed)
    for _ in range(count):
        kind = chance.choice(of)
        yield Order(kind, chance.randrange(MOST_EVENTS) if chance.random() < cancelled else -1)


class Pictures:
    """Digests of what was drawn, by kind and by where: a kind has one picture, wherever it is drawn."""

    def __init__(self):
        self._digests = collections.defaultdict(lambda: collections.defaultdict(set))

    def add(self, kind, where, digest):
        self._digests[kind][where].add(digest)

    def compared(self, where, invariant_only=False):
        """(how many kinds were drawn both alone and there, how many of them differ there)"""
        both = [places for kind, places in self._digests.items()
                if places[ALONE] and places[where] and (kind.batch_invariant or not invariant_only)]
        return len(both), sum(places[where] != places[ALONE] or len(places[ALONE]) > 1 for places in both)


@dataclasses.dataclass
class Rest:
    """The server while no request runs. Bytes; `device`, all that is taken of the GPU, is None without one."""

    compilations: int
    resident: int
    device: int
    held: dict  # latentd's own count, by kind

    def document(self):
        return dataclasses.asdict(self)


def growth(before, after):
    return (after - before) / MIB


def promises(document):
    """(promise, figure found, true if it holds) of a document of steady.py."""
    before, after, noise = document["after_warm_up"], document["at_the_end"], document["settings"]["noise"]
    made = [("nothing is compiled after the first pass", f"{after['compilations'] - before['compilations']} compilations",
             after["compilations"] == before["compilations"]),
            ("a restart compiles nothing", f"{document['restart_compilations']} compilations", document["restart_compilations"] == 0)]
    for name, text in (("device", "memory of the GPU"), ("resident", "resident memory")):
        if before[name] is None:
            continue
        grown = growth(before[name], after[name])
        made.append((f"{text} grows by less than {noise:g} MiB",
                     f"{before[name] / MIB:.1f} -> {after[name] / MIB:.1f} MiB ({grown:+.1f})", grown < noise))
    for place in (BESIDE, LATER, RESTARTED):
        count, different = document["pictures"][place]
        made.append((f"a picture drawn {place} is the one drawn {ALONE}", f"{different} of {count} differ", count > 0 and different == 0))
    others = {code: count for code, count in document["codes"].items() if code not in ("OK", "CANCELLED")}
    made.append(("every request ends in OK or as cancelled", ", ".join(f"{count} {code}" for code, count in sorted(others.items())) or
                 "none otherwise", not others))
    return made


def explanations(document):
    """Lines of what latentd itself holds more of than after the first pass."""
    before, after = document["after_warm_up"], document["at_the_end"]
    return [f"held, {kind}: {before['held'].get(kind, 0) / MIB:.1f} -> {after['held'][kind] / MIB:.1f} MiB"
            for kind in sorted(after["held"]) if after["held"][kind] != before["held"].get(kind, 0)]


def table(document):
    lines = ["| promised | found | |", "|---|---|---|"]
    lines += [f"| {promise} | {found} | {'holds' if holds else 'MISSED'} |" for promise, found, holds in promises(document)]
    if document["settings"]["backend"] == "cuda":
        count, different = document["pictures_that_share_steps"]
        lines.append(f"| (not promised: so is one that shares steps) | {different} of {count} differ | |")
    return "\n".join(lines + [""] + explanations(document))
