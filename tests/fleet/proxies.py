"""The configurations of docs/deploy for haproxy, nginx and Caddy, with the real programs. The SDKs'
clients do everything that an agent does through each proxy, while one of three instances runs."""
import contextlib
import os
import re
import subprocess
import time

import programs
import serving
from balancer import ask, free_port, until

DEPLOY = serving.REPOSITORY / "docs/deploy"
# The ports in the configurations: the proxy's, and those of the instances.
PORT = "127.0.0.1:8080"
INSTANCES = ["127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"]


class Proxy:
    """A proxy with the documented configuration."""

    def __init__(self, where):
        self.where = where

    def configured(self, port, instances):
        """Writes the configuration with these ports."""
        text = (DEPLOY / self.file).read_text()
        for shown, real in zip([PORT, *INSTANCES], [port, *instances]):
            if not re.search(r"%s\b" % re.escape(shown), text):
                raise RuntimeError("docs/deploy/%s: no `%s`" % (self.file, shown))
            text = text.replace(shown, "127.0.0.1:%d" % real)
        file = self.where.folder / self.file
        file.write_text(text)
        return str(file)

    @contextlib.contextmanager
    def running(self, instances):
        """Runs the proxy, and returns its port once an instance answers through it."""
        port = free_port()
        file = self.configured(port, instances)
        log = self.where.folder / "proxy.log"
        with open(log, "w", encoding="utf-8") as output:
            process = subprocess.Popen(self.command(file), cwd=self.where.folder, stderr=output,
                                       stdout=output, env=self.environment())
        try:
            def answers():
                with contextlib.suppress(OSError):
                    return ask(port, path="/readyz") == "200"
            try:
                until("%s does not answer" % type(self).__name__, answers)
            except RuntimeError as error:
                raise RuntimeError("%s: %s" % (error, log.read_text()[-1000:])) from None
            yield port
        finally:
            process.terminate()
            process.wait(serving.PATIENCE)

    def environment(self):
        return dict(os.environ, HOME=str(self.where.folder))


class Haproxy(Proxy):
    file = "haproxy.cfg"

    def command(self, file):
        return [os.environ["HAPROXY"], "-q", "-db", "-f", file]


class Nginx(Proxy):
    file = "nginx.conf"

    def command(self, file):
        # What a package sets: where nginx keeps its files.
        folder = str(self.where.folder)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join("%s_temp_path %s/nginx-%s; " % (kind, folder, kind) for kind in kinds)
        text = (self.where.folder / self.file).read_text()
        text = text.replace("http {", "http { access_log off; %s" % paths, 1)
        (self.where.folder / self.file).write_text(text)
        settings = "daemon off; pid %s/nginx.pid; error_log stderr;" % folder
        return [os.environ["NGINX"], "-p", folder, "-e", "stderr", "-c", file, "-g", settings]


class Caddy(Proxy):
    file = "Caddyfile"

    def command(self, file):
        return [os.environ["CADDY"], "run", "--config", file, "--adapter", "caddyfile"]


def run():
    wrong = []
    for kind in (Haproxy, Nginx, Caddy):
        for language in ("python", "typescript"):
            for era in ("modern", "legacy"):
                with serving.place() as where:
                    file = where.folder / "skillhost.toml"
                    file.write_text(
                        file.read_text() + '[http]\ntrusted_proxies = ["127.0.0.1"]\n')
                    start = time.monotonic()
                    try:
                        one(kind(where), language, era, where)
                    except (subprocess.SubprocessError, RuntimeError) as error:
                        wrong.append("%s, %s, %s: %s" % (kind.__name__, language, era, error))
                    print("%s, %s, %s: %.1f s" % (
                        kind.__name__, language, era, time.monotonic() - start), flush=True)
    return wrong


def one(proxy, language, era, where):
    with serving.served(where) as url:
        instance = int(url.rsplit(":", 1)[1].split("/")[0])
        # Nothing listens at the others.
        with proxy.running([free_port(), instance, free_port()]) as port:
            url = "http://127.0.0.1:%d/mcp" % port
            programs.one(language, serving.configuration("http", where, url), where, era)
