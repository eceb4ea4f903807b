"""Exchanges beyond the four that the protocol has; `python -m suites.exchanges_suite --uri URI` from this folder's parent."""

from suites import (  # noqa: F401 - registers cases
    exchanges_callers, exchanges_content, exchanges_events, exchanges_federation, exchanges_history, exchanges_presence, exchanges_spread,
    exchanges_work,
)
from suites.exchanges_bench import options, suite

if __name__ == "__main__":
    suite.main(options)
