"""The command line; `python -m suites.ctl_suite --broker PATH` from this folder's parent."""

from suites import ctl_node, ctl_objects, ctl_words  # noqa: F401 - registers cases
from suites.ctl_bench import options, suite

if __name__ == "__main__":
    suite.main(options)
