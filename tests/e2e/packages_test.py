"""The Debian packages install and work on this machine and on a bare Debian 12.

    packages_test.py PRESET

The bare system is made by debootstrap from the archive that apt uses here, which needs root.
"""
import datetime
import email.utils
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402
from wait_for import wait_for  # noqa: E402

PRESET = sys.argv.pop(1)
UNIT = (ROOT / "deploy/systemd/calibd.service").read_text(encoding="utf-8")
EXEC_START = re.search(r"^ExecStart=(.*)$", UNIT, re.M)[1]
# Settings for any free ports.
PORTS = 'listen = "127.0.0.1:0"\nhttp-listen = "127.0.0.1:0"\n'
BINARIES = ROOT / "build" / PRESET / "bin"
# A project of a user of the C++ SDK, with its files, its commands and what they print.
PAGE = (ROOT / "docs/cpp.md").read_text(encoding="utf-8")
BLOCK = r"^<!-- %s -->\n```\w*\n(.*?)^```$"
# A user that owns nothing, like the dynamic user of the unit.
USER = 61184


def run(*command, timeout=900, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            timeout=timeout, check=False, stdin=subprocess.DEVNULL, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def package_archive():
    """The archive of Debian 12 that apt uses here."""
    for line in run("apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)").splitlines():
        release, _, site = line.partition(" ")
        if release == "bookworm":
            return site
    raise AssertionError("apt has no archive of bookworm")


def blocks(mark):
    found = re.findall(BLOCK % mark, PAGE, re.M | re.S)
    assert found, mark
    return found


def write_project(folder, server):
    """Writes the project of docs/cpp.md and a script with its commands, which print OUTPUT last."""
    for name, text in blocks("input (\\S+)"):
        (folder / name).write_text(text, encoding="utf-8")
    (commands,) = blocks("run cpp")
    (folder / "commands").write_text(
        "set -e\n" + commands.replace("127.0.0.1:8460", server.grpc), encoding="utf-8")


(OUTPUT,) = blocks("output")


class PackagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        paths = run(ROOT / "deploy/package", env=dict(os.environ, CALIBD_PRESET=PRESET))
        cls.packages = {pathlib.Path(path).name.partition("_")[0]: pathlib.Path(path)
                        for path in paths.split()}

    @unittest.skipIf(os.geteuid() == 0, "the test on a bare Debian 12 builds it too")
    def test_a_program_is_built_with_the_sdk(self):
        with tempfile.TemporaryDirectory() as folder, CalibdServer(BINARIES / "calibd") as server:
            folder = pathlib.Path(folder)
            run("dpkg-deb", "--extract", self.packages["libcalibd-dev"], folder / "root")
            write_project(folder, server)
            output = run("sh", "commands", cwd=folder,
                         env=dict(os.environ, CMAKE_PREFIX_PATH=f"{folder}/root/usr"))
            self.assertTrue(output.endswith(OUTPUT), output)
            # A repeated run counts nothing again.
            self.assertIn("observations: 3\n", run(folder / "build/monitor", server.grpc))

    def test_the_alerts_and_the_unit_lead_to_installed_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "--extract", self.packages["calibd"], folder)
            share = pathlib.Path(folder) / "usr/share"
            alerts = (share / "calibd/calibd_alerts.yml").read_text(encoding="utf-8")
            pages = set(re.findall(r"runbook_url: .*?}}(.*?)#", alerts))
            self.assertTrue(pages)
            for page in (*pages, "README.md", "CHANGELOG.md", "changelog.gz", "copyright"):
                self.assertTrue((share / "doc/calibd" / page).exists(), page)
            self.assertIn("Documentation=file:///usr/share/doc/calibd\n", UNIT)
            for file in ("calibd_records.yml", "alertmanager.yml", "make-secrets", "grafana/calibd.json",
                         "provisioning/dashboards/calibd.yml", "provisioning/datasources/calibd.yml"):
                self.assertTrue((share / "calibd" / file).exists(), file)

    def test_the_same_sources_give_the_same_packages(self):
        def hashes():
            return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in self.packages.items()}
        first = hashes()
        self.assertEqual(len(first), 5, "four packages and the list of parts")
        # Neither the time nor the umask of whoever builds them counts.
        run(ROOT / "deploy/package", umask=0o077,
            env={**os.environ, "CALIBD_PRESET": PRESET, "TZ": "Asia/Kolkata", "LC_ALL": "C.UTF-8"})
        self.assertEqual(hashes(), first)
        changelog = (ROOT / "deploy/debian/changelog.in").read_text(encoding="utf-8")
        date = email.utils.parsedate_to_datetime(re.search(r"^ -- .*  (.*)$", changelog, re.M)[1])
        for path in self.packages.values():
            if path.suffix == ".deb":
                files = run("dpkg-deb", "--contents", path, env=dict(os.environ, TZ="UTC"))
                times = set(re.findall(r"(\d{4}-\d\d-\d\d \d\d:\d\d) \./", files))
                self.assertEqual(times, {date.astimezone(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")})
                # Where it was built does not count either.
                with tempfile.TemporaryDirectory() as folder:
                    run("dpkg-deb", "--extract", path, folder)
                    found = subprocess.run(["grep", "-rlF", str(ROOT), folder], capture_output=True, text=True,
                                           timeout=60, check=False)
                    self.assertEqual((found.returncode, found.stdout), (1, ""))

    def test_the_installed_programs_are_hardened(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, path in (("calibd", "usr/bin/calibd"), ("calibctl", "usr/bin/calibctl"),
                               ("python3-calibd", "usr/lib/python3/dist-packages/calibd")):
                run("dpkg-deb", "--extract", self.packages[name], f"{folder}/{name}")
                program = pathlib.Path(folder) / name / path
                library = program.is_dir()
                if library:
                    (program,) = program.glob("*.so")
                with self.subTest(name):
                    self.check_hardened(program, library)

    def check_hardened(self, program, library):
        header, segments, dynamic, symbols = (run("readelf", "-W", option, program) for option in (
            "--file-header", "--segments", "--dynamic", "--dyn-syms"))
        self.assertRegex(header, r"Type: +DYN")
        if not library:
            self.assertRegex(dynamic, r"FLAGS_1.*\bPIE\b")
        # Full RELRO.
        self.assertRegex(segments, r"GNU_RELRO")
        self.assertRegex(dynamic, r"BIND_NOW")
        # The stack holds no code, and nothing is both writable and executable.
        self.assertRegex(segments, r"GNU_STACK( +0x0+)+ +RW +0x")
        self.assertNotRegex(segments, r"\bRWE\b")
        self.assertNotRegex(dynamic, r"R(UN)?PATH|TEXTREL")
        self.assertIn("__stack_chk_fail", symbols)
        self.assertRegex(symbols, r"__(?!stack)\w+_chk\b")
        # Debian's own files of each program lack the mark for CET, so the linker leaves it out of the program.
        # The functions of calibd have the instruction that CET needs.
        code = run("objdump", "--disassemble", "--section=.text", "--no-show-raw-insn", program)
        self.assertGreater(code.count("endbr64"), 1000)

    def test_the_list_of_parts_has_each_library_and_the_packages_of_the_page(self):
        parts = json.loads(self.packages["calibd.cdx.json"].read_text(encoding="utf-8"))
        self.assertEqual((parts["bomFormat"], parts["specVersion"]), ("CycloneDX", "1.5"))
        self.assertIn(f"_{parts['metadata']['component']['version']}_", self.packages["calibd"].name)
        components = {component["name"]: component for component in parts["components"]}
        files = {one["value"] for component in components.values() for one in component.get("properties", ())
                 if one["name"] == "calibd:sharedLibrary"}
        for program in ("calibd", "calibctl"):
            loaded = re.findall(r"(\S+) => /", run("ldd", BINARIES / program))
            self.assertGreater(len(loaded), 10)
            self.assertEqual(set(loaded) - files, set(), program)
        for name, component in components.items():
            kind, _, rest = component["purl"].partition("/")
            if kind == "pkg:deb":
                version = run("dpkg-query", "-W", "-f=${Version}", name)
                self.assertEqual(component["version"], version)
                self.assertTrue(rest.startswith(f"debian/{name}@"), rest)
        # A package that stands for others is replaced by them.
        self.assertNotIn("libboost-dev", components)
        for name in ("libeigen3-dev", "libboost1.74-dev", "libgrpc++1.51", "libssl3"):
            self.assertIn(name, components)
        licences = (ROOT / "page/dist/LICENSES.txt").read_text(encoding="utf-8")
        of_page = {f"{name} {component['version']}" for name, component in components.items()
                   if component["purl"].startswith("pkg:npm/")}
        self.assertEqual(of_page, set(re.findall(r"^(\S+ [\d.]+), ", licences, re.M)))
        listed = {ref for dependency in parts["dependencies"] for ref in dependency["dependsOn"]}
        self.assertEqual(listed, {component["bom-ref"] for component in parts["components"]})

    def test_the_unit_is_valid_and_hardened(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "calibd.service"
            unit.write_text(UNIT.replace("/usr/bin/calibd", str(BINARIES / "calibd")),
                            encoding="utf-8")
            run("systemd-analyze", "verify", unit)
            run("systemd-analyze", "security", "--offline=true", "--threshold=13", unit)
        settings = re.findall(r"^([A-Za-z]+)=(.*)$", UNIT, re.M)
        # /metrics reads the boot time from /proc/stat, which this setting hides.
        self.assertNotIn("ProcSubset", dict(settings))
        # A later line wins: background threads may lower their priority.
        filters = [value for name, value in settings if name == "SystemCallFilter"]
        self.assertGreater(filters.index("setpriority"), filters.index("~@privileged @resources"))
        # systemd does not start calibd again with settings that it refuses.
        wrong = subprocess.run([BINARIES / "calibd", "--listen", "nowhere"], capture_output=True,
                               timeout=60, check=False)
        self.assertEqual(dict(settings)["RestartPreventExitStatus"], str(wrong.returncode))

    def test_the_settings_name_the_folder_of_the_models(self):
        settings = (ROOT / "deploy/systemd/calibd.toml").read_text(encoding="utf-8")
        folder = tomllib.loads(settings)["data-dir"]
        self.assertEqual(folder, "/var/lib/" + re.search(r"^StateDirectory=(.*)$", UNIT, re.M)[1])
        with tempfile.TemporaryDirectory() as other:
            other = pathlib.Path(other)
            (other / "calibd.toml").write_text(
                settings.replace(folder, str(other / "models")) + PORTS +
                f'ready-file = "{other}/ready"\n', encoding="utf-8")
            command = EXEC_START.replace("/usr/bin/calibd", str(BINARIES / "calibd")).replace(
                "/etc/calibd/calibd.toml", str(other / "calibd.toml"))
            with subprocess.Popen(command.split(), stdin=subprocess.DEVNULL,
                                  env=dict(os.environ, CALIBD_DRAIN_SECONDS="40")) as service:
                wait_for(lambda: (other / "ready").exists() or service.poll() is not None, 60)
                service.terminate()
            self.assertEqual(service.returncode, 0)
            self.assertTrue((other / "models/calibd.db").exists())

    @unittest.skipUnless(os.geteuid() == 0, "debootstrap needs root")
    def test_the_packages_work_on_a_bare_debian_12(self):
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
            system = pathlib.Path(folder) / "system"
            run("debootstrap", "--variant=minbase", "bookworm", system, package_archive())
            self.install(system, "calibd", "calibctl")
            for path in ("man/man1/calibctl-show.1.gz", "bash-completion/completions/calibctl"):
                self.assertTrue((system / "usr/share" / path).exists(), path)
            self.check_service(system)
            with CalibdServer(BINARIES / "calibd") as server:
                self.check_python(system, server)
                self.check_cpp(system, server)
            run("chroot", system, "apt-get", "purge", "--yes", "calibd", "python3-calibd")
            self.assertFalse((system / "usr/lib/python3/dist-packages/calibd").exists())
            self.assertFalse((system / "var/lib/calibd").exists())
            self.assertFalse((system / "etc/calibd").exists())

    def install(self, system, *names, tools=()):
        """Installs packages of this project with what they depend on, and tools of Debian."""
        for name in names:
            shutil.copy(self.packages[name], system / "opt" / f"{name}.deb")
        run("chroot", system, "apt-get", "install", "--yes", "--no-install-recommends",
            *(f"/opt/{name}.deb" for name in names), *tools,
            env=dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C"))

    def check_python(self, system, server):
        self.install(system, "python3-calibd")
        shutil.copy(ROOT / "client/python/examples/send_predictions.py", system / "opt")
        in_system = ("chroot", f"--userspec={USER}:{USER}", system)
        output = run(*in_system, "python3", "/opt/send_predictions.py", server.grpc)
        self.assertIn("accepted rows: 4, counted before: 0", output)
        self.assertEqual(run(*in_system, "python3", "-c", "import calibd; print(calibd.evaluate("
                             "[.2, .9], [0, 1]).status)"), "UNDECIDED\n")
        module, version, cached = run(
            *in_system, "python3", "-c", "import calibd.client, importlib.metadata; print("
            "calibd.__file__, importlib.metadata.version('calibd'), calibd.client.__cached__)").split()
        self.assertEqual(module, "/usr/lib/python3/dist-packages/calibd/__init__.py")
        self.assertIn(f"_{version}_", self.packages["python3-calibd"].name)
        self.assertTrue((system / cached.lstrip("/")).exists(), "the modules are not compiled")

    def check_cpp(self, system, server):
        """The SDK's package depends on all that a project needs, except a compiler and CMake."""
        self.install(system, "libcalibd-dev", tools=("g++", "cmake", "make"))
        work = system / "opt/monitor"
        work.mkdir()
        write_project(work, server)
        output = run("chroot", system, "sh", "-c", "cd /opt/monitor && sh commands")
        self.assertTrue(output.endswith(OUTPUT), output)
        # A repeated run counts nothing again.
        self.assertIn("observations: 3\n",
                      run("chroot", system, "/opt/monitor/build/monitor", server.grpc))

    def check_service(self, system):
        """Starts ExecStart as an unprivileged user and uses it."""
        state = system / "var/lib/calibd"
        state.mkdir(mode=0o700)
        os.chown(state, USER, USER)
        with open(system / "etc/calibd/calibd.toml", "a", encoding="utf-8") as settings:
            settings.write(PORTS + 'ready-file = "/tmp/ready"\n')
        in_system = ("chroot", f"--userspec={USER}:{USER}", str(system))
        service = subprocess.Popen((*in_system, *EXEC_START.split()), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            ready = system / "tmp/ready"
            wait_for(lambda: ready.exists() or service.poll() is not None, 60)
            self.assertTrue(ready.exists(), "calibd did not become ready")
            address = re.search(r'"grpc": *"([^"]*)"', ready.read_text(encoding="utf-8"))[1]
            run(*in_system, "calibd", "healthcheck", "--listen", address)
            run(*in_system, "calibctl", "--server", address, "simulate", "m1", "--generator", "M1",
                "--n", "1000", "--seed", "1")
            self.assertIn("1000 labelled rows",
                          run(*in_system, "calibctl", "--server", address, "show", "m1"))
        finally:
            service.terminate()
            output, _ = service.communicate(timeout=60)
        self.assertEqual(service.returncode, 0, output)


if __name__ == "__main__":
    unittest.main()
