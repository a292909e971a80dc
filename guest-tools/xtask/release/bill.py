"""The bill of materials of a release (CycloneDX), and its provenance (in-toto)."""
import hashlib
import json
import os
import re
import subprocess
import time
import uuid

TARGET = "x86_64-unknown-linux-gnu"
# The packages of the programs. The other files of a release are built from the workspace
# guest-tools and from these.
ROOTS = ["skillhost-cli", "skillhost-author"]
JAVASCRIPT_RUNNER = "guest-tools/runners/javascript"
PYTHON_REQUIREMENTS = "guest-tools/runners/python/requirements.txt"


def moment(epoch):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))


def bill_of_materials(repository, inputs, files):
    """Returns a CycloneDX document: the crates that the programs link or that run in their builds,
    and the packages of the runners."""
    components = {}
    for folder, roots, target in [
            ("", ROOTS, TARGET),
            ("guest-tools", None, "wasm32-wasip2"),
            (JAVASCRIPT_RUNNER, None, "wasm32-wasip2")]:
        for crate in crates(repository / folder, roots, target):
            components[crate["bom-ref"]] = crate
    for name, version in requirements(repository / PYTHON_REQUIREMENTS):
        reference = "pkg:pypi/%s@%s" % (name, version)
        components[reference] = {"type": "library", "bom-ref": reference, "name": name,
                                 "version": version, "purl": reference}
    for name, file in files.items():
        components["file:" + name] = {
            "type": "file", "bom-ref": "file:" + name, "name": name, "version": inputs.version,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.data).hexdigest()}]}
    identity = "%s %s %s" % (inputs.version, inputs.commit, TARGET)
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6",
        "serialNumber": "urn:uuid:%s" % uuid.uuid5(uuid.NAMESPACE_OID, identity), "version": 1,
        "metadata": {
            "timestamp": moment(inputs.epoch),
            "component": {"type": "application", "bom-ref": "skillhost", "name": "skillhost",
                          "version": inputs.version,
                          "licenses": [{"expression": "MIT OR Apache-2.0"}]},
        },
        "components": [component for _, component in sorted(components.items())],
    }


def crates(folder, roots, target):
    """Yields a component for each registry crate that the packages `roots` of a workspace depend on.
    `None` stands for all its members."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--locked", "--format-version", "1",
               "--filter-platform", target, "--manifest-path", str(folder / "Cargo.toml")]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [package["id"] for package in metadata["packages"]
               if package["id"] in metadata["workspace_members"]
               and (roots is None or package["name"] in roots)]
    checksums = checksums_of(folder / "Cargo.lock")
    seen = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for dependency in nodes[current]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    for package in (packages[name] for name in seen):
        if package["source"] is None:
            continue
        name, version = package["name"], package["version"]
        reference = "pkg:cargo/%s@%s" % (name, version)
        component = {"type": "library", "bom-ref": reference, "name": name, "version": version,
                     "purl": reference,
                     "hashes": [{"alg": "SHA-256", "content": checksums[name, version]}]}
        if package["license"]:
            # Older crates separate their choices with a slash.
            expression = package["license"].replace(" / ", " OR ").replace("/", " OR ")
            component["licenses"] = [{"expression": expression}]
        yield component


def checksums_of(lock):
    block = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"')
    return {(name, version): checksum for name, version, checksum in
            block.findall(lock.read_text())}


def requirements(file):
    return re.findall(r"^([A-Za-z0-9_.-]+)==([^ \\;\n]+)", file.read_text(), re.MULTILINE)


def provenance(repository, inputs, artefacts):
    """Returns an unsigned in-toto statement with SLSA provenance. Whoever signs it states that they
    are the builder."""
    locks = ["Cargo.lock", "guest-tools/Cargo.lock", JAVASCRIPT_RUNNER + "/Cargo.lock",
             "guest-tools/toolchain.lock", "guest-tools/xtask/release/requirements.txt",
             "guest-tools/kits/c/requirements.txt", PYTHON_REQUIREMENTS]
    materials = [{"uri": "git:skillhost", "digest": {"gitCommit": inputs.commit}}]
    materials += [{"uri": "file:" + lock, "digest": {
        "sha256": hashlib.sha256((repository / lock).read_bytes()).hexdigest()}} for lock in locks]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": hashlib.sha256(data).hexdigest()}}
                    for name, data in sorted(artefacts.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:skillhost:xtask-release:1",
                "externalParameters": {"command": "cargo xtask release", "target": TARGET,
                                       "version": inputs.version},
                "internalParameters": {"SOURCE_DATE_EPOCH": inputs.epoch},
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": "urn:skillhost:xtask"}},
        },
    }
