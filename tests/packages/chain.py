"""From an author's project to an operator's call: pushed, signed, added, locked, granted, called.
Then the tag moves, and the locked bytes stay."""
import shutil

import place
import program

NEEDS = """[[network]]
rule = "GET https://api.example.org/v1/*"
why = "reads forecasts"
"""
CALL = '{"skill_name": "sailing-terms", "term": "halyard"}'
ANSWER = "a rope that hoists a sail"
# The file with the version of a project in each language.
VERSIONED = {"rust": "Cargo.toml", "c": "src/tool.c", "python": "pyproject.toml",
             "javascript": "package.json"}


def run(languages=("rust", "c")):
    with place.place() as found:
        for language in languages:
            Chain(found, language).run()


def run_skill():
    """Runs the same steps with a skill, whose tag moves too."""
    with place.place() as found:
        author, operator = found.home("author"), found.home("operator")
        ca, reference = "--ca-file=%s" % found.ca, "oci://" + found.reference("calculator")
        author.new_key("acme")
        skill = author.folder / "calculator"
        shutil.copytree(program.REPOSITORY / "skills/calculator", skill)
        push = ["push", reference, "calculator", "--key=acme.key", ca]
        author.skillhost(*push).exits_with(0)
        shutil.copy(author.folder / "acme.pub", operator.folder)
        (operator.folder / "skillhost.toml").write_text(
            "skills = []\n[trust.\"%s\"]\nkeys = [\"acme.pub\"]\n" % reference.rpartition(":")[0])
        operator.skillhost("add", "--skill", reference, ca).exits_with(0).prints("signer: the key ")
        (skill / "SKILL.md").write_text((skill / "SKILL.md").read_text() + "More.\n")
        author.skillhost(*push).exits_with(0)

        def read():
            operator.skillhost("lock", "--check").exits_with(0).prints("1 skill locked")
            return operator.skillhost("call", "read_file_in_skill", "skill_name=calculator",
                                      "file_path=SKILL.md").exits_with(0).stdout

        before = (program.REPOSITORY / "skills/calculator/SKILL.md").read_text()
        assert read() == before
        operator.shell("chmod -R u+w .local && rm -r .local").exits_with(0)
        operator.skillhost("fetch", ca).exits_with(0).prints("calculator: fetched")
        assert read() == before
        operator.skillhost("update", ca).exits_with(0).prints("changed SKILL.md", "+ More.")
        assert read() == before + "More.\n"


class Chain:
    """An author of a tool in one language, and an operator of it."""

    def __init__(self, found, language):
        self.language = language
        self.ca = "--ca-file=%s" % found.ca
        self.author = found.home("author-" + language)
        self.operator = found.home("operator-" + language)
        self.stranger = found.home("stranger-" + language, password="another password")
        self.reference = "oci://" + found.reference("find-word-" + language)

    def run(self):
        self.ship()
        self.refuse()
        self.add()
        self.move_tag()
        self.move_tag_back()
        self.fetch()

    def ship(self):
        author = self.author
        author.new_key("acme")
        author.new_key("other")
        author.skillhost("new", "find-word", "--lang", self.language).exits_with(0)
        author.folder = author.home / "find-word"
        # Compilers look for their caches in the real home folder.
        program.run(author.folder, "build").exits_with(0)
        self.push("--key=../acme.key").exits_with(0).prints("pushed " + self.reference, "signer: the key ")
        self.first = (author.folder / "dist/find_word.wasm").read_bytes()

    def push(self, *options):
        return self.author.skillhost("push", self.reference, self.ca, *options)

    def refuse(self):
        """Checks that `add` needs the authority's certificate, credentials and a trusted signature."""
        operator = self.operator
        (operator.folder / "skillhost.toml").write_text("# Ours.\nskills = [\"skills\"]\n")
        operator.skillhost("add", self.reference).exits_with(4).prints("cannot read the manifest")
        self.stranger.skillhost("add", self.reference, self.ca).exits_with(4).prints(
            "refused the credentials for `acme/find-word-%s`" % self.language)
        self.trust(self.author.home / "other.pub")
        operator.skillhost("add", self.reference, self.ca).exits_with(4).prints(
            "it has no trusted signature: it is not signed by the key ")
        assert not (operator.folder / "skillhost.lock").exists()

    def trust(self, key):
        registry = self.reference.rpartition("/")[0]
        (self.operator.folder / "acme.pub").write_bytes(key.read_bytes())
        (self.operator.folder / "skillhost.toml").write_text(
            "# Ours.\nskills = [\"skills\"]\n[trust.\"%s/*\"]\nkeys = [\"acme.pub\"]\n" % registry)

    def add(self):
        operator = self.operator
        self.trust(self.author.home / "acme.pub")
        skills = self.author.folder / "skills"
        operator.shell("cp -r '%s' skills" % skills).exits_with(0)
        shown = operator.skillhost("add", self.reference, self.ca, "--name", "words").exits_with(0)
        shown.prints("words from " + self.reference, "signer: the key ", "find_word", "[grants.\"words.wasm\"]")
        config = (operator.folder / "skillhost.toml").read_text()
        assert config.startswith("# Ours.\n") and "[components.words]" in config, config
        self.check_lock()
        # Nothing is granted before somebody grants it.
        operator.skillhost("call", "find_word", CALL).exits_with(3).prints("grants.\"words.wasm\".skills")
        with open(operator.folder / "skillhost.toml", "a", encoding="utf-8") as file:
            file.write("[grants.\"words.wasm\"]\nskills = [\"sailing-terms\"]\n")
        self.call()

    def check_lock(self):
        self.operator.skillhost("lock", "--check").exits_with(0).prints("1 component locked")

    def call(self):
        result = self.operator.skillhost("call", "find_word", CALL).exits_with(0)
        assert result.stdout == ANSWER, result.stdout

    def move_tag(self):
        """Pushes a newer version, which asks for a new power, under the same tag."""
        author, operator = self.author, self.operator
        project = author.folder / VERSIONED[self.language]
        text = project.read_text()
        assert text.count("0.1.0") == 1, text
        project.write_text(text.replace("0.1.0", "0.2.0"))
        (author.folder / "needs.toml").write_text(NEEDS)
        program.run(author.folder, "build").exits_with(0)
        self.push("--key=../acme.key").exits_with(0)
        before = self.files()
        self.call()
        operator.skillhost("update", self.ca).exits_with(1).prints(
            "+ asks for: requests GET https://api.example.org/v1/*",
            "asks for a new power; `--accept-powers` accepts that")
        assert self.files() == before
        self.call()
        operator.skillhost("update", self.ca, "--accept-powers").exits_with(0)
        assert self.files() != before
        self.check_lock()
        self.call()

    def move_tag_back(self):
        """Lets the registry offer the older version again: other bytes of the same signer."""
        older = self.author.home / "older.wasm"
        older.write_bytes(self.first)
        self.push(str(older), "--key=../acme.key").exits_with(0)
        self.check_lock()
        self.call()
        self.operator.skillhost("update", self.ca).prints(
            "manifest: sha256:", "- asks for: requests GET https://api.example.org/v1/*")
        # The same bytes unsigned are refused.
        self.push(str(older), "--key=../other.key").exits_with(0)
        self.check_lock()

    def fetch(self):
        """Checks that another machine gets the locked bytes, whatever the tag names now."""
        self.operator.shell("rm -r .local").exits_with(0)
        self.operator.skillhost("call", "find_word", CALL).exits_with(4).prints("`skillhost fetch` gets it")
        self.operator.skillhost("fetch", self.ca).exits_with(0).prints("words: fetched")
        self.check_lock()
        self.call()

    def files(self):
        return [(self.operator.folder / name).read_text() for name in ["skillhost.toml", "skillhost.lock"]]
