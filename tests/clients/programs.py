"""The clients that are programs of their own, over both transports and in both eras of the
protocol, each in a fresh folder."""
import subprocess
import sys

import serving

LANES = [("stdio", "modern"), ("stdio", "legacy"), ("http", "modern"), ("http", "legacy")]


def command(language):
    here = serving.REPOSITORY / "tests/clients"
    if language == "python":
        return [sys.executable, str(here / "python/client.py")]
    return [serving.NODE, str(here / "node/client.mjs")]


def run(language):
    wrong = []
    for transport, era in LANES:
        with serving.place() as where:
            try:
                if transport == "stdio":
                    one(language, serving.configuration("stdio", where), where, era)
                else:
                    with serving.served(where) as url:
                        one(language, serving.configuration("http", where, url), where, era)
            except (subprocess.SubprocessError, RuntimeError) as error:
                wrong.append("%s, %s, %s: %s" % (language, transport, era, error))
    return wrong


def one(language, configuration, where, era):
    arguments = [str(configuration), str(where.folder), era]
    subprocess.run(command(language) + arguments, env=serving.environment(), check=True,
                   timeout=180)
