"""The clients of the skills extension in FastMCP and the TypeScript SDK, over both transports. These
clients check each value strictly: if they refuse one entry, the whole listing fails."""
import json
import subprocess
import sys

import serving

# Two pages of a listing.
GOOD = 210

# Skills whose values a strict client refuses, and the name that each is listed with.
DIFFICULT = {
    "other-name": ("name: another\ndescription: x", "another"),
    "no-description": ("name: no-description", "no-description"),
    "empty-description": ("name: empty-description\ndescription: ' '", "empty-description"),
    "long-description": ("name: long-description\ndescription: " + 1025 * "x", "long-description"),
    "number-license": ("name: number-license\ndescription: x\nlicense: 3", "number-license"),
    "list-tools": ("name: list-tools\ndescription: x\nallowed-tools: [Read]", "list-tools"),
    "mixed-tools": ("name: mixed-tools\ndescription: x\nallowed-tools: [Read, 1]", "mixed-tools"),
    "empty-compatibility": ("name: a\ndescription: x\ncompatibility: ''", "a"),
    "nested-metadata": ("name: nested-metadata\ndescription: x\nmetadata: {a: {b: [1.0, null]}}",
                        "nested-metadata"),
    "text-metadata": ("name: text-metadata\ndescription: x\nmetadata: x", "text-metadata"),
    "not-a-number": ("name: not-a-number\ndescription: x\nother: .nan", "not-a-number"),
    "not-yaml": ("name: not-yaml\ndescription: Use: it", "not-yaml"),
    "title": ("name: A Title\ndescription: x", "title"),
    "Upper": ("name: Upper\ndescription: x", None),
    "a--b": ("name: a--b\ndescription: x", None),
}

# Skills whose entry differs from their SKILL.md, so a client that compares them refuses it.
CHANGED = ["no-description", "empty-description", "long-description", "number-license",
           "mixed-tools", "empty-compatibility", "nested-metadata", "text-metadata",
           "not-a-number", "not-yaml", "title"]


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
                wrong.append("skills, %s: %s" % (transport, error))
    return wrong


def fill(skills):
    good = {"skill-%03d" % number: "name: skill-%03d\ndescription: Number %d." % (number, number)
            for number in range(GOOD)}
    difficult = {name: frontmatter for name, (frontmatter, _) in DIFFICULT.items()}
    for name, frontmatter in {**good, **difficult}.items():
        folder = skills / name
        folder.mkdir()
        (folder / "SKILL.md").write_text("---\n%s\n---\n# %s\n" % (frontmatter, name))
    (skills / "skill-000/data.bin").write_bytes(bytes(range(256)))
    listed = {name: name for name in [*good, "calculator", "weather"]}
    listed.update((name, listed_as) for name, (_, listed_as) in DIFFICULT.items() if listed_as)
    (skills.parent / "listed.json").write_text(json.dumps(listed))
    (skills.parent / "changed.json").write_text(json.dumps(CHANGED))


def one(configuration, where):
    clients = serving.REPOSITORY / "tests/clients"
    for client in [[sys.executable, str(clients / "python/skills_client.py")],
                   [serving.NODE, str(clients / "node/skills.mjs")]]:
        subprocess.run([*client, str(configuration), str(where.folder)],
                       env=serving.environment(), check=True, timeout=180)
