"""Promises of latentd under load, and a check of measurements against them."""

TIMES_FIFO = {"cpu": 1.3, "cuda": 2.0}  # the rate at which 90 % of deadlines are kept; of small sizes
TIMES_ALONE = 2.0  # p99 of small pictures beside a large one
OF_CAPACITY = 0.95  # part of its work that is done in time in overload, and of the calls of returning clients that are served
REFUSED_SECONDS = 0.05  # p99
ARRIVAL_SECONDS = 0.005  # beyond one step; of a GPU
TIMES_ALONE_PASSING = 4.0  # for requests of 2 steps beside long ones
KEPT_MIB = 64  # resident memory at the end of the overload, beyond that once it has settled


def of_capacity(found, backend):
    times, best, fifo = TIMES_FIFO[backend], found["latentd"]["best"], found.get("fifo", {}).get("best")
    if fifo:
        yield (f"90 % of deadlines are kept at {times:g} times the rate of one at a time",
               bool(best) and best["rate"] >= times * fifo["rate"])


def of_isolation(found):
    quiet, beside = found["latentd"]["quiet"], found["latentd"]["beside"]
    if quiet["count"] and beside["count"]:
        yield (f"p99 of small pictures beside a large one is at most {TIMES_ALONE:g} times that alone",
               beside["p99"] <= TIMES_ALONE * quiet["p99"])


def of_arrival(found):
    """Only half of them: a request that comes when the next step has just been enqueued waits for that one too."""
    yield (f"half of those who arrive while steps run begin their own after one step and {ARRIVAL_SECONDS * 1000:g} ms at most",
           all(each["waits"]["p50"] <= each["step"] + ARRIVAL_SECONDS for each in found.values()))


def of_passing(found):
    shortest = [each for each in found if each["steps"] == min(other["steps"] for other in found)]
    seconds = [(each[beside], each["alone"]) for each in shortest for beside in ("requests", "pictures") if each[beside]]
    yield (f"the shortest requests take at most {TIMES_ALONE_PASSING:g} times as long beside long ones as alone",
           all(beside <= TIMES_ALONE_PASSING * alone for beside, alone in seconds))


def of_overload(found):
    good, refused, memory = found["goodput"], found["refusals"], found["memory_mib"]
    yield f"in overload {OF_CAPACITY:.0%} of the capacity's work comes in time", good["work_of_capacity"] >= OF_CAPACITY
    if refused["seconds"]["count"]:
        yield f"99 % of the refusals come within {REFUSED_SECONDS * 1000:g} ms", refused["seconds"]["p99"] <= REFUSED_SECONDS
    if refused["came_back"]:
        yield (f"{OF_CAPACITY:.0%} of the calls of those who come back when told to are served",
               refused["came_back_and_served"] >= OF_CAPACITY * refused["came_back"])
    yield "every caller who asks is served", all(caller["served"] for caller in found["callers"] if caller["asked"])
    yield f"less than {KEPT_MIB} MiB more are held at its end", memory["end"] - memory["begin"] < KEPT_MIB


def of(document):
    """(promise, true if it holds) of all that has been measured of latentd."""
    found = []
    if "latentd" in document.get("capacity", {}):
        found += of_capacity(document["capacity"], document["settings"]["backend"])
    if "latentd" in document.get("isolation", {}):
        found += of_isolation(document["isolation"])
    if "arrival" in document and document["settings"]["backend"] == "cuda":
        found += of_arrival(document["arrival"])
    if "passing" in document:
        found += of_passing(document["passing"])
    overload = document.get("overload", {}).get("contestants", {})
    if "latentd" in overload:
        found += of_overload(overload["latentd"])
    return found
