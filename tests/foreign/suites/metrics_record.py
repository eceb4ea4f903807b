"""Writes down which metrics a RabbitMQ tells of after the load of `metrics_load`: `python -m suites.metrics_record METRICS URI PORT`.

METRICS is a base URI (`http://127.0.0.1:15692`), URI one for AMQP, PORT the one for stream clients. What it writes,
`metrics_answers.json` beside it, is what the suite `metrics` holds a broker to: by endpoint and family the type, the names of
labels, and whether its numbers have fractions. What is Erlang's own is left out.
"""

import json
import os
import sys
import time

from lab.cases import Uri
from suites.metrics_load import PATHS, Load, Scrape

ANSWERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics_answers.json")
WAIT_S = 12
ERLANG = ("erlang_", "telemetry_", "prometheus_", "process_", "rabbitmq_erlang_")


def main():
    base, uri, port = sys.argv[1:4]
    load = Load(Uri(uri), int(port), f"metrics-{time.time_ns():x}")
    try:
        load.run()
        time.sleep(WAIT_S)
        found = {}
        for endpoint, path in PATHS.items():
            shapes = Scrape(base, path).shapes()
            found[endpoint] = {name: shape for name, shape in sorted(shapes.items())
                               if not name.startswith(ERLANG) or name == "rabbitmq_erlang_uptime_seconds"}
    finally:
        load.close()
    with open(ANSWERS, "w", encoding="utf-8") as file:
        file.write("{\n")
        file.write(",\n".join(
            f' {json.dumps(endpoint)}: {{\n' + ",\n".join(
                f"  {json.dumps(name)}: {json.dumps(shape)}" for name, shape in rows.items()) + "\n }"
            for endpoint, rows in found.items()))
        file.write("\n}\n")
    print(sum(map(len, found.values())), "families")


if __name__ == "__main__":
    main()
