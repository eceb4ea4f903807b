"""Three nodes, of which some are killed, stand still or start late, under load over both AMQPs at each of them.

What clients see is in crash_several_ledger.py, what nodes do in crash_several_nodes.py. Everything random comes from a
seed: the run's, or `LEVERET_CRASH_SEED`.
"""

import os

from lab.cases import Skip, Suite
from suites import crash_several_rounds as rounds

suite = Suite("crash-several")
ROUNDS = 5
ROUND_SECONDS_MAX = 60
START_SECONDS_MAX = 30


def seed(name):
    return os.environ.get("LEVERET_CRASH_SEED") or f"{suite.options.seed} {name}"


def binary():
    if not suite.options.broker:
        raise Skip("needs brokers that it may kill (--broker)")
    return suite.options.broker


def of_rounds(rounds_of):
    return lambda options: START_SECONDS_MAX + ROUND_SECONDS_MAX * rounds_of(options)


def many(options):
    """Rounds of the case that is at the heart of the suite: 20 unless others are asked for."""
    return 4 * options.rounds


def fewer(options):
    return (options.rounds + 1) // 2


suite.add("kill", "`kill -9` of one of three nodes at random moments, under load at all of them over both AMQPs, quorum and "
          "classic queues",
          "nothing confirmed lost, nothing twice but marked as redelivered, nothing settled comes again; connections to the "
          "other nodes stay, their confirms go on within 5 s; queues are empty in the end",
          lambda: rounds.kill_rounds(binary(), seed("kill"), many(suite.options)), seconds_max=of_rounds(many))

suite.add("kill-all", "`kill -9` of all three nodes at once under the same load, and a start in any order",
          "nothing confirmed lost, nothing twice but marked as redelivered; queues are empty in the end",
          lambda: rounds.all_rounds(binary(), seed("kill-all"), fewer(suite.options)), seconds_max=of_rounds(fewer))


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start and kill")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--long", action="store_true", help="nodes stand still for 30 s instead of 8")


if __name__ == "__main__":
    suite.main(options)
