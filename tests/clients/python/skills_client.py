"""FastMCP's client of the skills extension: lists the skills, gets one, reads every file of
each and compares it with its digest. Exits with 0 if all of it works. Arguments: a
configuration file for clients, and the program's folder."""
import asyncio
import base64
import hashlib
import json
import os
import pathlib
import sys

from fastmcp import Client
from fastmcp.skills import SkillsClientExtension


def bytes_of(contents):
    [content] = contents
    if hasattr(content, "text"):
        return content.text.encode()
    return base64.b64decode(content.blob)


async def main(configuration, folder):
    folders = {path.name for path in (folder / "skills").iterdir()}
    # What skills.py expects: each folder, and its skill's name in the listing.
    expected = json.loads((folder / "listed.json").read_text())
    # A server over stdio starts in the current folder, as it does for other clients.
    os.chdir(folder)
    async with Client(configuration, extensions=[SkillsClientExtension()], cache=False) as client:
        skills = await client.list_skills()
        listed = {skill.uri.split("/")[2]: skill.frontmatter.name for skill in skills}
        assert listed == expected, listed.items() ^ expected.items()
        checked = 0
        for skill in skills:
            for file in skill.resources:
                content = bytes_of(await client.read_resource(file.uri))
                digest = "sha256:" + hashlib.sha256(content).hexdigest()
                assert (digest, len(content)) == (file.digest, file.size), file
                checked += 1
        [other] = [skill for skill in skills if skill.frontmatter.name == "another"]
        assert await client.get_skill(other.uri) == other
        [weather] = [skill for skill in skills if skill.frontmatter.name == "weather"]
        assert await client.get_skill(weather.uri) == weather
        text = bytes_of(await client.read_resource(weather.uri))
        assert text == (folder / "skills/weather/SKILL.md").read_bytes()
        # Resources have every skill, also those that the listing leaves out.
        resources = await client.list_skill_resources()
        found = {str(resource.uri).split("/")[2] for resource in resources}
        assert found == folders, found ^ folders
    print("  FastMCP, %s: listed %d of %d skills, compared %d files with their digests" % (
        "HTTP" if "url" in server(configuration) else "stdio", len(listed), len(folders), checked))


def server(configuration):
    return configuration["mcpServers"]["skillhost"]


if __name__ == "__main__":
    asyncio.run(main(json.loads(pathlib.Path(sys.argv[1]).read_text()),
                     pathlib.Path(sys.argv[2])))
