#!/usr/bin/env python3
"""Expressions and documents at random: the verdicts of the filter language and of SQLite on the same condition.

usage: against_sqlite.py VERDICTS [PAIRS] [SEED]   VERDICTS: the program of crates/filter/examples/verdicts.rs

Left out is what differs by intent, see the guide's page of expressions: order between kinds, truth values that are numbers,
whole quotients of whole numbers, null in a list of IN, letters beyond ASCII in another case.
"""

import json
import random
import sqlite3
import subprocess
import sys

WHOLE, REAL, TEXT = "whole", "real", "text"
KEYS = {WHOLE: ["i1", "i2", "i3"], REAL: ["f1", "f2"], TEXT: ["t1", "t2", "t3"]}
LETTERS = ["a", "b", "A", "B", "é", "%", "_", " ", "'", "!"]
SIGNS = ["=", "<>", "<", "<=", ">", ">="]

# Pairs that are asked at a time, documents of each expression, and differences that are shown.
BATCH = 20_000
DOCUMENTS = 5
SHOWN_MAX = 10


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Pairs:
    """Expressions, each as ours and as SQLite's text, and documents."""

    def __init__(self, seed):
        self.dice = random.Random(seed)

    def text(self, length=4):
        return "".join(self.dice.choice(LETTERS) for _ in range(self.dice.randint(0, length)))

    def document(self):
        one = {WHOLE: lambda: self.dice.randint(-20, 20), REAL: lambda: self.dice.randint(-40, 40) / 8 + 0.0625, TEXT: self.text}
        fields = {}
        for kind, keys in KEYS.items():
            for key in keys:
                fate = self.dice.random()
                if fate < 0.75:
                    fields[key] = one[kind]()
                elif fate < 0.85:
                    fields[key] = None
        nested = {"in": {"deep": fields}} if self.dice.random() < 0.3 else fields
        return json.dumps({**fields, "n": nested}, ensure_ascii=self.dice.random() < 0.5, indent=self.dice.choice([None, None, 1])).replace("\n", " ")

    def path(self, kind):
        key = self.dice.choice(KEYS[kind])
        steps = self.dice.choice([[key], [key], [key], ["n", key], ["n", "in", "deep", key]])
        ours = "/" + "/".join(steps) if self.dice.random() < 0.3 else "body." + ".".join(steps)
        return ours, f"json_extract(d, '$.{'.'.join(steps)}')"

    def value(self, kind, depth):
        fate = self.dice.random()
        if depth == 0 or fate < 0.45:
            return self.path(kind)
        if fate < 0.6:
            literal = {WHOLE: lambda: str(self.dice.randint(0, 20)), REAL: lambda: str(self.dice.randint(0, 80) / 8 + 0.0625),
                       TEXT: lambda: quoted(self.text())}[kind]()
            return literal, literal
        below = depth - 1
        if fate < 0.7:
            condition, left, right = self.condition(below), self.value(kind, below), self.value(kind, below)
            return tuple(f"CASE WHEN {a} THEN {b} ELSE {c} END" for a, b, c in zip(condition, left, right))
        if fate < 0.78:
            name = self.dice.choice(["COALESCE", "NULLIF"])
            left, right = self.value(kind, below), self.value(kind, below)
            return tuple(f"{name}({a}, {b})" for a, b in zip(left, right))
        if kind == TEXT:
            return self.made_text(below)
        if fate < 0.84:
            left, right = self.value(kind, below), self.value(kind, below)
            names = self.dice.choice([("GREATEST", "max"), ("LEAST", "min")])
            return tuple(f"{name}({a}, {b})" for name, a, b in zip(names, left, right))
        if fate < 0.88:
            return tuple(f"ABS({a})" for a in self.value(kind, below))
        if kind == WHOLE and fate < 0.92:
            return tuple(f"LENGTH({a})" for a in self.value(TEXT, below))
        sign = self.dice.choice(["+", "-", "*", "%"] if kind == WHOLE else ["+", "-", "*", "/"])
        left, right = self.value(kind, below), self.value(kind, below)
        return tuple(f"({a} {sign} {b})" for a, b in zip(left, right))

    def made_text(self, depth):
        name = self.dice.choice(["LOWER", "SUBSTRING", "REPLACE", "CONCAT"])
        own = self.value(TEXT, depth)
        if name == "LOWER":
            return tuple(f"LOWER({a})" for a in own)
        if name == "SUBSTRING":
            start, count = self.dice.randint(1, 4), self.dice.randint(0, 3)
            return f"SUBSTRING({own[0]}, {start}, {count})", f"substr({own[1]}, {start}, {count})"
        other = self.value(TEXT, depth)
        if name == "CONCAT":
            return f"CONCAT({own[0]}, {other[0]})", f"({own[1]} || {other[1]})"
        part = quoted(self.dice.choice("abAB"))
        return tuple(f"REPLACE({a}, {part}, {b})" for a, b in zip(own, other))

    def condition(self, depth):
        fate, below = self.dice.random(), max(0, depth - 1)
        if depth > 0 and fate < 0.25:
            word = self.dice.choice(["AND", "OR"])
            left, right = self.condition(below), self.condition(below)
            return tuple(f"({a} {word} {b})" for a, b in zip(left, right))
        if depth > 0 and fate < 0.35:
            return tuple(f"(NOT {a})" for a in self.condition(below))
        if depth > 0 and fate < 0.42:
            test = self.dice.choice(["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS UNKNOWN"])
            return tuple(f"({a} {word})" for a, word in zip(self.condition(below), (test, test.replace("UNKNOWN", "NULL"))))
        if fate < 0.5:
            test = self.dice.choice(["IS NULL", "IS NOT NULL"])
            return tuple(f"({a} {test})" for a in self.path(self.dice.choice(list(KEYS))))
        kind = self.dice.choice([WHOLE, REAL, TEXT])
        own = self.value(kind, below)
        if fate < 0.58:
            least, most = self.value(kind, below), self.value(kind, below)
            word = self.dice.choice(["", "NOT "])
            return tuple(f"({a} {word}BETWEEN {b} AND {c})" for a, b, c in zip(own, least, most))
        if fate < 0.66:
            entries = [{WHOLE: lambda: str(self.dice.randint(-5, 9)), REAL: lambda: str(self.dice.randint(0, 80) / 8 + 0.0625),
                        TEXT: lambda: quoted(self.text(2))}[kind]() for _ in range(self.dice.randint(1, 5))]
            word = self.dice.choice(["", "NOT "])
            return tuple(f"({a} {word}IN ({', '.join(entries)}))" for a in own)
        if kind == TEXT and fate < 0.8:
            escape = self.dice.random() < 0.3
            pattern = self.text(5).replace("!", "" if escape else "!")
            if escape:
                pattern = pattern.replace("%", "!%", 1)
            tail = " ESCAPE '!'" if escape else ""
            return tuple(f"({a} LIKE {quoted(pattern)}{tail})" for a in own)
        sign = self.dice.choice(SIGNS)
        other = self.value(self.dice.choice([WHOLE, REAL]) if kind != TEXT else TEXT, below)
        return tuple(f"({a} {sign} {b})" for a, b in zip(own, other))


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print(f"seed {seed}, SQLite {sqlite3.sqlite_version}")
    pairs, base = Pairs(seed), sqlite3.connect(":memory:")
    base.execute("PRAGMA case_sensitive_like = ON")
    names = {None: "unknown", 0: "false", 1: "true"}
    tally, wrong, done = dict.fromkeys(names.values(), 0), 0, 0
    while done < count:
        some = []
        while len(some) < min(BATCH, count - done):
            ours, theirs = pairs.condition(3)
            for document in (pairs.document() for _ in range(DOCUMENTS)):
                verdict = base.execute(f"SELECT {theirs} FROM (SELECT ? AS d)", (document,)).fetchone()[0]
                some.append((ours, theirs, document, names[verdict]))
        asked = "".join(f"{ours}\t{document}\n" for ours, _, document, _ in some)
        said = subprocess.run([program], input=asked, capture_output=True, text=True, encoding="utf-8", check=True)
        for (ours, theirs, document, expected), verdict in zip(some, said.stdout.splitlines(), strict=True):
            tally[expected] += 1
            if verdict != expected:
                wrong += 1
                if wrong <= SHOWN_MAX:
                    print(f"{ours}\n  of {document}\n  is {verdict}, and to SQLite {expected}: {theirs}")
        done += len(some)
    print(f"{done} pairs, {wrong} differ; {', '.join(f'{number} {name}' for name, number in tally.items())}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
