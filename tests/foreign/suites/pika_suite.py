"""All pika cases; `python -m suites.pika_suite --uri URI` from this folder's parent."""

from suites import pika_errors  # noqa: F401 - importing registers the cases
from suites.pika_bench import suite

if __name__ == "__main__":
    suite.main()
