"""Numbers out of outcomes, and the search for the rate that a server keeps up with."""

import collections
import math

from full_size.results import percentile

from . import mixture

KEPT = 0.9  # part of all deadlines, at the rate that is searched


def spread(samples):
    """Spread of samples in seconds: how many, p50 and p99."""
    if not samples:
        return {"count": 0, "p50": None, "p99": None}
    return {"count": len(samples), "p50": percentile(samples, 0.5), "p99": percentile(samples, 0.99)}


def share_kept(outcomes):
    """0 of none: nothing shows that the rate can be kept."""
    return sum(outcome.kept for outcome in outcomes) / len(outcomes) if outcomes else 0.0


def latency(outcomes):
    """Latency of outcomes in time, from arrival: to the image and to its first step."""
    kept = [outcome for outcome in outcomes if outcome.kept]
    return {"latency": spread([outcome.seconds for outcome in kept]),
            "first_step": spread([outcome.first_step for outcome in kept if outcome.first_step is not None])}


def goodput(outcomes, alone, seconds):
    """Outcomes in time and within the first `seconds`, per second: requests, and seconds that they would have taken alone."""
    good = [outcome for outcome in outcomes if outcome.kept and outcome.job.offset + outcome.seconds <= seconds]
    return {"requests": len(good) / seconds, "work": sum(alone.seconds(outcome.job) for outcome in good) / seconds}


def refusals(outcomes):
    """How many, how fast, and of the calls of those who came back how many were served."""
    all_of_them = [attempt for outcome in outcomes for attempt in outcome.refusals]
    returned = [outcome for outcome in outcomes if outcome.returns]
    return {"late": spread([seconds for outcome in outcomes for seconds in outcome.late]),
            "by_reason": dict(collections.Counter(attempt.reason for attempt in all_of_them)),
            "without_delay": sum(attempt.retry_seconds is None for attempt in all_of_them),
            "requests_refused": sum(bool(outcome.refusals) for outcome in outcomes),
            "seconds": spread([attempt.seconds for attempt in all_of_them]),
            "delay": spread([attempt.retry_seconds for attempt in all_of_them if attempt.retry_seconds is not None]),
            "came_back": sum(outcome.returns for outcome in returned), "came_back_and_served": sum(outcome.kept for outcome in returned)}


def by_caller(outcomes, callers):
    """Requests of each caller, and those served in time."""
    found = [{"caller": caller, "comes_back": mixture.patient(caller), "asked": 0, "served": 0} for caller in range(callers)]
    for outcome in outcomes:
        found[outcome.job.caller]["asked"] += 1
        found[outcome.job.caller]["served"] += outcome.kept
    return found


def codes(outcomes):
    return dict(collections.Counter(outcome.code for outcome in outcomes))


class RateSearch:
    """Halves, by ratio, the interval in which the highest rate lies at which KEPT of the deadlines hold. Neither end is tried."""

    def __init__(self, low, high):
        self._low, self._high = low, high
        self.windows = []

    @property
    def next_rate(self):
        return math.sqrt(self._low * self._high)

    def add(self, rate, kept, **details):
        """Adds the part of deadlines kept in a window at that rate."""
        self.windows.append({"rate": rate, "kept": kept, **details})
        if kept >= KEPT:
            self._low = rate
        else:
            self._high = rate

    @property
    def best(self):
        """The window with the highest rate at which enough was kept, or None where that was none."""
        return max((window for window in self.windows if window["kept"] >= KEPT), key=lambda window: window["rate"], default=None)

    @property
    def missed(self):
        """The lowest rate at which too few were kept, or None where all windows held."""
        return min((window["rate"] for window in self.windows if window["kept"] < KEPT), default=None)

    def document(self):
        return {"best": self.best, "missed": self.missed, "windows": self.windows}
