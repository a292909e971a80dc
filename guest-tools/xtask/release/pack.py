"""Makes the artefacts of a release from built programs. `cargo xtask release` runs this.

The bytes of each artefact depend only on the inputs, the commit and the zlib of this Python."""
import argparse
import base64
import hashlib
import json
import pathlib
import re
import subprocess

import bill
from archives import File, Folder, ar, compress, tar, zip_file

HERE = pathlib.Path(__file__).resolve().parent
DEPLOY = HERE.parents[2] / "docs/deploy"
REPOSITORY = HERE.parents[2]

NAME = "skillhost"
SUMMARY = "A sandboxed WebAssembly plugin host for agent skills"
LICENSE = "MIT OR Apache-2.0"
# The name in the MCP registry. Its namespace has to be claimed before the first publication.
SERVER_NAME = "io.github.skillhost/skillhost"
# The oldest glibc that the programs run on.
GLIBC = (2, 28)
# The user and group of the container image.
IMAGE_USER = 65532
IMAGE_CACHE = "var/cache/skillhost"

PROGRAMS = ["skillhost", "skillhost-author"]
# The program interpreter of the image, and the folder of its libraries.
LOADER = "lib64/ld-linux-x86-64.so.2"
LIBRARIES = "lib/x86_64-linux-gnu"


class Inputs:
    """The inputs of a release: its version, and the files to pack."""

    def __init__(self, arguments):
        self.version, self.commit, self.epoch = (
            arguments.version, arguments.commit, arguments.epoch)
        self.programs = {name: File((arguments.programs / name).read_bytes(), 0o755)
                         for name in PROGRAMS}
        for name, file in self.programs.items():
            check_symbols(name, file.data)
        self.runners = {path.name: File(path.read_bytes())
                        for path in sorted(arguments.runners.glob("*.wasm"))}
        if len(self.runners) != 2:
            raise SystemExit("cannot pack the runners in `%s`: expected 2 components, found %d"
                             % (arguments.runners, len(self.runners)))
        self.pages = {path.relative_to(arguments.pages).as_posix(): File(path.read_bytes())
                      for path in sorted(arguments.pages.rglob("*")) if path.is_file()}
        self.image = image_libraries(arguments.debian, arguments.programs / "skillhost")
        self.licences = {name: File((REPOSITORY / name).read_bytes())
                         for name in ["LICENSE-APACHE", "LICENSE-MIT"]}
        self.readme = (HERE / "README.md").read_text()

    def share(self):
        """Returns the tree of `share`, the folder beside `bin`."""
        tree = {"skillhost/runners/%s" % name: file for name, file in self.runners.items()}
        return tree | self.pages

    def installed(self):
        """Returns the tree of an installation: `bin` beside `share`."""
        tree = {"bin/%s" % name: file for name, file in self.programs.items()}
        return tree | {"share/%s" % path: file for path, file in self.share().items()}


def check_symbols(name, data):
    """Refuses a program that needs a newer glibc than the packages declare."""
    found = {tuple(map(int, version.split(b"."))) for version in
             re.findall(rb"GLIBC_([0-9]+\.[0-9]+)", data)}
    if not found:
        raise SystemExit("cannot pack `%s`: it names no version of glibc" % name)
    if max(found) > GLIBC:
        raise SystemExit(
            "cannot pack `%s`: it needs glibc %d.%d and the packages promise %d.%d; build it with "
            "`cargo xtask release`" % ((name,) + max(found) + GLIBC))


def image_libraries(debian, program):
    """Returns a tree with the libraries that a program loads, and their licence. All of them belong
    to glibc. The files come from unpacked packages of Debian."""
    listed = subprocess.run(["readelf", "--wide", "--dynamic", program], check=True,
                            stdout=subprocess.PIPE, encoding="utf-8").stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", listed)
    tree = {LOADER: File((debian / "usr" / LOADER).read_bytes(), 0o755)}
    for name in needed:
        path = "%s/%s" % (LIBRARIES, name)
        if name != pathlib.Path(LOADER).name:
            tree[path] = File((debian / "usr" / path).read_bytes(), 0o755)
    copyright = "usr/share/doc/libc6/copyright"
    tree[copyright] = File((debian / copyright).read_bytes())
    return tree


def wheel(inputs):
    info = "%s-%s.dist-info" % (NAME, inputs.version)
    data = "%s-%s.data" % (NAME, inputs.version)
    tag = "py3-none-manylinux_%d_%d_x86_64" % GLIBC
    tree = {"%s/scripts/%s" % (data, name): file for name, file in inputs.programs.items()}
    tree |= {"%s/data/share/%s" % (data, path): file for path, file in inputs.share().items()}
    tree |= {"%s/licenses/%s" % (info, name): file for name, file in inputs.licences.items()}
    metadata = [
        "Metadata-Version: 2.4", "Name: " + NAME, "Version: " + inputs.version,
        "Summary: " + SUMMARY, "License-Expression: " + LICENSE,
        *("License-File: " + name for name in inputs.licences),
        "Requires-Python: >=3.8", "Description-Content-Type: text/markdown", "",
        # The MCP registry looks for this name in the description.
        "<!-- mcp-name: %s -->" % SERVER_NAME, "", inputs.readme]
    tree[info + "/METADATA"] = text("\n".join(metadata))
    tree[info + "/WHEEL"] = text("Wheel-Version: 1.0\nGenerator: cargo xtask release\n"
                                 "Root-Is-Purelib: false\nTag: %s\n" % tag)
    record = ["%s,sha256=%s,%d" % (path, urlsafe_digest(file.data), len(file.data))
              for path, file in sorted(tree.items())]
    record.append(info + "/RECORD,,")
    tree[info + "/RECORD"] = text("\n".join(record) + "\n")
    return {"%s-%s-%s.whl" % (NAME, inputs.version, tag): zip_file(tree, inputs.epoch)}


def npm(inputs):
    package = {
        "name": NAME, "version": inputs.version, "description": SUMMARY, "license": LICENSE,
        "mcpName": SERVER_NAME, "os": ["linux"], "cpu": ["x64"], "libc": ["glibc"],
        "bin": {name: "bin/" + name for name in PROGRAMS},
    }
    tree = inputs.installed() | inputs.licences
    tree["package.json"] = as_json(package)
    tree["README.md"] = text(inputs.readme)
    archive = tar(tree, inputs.epoch, "package/")
    return {"%s-%s.tgz" % (NAME, inputs.version): compress(archive)}


def deb(inputs):
    tree = {"usr/" + path: file for path, file in inputs.installed().items()}
    for name in [path for path in tree if path.startswith("usr/share/man/")]:
        tree[name + ".gz"] = File(compress(tree.pop(name).data))
    tree["usr/lib/systemd/system/skillhost.service"] = File((DEPLOY / "skillhost.service").read_bytes(), 0o644)
    tree["usr/lib/sysusers.d/skillhost.conf"] = template("skillhost.sysusers")
    tree["etc/skillhost/skillhost.toml"] = template("skillhost.toml")
    tree["usr/share/doc/skillhost/copyright"] = text(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
        "Files: *\nCopyright: the authors of skillhost\nLicense: %s\n%s" % (
            LICENSE, "".join(debian_licence(name, file) for name, file in inputs.licences.items())))
    size = sum(len(file.data) for file in tree.values()) // 1024
    control = {
        "control": text(
            "Package: skillhost\nVersion: %s\nArchitecture: amd64\nMaintainer: %s\n"
            "Installed-Size: %d\nDepends: libc6 (>= %d.%d)\nSection: utils\nPriority: optional\n"
            "Description: %s\n Agents read skills through tools. Every tool is a WebAssembly\n"
            " component, and every call runs in a fresh sandbox.\n"
            % ((inputs.version, "skillhost <skillhost@localhost>", size) + GLIBC + (SUMMARY,))),
        "conffiles": text("/etc/skillhost/skillhost.toml\n"),
        "md5sums": text("".join(
            "%s  %s\n" % (hashlib.md5(file.data).hexdigest(), path)
            for path, file in sorted(tree.items()) if not path.startswith("etc/"))),
        "postinst": template("postinst", 0o755),
        "prerm": template("prerm", 0o755),
    }
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", compress(tar(control, inputs.epoch, "./"))),
        ("data.tar.gz", compress(tar(tree, inputs.epoch, "./"))),
    ]
    return {"%s_%s_amd64.deb" % (NAME, inputs.version): ar(members, inputs.epoch)}


def image(inputs):
    """Returns a container image, as a tar of an OCI layout. It has the program, the runners and
    the C library. Certificate authorities are compiled into the program."""
    account = "skillhost:x:%d:%d::/nonexistent:/nonexistent\n" % (IMAGE_USER, IMAGE_USER)
    tree = {
        "usr/bin/skillhost": inputs.programs["skillhost"],
        "etc/passwd": text(account),
        "etc/group": text("skillhost:x:%d:\n" % IMAGE_USER),
        "skills": Folder(),
        "tmp": Folder(0o1777),
        IMAGE_CACHE: Folder(0o700, IMAGE_USER),
    }
    tree |= inputs.image
    tree |= {"usr/share/skillhost/runners/" + name: file for name, file in inputs.runners.items()}
    layer = tar(tree, inputs.epoch)
    created = bill.moment(inputs.epoch)
    config = {
        "created": created, "architecture": "amd64", "os": "linux",
        "config": {
            "User": "%d:%d" % (IMAGE_USER, IMAGE_USER),
            "Env": ["PATH=/usr/bin", "SKILLHOST_CACHE=/" + IMAGE_CACHE],
            "Entrypoint": ["/usr/bin/skillhost"],
            "Cmd": ["serve", "--skills", "/skills"],
            "WorkingDir": "/",
            "Labels": {"org.opencontainers.image.title": NAME,
                       "org.opencontainers.image.version": inputs.version,
                       "org.opencontainers.image.revision": inputs.commit,
                       "org.opencontainers.image.licenses": LICENSE},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest(layer)]},
        "history": [{"created": created, "created_by": "cargo xtask release"}],
    }
    layout = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"})}

    def blob(media_type, data, **more):
        layout["blobs/sha256/" + digest(data)] = File(data)
        return {"mediaType": media_type, "digest": "sha256:" + digest(data), "size": len(data)} | more

    kind = "application/vnd.oci.image."
    manifest = as_json({
        "schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
        "config": blob(kind + "config.v1+json", as_json(config).data),
        "layers": [blob(kind + "layer.v1.tar+gzip", compress(layer))],
    })
    layout["index.json"] = as_json({
        "schemaVersion": 2, "mediaType": kind + "index.v1+json",
        "manifests": [blob(kind + "manifest.v1+json", manifest.data,
                           platform={"architecture": "amd64", "os": "linux"},
                           annotations={"org.opencontainers.image.ref.name": inputs.version})],
    })
    return {"%s-%s-amd64.oci.tar" % (NAME, inputs.version): tar(layout, inputs.epoch)}


def bundle(inputs):
    manifest = {
        "manifest_version": "0.3", "name": NAME, "version": inputs.version,
        "description": SUMMARY, "license": LICENSE, "author": {"name": "The authors of skillhost"},
        "server": {
            "type": "binary", "entry_point": "bin/skillhost",
            "mcp_config": {
                "command": "${__dirname}/bin/skillhost",
                "args": ["serve", "--skills", "${user_config.skills}"],
            },
        },
        "user_config": {
            "skills": {
                "type": "directory", "title": "Skills", "required": True,
                "description": "The folder with your skills. Agents can read it, and nothing else.",
            },
        },
        "compatibility": {"platforms": ["linux"]},
    }
    tree = inputs.installed() | inputs.licences
    del tree["bin/skillhost-author"]
    tree["manifest.json"] = as_json(manifest)
    return {"%s-%s-linux-x64.mcpb" % (NAME, inputs.version): zip_file(tree, inputs.epoch)}


def registry_entry(inputs):
    """Returns the entry for the MCP registry. It lists no other kinds of packages, because these
    need the addresses of published files."""
    skills = [{
        "type": "positional", "value": "serve"}, {
        "type": "named", "name": "--skills", "isRequired": True, "format": "filepath",
        "description": "The folder with your skills"}]
    packages = [{
        "registryType": kind, "identifier": NAME, "version": inputs.version,
        "runtimeHint": hint, "transport": {"type": "stdio"}, "packageArguments": skills,
    } for kind, hint in [("pypi", "uvx"), ("npm", "npx")]]
    return {"server.json": as_json({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": SERVER_NAME, "title": NAME, "description": SUMMARY, "version": inputs.version,
        "packages": packages,
    }).data}


def template(name, mode=0o644):
    return File((HERE / name).read_bytes(), mode)


def debian_licence(name, file):
    """Returns a licence as a field of Debian's copyright file: indented, with a dot on each empty
    line."""
    lines = (" " + (line or ".") for line in file.data.decode().splitlines())
    return "\nLicense: %s\n%s\n" % (
        {"LICENSE-APACHE": "Apache-2.0", "LICENSE-MIT": "MIT"}[name], "\n".join(lines))


def text(value):
    return File(value.encode())


def as_json(value):
    return text(json.dumps(value, indent=2) + "\n")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def urlsafe_digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["programs", "pages", "runners", "debian", "out"]:
        parser.add_argument("--" + name, required=True, type=pathlib.Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--epoch", required=True, type=int)
    return parser.parse_args()


def main():
    given = arguments()
    inputs = Inputs(given)
    artefacts = {}
    for make in [wheel, npm, deb, image, bundle, registry_entry]:
        artefacts |= make(inputs)
    components = inputs.programs | inputs.runners
    artefacts["%s-%s.cdx.json" % (NAME, inputs.version)] = as_json(
        bill.bill_of_materials(REPOSITORY, inputs, components)).data
    artefacts["%s-%s.provenance.json" % (NAME, inputs.version)] = as_json(
        bill.provenance(REPOSITORY, inputs, artefacts)).data
    artefacts["SHA256SUMS"] = "".join(
        "%s  %s\n" % (digest(data), name) for name, data in sorted(artefacts.items())).encode()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, data in artefacts.items():
        (given.out / name).write_bytes(data)
        print("%s  %7.1f MB  %s" % (digest(data)[:16], len(data) / 1e6, name))


if __name__ == "__main__":
    main()
