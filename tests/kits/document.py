"""Runs every code block of a page, such as docs/guides/write-tools.md. Shell blocks run in sequence, each in
the folder where the previous one ended. A text block holds output of the shell block before it.
A block with a file name after its language is written to that file."""
import pathlib
import re
import tempfile

import program

PAGE = program.REPOSITORY / "docs/guides/write-tools.md"
FENCE = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run():
    with tempfile.TemporaryDirectory(prefix="kits-") as base:
        follow(PAGE.read_text(), pathlib.Path(base))


def follow(page, folder):
    """Runs the blocks of a page's text in `folder`. Returns the result of the last shell block."""
    result = None
    with tempfile.NamedTemporaryFile("r", prefix="kits-") as end:
        for language, name, text in FENCE.findall(page):
            if language == "sh":
                # The next block starts in the folder where this one ends.
                result = program.shell(folder, text + "\npwd >" + end.name + "\n").exits_with(0)
                end.seek(0)
                folder = pathlib.Path(end.read().strip())
            elif language == "text":
                expected = text.strip()
                assert expected in result.stdout + result.stderr, "%s does not print\n%s\n%s\n%s" % (
                    result.command, expected, result.stdout, result.stderr)
            elif name:
                (folder / name).write_text(text)
            else:
                check_is_in_kit(language, text)
    return result


def check_is_in_kit(language, text):
    """Checks that a kit contains a block of code verbatim."""
    kits = program.REPOSITORY / "guest-tools/kits"
    files = [file for file in kits.rglob("*") if file.is_file()]
    files += (program.REPOSITORY / "wit").glob("*.wit")
    assert any(text in file.read_text() for file in files), "in no kit: %s\n%s" % (language, text)
