"""The official SDKs' own OAuth clients, against a real provider: they find it by the server's
metadata, register, log in and call."""
import pathlib
import socket
import subprocess
import sys

from serving import NODE, PATIENCE, SKILLHOST, listening, place

HERE = pathlib.Path(__file__).resolve().parent

# The issuer's tokens are those of one client, which sees one tool and one skill.
CONFIGURATION = """
skills = ["skills"]
[http]
resource = "{url}"
[issuers.test]
issuer = "{issuer}"
jwks_url = "{issuer}/jwks"
[clients.alice]
claims = {{ sub = "alice" }}
oauth_scopes = ["skills:read"]
tools = ["read_skill"]
skills = ["calculator"]
"""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run():
    wrong = []
    with place() as at:
        port = free_port()
        url = "http://127.0.0.1:%d/mcp" % port
        provider = [NODE, HERE / "node/provider.mjs", str(free_port()), url]
        with listening(provider) as issuer:
            config = at.folder / "oauth.toml"
            config.write_text(CONFIGURATION.format(url=url, issuer=issuer))
            serve = [SKILLHOST, "serve", "--config", config, "--http", "127.0.0.1:%d" % port]
            with listening(serve):
                for name, client in [
                    ("python", [sys.executable, HERE / "python/oauth_client.py"]),
                    ("typescript", [NODE, HERE / "node/oauth.mjs"]),
                ]:
                    done = subprocess.run(client + [url], timeout=PATIENCE, encoding="utf-8",
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    if done.returncode != 0:
                        wrong.append("%s: %s" % (name, done.stdout[-3000:]))
    return wrong
