"""Results as they come, one line each; the sums, the JSON and the tables at the end."""

import fnmatch
import json
import os
import re
import threading

MARK_BEGIN = "<!-- begin: written by tests/foreign/run --document -->"
MARK_END = "<!-- end -->"


class Page:
    """A page of tables: a section for each suite, between the marks."""

    def __init__(self, path, head, sections, tail):
        self.path = path
        self.head = head
        self.sections = sections
        self.tail = tail

    def write(self):
        sections = "".join(f"\n## {name}\n\n{body}" for name, body in self.sections.items())
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(f"{self.head}{MARK_BEGIN}\n{sections}\n{MARK_END}{self.tail}")


def read_pages(folder):
    """The pages of a folder that have the marks."""
    pages = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not name.endswith(".md"):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if MARK_BEGIN in text:
            head, rest = text.split(MARK_BEGIN)
            tables, tail = rest.split(MARK_END)
            parts = [part.split("\n", 1) for part in re.split(r"^## ", tables, flags=re.MULTILINE)[1:]]
            pages.append(Page(path, head, {name: body.strip() + "\n" for name, body in parts}, tail))
    return pages


class Report:
    """May be added to by several threads."""

    def __init__(self):
        self.results = []
        self.seconds = {}
        self.lock = threading.Lock()

    def add(self, result):
        why = f": {result['why']}" if result.get("why") else ""
        word = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}[result["status"]]
        with self.lock:
            self.results.append(result)
            print(f"{word} {result['name']}{why}", flush=True)

    def note(self, name, status, why):
        self.add({"name": name, "status": status, "why": why, "seconds": 0})

    def took(self, suite, seconds):
        """How long a suite ran, or what it needs took to fetch and build."""
        with self.lock:
            self.seconds[suite] = self.seconds.get(suite, 0) + seconds

    def slowest(self):
        """One line: the suites that took most of the time."""
        most = sorted(self.seconds.items(), key=lambda entry: -entry[1])[:16]
        return "seconds: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in most)

    def count(self, status):
        return sum(result["status"] == status for result in self.results)

    def totals(self):
        return f"{self.count('ok')} passed, {self.count('failed')} failed, {self.count('skipped')} skipped"

    def write_json(self, path, broker):
        with open(path, "w", encoding="utf-8") as file:
            sums = {status: self.count(status) for status in ("ok", "failed", "skipped")}
            json.dump({"broker": broker, **sums, "results": self.results}, file, indent=1)
            file.write("\n")

    def write_document(self, folder):
        """Puts a row for each case that did not fail between the marks of the page that has the suite's section; the
        sections of suites that did not run stay. A suite without a section gets a page of its own."""
        pages = read_pages(folder)
        rows = {}
        for result in self.results:
            if result["status"] != "failed" and result.get("behaviour"):
                rows.setdefault(result["name"].split(".")[0], []).append(result)
        changed = {}
        for suite, results in rows.items():
            page = next((page for page in pages if suite in page.sections), None)
            if page is None:
                page = Page(os.path.join(folder, f"{suite}.md"), f"# {suite}\n\n", {}, "\n")
                pages.append(page)
            lines = ["| behaviour | test | RabbitMQ 4.3.6 | note |\n|---|---|---|---|\n"]
            for result in results:
                asked = result["status"] == "ok"
                note = "" if asked else f"ours; not asked of RabbitMQ: {result['why']}"
                cells = [result["behaviour"], f"`{result['name']}`", result["answer"], note]
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
            page.sections[suite] = "".join(lines)
            changed[page.path] = page
        for page in changed.values():
            page.write()

    def check_document(self, folder):
        """Every case that ran has its row, and no suite has sections on two pages."""
        pages = read_pages(folder)
        suites = [suite for page in pages for suite in page.sections]
        twice = sorted({suite for suite in suites if suites.count(suite) > 1})
        text = "".join(body for page in pages for body in page.sections.values())
        # The text behind a name may begin the next one: a behaviour can look like a test's name.
        rows = set(re.findall(r"\| `([a-z0-9-]+\.[^` ]+)`(?= \|)", text))
        cases = {result["name"] for result in self.results if result.get("behaviour")}
        without_row = sorted(cases - rows)
        why = [f"no row for {', '.join(without_row[:5])}"] if without_row else []
        why += [f"two sections for {', '.join(twice[:5])}"] if twice else []
        self.note("compatibility.rows", "failed" if why else "ok", "; ".join(why))

    def check_rows(self, path):
        """Tests that the page of rows names have run, as far as their suites ran."""
        with open(path, encoding="utf-8") as file:
            lines = [line.split("|") for line in file if line.startswith("| ")]
        named = {name for cells in lines if len(cells) > 3 for name in re.findall("`([^`]+)`", cells[3])}
        cases = {result["name"] for result in self.results if result.get("behaviour")}
        suites = {case.split(".")[0] for case in cases}
        absent = sorted(name for name in named if name.split(".")[0] in suites and not fnmatch.filter(cases, name))
        self.note("compatibility.named", "failed" if absent else "ok", f"no case {', '.join(absent[:5])}" if absent else "")
