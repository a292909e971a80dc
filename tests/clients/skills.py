"""FastMCP's client of the skills extension, over both transports. It checks each value as
strictly as any client, so one entry that it refuses would break its whole listing."""
import subprocess
import sys

import serving

# Two pages of a listing.
GOOD = 210

# Skills that a strict client refuses, each by another value.
SPOILED = {
    "other-name": "name: another\ndescription: x",
    "no-description": "name: no-description",
    "empty-description": "name: empty-description\ndescription: ' '",
    "long-description": "name: long-description\ndescription: " + 1025 * "x",
    "number-license": "name: number-license\ndescription: x\nlicense: 3",
    "list-tools": "name: list-tools\ndescription: x\nallowed-tools: [Read]",
    "empty-compatibility": "name: empty-compatibility\ndescription: x\ncompatibility: ''",
    "number-metadata": "name: number-metadata\ndescription: x\nmetadata: {version: 1.0}",
    "not-a-number": "name: not-a-number\ndescription: x\nother: .nan",
    "Upper": "name: Upper\ndescription: x",
    "a--b": "name: a--b\ndescription: x",
}


def run():
    wrong = []
    for transport in ["stdio", "http"]:
        with serving.place() as where:
            fill(where.skills)
            try:
                if transport == "stdio":
                    one(serving.configuration("stdio", where), where)
                else:
                    with serving.served(where) as url:
                        one(serving.configuration("http", where, url), where)
            except (subprocess.SubprocessError, RuntimeError) as error:
                wrong.append("FastMCP, %s: %s" % (transport, error))
    return wrong


def fill(skills):
    good = {"skill-%03d" % number: "name: skill-%03d\ndescription: Number %d." % (number, number)
            for number in range(GOOD)}
    for name, frontmatter in {**good, **SPOILED}.items():
        folder = skills / name
        folder.mkdir()
        (folder / "SKILL.md").write_text("---\n%s\n---\n# %s\n" % (frontmatter, name))
    (skills / "skill-000/data.bin").write_bytes(bytes(range(256)))


def one(configuration, where):
    client = serving.REPOSITORY / "tests/clients/python/skills_client.py"
    subprocess.run([sys.executable, str(client), str(configuration), str(where.folder)],
                   env=serving.environment(), check=True, timeout=180)
