"""The commands of docs/guides/packages.md: the author's, and the operator's in another home."""
import shutil

import document
import place
import program

PAGE = program.REPOSITORY / "docs/guides/packages.md"


def run():
    # A registry on this machine needs no TLS, so its commands need no options beyond the page's.
    with place.place(has_tls=False) as found:
        author, operator = found.home("author"), found.home("operator")
        author.skillhost("new", "find-word", "--lang", "rust").exits_with(0)
        with author.environment():
            document.follow(section("Ship it", found.registry), author.folder)
        shutil.copy(author.folder / "acme.pub", operator.folder)
        shutil.copytree(author.folder / "find-word/skills", operator.folder / "skills")
        with operator.environment():
            document.follow(section("Add it", found.registry), operator.folder)


def section(heading, registry):
    """Returns the section whose heading begins so, for this registry."""
    found = [part for part in PAGE.read_text().split("\n## ") if part.startswith(heading)]
    assert len(found) == 1, "%s: %d sections `%s`" % (PAGE, len(found), heading)
    return found[0].replace("registry.example", registry)
