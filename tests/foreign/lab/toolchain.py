"""Fetches what each suite needs into one ignored folder, once.

Versions are pinned here, in perftest/pom.xml and in go/go.mod. A stamp beside each
part holds the digest of its recipe: the part is made anew when the recipe changes.
Nothing is installed for the machine or the user.
"""

import hashlib
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON_PACKAGES = ["pika==1.4.4", "python-qpid-proton==0.40.0"]
INSTALL_SECONDS_MAX = 900


class Missing(Exception):
    """A tool that is not on this machine, or that could not fetch its part."""


def need(*tools):
    absent = [tool for tool in tools if shutil.which(tool) is None]
    if absent:
        raise Missing(f"{' and '.join(absent)} not found")


def python(deps):
    """The interpreter of a virtual environment with the client packages."""
    need("python3")
    folder = os.path.join(deps, "python")
    interpreter = os.path.join(folder, "bin", "python")

    def make():
        command(["python3", "-m", "venv", "--clear", folder])
        command([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON_PACKAGES])

    once(deps, "python", " ".join(PYTHON_PACKAGES), make)
    return interpreter


def perftest(deps):
    """The folder with PerfTest and what it depends on."""
    need("java", "mvn")
    folder = os.path.join(deps, "perftest")
    pom = os.path.join(HERE, "perftest", "pom.xml")

    def make():
        shutil.rmtree(folder, ignore_errors=True)
        command(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"])

    with open(pom, encoding="utf-8") as file:
        once(deps, "perftest", file.read(), make)
    return folder


def go(deps):
    """The program built from go/; Go's own cache makes this quick when nothing changed."""
    need("go")
    program = os.path.join(deps, "go", "foreign")
    command(["go", "build", "-o", program, "."], cwd=os.path.join(HERE, "go"))
    return program


def once(deps, name, recipe, make):
    os.makedirs(deps, exist_ok=True)
    stamp = os.path.join(deps, name + ".stamp")
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == digest:
                return
    make()
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(digest)


def command(words, cwd=None):
    try:
        done = subprocess.run(
            words, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{words[0]} did not end in {INSTALL_SECONDS_MAX} s") from None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise Missing(f"{os.path.basename(words[0])} failed: {lines[-1][:200]}")
