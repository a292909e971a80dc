"""Other programs that push, pull, sign and verify packages, with the registry."""
import contextlib
import json
import os
import pathlib

import place
import program

COMPONENT = program.REPOSITORY / "tests/guests/dist/unchecked.wasm"
NEWEST = pathlib.Path(os.environ.get("NEWEST_PROGRAMS", "/missing"))
STATEMENT = "https://sigstore.dev/cosign/sign/v1"
# A trusted root without any authority or log, because keys are trusted.
ROOT = {"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}


class Setup:
    """A component in the registry, an author with a key, and an operator."""

    def __init__(self, found):
        self.found = found
        self.author = found.home("author")
        self.operator = found.home("operator")
        self.ca = "--ca-file=%s" % found.ca
        (self.author.folder / "csv.wasm").write_bytes(COMPONENT.read_bytes())
        self.author.new_key("acme")
        self.author.new_key("other")
        (self.operator.folder / "skills").mkdir()

    def push(self, name, *options):
        reference = self.found.reference(name)
        self.author.skillhost("push", "oci://" + reference, "csv.wasm", self.ca, *options).exits_with(0)
        return reference

    def shell(self, script, *values):
        """Runs a program of the author that trusts the registry's authority."""
        return self.author.shell("export SSL_CERT_FILE='%s'\n" % self.found.ca + script % values)

    def add(self, reference, key=None):
        """Adds a package to an empty configuration, with a rule if there is a key."""
        text = "skills = [\"skills\"]\n"
        if key:
            text += "[trust.\"oci://%s\"]\nkeys = [\"%s\"]\n" % (
                reference.rpartition(":")[0], self.author.folder / key)
        (self.operator.folder / "skillhost.toml").write_text(text)
        (self.operator.folder / "skillhost.lock").unlink(missing_ok=True)
        return self.operator.skillhost("add", "oci://" + reference, self.ca, "--name", "csv")

    def adds(self, reference, key=None):
        """Adds a package, and checks that it is the component, and that a host offers its tools."""
        self.add(reference, key).exits_with(0)
        self.operator.skillhost("lock", "--check").exits_with(0)
        self.operator.skillhost("grants", "--all", "raw_print").exits_with(0).prints("raw_print (from csv.wasm)")
        lock = (self.operator.folder / "skillhost.lock").read_text()
        assert ("signer = \"key:" in lock) == bool(key), lock


@contextlib.contextmanager
def setup():
    with place.place() as found:
        yield Setup(found)


def cosign_2():
    """cosign 2.5 verifies what `push --key` signed. skillhost accepts the attestations that cosign 2.5
    signs, and refuses its signatures with a message that names their old format."""
    cosign = place.PROGRAMS / "cosign"
    with setup() as it:
        signed = it.push("signed", "--key=acme.key")
        (it.author.folder / "root.json").write_text(json.dumps(ROOT))
        verify = ("%s verify-attestation --key %s --new-bundle-format --insecure-ignore-tlog"
                  " --trusted-root root.json --type " + STATEMENT + " %s")
        it.shell(verify, cosign, "acme.pub", signed).exits_with(0)
        failed = it.shell(verify, cosign, "other.pub", signed)
        assert failed.code != 0, failed.stderr
        it.shell("%s generate-key-pair --output-key-prefix cosign", cosign).exits_with(0)
        attested = it.push("attested")
        it.shell("echo '{}' >predicate.json\n%s attest --yes --key cosign.key --new-bundle-format"
                 " --tlog-upload=false --predicate predicate.json --type " + STATEMENT + " %s",
                 cosign, attested).exits_with(0)
        it.adds(attested, "cosign.pub")
        it.add(attested, "other.pub").exits_with(4).prints("not signed by the key")
        old = it.push("old")
        it.shell("%s sign --yes --key cosign.key --tlog-upload=false %s", cosign, old).exits_with(0)
        it.add(old, "cosign.pub").exits_with(4).prints("cosign's old format, which is not supported")


def cosign_3():
    """cosign 3 verifies what `push --key` signed, and skillhost what cosign 3 signed."""
    cosign = NEWEST / "cosign"
    with setup() as it:
        signed = it.push("signed", "--key=acme.key")
        verify = "%s verify --key %s --insecure-ignore-tlog %s"
        it.shell(verify, cosign, "acme.pub", signed).exits_with(0)
        failed = it.shell(verify, cosign, "other.pub", signed)
        assert failed.code != 0, failed.stderr
        it.shell("%s generate-key-pair --output-key-prefix cosign", cosign).exits_with(0)
        # An author's key, and one of cosign, one after the other.
        it.shell("%s import-key-pair --key acme.key --output-key-prefix imported", cosign).exits_with(0)
        both = it.push("both")
        for key in ["cosign", "imported"]:
            it.shell("%s sign --yes --key %s.key --tlog-upload=false --use-signing-config=false %s",
                     cosign, key, both).exits_with(0)
        for key in ["cosign.pub", "acme.pub"]:
            it.adds(both, key)
        it.add(both, "other.pub").exits_with(4).prints("not signed by the key")
        # A third signature beside those of cosign, which still verifies its own.
        it.push("both", "--key=other.key")
        it.adds(both, "other.pub")
        it.shell(verify, cosign, "cosign.pub", both).exits_with(0)


def oras(programs):
    """oras pulls what `push` pushed, lists its signature, and pushes what `add` accepts."""
    with setup() as it:
        options = "--plain-http=false --ca-file '%s'" % it.found.ca
        signed = it.push("signed", "--key=acme.key")
        it.shell("mkdir pulled && cd pulled && %s pull %s %s", programs / "oras", options, signed).exits_with(0)
        pulled = (it.author.folder / "pulled/csv.wasm").read_bytes()
        assert pulled == COMPONENT.read_bytes()
        it.shell("%s discover %s %s", programs / "oras", options, signed).exits_with(0).prints(
            "application/vnd.dev.sigstore.bundle")
        pushed = it.found.reference("pushed")
        it.shell("%s push %s %s csv.wasm:application/wasm", programs / "oras", options, pushed).exits_with(0)
        it.adds(pushed)
        it.add(pushed, "acme.pub").exits_with(4).prints("it is unsigned")
        # A copy in another repository keeps the signature, because it is about the bytes.
        copied = it.found.reference("copied")
        it.shell("%s cp -r --from-plain-http=false --to-plain-http=false --from-ca-file '%s' --to-ca-file '%s' %s %s",
                 programs / "oras", it.found.ca, it.found.ca, signed, copied).exits_with(0)
        it.adds(copied, "acme.pub")
        # `add` refuses text as a component.
        text = it.found.reference("text")
        it.shell("echo text >text && %s push %s %s text:text/plain", programs / "oras", options, text).exits_with(0)
        it.add(text).exits_with(4).prints("`text/plain`, not a component")


def wash():
    """wash pulls what `push` pushed, and pushes what `add` accepts."""
    program_of_it = os.environ["WASH"]
    with setup() as it:
        signed = it.push("signed", "--key=acme.key")
        it.shell("%s --non-interactive oci pull %s pulled.wasm", program_of_it, signed).exits_with(0)
        assert (it.author.folder / "pulled.wasm").read_bytes() == COMPONENT.read_bytes()
        pushed = it.found.reference("pushed")
        it.shell("%s --non-interactive oci push %s csv.wasm", program_of_it, pushed).exits_with(0)
        it.adds(pushed)


def sigstore():
    """The npm package of sigstore verifies the bundle of `push --key` with only the public key."""
    verifier = program.REPOSITORY / "tests/packages/node/verify.mjs"
    with setup() as it:
        it.adds(it.push("signed", "--key=acme.key"), "acme.pub")
        lock = (it.operator.folder / "skillhost.lock").read_text()
        (digest,) = [line.partition("sha256:")[2].strip("\"") for line in lock.splitlines()
                     if line.startswith("bundle = ")]
        bundle = it.operator.home / ".local/share/skillhost/store/sha256" / digest
        verify = "'%s' '%s' '%s' %s"
        it.author.shell(verify % (os.environ["NODE"], verifier, bundle, "acme.pub")).exits_with(0)
        failed = it.author.shell(verify % (os.environ["NODE"], verifier, bundle, "other.pub"))
        failed.exits_with(1).prints("SIGNATURE_ERROR")


PARTS = {
    "cosign": cosign_2,
    "oras": lambda: oras(place.PROGRAMS),
    "wash": wash,
    "sigstore": sigstore,
    "newest-cosign": cosign_3,
    "newest-oras": lambda: oras(NEWEST),
}
