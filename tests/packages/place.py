"""A place for packages: Debian's registry on loopback, and the homes of its users."""
import base64
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time

import program

PROGRAMS = pathlib.Path(os.environ["DEBIAN_PROGRAMS"])
# The user of the registry. HTPASSWD has the password's bcrypt hash, at the lowest cost.
USER = "acme"
PASSWORD = "a-password-of-these-tests"
HTPASSWD = USER + ":$2b$04$wH3kl.5hUixMDJdz61IET.W.pAVasPMcJGape5l5VyAoyRFTOLeG6\n"
# The time in which the registry must be ready, in seconds.
PATIENCE = 60
CONFIGURATION = """version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %(storage)s}}
auth: {htpasswd: {realm: tests, path: %(htpasswd)s}}
http:
  addr: 127.0.0.1:%(port)d
"""
WITH_TLS = """  tls: {certificate: %(certificate)s, key: %(key)s}
"""


class Place:
    """A running registry, in whose folder users have their homes."""

    def __init__(self, folder, has_tls):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.registry = "localhost:%d" % self.port
        self.ca = folder / "ca.pem"
        (folder / "htpasswd").write_text(HTPASSWD)
        text = CONFIGURATION
        if has_tls:
            self.make_certificate()
            text += WITH_TLS
        names = {name: folder / name for name in ["storage", "htpasswd", "certificate", "key"]}
        (folder / "registry.yml").write_text(text % {"port": self.port, **names})

    def make_certificate(self):
        program.shell(self.folder, """
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \\
                -subj /CN=tests -keyout ca.key -out ca.pem
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \\
                -keyout key -out request
            echo 'subjectAltName=DNS:localhost' >extensions
            openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \\
                -extfile extensions -out certificate""").exits_with(0)

    def reference(self, name, tag="1"):
        return "%s/acme/%s:%s" % (self.registry, name, tag)

    def home(self, name, password=PASSWORD):
        """Makes an empty home folder of a user who is logged in, and returns the user."""
        home = self.folder / name
        (home / ".docker").mkdir(parents=True)
        pair = base64.b64encode(("%s:%s" % (USER, password)).encode()).decode()
        credentials = home / ".docker/config.json"
        credentials.touch(mode=0o600)
        credentials.write_text(json.dumps({"auths": {self.registry: {"auth": pair}}}))
        return User(self, home)


class User:
    """Runs programs with a home folder, in it or in a folder below it."""

    def __init__(self, place, home):
        self.place = place
        self.home = home
        self.folder = home

    @contextlib.contextmanager
    def environment(self):
        """Sets the environment of the programs that run meanwhile."""
        before = dict(os.environ)
        for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE"]:
            os.environ.pop(name, None)
        # Cargo and rustup look in the real home folder for what is installed there.
        real = before["HOME"]
        os.environ.setdefault("CARGO_HOME", real + "/.cargo")
        os.environ.setdefault("RUSTUP_HOME", real + "/.rustup")
        os.environ.update(HOME=str(self.home), DOCKER_CONFIG=str(self.home / ".docker"),
                          COSIGN_PASSWORD="")
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def skillhost(self, *arguments):
        with self.environment():
            return program.run(self.folder, *arguments)

    def shell(self, script):
        with self.environment():
            return program.shell(self.folder, script)

    def new_key(self, name):
        self.shell("""
            openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out %(name)s.key
            chmod 600 %(name)s.key
            openssl pkey -in %(name)s.key -pubout -out %(name)s.pub""" % {"name": name}).exits_with(0)


@contextlib.contextmanager
def place(has_tls=True):
    """Yields a place, and ends its registry afterwards. Shows the registry's log if something fails."""
    with tempfile.TemporaryDirectory(prefix="packages-") as folder:
        folder = pathlib.Path(folder)
        found = Place(folder, has_tls)
        log = folder / "registry.log"
        with open(log, "w", encoding="utf-8") as output:
            registry = subprocess.Popen([PROGRAMS / "docker-registry", "serve", "registry.yml"],
                                        cwd=folder, stdout=output, stderr=output)
        try:
            wait_until_ready(found.port, registry)
            yield found
        except AssertionError:
            print(log.read_text()[-2000:])
            raise
        finally:
            registry.kill()
            registry.wait()


def wait_until_ready(port, registry):
    end = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert registry.poll() is None, "the registry ended"
        assert time.monotonic() < end, "the registry is not ready"
        time.sleep(0.05)
