"""Uses each artefact of a release as a person would. Arguments: the artefacts' folder, parts."""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import zipfile

from person import CALL, Failure, PATIENCE, REPOSITORY, expect, person

SERVE = ["serve", "--tools", "runners", "--config", "scripts.toml"]
# The user of the image.
IMAGE_USER = "65532:65532"


def one(artefacts, pattern):
    [found] = artefacts.glob(pattern)
    return found


def sums(artefacts):
    """Checks that the lists of the released files are right and complete."""
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=artefacts,
                   check=True)
    names = {path.name for path in artefacts.iterdir()} - {"SHA256SUMS"}
    listed = {line.split("  ")[1] for line in (artefacts / "SHA256SUMS").read_text().splitlines()}
    expect(listed, names)
    statement = json.loads(one(artefacts, "*.provenance.json").read_text())
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    for name in names - {one(artefacts, "*.provenance.json").name}:
        expect(subjects[name], hashlib.sha256((artefacts / name).read_bytes()).hexdigest())
    bill = json.loads(one(artefacts, "*.cdx.json").read_text())
    for name in ["wasmtime", "clap", "rquickjs", "jinja2", "run_skill_script.wasm"]:
        expect([name in (item["name"] for item in bill["components"])], [True])
    for name in ["criterion", "proptest"]:
        expect([name in (item["name"] for item in bill["components"])], [False])


def entry(artefacts):
    """The entry for the MCP registry has what its schema of 2025-12-11 requires, and the packages
    name the entry, as the registry demands."""
    server = json.loads((artefacts / "server.json").read_text())
    expect("/2025-12-11/" in server["$schema"], True)
    expect(bool(re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])), True)
    for key in ["title", "description"]:
        expect(1 <= len(server[key]) <= 100, True)
    with tarfile.open(one(artefacts, "*.tgz")) as archive:
        npm_package = json.load(archive.extractfile("package/package.json"))
    metadata = page_of_wheel(artefacts)
    versions = {"npm": npm_package["version"],
                "pypi": re.search("^Version: (.+)$", metadata, re.MULTILINE)[1]}
    expect(npm_package["mcpName"], server["name"])
    expect("mcp-name: %s " % server["name"] in metadata, True)
    expect({package["registryType"] for package in server["packages"]}, set(versions))
    for package in server["packages"]:
        expect((package["identifier"], package["version"], package["transport"]),
               ("skillhost", versions[package["registryType"]], {"type": "stdio"}))
        expect(server["version"], package["version"])
        for argument in package["packageArguments"]:
            needed = {"positional": {"value"}, "named": {"name"}}[argument["type"]]
            expect(needed - set(argument), set())
            expect(argument.get("format", "string") in ["string", "number", "boolean", "filepath"], True)


def page_of_wheel(artefacts):
    """Returns the metadata of the wheel, which end with the page that Python's registry shows."""
    with zipfile.ZipFile(one(artefacts, "*.whl")) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return archive.read(name).decode()


def follow_page(user, page, *program):
    """Runs the first commands of a package's page, with another program than the published one."""
    commands = re.search("^```sh\n(.+?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    wanted = re.search("^```text\n(.+?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    expect("uvx skillhost " in commands, True)
    commands = commands.replace("uvx skillhost ", '"$@" ')
    start = time.monotonic()
    expect(user.run("sh", "-euc", commands, "sh", *program).stdout, wanted)
    print("the page's result in %.1f s" % (time.monotonic() - start), flush=True)


def wheel(artefacts):
    """pip: install, use, upgrade while a server runs, remove; and the errors on the way."""
    file = one(artefacts, "*.whl")
    with person() as user:
        start = time.monotonic()
        user.run(sys.executable, "-m", "venv", "venv")
        before = files(user.work / "venv")
        pip = [user.work / "venv/bin/pip", "--disable-pip-version-check"]
        install = pip + ["install", "--quiet", "--no-index"]
        user.run(*install, file)
        program = user.work / "venv/bin/skillhost"
        follow_page(user, page_of_wheel(artefacts), program)
        user.tries(program)
        print("from the wheel to results in %.1f s" % (time.monotonic() - start), flush=True)
        listed = json.loads(user.run(program, "runners", "--output", "json").stdout)
        expect([runner["language"] for runner in listed], ["Python", "JavaScript"])
        user.run(program, "new", "--help")

        broken = user.work / file.name
        broken.write_bytes(file.read_bytes()[:-1000])
        refused = user.run(*install, "--force-reinstall", broken, code=1)
        expect(["is invalid" in refused.stderr or "not a zip file" in refused.stderr.lower()],
               [True])
        with user.server(program, *SERVE) as server:
            server.reads()
            user.run(*install, "--force-reinstall", file)
            server.reads()
            server.runs_script()
            with user.server(program, *SERVE) as upgraded:
                upgraded.reads()
                upgraded.runs_script()
        # Two clients start servers at the same time, before anything is compiled.
        failures = []

        def start_server():
            try:
                cache = str(user.folder / "cache")
                with user.server(program, *SERVE, SKILLHOST_CACHE=cache) as server:
                    server.reads()
                    server.runs_script()
            except Exception as error:
                failures.append(error)
        threads = [threading.Thread(target=start_server) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(failures, [])
        # Nothing can be stored in this home, not even by root.
        warned = user.run(program, *CALL, HOME="/proc")
        expect(["`/proc/.cache" in warned.stderr or "/proc" in warned.stderr], [True])

        clients(user, program)
        user.run(*pip, "uninstall", "--quiet", "--yes", "skillhost")
        expect(files(user.work / "venv") - before, set())


def clients(user, program):
    """Runs the clients of the official Python SDK against the program."""
    environment = dict(os.environ, SKILLHOST=str(program), FIXTURE=str(program))
    ended = subprocess.run([REPOSITORY / "tests/clients/run", "python"], env=environment,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                           timeout=3 * PATIENCE)
    if ended.returncode:
        raise Failure("the clients failed:\n" + ended.stdout)


def files(folder):
    return {path for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}


def uv(artefacts):
    """uvx: each with an empty home, so that both results include unpacking."""
    uvx = [os.environ["UV"], "tool", "run", "--offline", "--python", sys.executable,
           "--from", one(artefacts, "*.whl"), "skillhost"]
    with person() as user:
        follow_page(user, page_of_wheel(artefacts), *uvx)
    with person() as user:
        user.tries(*uvx, limit=30)


def npm(artefacts):
    with person() as user:
        package = shutil.copy(one(artefacts, "*.tgz"), user.work)
        # npx takes a path only if it starts with a dot.
        user.tries("npx", "--yes", "--offline", "./" + os.path.basename(package), limit=30)
        user.run("npm", "install", "--offline", "--prefix", "node", package)
        user.tries(user.work / "node/node_modules/.bin/skillhost")


def bundle(artefacts):
    """Runs the command of the manifest, which serves the folder that the user chose."""
    with person() as user:
        folder = user.work / "bundle"
        with zipfile.ZipFile(one(artefacts, "*.mcpb")) as archive:
            for entry in archive.infolist():
                path = archive.extract(entry, folder)
                os.chmod(path, entry.external_attr >> 16)
        server = json.loads((folder / "manifest.json").read_text())["server"]
        values = {"${__dirname}": str(folder), "${user_config.skills}": str(user.work / "skills")}
        command = [server["mcp_config"]["command"], *server["mcp_config"]["args"]]
        for name, value in values.items():
            command = [word.replace(name, value) for word in command]
        expect([path for path in command if "${" in path], [])
        expect(command[0], str(folder / server["entry_point"]))
        with user.server(*command) as running:
            running.reads()


@contextlib.contextmanager
def root_folder(user, root):
    """Mounts what a container runtime does, and the user's work, in another root folder. Yields a
    command prefix."""
    for name in ["proc", "dev", "mnt"]:
        (root / name).mkdir(exist_ok=True)
    script = ('mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && '
              'mount --bind "$2" "$1/mnt" && root=$1 && shift 2 && '
              'exec chroot $SPEC "$root" "$@"')
    yield ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", root, user.work]


def deb(artefacts):
    """dpkg: install, use, upgrade, remove and purge, in a copy-on-write view of this machine."""
    file = one(artefacts, "*.deb")
    with person() as user:
        layers = {name: user.folder / name for name in ["upper", "inner", "root"]}
        for folder in layers.values():
            folder.mkdir()
        shutil.copy(file, user.work / "skillhost.deb")
        (user.work / "use").write_text("""set -eu
cd /mnt
dpkg -i skillhost.deb
skillhost %s
skillhost --tools runners --config scripts.toml call run_skill_script \\
    '{"skill_name": "answers", "script": "scripts/a.py"}'
test -s /usr/share/man/man1/skillhost-serve.1.gz
test -s /usr/share/bash-completion/completions/skillhost
bash -n /usr/share/bash-completion/completions/skillhost
grep -q '^skillhost:' /etc/passwd || ! command -v systemd-sysusers
skillhost --config /etc/skillhost/skillhost.toml grants >/dev/null
echo '# mine' >>/etc/skillhost/skillhost.toml
dpkg -i skillhost.deb
grep -q '# mine' /etc/skillhost/skillhost.toml
dpkg -r skillhost
test ! -e /usr/bin/skillhost
test -e /etc/skillhost/skillhost.toml
dpkg -P skillhost
test ! -e /etc/skillhost
""" % " ".join(CALL))
        script = ('mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/inner" '
                  '"$1/root" && mount -t proc proc "$1/root/proc" && mkdir -p "$1/root/mnt" && '
                  'mount --bind "$1/work" "$1/root/mnt" && '
                  'exec chroot "$1/root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin sh /mnt/use')
        # An overlay cannot have a part of itself as its upper folder, so it gets a tmpfs.
        script = ('mount -t tmpfs tmpfs "$1/upper" && mkdir "$1/upper/up" "$1/upper/in" && '
                  + script.replace('upperdir="$1/upper"', 'upperdir="$1/upper/up"')
                          .replace('workdir="$1/inner"', 'workdir="$1/upper/in"'))
        ended = user.run("unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh",
                         user.folder)
        basic = (REPOSITORY / "skills/calculator/examples/basic.py").read_text()
        expect([basic + "42\n" in ended.stdout], [True])


def image(artefacts):
    """umoci unpacks the image, and its user runs the program in it."""
    with person() as user:
        layout = user.work / "layout"
        with tarfile.open(one(artefacts, "*.oci.tar")) as archive:
            archive.extractall(layout, filter="fully_trusted")
        [manifest] = json.loads((layout / "index.json").read_text())["manifests"]
        tag = manifest["annotations"]["org.opencontainers.image.ref.name"]
        unpacked = user.folder / "unpacked"
        user.run("umoci", "unpack", "--image", "%s:%s" % (layout, tag), unpacked)
        root = unpacked / "rootfs"
        process = json.loads((unpacked / "config.json").read_text())["process"]
        variables = dict(entry.split("=", 1) for entry in process["env"])
        expect(["sh" in (path.name for path in root.rglob("*"))], [False])
        shutil.copytree(user.work / "skills", root / "skills", dirs_exist_ok=True)
        shutil.copy(user.work / "scripts.toml", root / "skills/scripts.toml")
        spec = {"SPEC": "--userspec=" + IMAGE_USER} | {
            name: variables[name] for name in ["SKILLHOST_CACHE"]}
        with root_folder(user, root) as inside:
            expect(process["args"], ["/usr/bin/skillhost", "serve", "--skills", "/skills"])
            expect(user.run(*inside, process["args"][0], "--skills", "/skills", *CALL,
                            **spec).stdout,
                   (REPOSITORY / "skills/calculator/examples/basic.py").read_text())
            with user.server(*inside, *process["args"], "--tools", "runners", "--config",
                             "/mnt/scripts.toml", **spec) as server:
                server.reads()
                server.runs_script()


PARTS = {part.__name__: part for part in [sums, entry, wheel, uv, npm, bundle, deb, image]}


def main():
    artefacts, *names = sys.argv[1:]
    artefacts = pathlib.Path(artefacts)
    for name in names:
        if name not in PARTS:
            sys.exit("unknown part `%s`; the parts are %s" % (name, ", ".join(PARTS)))
    failed = []
    for name in names or PARTS:
        if name in ["deb", "image"] and os.geteuid() != 0:
            sys.exit("the part `%s` needs root" % name)
        print("== %s" % name, flush=True)
        start = time.monotonic()
        try:
            PARTS[name](artefacts)
            result = "passed"
        except (Failure, subprocess.SubprocessError) as error:
            print("WRONG: %s" % error)
            failed.append(name)
            result = "FAILED"
        print("%s in %.0f s" % (result, time.monotonic() - start), flush=True)
    sys.exit("failed: %s" % ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
