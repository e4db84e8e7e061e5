#!/usr/bin/env python3
"""Prints latentd's Grafana dashboard: deploy/grafana/dashboard.py > deploy/grafana/latentd.json (a test compares the two).

The rows are questions, in the order in which an operator asks them who was woken up. SELECTED stands for the replicas that were
chosen at the top.
"""

import json

SELECTED = 'job=~"$job", instance=~"$instance"'
IN_JOB = 'job=~"$job"'
IN_BUCKET = SELECTED + ', bucket=~"$bucket"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
STATES = {"loading": "blue", "warming": "light-blue", "ready": "green", "degraded": "orange", "draining": "purple",
          "failed": "red"}
WIDTH = 24


def thresholds(good, *worse):
    steps = [{"value": None, "color": good}] + [{"value": value, "color": color} for value, color in worse]
    return {"mode": "absolute", "steps": steps}


def panel(kind, title, description, targets, width, height, unit, options, custom=None, **defaults):
    fields = {"unit": unit, "thresholds": thresholds("green"), **defaults}
    if custom:
        fields["custom"] = custom
    return {
        "type": kind, "title": title, "description": description, "datasource": SOURCE,
        "gridPos": {"w": width, "h": height}, "fieldConfig": {"defaults": fields, "overrides": []}, "options": options,
        "targets": [{"refId": chr(ord("A") + number), "datasource": SOURCE, "editorMode": "code", **target}
                    for number, target in enumerate(targets)],
    }


def stat(title, description, expr, unit="short", width=3, **defaults):
    """One number, as it is now."""
    options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "background",
               "graphMode": "none", "justifyMode": "auto", "textMode": "auto", "orientation": "auto"}
    targets = [{"expr": expr, "instant": True, "range": False, "legendFormat": "__auto"}]
    return panel("stat", title, description, targets, width, 4, unit, options, noValue="none", **defaults)


def graph(title, description, *queries, unit="short", width=12, stack=False, bars=False, limit=None, **defaults):
    """Lines over time; each query is (legend, expression). `limit` is where it turns red."""
    custom = {"drawStyle": "bars" if bars else "line", "fillOpacity": 60 if bars else 30 if stack else 5,
              "lineWidth": 1, "showPoints": "never", "spanNulls": False,
              "stacking": {"mode": "normal" if stack else "none", "group": "A"},
              "thresholdsStyle": {"mode": "line" if limit else "off"}}
    if limit:
        defaults["thresholds"] = thresholds("transparent", (limit, "red"))
    options = {"legend": {"displayMode": "table", "placement": "right", "showLegend": True, "calcs": ["lastNotNull", "max"]},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    targets = [{"expr": expr, "legendFormat": legend, "range": True, "instant": False} for legend, expr in queries]
    return panel("timeseries", title, description, targets, width, 8, unit, options, custom, min=0, **defaults)


def timeline(title, description, legend, expr, mappings, **defaults):
    """One bar over time for each series, coloured by its value."""
    options = {"showValue": "auto", "rowHeight": 0.9, "mergeValues": True, "alignValue": "left",
               "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
               "tooltip": {"mode": "single", "sort": "none"}}
    targets = [{"expr": expr, "legendFormat": legend, "range": True, "instant": False}]
    return panel("state-timeline", title, description, targets, 12, 8, "short", options,
                 {"fillOpacity": 80, "lineWidth": 0}, mappings=[{"type": "value", "options": mappings}], **defaults)


def table(title, description, expr, labels, unit="short", width=12, **defaults):
    """A table of current values, one line for each series; `labels` are the columns beside its value."""
    hidden = {name: True for name in ("Time", "__name__", "job", "endpoint", "container", "namespace", "pod", "Value")
              if name not in labels}
    made = panel("table", title, description, [{"expr": expr, "format": "table", "instant": True, "range": False}],
                 width, 8, unit, {"showHeader": True, "cellHeight": "sm"}, **defaults)
    made["transformations"] = [{"id": "organize", "options": {
        "excludeByName": hidden, "indexByName": {name: number for number, name in enumerate(labels)}, "renameByName": {}}}]
    return made


def rate(metric, *by, selected=SELECTED):
    return f'sum by ({", ".join(by)}) (rate({metric}{{{selected}}}[$__rate_interval]))'


def percentiles(metric, *by, selected=IN_BUCKET, percents=(50, 99)):
    """(legend, expression) of the median and the 99th percentile, in the buckets that were chosen."""
    legend = "".join(f" {{{{{label}}}}}" for label in by)
    return [(f"p{percent}{legend}",
             f'histogram_quantile({percent / 100:g}, {rate(metric + "_bucket", *by, "le", selected=selected)})')
            for percent in percents]


def state_number():
    """1 for the first state, 2 for the second, …"""
    return " or ".join(f'{number} * (latentd_server_state{{{SELECTED}, state="{state}"}} == 1)'
                       for number, state in enumerate(STATES, 1))


def worst(slo, window):
    """The share of a window's requests that broke a promise, of the job that broke it most."""
    return f"max(job:latentd_request_{slo}:ratio_rate{window}{{{IN_JOB}}})"


def left(slo):
    """The part that is left of the failures allowed in three days."""
    return f"1 - {worst(slo, '3d')} / scalar(slo:latentd_request_{slo}:budget)"


def pace(slo):
    """How fast it is spent, 1: as fast as it may be. (legend, expression) of each window that alerts look at first."""
    return [(f"{window} {{{{job}}}}", f"job:latentd_request_{slo}:ratio_rate{window}{{{IN_JOB}}} / scalar(slo:latentd_request_{slo}:budget)")
            for window in ("1h", "6h", "1d", "3d")]


ROWS = [
    ("Is it serving?", [
        stat("Replicas that serve", "READY or DEGRADED. Red: nobody draws.",
             f'sum(latentd_server_state{{{SELECTED}, state=~"ready|degraded"}}) or vector(0)',
             thresholds=thresholds("red", (1, "green"))),
        stat("Do not answer", "Replicas that Prometheus gets no metrics from.", 'count(up{job=~"$job"} == 0) or vector(0)',
             thresholds=thresholds("green", (1, "red"))),
        stat("Alerts", "latentd's alerts that fire; the panel below names them.",
             'sum(ALERTS{alertname=~"Latentd.+", alertstate="firing"}) or vector(0)',
             thresholds=thresholds("green", (1, "red"))),
        stat("Failed requests", "Of those that ended in the last 5 minutes; wrong and cancelled ones are not counted, nor is load that "
             "is shed. The worst replica's.", f"max(instance:latentd_request_errors:ratio5m{{{SELECTED}}})", "percentunit",
             thresholds=thresholds("green", (0.01, "orange"), (0.05, "red"))),
        stat("Queue", "How full the fullest replica's queue is; at 100 % requests are refused.",
             f"max(instance:latentd_queue:saturation{{{SELECTED}}})", "percentunit",
             thresholds=thresholds("green", (0.5, "orange"), (0.8, "red"))),
        stat("Compiled for requests", "Graphs that requests waited for since their replica started. It should be 0.",
             f'sum(latentd_graph_compilations_total{{{SELECTED}, reason="cold_request"}})',
             thresholds=thresholds("green", (1, "red"))),
        stat("Buckets nobody holds", "Their next request loads graphs first.",
             f"count(max by (bucket) (latentd_bucket_warm{{{SELECTED}}}) == 0) or vector(0)",
             thresholds=thresholds("green", (1, "orange"))),
        stat("Memory", "Held, of the budget; the fullest replica's.",
             f"max(instance_place:latentd_memory:budget_ratio{{{SELECTED}}})", "percentunit",
             thresholds=thresholds("green", (0.8, "orange"), (0.9, "red"))),
        timeline("State", "Of each replica. DEGRADED: some bucket failed to load; DRAINING: it finishes what it has.",
                 "{{instance}}", f"max by (instance) ({state_number()})",
                 {str(number): {"text": state, "color": color, "index": number}
                  for number, (state, color) in enumerate(STATES.items(), 1)}),
        graph("Requests that ended", "By gRPC status code.",
              ("{{code}}", rate("latentd_requests_total", "code") + " > 0"), unit="reqps", stack=True),
        graph("Requests refused before the queue", "By reason.",
              ("{{reason}}", rate("latentd_requests_rejected_total", "reason")), unit="reqps", stack=True),
        graph("Alerts that fire", "Their meaning, and what to do: docs/operations.md.",
              ("{{alertname}} {{instance}}", 'sum by (alertname, instance) (ALERTS{alertname=~"Latentd.+", '
               'alertstate="firing"}) or vector(0)'), bars=True, stack=True),
    ]),
    ("Is kept what was promised?", [
        stat("Failed", "Of the requests of an hour that were accepted and not taken back.", worst("errors", "1h"), "percentunit",
             width=6, thresholds=thresholds("green", (0.01, "orange"), (0.144, "red"))),
        stat("Budget left, failures", "Of what may fail in three days.", left("errors"), "percentunit", width=6,
             thresholds=thresholds("red", (0, "orange"), (0.5, "green"))),
        stat("Late", "Of the requests of an hour that were accepted: not done within 30 s.", worst("slow", "1h"), "percentunit",
             width=6, thresholds=thresholds("green", (0.05, "orange"), (0.72, "red"))),
        stat("Budget left, late ones", "Of what may be late in three days.", left("slow"), "percentunit", width=6,
             thresholds=thresholds("red", (0, "orange"), (0.5, "green"))),
        graph("Pace of failures", "1: as many as may fail. Above 14.4 for an hour, or 6 for six, somebody is called.",
              *pace("errors"), limit=14.4),
        graph("Pace of late requests", "1: as many as may be late. Above 14.4 for an hour, or 6 for six, somebody is called.",
              *pace("slow"), limit=14.4),
    ]),
    ("How fast?", [
        graph("Pictures a second", "Finished, by replica.",
              ("{{instance}}", f"instance:latentd_images_generated:rate5m{{{SELECTED}}}"), unit="ops", stack=True),
        graph("A request", "From its arrival to its end, queue included, in the buckets chosen.",
              *percentiles("latentd_request_duration_seconds"), unit="s"),
        graph("A stage of a picture, p50", "All buckets; the slowest replica's.",
              ("{{stage}} {{model}}",
               f"max by (stage, model) (instance_stage_model:latentd_stage_duration_seconds:p50_5m{{{SELECTED}}})"), unit="s"),
        graph("A stage of a picture, p99", "All buckets; the slowest replica's.",
              ("{{stage}} {{model}}",
               f"max by (stage, model) (instance_stage_model:latentd_stage_duration_seconds:p99_5m{{{SELECTED}}})"), unit="s"),
        graph("A stage, in the buckets chosen", "All replicas together.",
              *percentiles("latentd_stage_duration_seconds", "stage", "model"), unit="s"),
        graph("A denoising step, in the buckets chosen", "One evaluation of the UNet, guidance included.",
              *percentiles("latentd_denoise_step_duration_seconds", "model"), unit="s"),
    ]),
    ("What is it waiting for?", [
        graph("Pictures that wait or run", "By bucket, all replicas together; the line is what they take before they refuse.",
              ("{{bucket}}", f"sum by (bucket) (latentd_queue_depth{{{SELECTED}}})"),
              ("capacity", f"sum(latentd_queue_capacity{{{SELECTED}}})")),
        graph("Queue", "How full it is.",
              ("{{instance}}", f"instance:latentd_queue:saturation{{{SELECTED}}}"), unit="percentunit", limit=0.8),
        graph("Time in the queue", "Until the first unit of work, in the buckets chosen.",
              *percentiles("latentd_request_queue_duration_seconds"), unit="s"),
        graph("Time to the first step", "From the arrival of a request to the end of its first step, in the buckets chosen.",
              *percentiles("latentd_time_to_first_step_seconds"), unit="s"),
        graph("Deadlines missed", "Of requests that were admitted, by how far they had come: the forecast was wrong for them.",
              ("{{phase}}", rate("latentd_deadline_misses_total", "phase")), unit="reqps", stack=True),
        graph("Time taken, of the time predicted", "Of requests that are done, by what was predicted at their admission; 1: as much.",
              *percentiles("latentd_request_duration_prediction_ratio", selected=SELECTED, percents=(10, 50, 90)),
              unit="percentunit", limit=1.1),
        graph("Requests that wait", "By priority, all replicas together: nothing of them has run.",
              ("{{priority}}", f'sum by (priority) (latentd_requests_in_flight{{{SELECTED}, phase="queued"}})'), stack=True),
        graph("What the time goes to", "Seconds of work a second, by stage and model: at 1 for each replica, it is busy all the time.",
              ("{{stage}} {{model}}", rate("latentd_stage_duration_seconds_sum", "stage", "model")), unit="s", stack=True),
        graph("Rows an evaluation", "Of pictures, on average: more is more pictures that share their steps.",
              ("{{model}} {{instance}}", f"instance_model:latentd_step_rows:mean5m{{{SELECTED}}}")),
        graph("Rows for nobody", "Of those computed: what it has graphs for does not fit what runs together.",
              ("{{model}} {{instance}}", f"instance_model:latentd_step_padding:ratio5m{{{SELECTED}}}"), unit="percentunit",
              limit=0.3),
        graph("Rows saved", "Not evaluated since guidance_stop had ended the guidance of their pictures.",
              ("{{model}}", rate("latentd_step_skipped_rows_total", "model")), unit="short", stack=True),
        graph("Shallow evaluations", "Of pictures, that computed a part of the UNet alone (feature_cache_interval).",
              ("{{model}}", rate("latentd_step_shallow_evaluations_total", "model")), unit="short", stack=True),
        graph("Steps on two devices", "Evaluations of which another device did a row (--split).",
              ("{{model}}", rate("latentd_split_steps_total", "model")), unit="short", stack=True),
        graph("Devices at work", "Part of the time that each is at units of work, of several devices of a replica too.",
              ("{{instance}} {{device}}", rate("latentd_device_busy_seconds_total", "instance", "device")), unit="percentunit"),
        graph("Evaluations of each device", "A second, and of other devices' pictures with which it helps (--split).",
              ("{{instance}} {{device}}",
               f'sum by (instance, device) (rate(latentd_device_units_total{{{SELECTED}, stage="steps"}}[$__rate_interval]))'),
              ("{{instance}} {{device}} helps",
               rate("latentd_device_helped_steps_total", "instance", "device")), unit="short"),
        graph("Work that waits for each device", "Until it has done all that is foreseen on it.",
              ("{{instance}} {{device}}", f"latentd_device_backlog_seconds{{{SELECTED}}}"), unit="s"),
        graph("Devices that have failed", "For good in their process, which goes on with the others.",
              ("{{instance}} {{device}}", f"latentd_device_faulted{{{SELECTED}}}")),
        graph("Lanes", "Networks and sizes that pictures step at now: those of several take turns.",
              ("{{instance}}", f"latentd_lanes{{{SELECTED}}}")),
        graph("Memory of lanes", "Of their rows: taken when a picture joins a lane, given back with its last one.",
              ("{{instance}}", f"latentd_lane_bytes{{{SELECTED}}}"), unit="bytes"),
        graph("Graphs being compiled", "Now.",
              ("{{instance}}", f"latentd_graph_compiles_in_progress{{{SELECTED}}}")),
        graph("CPUs in use", "By the whole process.",
              ("{{instance}}", rate("process_cpu_seconds_total", "instance")), unit="short"),
    ]),
    ("Who comes over HTTP?", [
        graph("Connections over HTTP", "Open, by replica: they count against --max-connections, as gRPC's do.",
              ("{{instance}}", f"latentd_http_connections{{{SELECTED}}}"), stack=True),
        graph("Connections a second", "Accepted, and closed before a request, by reason.",
              ("accepted", f"sum(rate(latentd_http_connections_accepted_total{{{SELECTED}}}[$__rate_interval]))"),
              ("refused: {{reason}}", rate("latentd_http_connections_refused_total", "reason")), unit="cps"),
        graph("Responses over HTTP", "By API and class of the status; other: at no path of one.",
              ("{{api}} {{code}}", rate("latentd_http_responses_total", "api", "code") + " > 0"), unit="reqps", stack=True),
        graph("Keys refused", "Requests with an unknown key, or with none where one is asked for.",
              ("{{transport}} {{reason}}", rate("latentd_api_keys_refused_total", "transport", "reason")), unit="reqps",
              stack=True),
        graph("Bytes over HTTP", "Requests and responses, before TLS.",
              ("{{direction}}", rate("latentd_http_bytes_total", "direction")), unit="Bps", width=24),
    ]),
    ("What did start-up cost?", [
        graph("Phases of the last start", "Of each replica. The warm-up includes compiling and loading.",
              ("{{phase}} {{instance}}", f"latentd_startup_phase_duration_seconds{{{SELECTED}}}"), unit="s"),
        graph("Share spent compiling", "0 where the cache had everything.",
              ("{{instance}}", f"instance:latentd_startup_compile:ratio{{{SELECTED}}}"), unit="percentunit"),
        table("Ready since", "How long each replica has been serving.",
              f"time() - (latentd_ready_timestamp_seconds{{{SELECTED}}} > 0)", ["instance", "Value"], "s"),
        graph("Where graphs came from", "Since each replica started: compiled, or loaded from disk or memory.",
              ("{{source}} {{instance}}",
               f"sum by (source, instance) (latentd_graph_compile_duration_seconds_count{{{SELECTED}}})")),
    ]),
    ("Which graphs are held, and what do they cost?", [
        timeline("Replicas that hold a bucket", "Every graph of it is loaded; elsewhere its next request loads them first.",
                 "{{bucket}}", f"sum by (bucket) (latentd_bucket_warm{{{SELECTED}}})",
                 {"0": {"text": "none", "color": "orange", "index": 0}}, thresholds=thresholds("orange", (1, "green"))),
        graph("Graphs by state", "ready: loaded and run; compiled: in the cache; cold: neither.",
              ("{{state}}", f"sum by (state) (latentd_graph_cache_entries{{{SELECTED}}})"), stack=True),
        table("Graphs by component", "Of each model, and state.",
              f"sum by (model, component, state) (latentd_graph_cache_entries{{{SELECTED}}}) > 0", ["model", "component", "state", "Value"]),
        table("Time for graphs", "Seconds since the replicas started, by where the graphs came from.",
              f"sum by (model, component, source) (latentd_graph_compile_duration_seconds_sum{{{SELECTED}}}) > 0",
              ["model", "component", "source", "Value"], "s"),
        graph("Graphs compiled", "By what asked for it. After the start there should be none but `warm`.",
              ("{{reason}}", f"sum by (reason) (increase(latentd_graph_compilations_total{{{SELECTED}}}[$__rate_interval]))"),
              bars=True, stack=True),
        graph("Look-ups", "hit: loaded already; memory, disk: the artifact was there; all else compiles or fails.",
              ("{{result}}", rate("latentd_graph_cache_lookups_total", "result")), unit="ops", stack=True),
        graph("Cache against its budget", "Bytes of compiled graphs, the fullest replica's.",
              ("{{tier}}", f"max by (tier) (latentd_graph_cache_bytes{{{SELECTED}}})"),
              ("{{tier}} budget", f"max by (tier) (latentd_graph_cache_budget_bytes{{{SELECTED}}})"), unit="bytes"),
        graph("What the cache lost", "Evictions by reason, files that were refused, files that could not be written.",
              ("evicted: {{reason}}", f"sum by (reason) (increase(latentd_graph_cache_evictions_total{{{SELECTED}}}[5m]))"),
              ("refused: {{reason}}", f"sum by (reason) (increase(latentd_graph_cache_load_failures_total{{{SELECTED}}}[5m]))"),
              ("not written: {{reason}}",
               f"sum by (reason) (increase(latentd_graph_cache_write_failures_total{{{SELECTED}}}[5m]))"), bars=True),
        table("Last use of a bucket", "How long ago; those never used are not shown.",
              f"time() - (max by (bucket) (latentd_bucket_last_used_timestamp_seconds{{{SELECTED}}}) > 0)",
              ["bucket", "Value"], "s", width=24),
    ]),
    ("Memory by kind, against the budget", [
        graph("Held", "By place and kind, the sum of all replicas chosen.",
              ("{{place}}: {{kind}}", f"sum by (place, kind) (latentd_memory_bytes{{{SELECTED}}}) > 0"), unit="bytes", stack=True),
        graph("Of one replica", "The largest: what it holds, what was predicted, what the kernel counts, and what it may hold.",
              ("{{place}}: held", f"max by (place) (sum by (instance, place) (latentd_memory_bytes{{{SELECTED}}})) > 0"),
              ("{{place}}: predicted",
               f"max by (place) (sum by (instance, place) (latentd_memory_predicted_bytes{{{SELECTED}}})) > 0"),
              ("host: resident", f"max(process_resident_memory_bytes{{{SELECTED}}})"),
              ("{{place}}: budget", f"max by (place) (latentd_memory_budget_bytes{{{SELECTED}}}) > 0"), unit="bytes"),
        graph("Held, of the budget", "At 100 % what does not fit is refused.",
              ("{{instance}} {{place}}", f"instance_place:latentd_memory:budget_ratio{{{SELECTED}}}"), unit="percentunit",
              limit=0.9),
        graph("Held by each device", "Weights, arena, state and loaded graphs.",
              ("{{instance}} {{device}}",
               f"sum by (instance, device) (latentd_device_memory_held_bytes{{{SELECTED}}})"), unit="bytes"),
        graph("Memory of GPUs, as their drivers say",
              "Other: what the driver itself has, what latentd keeps for reuse or rounds up, other processes'.",
              ("held", f'sum(latentd_memory_bytes{{{SELECTED}, place="device"}})'),
              ("other", f"sum(latentd_device_memory_total_bytes{{{SELECTED}}}) - sum(latentd_device_memory_free_bytes{{{SELECTED}}})"
               f' - sum(latentd_memory_bytes{{{SELECTED}, place="device"}})'),
              ("free", f"sum(latentd_device_memory_free_bytes{{{SELECTED}}})"), unit="bytes", stack=True),
        graph("Held for clients, of what they may", "The fullest replica's; pictures count above.",
              ("{{kind}}", f"max by (kind) (latentd_client_memory_bytes{{{SELECTED}}}"
               f" / (latentd_client_memory_limit_bytes{{{SELECTED}}} > 0))"),
              unit="percentunit"),
        graph("Refused or failed: out of memory", "By stage; admission: before the queue.",
              ("{{stage}}", f"sum by (stage) (increase(latentd_out_of_memory_total{{{SELECTED}}}[5m]))"), bars=True, stack=True),
        graph("Pictures with values that are not finite", "By what followed; none was sent.",
              ("{{reason}}", f"sum by (reason) (increase(latentd_invalid_images_total{{{SELECTED}}}[5m]))"),
              bars=True, stack=True),
    ]),
    ("What changed?", [
        table("Builds", "What of the cache survives another one: docs/operations.md.", f"latentd_build_info{{{SELECTED}}}",
              ["instance", "version"], width=8),
        table("Models", "What each replica serves, and on which backend.", f"latentd_model_info{{{SELECTED}}}",
              ["instance", "model", "checkpoint", "class_name", "backend"], width=16),
        table("What graphs are compiled for", "Replicas that show the same take each other's compiled graphs.",
              f"latentd_backend_info{{{SELECTED}}}", ["instance", "fingerprint"], width=24),
        graph("Restarts", "In 15 minutes.",
              ("{{instance}}", f"changes(process_start_time_seconds{{{SELECTED}}}[15m])"), bars=True),
        graph("Open files and threads", "They grow with the connections, and go back with them.",
              ("files {{instance}}", f"process_open_fds{{{SELECTED}}}"),
              ("threads {{instance}}", f"process_threads{{{SELECTED}}}")),
    ]),
]


def lay_out(rows):
    """The panels, each row below a heading, from left to right."""
    panels, y = [], 0
    for title, members in rows:
        panels.append({"type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y}})
        x, y, height = 0, y + 1, 0
        for member in members:
            place = member["gridPos"]
            if x + place["w"] > WIDTH:
                x, y, height = 0, y + height, 0
            place.update(x=x, y=y)
            x, height = x + place["w"], max(height, place["h"])
            panels.append(member)
        y += height
    return [{"id": number, **made} for number, made in enumerate(panels, 1)]


def variable(name, label, query):
    return {"type": "query", "name": name, "label": label, "datasource": SOURCE, "query": {"query": query, "refId": name},
            "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def annotation(name, color, expr, **options):
    return {"name": name, "datasource": SOURCE, "enable": True, "hide": False, "iconColor": color, "expr": expr, "step": "15s",
            **options}


def dashboard():
    return {
        "uid": "latentd", "title": "latentd", "tags": ["latentd"], "schemaVersion": 36, "editable": True, "graphTooltip": 1,
        "description": "Pictures from Stable Diffusion XL. Alerts and what to do: docs/operations.md. Made by dashboard.py.",
        "time": {"from": "now-3h", "to": "now"}, "refresh": "30s", "timezone": "browser",
        "templating": {"list": [
            {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"},
            variable("job", "Job", "label_values(latentd_build_info, job)"),
            variable("instance", "Replica", 'label_values(latentd_build_info{job=~"$job"}, instance)'),
            variable("bucket", "Bucket", f"label_values(latentd_queue_depth{{{SELECTED}}}, bucket)"),
        ]},
        "annotations": {"list": [
            annotation("Starts", "blue", f"process_start_time_seconds{{{SELECTED}}} * 1000 > $__from < $__to",
                       useValueForTime=True, titleFormat="{{instance}} started"),
            annotation("States", "purple",
                       f"(latentd_server_state{{{SELECTED}}} == 1) unless (latentd_server_state{{{SELECTED}}} offset 30s == 1)",
                       titleFormat="{{instance}} {{state}}"),
        ]},
        "panels": lay_out(ROWS),
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1, ensure_ascii=False))
