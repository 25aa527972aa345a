#!/usr/bin/env -S /usr/bin/python3 -B
"""Prints what programs of calibd consist of, as CycloneDX 1.5 in JSON.

    deploy/sbom.py PROGRAM...

The packages of Debian with the shared libraries that the programs load, the packages of Debian whose
headers and archives are compiled into them, and the packages of npm in the page. deploy/packages and
page/package-lock.json name them; dpkg of this machine knows their versions, so run it where the
programs were built.
"""
import base64
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]


def section(name):
    """The packages of one section of deploy/packages."""
    inside, packages = False, set()
    for line in (ROOT / "deploy/packages").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            inside = line == f"[{name}]"
        elif inside and line and not line.startswith("#"):
            packages.add(line)
    return packages


def loaded_libraries(program):
    """Paths of the shared libraries that the program loads, by their names."""
    resolved = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"(\S+) => (/\S+)", resolved))


def owners(libraries):
    """The Debian packages that the libraries belong to: {path of a library: package}."""
    found = {}
    # dpkg knows a file by the path it was installed to, which may lie outside /usr.
    real = {str(library): str(pathlib.Path(library).resolve()) for library in libraries}
    paths = set(real.values()) | {path.removeprefix("/usr") for path in real.values()}
    listed = subprocess.run(["dpkg-query", "-S", *sorted(paths)], capture_output=True, text=True,
                            check=False).stdout
    owner_of = {path: owner.split(":")[0] for owner, path in
                (line.split(": ", 1) for line in listed.splitlines())}
    for library, path in real.items():
        owner = owner_of.get(path) or owner_of.get(path.removeprefix("/usr"))
        if owner is None:
            raise RuntimeError(f"no Debian package owns {path}")
        found[library] = owner
    return found


def query(form, *packages):
    return subprocess.run(["dpkg-query", *form, *packages], check=True, capture_output=True, text=True).stdout


def header_packages():
    """The packages whose headers are compiled in. A package without headers stands for those that it needs."""
    found = set()
    for package in section("build"):
        if not package.endswith("-dev"):
            continue
        if "/usr/include/" in query(["-L"], package):
            found.add(package)
        else:
            needed = query(["-W", "-f=${Depends}"], package)
            found |= set(re.findall(r"[\w.+-]+-dev\b", needed))
    return found


def debian_components(programs):
    libraries = {}
    for program in programs:
        for name, path in loaded_libraries(program).items():
            libraries.setdefault(path, name)
    files = {}
    for path, package in owners(libraries).items():
        files.setdefault(package, set()).add(libraries[path])
    headers = header_packages()
    components = []
    for line in query(["-W", "-f=${Package} ${Version} ${Architecture}\n"], *sorted({*files, *headers})).splitlines():
        name, version, architecture = line.split()
        properties = [{"name": "calibd:sharedLibrary", "value": file} for file in sorted(files.get(name, ()))]
        if name in headers:
            properties.append({"name": "calibd:compiledIn", "value": "headers or archives"})
        purl = (f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='~')}"
                f"?arch={architecture}&distro=debian-12")
        components.append({"type": "library", "bom-ref": purl, "name": name, "version": version,
                           "scope": "required", "purl": purl, "properties": properties})
    return components


def page_components():
    lock = json.loads((ROOT / "page/package-lock.json").read_text(encoding="utf-8"))
    components = []
    for path, package in lock["packages"].items():
        # The root is the page itself. Tools that build and check the page are not in it.
        if path == "" or package.get("dev"):
            continue
        name = path.rpartition("node_modules/")[2]
        algorithm, _, digest = package["integrity"].partition("-")
        purl = f"pkg:npm/{urllib.parse.quote(name)}@{package['version']}"
        components.append({
            "type": "library", "bom-ref": purl, "name": name, "version": package["version"],
            "scope": "required", "purl": purl,
            "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"),
                        "content": base64.b64decode(digest).hex()}],
            "licenses": [{"license": {"id": package["license"]}}]})
    return components


def bill_of_materials(programs):
    version = re.search(r"^project\(calibd VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"),
                        re.M)[1]
    purl = f"pkg:generic/calibd@{version}"
    components = sorted(debian_components(programs) + page_components(), key=lambda one: one["bom-ref"])
    metadata = {"component": {"type": "application", "bom-ref": purl, "name": "calibd", "version": version,
                              "purl": purl, "licenses": [{"license": {"id": "Apache-2.0"}}]}}
    if "SOURCE_DATE_EPOCH" in os.environ:
        time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
        metadata["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": metadata,
            "components": components,
            "dependencies": [{"ref": purl, "dependsOn": [one["bom-ref"] for one in components]}]}


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PROGRAM...")
    print(json.dumps(bill_of_materials(sys.argv[1:]), indent=2))
