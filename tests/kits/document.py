"""Every block of a page, such as docs/writing-tools.md: shell blocks are run one after the
other in one folder, `cd` and all; a text block holds what the shell block before it prints;
a block whose language is followed by a file's name is written to that file."""
import pathlib
import re
import tempfile

import program

PAGE = program.REPOSITORY / "docs/writing-tools.md"
FENCE = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run():
    with tempfile.TemporaryDirectory(prefix="kits-") as base:
        follow(PAGE, pathlib.Path(base))


def follow(page, folder):
    """Runs a page's blocks, the first in `folder`. Gives what its last shell block left behind."""
    seen = None
    with tempfile.NamedTemporaryFile("r", prefix="kits-") as end:
        for language, name, text in FENCE.findall(page.read_text()):
            if language == "sh":
                # The folder that a block ends in is the next one's.
                seen = program.shell(folder, text + "\npwd >" + end.name + "\n").ended(0)
                end.seek(0)
                folder = pathlib.Path(end.read().strip())
            elif language == "text":
                expected = text.strip()
                assert expected in seen.stdout + seen.stderr, "%s does not print\n%s\n%s\n%s" % (
                    seen.command, expected, seen.stdout, seen.stderr)
            elif name:
                (folder / name).write_text(text)
            else:
                part_of_a_project(language, text)
    return seen


def part_of_a_project(language, text):
    """A block that shows code: it stands in a kit, word for word."""
    kits = program.REPOSITORY / "guest-tools/kits"
    files = [file for file in kits.rglob("*") if file.is_file()]
    files += (program.REPOSITORY / "wit").glob("*.wit")
    assert any(text in file.read_text() for file in files), "in no kit: %s\n%s" % (language, text)
