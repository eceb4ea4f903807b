"""All qpid-proton cases; `python -m suites.proton_suite --uri URI`."""

from suites import (  # noqa: F401 - importing registers the cases
    proton_links,
    proton_management,
    proton_messages,
    proton_nodes,
    proton_rules,
    proton_transactions,
)
from suites.proton_bench import suite

if __name__ == "__main__":
    suite.main()
