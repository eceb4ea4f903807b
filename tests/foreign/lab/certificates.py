"""Makes the certificates of a run with the openssl program: never kept, never committed.

A root and a stranger's root; of the root: `server` (localhost, 127.0.0.1), `client` (CN=guest,
with other names), `expired` and `nobody` (without a common name); of the stranger's: `stranger`.
"""

import os
import subprocess

LEAVES = {
    "server": ("ca", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1", []),
    "client": ("ca", "/O=client/CN=guest", "subjectAltName=DNS:other.example,DNS:guest,email:guest", []),
    "expired": ("ca", "/O=client/CN=guest", "basicConstraints=CA:FALSE", ["20200101000000Z", "20210101000000Z"]),
    "nobody": ("ca", "/O=client", "basicConstraints=CA:FALSE", []),
    "unknown": ("ca", "/O=client/CN=unheard-of", "basicConstraints=CA:FALSE", []),
    "stranger": ("strangers", "/O=client/CN=guest", "basicConstraints=CA:FALSE", []),
}

CONFIGURATION = """[ca]
default_ca = it
[it]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
unique_subject = no
copy_extensions = copyall
policy = any
[any]
organizationName = optional
commonName = optional
"""


def make(folder):
    """Writes NAME.pem and NAME.key for each into `folder`, which it returns."""
    os.makedirs(folder, exist_ok=True)

    def run(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    def key(name):
        run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", name + ".key")
        os.chmod(os.path.join(folder, name + ".key"), 0o644)

    with open(os.path.join(folder, "ca.cnf"), "w", encoding="ascii") as file:
        file.write(CONFIGURATION)
    open(os.path.join(folder, "index.txt"), "w", encoding="ascii").close()
    for root in ("ca", "strangers"):
        key(root)
        run("req", "-x509", "-new", "-key", root + ".key", "-subj", f"/CN=root of {root}", "-days", "2",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign,cRLSign",
            "-out", root + ".pem")
    for name, (root, subject, extension, more) in LEAVES.items():
        key(name)
        run("req", "-new", "-key", name + ".key", "-subj", subject, "-addext", extension, "-out", name + ".csr")
        span = ["-startdate", more[0], "-enddate", more[1]] if more else ["-days", "2"]
        run("ca", "-batch", "-notext", "-config", "ca.cnf", "-cert", root + ".pem", "-keyfile", root + ".key",
            "-in", name + ".csr", "-create_serial", *span, "-out", name + ".pem")
    return folder
