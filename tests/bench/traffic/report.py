"""The document of a run as Markdown."""

from full_size.results import text_of

from . import mixture, promises

NAMES = {"latentd": "latentd", "fifo": "one at a time, first in first out", "peer": "diffusers behind gRPC"}
FEW = 100  # samples; the 99th percentile of fewer is their longest


def number(value, unit=""):
    return "-" if value is None else f"{text_of(value)}{unit}"


def share(value):
    return "-" if value is None else f"{value:.0%}"


def pair(found, factor=1):
    """p50 and p99 in one cell."""
    return " / ".join(number(value and value * factor) for value in (found["p50"], found["p99"])) if found["count"] else "-"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ratio(value, base):
    return f"{value / base:.2f}" if value and base else "-"


def rate_cell(found):
    """The rate, and the next one that was too high."""
    missed = number(found["missed"])
    if not found["best"]:
        return f"below {missed}"
    best = number(found["best"]["rate"])
    return f"{best} ({missed})" if found["missed"] else f"at least {best}"


def latencies(window):
    return [pair(window["latency"]), pair(window["first_step"])] if window else ["-", "-"]


def capacity(document):
    found = document["capacity"]
    rates = {name: each["best"]["rate"] if each["best"] else None for name, each in found.items()}
    rows = []
    for name, each in found.items():
        best, same = each["best"], each.get("at_same_rate")
        rows.append([NAMES[name], rate_cell(each), ratio(rates[name], rates.get("fifo")), str(best["counted"]) if best else "-",
                     *latencies(best), share(same and same["kept"]), *latencies(same)])
    same_rate = next((each["at_same_rate"]["rate"] for each in found.values() if "at_same_rate" in each), None)
    return "**90 % of deadlines kept**\n\n" + table(
        ["", "requests/s (the next that missed)", "times first in first out", "requests counted", "latency p50 / p99 s",
         "first step p50 / p99 s", f"at {number(same_rate)}/s: kept", "latency p50 / p99 s", "first step p50 / p99 s"], rows)


def isolation(document):
    rows, sizes = [], ""
    for name, each in document["isolation"].items():
        small, large = (mixture.text_of(each[which]) for which in ("small", "large"))
        sizes = f" ({small}, {mixture.FEWEST_STEPS} steps; {large}, {mixture.MOST_STEPS} steps)"
        quiet, beside = each["quiet"], each["beside"]
        few = " (few)" if min(quiet["count"], beside["count"]) < FEW else ""
        rows.append([NAMES[name], pair(quiet), pair(beside), ratio(beside["p99"], quiet["p99"]) + few,
                     f"{quiet['count']}, {beside['count']}"])
    return f"**small pictures beside a large one{sizes}**\n\n" + table(
        ["", "alone p50 / p99 s", "beside p50 / p99 s", "p99 times that alone", "samples"], rows)


def arrival(document):
    rows = [[size, number(each["step"] * 1000), pair(each["waits"], 1000), str(each["waits"]["count"])]
            for size, each in document["arrival"].items()]
    return ("**a short picture beside a long one: from its request until its own first step begins**\n\n" +
            table(["", "a step of the long one, ms", "p50 / p99 ms", "samples"], rows))


def passing(document):
    rows = [[f"{each['steps']}{'' if each['guided'] else ', no guidance'}", str(each["beside"]), number(each["alone"]),
             *(number(seconds and seconds / each["alone"]) for seconds in (each["requests"], each["pictures"]))]
            for each in document["passing"]]
    return ("**short requests beside long ones of 100 steps, without deadlines that matter**\n\n" +
            table(["steps", "long pictures", "alone, s", "beside as many requests, times alone", "beside one request of them, times alone"],
                  rows))


def overload(document):
    found, settings = document["overload"], document["settings"]
    rows, callers = [], []
    for name, each in found["contestants"].items():
        good, refused, memory = each["goodput"], each["refusals"], each["memory_mib"]
        count = sum(refused["by_reason"].values())
        reasons = ", ".join(f"{reason} {times}" for reason, times in refused["by_reason"].items())
        rows.append([NAMES[name], f"{each['served']} of {each['asked']}",
                     f"{number(good['requests'])} ({share(good['requests_of_capacity'])})",
                     f"{number(good['work'])} ({share(good['work_of_capacity'])})",
                     f"{count} ({reasons})" if count else "0", pair(refused["seconds"], 1000), pair(refused["late"], 1000),
                     f"{refused['came_back_and_served']} of {refused['came_back']}", pair(each["latency"]),
                     " / ".join(number(memory[when]) for when in ("begin", "most", "end"))])
        callers += [[NAMES[name], str(caller["caller"]), "comes back" if caller["comes_back"] else "gives up", str(caller["asked"]),
                     str(caller["served"]), share(caller["asked"] and caller["served"] / caller["asked"])] for caller in each["callers"]]
    title = (f"**{number(settings['overload'])} times the capacity of {number(found['capacity'])}/s ({found['capacity_is']}), "
             f"{number(settings['overload_seconds'])} s, deadlines of {number(settings['overload_deadline'])} s**")
    return "\n\n".join([
        title,
        table(["", "in time", "goodput, requests/s (of the capacity)", "goodput, s of work/s (of the capacity)", "refusals",
               "refused after p50 / p99 ms",
               "asked later than due p50 / p99 ms", "came back, and were served", "latency p50 / p99 s", "RSS begin / most / end MiB"], rows),
        table(["", "caller", "when refused", "asked", "served", ""], callers)])


def alone(document):
    seconds = document["alone"]["seconds"]
    counts = [name for name in seconds[0] if name.startswith("steps")] if seconds else []
    rows = [[f"{each['size']}{'' if each['guided'] else ', no guidance'}", *(number(each[count]) for count in counts)] for each in seconds]
    return (f"**alone** (latentd, s; {number(document['alone']['mean_seconds'])} s in the mean of all requests, which is "
            f"{number(document['alone']['one_at_a_time'])}/s one after the other)\n\n" + table(["", *counts], rows))


def promised(document):
    rows = [[promise, "holds" if holds else "MISSED"] for promise, holds in promises.of(document)]
    return [table(["what latentd promises", ""], rows)] if rows else []


def tables(document):
    """All tables that the document has figures for."""
    parts = {"alone": alone, "capacity": capacity, "isolation": isolation, "arrival": arrival, "passing": passing, "overload": overload}
    found = [write(document) for name, write in parts.items() if document.get(name)] + promised(document)
    return "\n\n".join(found + [f"left out: {NAMES[name]}: {reason.splitlines()[0]}" for name, reason in document["left_out"].items()])


def heading(document):
    found, settings = document["machine"], document["settings"]
    gpu = f"{found['gpu'].get('name')}, " if found["gpu"] else ""
    return (f"{gpu}{found['cpus']} CPUs ({found['cpu']}); {found['latentd'] or 'latentd'} ({found['commit'] or 'commit unknown'}), "
            f"{settings['backend']}, {settings['precision']}, buckets {settings['buckets']}, rows {settings['rows'] or 'as they are'}; "
            f"seed {settings['seed']}, windows of {number(settings['seconds'])} s")
