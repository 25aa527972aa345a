"""Fails when the Dockerfile leaves what an image of calibd promises.

Bases that whoever builds it names by digest, packages from deploy/packages only, built by deploy/run,
a numeric non-root user, exec form, SIGTERM as the stop signal, calibd's own health check, OCI labels.
The packages of the section [run] are those that own the libraries of the built binaries.
"""
import json
import re
import subprocess
import sys

from sources import ROOT, report

sys.path.insert(0, str(ROOT / "deploy"))
from sbom import loaded_libraries, owners, section  # noqa: E402

LABELS = ("title", "description", "licenses", "version")


def instructions(text):
    """(keyword, arguments) of each instruction, continuation lines joined."""
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    return [(m.group(1).upper(), m.group(2).strip())
            for m in re.finditer(r"(?m)^([A-Za-z]+)\s+(.*)$", joined)]


def is_exec_form(arguments):
    try:
        words = json.loads(arguments)
    except ValueError:
        return False
    return isinstance(words, list) and all(isinstance(word, str) for word in words)


def dockerfile_violations(text):
    steps = instructions(text)
    problems = []

    def require(condition, problem):
        if not condition:
            problems.append(f"Dockerfile: {problem}")

    stages = [arguments.split() for keyword, arguments in steps if keyword == "FROM"]
    names = {stage[-1] for stage in stages if len(stage) == 3}
    bases = [stage[0] for stage in stages if stage[0] not in names]
    require(bases == ["${BUILD_BASE}", "${RUN_BASE}"], f"bases are {bases}, expected the arguments")
    arguments = [arguments for keyword, arguments in steps if keyword == "ARG"]
    require(arguments == ["BUILD_BASE", "RUN_BASE"], f"a default is no digest: {arguments}")
    runs = " ; ".join(arguments for keyword, arguments in steps if keyword == "RUN")
    require("apt" not in re.sub(r"/var/lib/apt/lists", "", runs),
            "calls apt itself; the packages come from deploy/install-packages")
    require("deploy/install-packages run" in runs, "does not run deploy/install-packages run")
    require("deploy/run --build-only" in runs, "is not built by deploy/run --build-only")
    last_from = max((i for i, (keyword, _) in enumerate(steps) if keyword == "FROM"), default=0)
    final = {keyword: arguments for keyword, arguments in steps[last_from:]}
    require(re.fullmatch(r"[1-9]\d*:[1-9]\d*", final.get("USER", "")),
            "USER is not a numeric non-root user:group")
    require(is_exec_form(final.get("ENTRYPOINT", "")), "ENTRYPOINT is not in exec form")
    require("CMD" not in final or is_exec_form(final["CMD"]), "CMD is not in exec form")
    require(final.get("STOPSIGNAL") == "SIGTERM", "STOPSIGNAL is not SIGTERM")
    health = re.search(r"\bCMD\s+(.*)$", final.get("HEALTHCHECK", ""))
    require(health and is_exec_form(health.group(1))
            and json.loads(health.group(1))[:2] == ["calibd", "healthcheck"],
            'HEALTHCHECK is not CMD ["calibd", "healthcheck"]')
    for label in LABELS:
        require(f"org.opencontainers.image.{label}=" in final.get("LABEL", ""),
                f"has no label org.opencontainers.image.{label}")
    return problems


def needed_libraries(binary):
    """Paths of the shared libraries that the binary itself names."""
    dynamic = subprocess.run(["objdump", "-p", str(binary)], check=True, capture_output=True,
                             text=True).stdout
    names = set(re.findall(r"NEEDED\s+(\S+)", dynamic))
    paths = loaded_libraries(binary)
    return {paths[name] for name in names if name in paths}


def runtime_violations(binaries):
    wanted = set().union(*(owners(needed_libraries(binary)).values() for binary in binaries))
    listed = section("run")
    return ([f"deploy/packages: [run] lacks {package}" for package in sorted(wanted - listed)] +
            [f"deploy/packages: [run] has {package}, which no binary needs"
             for package in sorted(listed - wanted)])


def main(binaries):
    problems = dockerfile_violations((ROOT / "Dockerfile").read_text())
    return report("Dockerfile policy", problems + runtime_violations(binaries))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
