"""Results as they come, one line each; the sums, the JSON and the table at the end."""

import fnmatch
import json
import re

MARK_BEGIN = "<!-- begin: written by tests/foreign/run --document -->"
MARK_END = "<!-- end -->"


class Report:
    def __init__(self):
        self.results = []

    def add(self, result):
        self.results.append(result)
        why = f": {result['why']}" if result.get("why") else ""
        word = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}[result["status"]]
        print(f"{word} {result['name']}{why}", flush=True)

    def note(self, name, status, why):
        self.add({"name": name, "status": status, "why": why, "seconds": 0})

    def count(self, status):
        return sum(result["status"] == status for result in self.results)

    def totals(self):
        return f"{self.count('ok')} passed, {self.count('failed')} failed, {self.count('skipped')} skipped"

    def write_json(self, path, broker):
        with open(path, "w", encoding="utf-8") as file:
            sums = {status: self.count(status) for status in ("ok", "failed", "skipped")}
            json.dump({"broker": broker, **sums, "results": self.results}, file, indent=1)
            file.write("\n")

    def write_document(self, path):
        """Puts a row for each case that did not fail between the marks of the page; the sections of suites that did
        not run stay."""
        with open(path, encoding="utf-8") as file:
            text = file.read()
        head, rest = text.split(MARK_BEGIN)
        table, tail = rest.split(MARK_END)
        sections = {}
        for section in re.split(r"^### ", table, flags=re.MULTILINE)[1:]:
            name, body = section.split("\n", 1)
            sections[name] = f"\n### {name}\n{body.rstrip()}\n"
        rows = {}
        for result in self.results:
            if result["status"] != "failed" and result.get("behaviour"):
                rows.setdefault(result["name"].split(".")[0], []).append(result)
        for suite, results in rows.items():
            lines = [f"\n### {suite}\n\n| behaviour | test | RabbitMQ 4.3.6 | note |\n|---|---|---|---|\n"]
            for result in results:
                asked = result["status"] == "ok"
                note = "" if asked else f"ours; not asked of RabbitMQ: {result['why']}"
                cells = [result["behaviour"], f"`{result['name']}`", result["answer"], note]
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
            sections[suite] = "".join(lines)
        with open(path, "w", encoding="utf-8") as file:
            file.write(head + MARK_BEGIN + "\n" + "".join(sections.values()) + "\n" + MARK_END + tail)

    def check_document(self, path):
        """Every case that ran has its row."""
        with open(path, encoding="utf-8") as file:
            table = file.read().split(MARK_BEGIN)[1].split(MARK_END)[0]
        # The text behind a name may begin the next one: a behaviour can look like a test's name.
        rows = set(re.findall(r"\| `([a-z0-9-]+\.[^` ]+)`(?= \|)", table))
        cases = {result["name"] for result in self.results if result.get("behaviour")}
        without_row = sorted(cases - rows)
        why = f"no row for {', '.join(without_row[:5])}" if without_row else ""
        self.note("compatibility.rows", "failed" if why else "ok", why)

    def check_rows(self, path):
        """Tests that the page of rows names have run, as far as their suites ran."""
        with open(path, encoding="utf-8") as file:
            lines = [line.split("|") for line in file if line.startswith("| ")]
        named = {name for cells in lines if len(cells) > 3 for name in re.findall("`([^`]+)`", cells[3])}
        cases = {result["name"] for result in self.results if result.get("behaviour")}
        suites = {case.split(".")[0] for case in cases}
        absent = sorted(name for name in named if name.split(".")[0] in suites and not fnmatch.filter(cases, name))
        self.note("compatibility.named", "failed" if absent else "ok", f"no case {', '.join(absent[:5])}" if absent else "")
