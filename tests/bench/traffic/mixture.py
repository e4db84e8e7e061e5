"""Requests by callers, images and times: the same from the same seed."""

import dataclasses
import itertools
import math
import random
import statistics

FEWEST_STEPS, MOST_STEPS = 4, 50
GREED = 3  # how many requests the first two callers have for each one of another caller
MEAN_OF = 2000  # requests


@dataclasses.dataclass(frozen=True)
class Job:
    """One request. `size`: width and height; `offset`: when it is asked for, in seconds from the beginning."""

    number: int
    size: tuple
    steps: int
    guided: bool
    caller: int = 0
    offset: float = 0.0
    images: int = 1


def size_of(text):
    """(512, 768) of "512x768"."""
    width, height = text.split("x")
    return int(width), int(height)


def text_of(size):
    return "x".join(map(str, size))


def area_of(size):
    return size[0] * size[1]


def patient(caller):
    """True if the caller comes back after a refusal; the others give up."""
    return caller % 2 == 1


class Mixture:
    """Sizes are the more frequent the smaller they are, so that each has about the same share of the work; steps from 4 to 50 have
    few more often than many (their logarithm is uniform); `unguided` is the share of requests without guidance."""

    def __init__(self, sizes, unguided, callers):
        self._sizes, self._unguided = list(sizes), unguided
        self._size_weights = [1 / area_of(size) for size in sizes]
        self._callers = range(callers)
        self._caller_weights = [GREED if caller < 2 else 1 for caller in self._callers]

    def jobs(self, seed):
        """Without end, one a second in the mean, as a Poisson process."""
        numbers, offset = random.Random(seed), 0.0
        for number in itertools.count():
            offset += numbers.expovariate(1.0)
            yield Job(number, numbers.choices(self._sizes, self._size_weights)[0],
                      round(math.exp(numbers.uniform(math.log(FEWEST_STEPS), math.log(MOST_STEPS)))),
                      numbers.random() >= self._unguided, numbers.choices(self._callers, self._caller_weights)[0], offset)

    def arrivals(self, seed, rate, seconds, at_most):
        """The first seconds of so many requests a second. Another rate has the same requests in the same order, faster or slower."""
        scaled = (dataclasses.replace(job, offset=job.offset / rate) for job in itertools.islice(self.jobs(seed), at_most))
        return list(itertools.takewhile(lambda job: job.offset < seconds, scaled))

    def mean_seconds(self, alone, seed):
        """Seconds that a request takes alone, in the mean over many."""
        return statistics.fmean(alone.seconds(job) for job in itertools.islice(self.jobs(seed), MEAN_OF))


class Alone:
    """Seconds that a request takes when nothing else runs: a line through those of the fewest and of the most steps."""

    def __init__(self, few, many):
        """Seconds by (size, guided)."""
        self._few, self._many = few, many

    def seconds(self, job):
        few, many = self._few[job.size, job.guided], self._many[job.size, job.guided]
        return few + (many - few) * (job.steps - FEWEST_STEPS) / (MOST_STEPS - FEWEST_STEPS)

    def document(self):
        return [{"size": text_of(size), "guided": guided, f"steps {FEWEST_STEPS}": self._few[size, guided],
                 f"steps {MOST_STEPS}": self._many[size, guided]} for size, guided in self._few]
