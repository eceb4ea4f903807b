"""All raw-socket cases of the stream protocol; `python -m suites.stream_wire_suite --uri URI --stream-port PORT`."""

from suites import stream_wire_rights, stream_wire_streams  # noqa: F401 - importing registers the cases
from suites.stream_wire_refusals import suite


def add_options(parser):
    parser.add_argument("--stream-port", type=int, default=5552)
    parser.add_argument("--broker", default="")


if __name__ == "__main__":
    suite.main(add_options)
