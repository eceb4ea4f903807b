"""All raw-socket cases of both protocols; `python -m suites.wire_suite --uri URI`."""

from suites import wire10, wire10_attach, wire10_gone, wire10_modified, wire10_outcomes  # noqa: F401 - importing registers the cases
from suites.wire091 import suite

if __name__ == "__main__":
    suite.main()
