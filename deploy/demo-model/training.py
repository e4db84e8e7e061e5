"""A training loop over wall-clock time that can be stopped and gone on with."""

import math
import time

import torch


class MovingAverage:
    """An average of the parameters that forgets slowly, and faster while it is young."""

    DECAY = 0.9995

    def __init__(self, parameters):
        self.parameters = parameters
        self.average = [p.detach().clone() for p in parameters]
        self.updates = 0

    def update(self):
        self.updates += 1
        decay = min(self.DECAY, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)

    def put_in_place(self):
        assign(self.parameters, self.average)


def assign(parameters, values):
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)


class Training:
    """AdamW with a warm-up and a cosine decay over wall-clock time, which can be stopped and gone on with."""

    WARM_UP_STEPS = 300
    LAST_RATE = 0.02  # part of the highest

    def __init__(self, modules, rate, total_seconds, file):
        self.parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=rate, weight_decay=0.01, betas=(0.9, 0.99), fused=True)
        self.average = MovingAverage(self.parameters)
        self.rate, self.total_seconds, self.file = rate, total_seconds, file
        self.steps, self.seconds_before = 0, 0.0
        if file.exists():
            self.restore()

    def restore(self):
        kept = torch.load(self.file)
        assign(self.parameters, kept["parameters"])
        self.optimizer.load_state_dict(kept["optimizer"])
        self.average.average, self.average.updates = kept["average"], kept["updates"]
        self.steps, self.seconds_before = kept["steps"], kept["seconds"]

    def save(self, seconds):
        kept = {
            "parameters": [p.detach() for p in self.parameters],
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.average,
            "updates": self.average.updates,
            "steps": self.steps,
            "seconds": seconds,
        }
        torch.save(kept, self.file)

    def rate_at(self, seconds):
        progress = min(1.0, seconds / self.total_seconds)
        warm_up = min(1.0, (self.steps + 1) / self.WARM_UP_STEPS)
        decay = 0.5 * (1 + math.cos(math.pi * progress))
        return self.rate * warm_up * (self.LAST_RATE + (1 - self.LAST_RATE) * decay)

    def step(self, loss, seconds):
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate_at(seconds)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.average.update()
        self.steps += 1

    def run(self, loss_of_batch, seconds):
        """Trains for `seconds`, saves, and leaves the averaged parameters in place."""
        loss_of_batch().backward()  # compiles and tunes what it calls, off the clock
        start, next_report = time.monotonic(), 0.0
        while (gone := time.monotonic() - start) < seconds:
            loss = loss_of_batch()
            self.step(loss, self.seconds_before + gone)
            if gone >= next_report:
                next_report += seconds / 10
                print(f"{self.file.stem}: step {self.steps}, {gone:.0f} s, loss {loss.item():.4f}", flush=True)
        self.save(self.seconds_before + gone)
        self.average.put_in_place()
