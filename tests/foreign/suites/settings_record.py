"""Asks a RabbitMQ what it says to each line of settings: `python -m suites.settings_record COMMAND...`.

COMMAND runs its rabbitmqctl (`rabbitmqctl` itself, say, with what chooses the node). The lines are those that `settings_answers.json`
beside this has, and those of a file named by `--lines`; each by itself is put into a file of its own and mapped by the schemas
of RabbitMQ and of all its plugins, as a start does. `taken` or `refused` is kept.
"""

import base64
import json
import os
import subprocess
import sys

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "settings_answers.json")
PROBE = """
Plugins = filename:dirname(filename:dirname(filename:dirname(code:which(rabbit)))),
Schema = cuttlefish_schema:files(filelib:wildcard(Plugins ++ "/*/priv/schema/*.schema")),
File = filename:join(rabbit:data_dir(), "settings-record.conf"),
Ask = fun(Line) ->
    ok = file:write_file(File, [Line, "\\n"]),
    case cuttlefish_conf:file(File) of
        {errorlist, _} -> 0;
        Settings -> case catch cuttlefish_generator:map(Schema, Settings) of Result when is_list(Result) -> 1; _ -> 0 end
    end
end,
logger:set_primary_config(level, none),
Answers = [Ask(binary_to_list(base64:decode(Line))) || Line <- [%s]],
logger:set_primary_config(level, all),
file:delete(File),
Answers.
"""


def ask(command, lines):
    encoded = ",".join(f'"{base64.b64encode(line.encode()).decode()}"' for line in lines)
    done = subprocess.run([*command, "-q", "eval", PROBE % encoded], capture_output=True, text=True, timeout=600, check=True)
    numbers = done.stdout.rpartition("[")[2].partition("]")[0].replace("\n", "").replace(" ", "").split(",")
    if len(numbers) != len(lines):
        raise SystemExit(f"{len(numbers)} answers to {len(lines)} lines: {done.stdout[-500:]}")
    return dict(zip(lines, ("taken" if number == "1" else "refused" for number in numbers)))


def main(words):
    more = []
    if words[:1] == ["--lines"]:
        with open(words[1], encoding="utf-8") as file:
            more = [line for line in file.read().splitlines() if line]
        words = words[2:]
    lines = set(more)
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as file:
            lines |= set(json.load(file))
    lines = sorted(lines)
    answers = {}
    for begin in range(0, len(lines), 50):
        answers.update(ask(words, lines[begin:begin + 50]))
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump(answers, file, indent=0, ensure_ascii=False)
        file.write("\n")
    print(f"{len(answers)} lines: {list(answers.values()).count('taken')} taken")


if __name__ == "__main__":
    main(sys.argv[1:])
