"""All cases on dead letters; `python -m suites.dead_letter_suite --uri URI` from this folder's parent."""

from suites import dead_letter_headers, dead_letter_reasons, dead_letter_routes  # noqa: F401 - registers cases
from suites.dead_letter_bench import suite

if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
