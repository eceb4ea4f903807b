"""Three nodes, of which some are killed, stand still or start late, under load over both AMQPs at each of them.

What clients see is in crash_several_ledger.py, what nodes do in crash_several_nodes.py. Everything random comes from a
seed: the run's, or `LEVERET_CRASH_SEED`.
"""

import os

from lab.cases import Skip, Suite
from suites import crash_several_rounds as rounds
from suites import crash_several_still as still

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

suite.add("still", "the node that leads all logs stands still for 8 s (SIGSTOP), under the same load, and goes on",
          "confirms at other nodes go on within 3 s; then at most one more election; nothing confirmed lost, nothing that "
          "others settled is handed out",
          lambda: still.leader_stands_still(binary(), seed("still"), 8), seconds_max=120)


@suite.case("still-long", "the same for 30 s, with `--long`", "the same", seconds_max=150)
def _():
    path = binary()
    if not suite.options.long:
        raise Skip("takes long (--long)")
    still.leader_stands_still(path, seed("still-long"), 30)


suite.add("still-acks", "clients settle and get at a leader that stands still, while others take and settle what is in its queue",
          "once it goes on it hands out nothing of that", lambda: still.acks_wait(binary(), 3), seconds_max=120)

suite.add("held-again", "the leader is killed while a consumer at another node holds messages that it had given back once",
          "what it holds is handed out to nobody", lambda: still.held_again(binary(), 4), seconds_max=120)

for word, is_killed in (("still", False), ("killed", True)):
    suite.add(f"minority-{word}", f"two of three nodes {'are killed' if is_killed else 'stand still'} under the same load, and "
              f"{'start again' if is_killed else 'go on'} after 8 s",
              "the third confirms nothing meanwhile, and refuses a declaration (541) within 6 s; once they are back, what was "
              "held is confirmed in 5 s and all queues are written at each node in 3 s; nothing confirmed lost",
              lambda word=word, is_killed=is_killed: still.minority(binary(), seed(f"minority-{word}"), is_killed), seconds_max=120)

suite.add("start", "three nodes start in any order, with pauses of up to 3 s, new ones (the first in the list not last) "
          "and four times with what they had",
          "the second one and the first serve within 3 s after the second is up, the third so too",
          lambda: still.starts(binary(), seed("start"), still.of_old_folders), seconds_max=120)

suite.add("start-new", "three new nodes start, the first in the list last",
          "the others serve within 3 s after the second of them is up",
          lambda: still.starts(binary(), seed("start-new"), still.of_new_folders), seconds_max=120, later=True)


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start and kill")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--long", action="store_true", help="nodes stand still for 30 s instead of 8")


if __name__ == "__main__":
    suite.main(options)
