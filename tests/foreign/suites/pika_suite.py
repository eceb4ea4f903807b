"""All pika cases; `python -m suites.pika_suite --uri URI` from this folder's parent."""

from suites import (  # noqa: F401 - registers cases
    pika_arguments, pika_connection, pika_delivery, pika_errors, pika_replies, pika_topology, pika_transactions,
)
from suites.pika_bench import suite

if __name__ == "__main__":
    suite.main()
