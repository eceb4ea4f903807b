"""All pika cases; `python -m suites.pika_suite --uri URI` from this folder's parent."""

from suites import pika_connection, pika_delivery, pika_errors, pika_replies, pika_topology, pika_transactions  # noqa: F401 - registers cases
from suites.pika_bench import suite

if __name__ == "__main__":
    suite.main()
