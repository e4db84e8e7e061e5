"""Values of a scrape of latentd."""

import urllib.request

import server_process

METRICS = "--metrics-listen=127.0.0.1:0"  # for Server


def metrics_address(server):
    """The address of the metrics of a server that was started with METRICS."""
    message = server.wait_for_log(lambda entry: entry["message"].startswith("metrics on "))["message"]
    return message.removeprefix("metrics on ")


class Scrape:
    """One scrape: families, and the value of each series by its text, such as `name{label="value"}`."""

    def __init__(self, address):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=server_process.DEADLINE) as response:
            lines = response.read().decode().splitlines()
        self.families = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
        self.values = {}
        for line in lines:
            if not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                self.values[series] = float(value)

    def sum(self, name, **labels):
        """Over all series of that name which have these labels."""
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        found = [value for series, value in self.values.items()
                 if series.partition("{")[0] == name and all(label in series for label in wanted)]
        if not found:
            raise AssertionError(f"no series {name} with {labels}")
        return sum(found)


def scrape(server):
    return Scrape(metrics_address(server))


def compilations(server):
    return int(scrape(server).sum("latentd_graph_compilations_total"))
