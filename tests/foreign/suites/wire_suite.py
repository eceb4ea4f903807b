"""All raw-socket cases of both protocols; `python -m suites.wire_suite --uri URI`."""

from suites import (  # noqa: F401 - importing registers the cases
    wire10, wire10_attach, wire10_demands, wire10_gone, wire10_links, wire10_modified, wire10_outcomes, wire10_settling, wire10_sizes,
    wire091_corners, wire_rows, wire_timeouts,
)
from suites.wire091 import suite

if __name__ == "__main__":
    suite.main()
