"""The files of deploy for containers, Kubernetes and systemd fit calibd, and calibd runs by them.

    deploy_test.py CALIBD CALIBCTL

No container is started: calibd runs with the settings, the user and the read-only root that the files say.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import tomllib
import unittest
import urllib.request

import yaml

CALIBD, CALIBCTL = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import deployment  # noqa: E402
from calibd_server import CalibdServer  # noqa: E402
from prometheus_server import some_address  # noqa: E402
from wait_for import wait_for  # noqa: E402

SECONDS = 120
# Mutations of the files: each must be found.
MISTAKES = (
    ("Dockerfile", "CALIBD_HTTP_LISTEN=0.0.0.0:8461", "CALIBD_HTTP_LISTEN=0.0.0.0:8462"),
    ("Dockerfile", "CALIBD_DATA_DIR", "CALIBD_DATA_FOLDER"),
    ("Dockerfile", "VOLUME /var/lib/calibd", "VOLUME /data"),
    ("Dockerfile", "EXPOSE 8460 8461", "EXPOSE 8460"),
    ("Dockerfile", "USER 65532:65532\nEXPOSE", "USER 1000:1000\nEXPOSE"),
    ("deploy/compose.yaml", "RUN_BASE: ", "BASE: "),
    ("deploy/compose.yaml", "CALIBD_TLS_KEY", "CALIBD_TLS_KEYS"),
    ("deploy/compose.yaml", "/etc/calibd/tls.key", "/etc/secrets/tls.key"),
    ("deploy/compose.yaml", "127.0.0.1:8460:8460", "8460:8460"),
    ("deploy/compose.yaml", "127.0.0.1:8461:8461", "127.0.0.1:8462:8462"),
    ("deploy/compose.yaml", "cap_drop: [ALL]", "cap_drop: []"),
    ("deploy/compose.yaml", "read_only: true", "read_only: false"),
    ("deploy/compose.yaml", "mem_limit: 3g", "mem_limit: 2g"),
    ("deploy/compose.yaml", "stop_grace_period: 30s", "stop_grace_period: 5s"),
    ("deploy/compose.yaml", "./grafana/calibd.json", "./grafana/dashboard.json"),
    ("deploy/compose.yaml", "CALIBD_SERVER: calibd:8460", "CALIBD_SERVER: calibd:8461"),
    ("deploy/compose.yaml", "  models:\n  prometheus:", "  prometheus:"),
    ("deploy/compose/prometheus.yml", "job_name: calibd", "job_name: server"),
    ("deploy/compose/prometheus.yml", "calibd:8461", "calibd:8460"),
    ("deploy/compose/prometheus.yml", "/etc/calibd/token", "/run/token"),
    ("deploy/compose/prometheus.yml", "calibd_records.yml", "calibd_recorded.yml"),
    ("deploy/compose/datasources.yml", "timeInterval: 15s", "timeInterval: 30s"),
    ("deploy/kubernetes/calibd.toml", "drain-seconds", "drain-second"),
    ("deploy/kubernetes/calibd.toml", "drain-seconds = 10", "drain-seconds = 30"),
    ("deploy/kubernetes/calibd.toml", "0.0.0.0:8461", "0.0.0.0:8000"),
    ("deploy/kubernetes/calibd.toml", "/etc/calibd/tls/tls.key", "/etc/tls/tls.key"),
    ("deploy/kubernetes/calibd.toml", 'data-dir = "/var/lib/calibd"', 'data-dir = "/data"'),
    ("deploy/kubernetes/calibd.toml", "state-memory-bytes = 1073741824", "state-memory-bytes = 4294967296"),
    ("deploy/kubernetes/calibd.toml", "disk-bytes = 8589934592", "disk-bytes = 10737418240"),
    ("deploy/kubernetes/calibd.toml", "calibd.calibd.svc,", ""),
    ("deploy/kubernetes/stateful-set.yaml", "replicas: 1", "replicas: 2"),
    ("deploy/kubernetes/stateful-set.yaml", "replicas: 1", 'replicas: "1"'),
    ("deploy/kubernetes/stateful-set.yaml", "serviceName:", "service:"),
    ("deploy/kubernetes/stateful-set.yaml", "[--config,", "[--configuration,"),
    ("deploy/kubernetes/stateful-set.yaml", "settings/calibd.toml]", "settings/settings.toml]"),
    ("deploy/kubernetes/stateful-set.yaml", "containerPort: 8461", "containerPort: 8460"),
    ("deploy/kubernetes/stateful-set.yaml", "runAsUser: 65532", "runAsUser: 1000"),
    ("deploy/kubernetes/stateful-set.yaml", "fsGroup: 65532", "fsGroup: 1000"),
    ("deploy/kubernetes/stateful-set.yaml", "runAsNonRoot: true", "runAsNonRoot: false"),
    ("deploy/kubernetes/stateful-set.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
    ("deploy/kubernetes/stateful-set.yaml", "seccompProfile", "seccompProfiles"),
    ("deploy/kubernetes/stateful-set.yaml", "ServiceAccountToken: false", "ServiceAccountToken: true"),
    ("deploy/kubernetes/stateful-set.yaml", "path: /healthz", "path: /readyz"),
    ("deploy/kubernetes/stateful-set.yaml", "path: /readyz", "path: /ready"),
    ("deploy/kubernetes/stateful-set.yaml", "scheme: HTTPS", "scheme: HTTP"),
    ("deploy/kubernetes/stateful-set.yaml", "mountPath: /etc/calibd/access\n", "mountPath: /etc/access\n"),
    ("deploy/kubernetes/stateful-set.yaml", "defaultMode: 0440", "defaultMode: 0444"),
    ("deploy/kubernetes/stateful-set.yaml", "storage: 20Gi", "storage: 10Gi"),
    ("deploy/kubernetes/stateful-set.yaml", "memory: 3Gi", "memory: 2Gi"),
    ("deploy/kubernetes/stateful-set.yaml", "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 10"),
    ("deploy/kubernetes/stateful-set.yaml", "registry.invalid/calibd", "calibd:latest"),
    ("deploy/kubernetes/service.yaml", "targetPort: grpc", "targetPort: grcp"),
    ("deploy/kubernetes/service.yaml", "port: 8460", "port: 50051"),
    ("deploy/kubernetes/service.yaml", "  selector:\n    app.kubernetes.io/name: calibd",
     "  selector:\n    app.kubernetes.io/name: server"),
    ("deploy/kubernetes/pod-disruption-budget.yaml", "maxUnavailable: 1", "minAvailable: 1"),
    ("deploy/kubernetes/pod-disruption-budget.yaml", "policy/v1", "policy/v2"),
    ("deploy/kubernetes/network-policy.yaml", "- port: grpc", "- port: grcp"),
    ("deploy/kubernetes/network-policy.yaml", "egress: []", "egress: [{}]"),
    ("deploy/kubernetes/service-monitor.yaml", "serverName: calibd.calibd.svc", "serverName: calibd.example.com"),
    ("deploy/kubernetes/service-monitor.yaml", "port: https", "port: http"),
    ("deploy/kubernetes/service-monitor.yaml", "tlsConfig", "tls"),
    ("deploy/kubernetes/kustomization.yaml", "  - service.yaml\n", ""),
    ("deploy/kubernetes/kustomization.yaml", "files: [calibd.toml]", "files: [settings.toml]"),
    ("deploy/kubernetes/prometheus-rules.yaml", "severity: critical", "severity: warning"),
    ("deploy/prometheus/calibd_alerts.yml", "calibd_recovering == 1", "calibd_recovering == 2"),
    ("deploy/systemd/calibd.service", "LoadCredential=calibd.tls.key", "LoadCredential=tls.key"),
    ("deploy/systemd/calibd.service", "--check-config", "--check-settings"),
    ("deploy/systemd/calibd.toml", "# access-file", "# access-files"),
)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=SECONDS, check=False, **options)


def clean_environment(**more):
    return {name: value for name, value in os.environ.items() if not name.startswith("CALIBD_")} | more


def can_be_a_container():
    """Whether this user may make mount namespaces and change to another user."""
    return os.geteuid() == 0 and run("unshare", "--mount", "true").returncode == 0


class FilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts, cls.settings = deployment.read_texts(), deployment.settings_of(CALIBD)
        # The help has as many settings as docs/operate.md.
        page = (ROOT / "docs/operate.md").read_text(encoding="utf-8")
        assert len(cls.settings[0]) == len(set(re.findall(r"^\| `(--[a-z-]+)`", page, re.M)))

    def test_the_files_fit_calibd_and_each_other(self):
        self.assertEqual(deployment.all_problems(self.texts, self.settings), [])

    def test_each_mistake_is_found(self):
        for name, good, bad in MISTAKES:
            with self.subTest(f"{name}: {bad}"):
                self.assertIn(good, self.texts[name])
                changed = self.texts | {name: self.texts[name].replace(good, bad)}
                self.assertNotEqual(deployment.all_problems(changed, self.settings), [])

    def test_compose_knows_each_key(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "compose.yaml"
            # The program of Debian 12 is older than the name of a project.
            text = re.sub(r"^name: .*\n", "", self.texts["deploy/compose.yaml"], flags=re.M)
            for wanted, change in ((0, text), (1, text.replace("read_only:", "readonly:"))):
                file.write_text(change, encoding="utf-8")
                result = run("docker-compose", "--file", file, "config", "--quiet")
                self.assertEqual(result.returncode, wanted, result.stdout + result.stderr)

    def test_the_rules_for_the_operator_are_written_by_the_script_and_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            result = run(ROOT / "deploy/kubernetes/write-rules", folder / "rules.yaml")
            self.assertEqual(result.returncode, 0, result.stderr)
            text = self.texts["deploy/kubernetes/prometheus-rules.yaml"]
            self.assertEqual((folder / "rules.yaml").read_text(encoding="utf-8"), text,
                             "run deploy/kubernetes/write-rules")
            for i, document in enumerate(yaml.safe_load_all(text)):
                rules = folder / f"{i}.yaml"
                rules.write_text(yaml.safe_dump(document["spec"]), encoding="utf-8")
                result = run("promtool", "check", "rules", rules)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class SecretsTest(unittest.TestCase):
    """deploy/make-secrets, and calibd, Prometheus and calibctl with its files by the settings of deploy."""

    @classmethod
    def setUpClass(cls):
        cls.texts = deployment.read_texts()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        # The server of the test of a container has another user.
        cls.folder.chmod(0o755)
        cls.secrets = cls.folder / "secrets"
        cls.make_secrets(cls.secrets)

    @classmethod
    def make_secrets(cls, secrets, *names):
        result = run(ROOT / "deploy/make-secrets", secrets, *(names or ("calibd", "calibd.calibd.svc", "localhost")),
                     env=clean_environment(PATH=f"{CALIBCTL.parent}:{os.environ['PATH']}"))
        assert result.returncode == 0, result.stdout + result.stderr

    def get(self, server, path, token=None):
        """The status of a path over HTTPS, with the CA of the secrets."""
        context = ssl.create_default_context(cafile=self.secrets / "client/ca.pem")
        port = server.http.rpartition(":")[2]
        request = urllib.request.Request(f"https://localhost:{port}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, context=context, timeout=SECONDS) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def token(self, reader):
        return (self.secrets / reader / "token").read_text(encoding="utf-8").strip()

    def compose_environment(self, service="calibd"):
        """The variables of a service, with the folders of its volumes in place of the volumes."""
        description = yaml.safe_load(self.texts["deploy/compose.yaml"])["services"][service]
        folders = {"server": self.secrets / "server", "client": self.secrets / "client",
                   "models": self.folder / "models"}
        places = {target: folders[source] for source, target in
                  (mount.split(":")[:2] for mount in description["volumes"])}
        (self.folder / "models").mkdir(exist_ok=True)
        environment = {}
        for name, value in description["environment"].items():
            for target, place in places.items():
                value = re.sub(rf"^{target}/", f"{place}/", str(value))
            environment[name] = value
        return environment

    def kubernetes_settings(self):
        """The settings of calibd in Kubernetes with the paths of the secrets here: the path of a file."""
        text = self.texts["deploy/kubernetes/calibd.toml"]
        for path, place in (("/etc/calibd/tls/tls.crt", self.secrets / "server/tls.pem"),
                            ("/etc/calibd/tls/tls.key", self.secrets / "server/tls.key"),
                            ("/etc/calibd/access/", f"{self.secrets}/server/"),
                            ("/var/lib/calibd", self.folder / "kubernetes")):
            self.assertIn(path, text)
            text = text.replace(path, str(place))
        (self.folder / "kubernetes").mkdir(exist_ok=True)
        file = self.folder / "kubernetes.toml"
        file.write_text(text, encoding="utf-8")
        return file

    def test_keys_are_for_their_owner(self):
        for file in ("ca/ca.key", "server/tls.key", "client/token", "prometheus/token", "server/access.toml"):
            self.assertEqual(stat.S_IMODE((self.secrets / file).stat().st_mode), 0o600, file)
        # calibd has no token, and nobody but the CA its key.
        access = (self.secrets / "server/access.toml").read_text(encoding="utf-8")
        self.assertNotIn("calibd_", access)
        self.assertEqual([file.parent.name for file in self.secrets.rglob("ca.key")], ["ca"])

    def test_what_exists_stays_and_a_certificate_that_ends_is_renewed(self):
        secrets = self.folder / "renewed"
        self.make_secrets(secrets, "localhost")

        def texts():
            return {str(file.relative_to(secrets)): file.read_bytes() for file in secrets.rglob("*") if file.is_file()}
        first = texts()
        self.make_secrets(secrets, "localhost")
        self.assertEqual(texts(), first)
        self.make_secrets(secrets, "localhost", "calibd.example.com")
        changed = {name for name, text in texts().items() if first[name] != text}
        self.assertEqual(changed, {"server/tls.key", "server/tls.pem"})
        second = texts()
        # It ends tomorrow.
        result = run("openssl", "req", "-x509", "-key", secrets / "server/tls.key", "-days", "1", "-subj", "/CN=old",
                     "-addext", "subjectAltName=DNS:localhost,DNS:calibd.example.com",
                     "-out", secrets / "server/tls.pem")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.make_secrets(secrets, "localhost", "calibd.example.com")
        self.assertNotEqual(texts()["server/tls.key"], second["server/tls.key"])
        verified = run("openssl", "verify", "-CAfile", secrets / "ca/ca.pem", secrets / "server/tls.pem")
        self.assertEqual(verified.returncode, 0, verified.stderr)

    def test_the_image_does_not_start_without_tls(self):
        environment = clean_environment(**deployment.image(self.texts)["ENV"])
        result = run(CALIBD, "--check-config", env=environment)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("--tls-certificate", result.stderr)
        result = run(CALIBD, "--check-config", env=environment | self.compose_environment())
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_settings_of_kubernetes_are_served(self):
        settings = self.kubernetes_settings()
        result = run(CALIBD, "--config", settings, "--check-config", env=clean_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        wrong = self.folder / "wrong.toml"
        text = settings.read_text(encoding="utf-8")
        wrong.write_text(text.replace("drain-seconds", "drain-second"), encoding="utf-8")
        result = run(CALIBD, "--config", wrong, "--check-config", env=clean_environment())
        self.assertEqual(result.returncode, 2, result.stdout)
        objects = deployment.documents(self.texts)
        (container,) = objects["StatefulSet", "calibd"]["spec"]["template"]["spec"]["containers"]
        (endpoint,) = objects["ServiceMonitor", "calibd"]["spec"]["endpoints"]
        with CalibdServer(CALIBD, "--config", settings) as server:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertEqual(self.get(server, container[probe]["httpGet"]["path"]), 200, probe)
            self.assertEqual(self.get(server, endpoint["path"]), 401)
            self.assertEqual(self.get(server, endpoint["path"], self.token("prometheus")), 200)
            self.assertEqual(self.get(server, "/v1/models", self.token("client")), 200)

    def test_the_services_of_compose_reach_each_other(self):
        environment = self.compose_environment()
        with CalibdServer(CALIBD, environment=environment) as server:
            # The health check of the image has the variables of the server.
            command = json.loads(re.search(r"CMD (\[.*\])", deployment.image(self.texts)["HEALTHCHECK"])[1])
            self.assertEqual(command[0], CALIBD.name)
            result = run(CALIBD, *command[1:], env=clean_environment(**environment, CALIBD_LISTEN=server.grpc))
            self.assertEqual((result.returncode, result.stdout), (0, "SERVING\n"), result.stderr)

            port = server.grpc.rpartition(":")[2]
            client = clean_environment(**self.compose_environment("calibctl") | {"CALIBD_SERVER": f"localhost:{port}"})
            result = run(CALIBCTL, "simulate", "demo", "--generator", "M1", "--n", "100", env=client)
            self.assertEqual(result.returncode, 0, result.stderr)
            result = run(CALIBCTL, "list", env=client | {"CALIBD_TOKEN_FILE": str(self.secrets / "client/ca.pem")})
            self.assertNotEqual(result.returncode, 0, result.stdout)
            self.check_prometheus(server)
        # The audit log is in the volume of the models.
        self.assertIn('"CreateModel"', (self.folder / "models/audit.jsonl").read_text(encoding="utf-8"))

    def check_prometheus(self, server):
        """The configuration of Prometheus scrapes the server, with the rules."""
        folder = self.folder / "prometheus"
        shutil.copytree(ROOT / "deploy/prometheus", folder)
        port = server.http.rpartition(":")[2]
        text = self.texts["deploy/compose/prometheus.yml"].replace("calibd:8461", f"localhost:{port}").replace(
            "/etc/calibd/", f"{self.secrets}/prometheus/").replace("15s", "1s")
        (folder / "prometheus.yml").write_text(text, encoding="utf-8")
        checked = run("promtool", "check", "config", folder / "prometheus.yml")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        address = some_address()
        with open(folder / "log", "w", encoding="utf-8") as log, subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                 f"--web.listen-address={address}"], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT) as prometheus:
            try:
                query = f"http://{address}/api/v1/query?query=up{{job=%22calibd%22}}"
                values = []

                def is_up():
                    try:
                        with urllib.request.urlopen(query, timeout=SECONDS) as response:
                            result = json.load(response)["data"]["result"]
                    except OSError:
                        return prometheus.poll() is not None
                    values[:] = [one["value"][1] for one in result]
                    return values == ["1"] or prometheus.poll() is not None
                wait_for(is_up, SECONDS)
                self.assertEqual(values, ["1"], (folder / "log").read_text(encoding="utf-8"))
            finally:
                prometheus.terminate()

    def test_the_credentials_of_systemd_are_served(self):
        unit, toml = (self.texts[f"deploy/systemd/calibd.{kind}"] for kind in ("service", "toml"))
        credentials = self.folder / "credentials"
        credentials.mkdir()
        for name in re.findall(r"^LoadCredential=(\S+)$", unit, re.M):
            source = {"calibd.client-ca.pem": self.secrets / "ca/ca.pem"}.get(
                name, self.secrets / "server" / name.removeprefix("calibd."))
            shutil.copy(source, credentials / name)
        # All settings that the file proposes.
        text = re.sub(r"^# ([a-z-]+ = )", r"\1", toml, flags=re.M).replace(
            "/run/credentials/calibd.service", str(credentials)).replace("/var/lib/calibd", str(self.folder / "state"))
        self.assertEqual({key for key in tomllib.loads(text) if "tls" in key or "access" in key},
                         {"tls-certificate", "tls-key", "tls-client-ca", "access-file"})
        (self.folder / "calibd.toml").write_text(text, encoding="utf-8")
        reload = re.search(r"^ExecReload=(.*)$", unit, re.M)[1].split()
        self.assertEqual(reload[:3], re.search(r"^ExecStart=(.*)$", unit, re.M)[1].split())

        def reloaded():
            return run(*(word.replace("/usr/bin/calibd", str(CALIBD)).replace(
                "/etc/calibd/calibd.toml", str(self.folder / "calibd.toml")) for word in reload),
                env=clean_environment())
        self.assertEqual(reloaded().returncode, 0, reloaded().stderr)
        (credentials / "calibd.access.toml").write_text("[[principal]]\n", encoding="utf-8")
        self.assertEqual(reloaded().returncode, 2)

    @unittest.skipUnless(can_be_a_container(), "needs the right to make mount namespaces")
    def test_calibd_runs_with_a_read_only_root_and_the_user_of_the_image(self):
        user, group = deployment.image(self.texts)["USER"].split(":")
        box = self.folder / "box"
        for name in ("models", "server"):
            (box / name).mkdir(parents=True)
        for file in (self.secrets / "server").iterdir():
            shutil.copy(file, box / "server")
        for path in (box, box / "models", box / "server", *(box / "server").iterdir()):
            os.chown(path, int(user), int(group))
        ready = box / "models/ready.json"
        # Every mount but that of the models becomes read-only. calibd has no capability and cannot get one.
        script = ('mount --bind "$1" "$1"; '
                  'for place in $(findmnt --list --noheadings --output TARGET | sort -r); do '
                  '[ "$place" = "$1" ] || mount -o remount,bind,ro "$place" || true; done 2>/dev/null; shift; '
                  'for place in / /tmp /usr; do [ -w "$place" ] && exit 77; done; '
                  'exec setpriv --reuid "$1" --regid "$2" --clear-groups --no-new-privs --bounding-set=-all '
                  '--inh-caps=-all "${@:3}"')
        environment = clean_environment(
            CALIBD_TLS_CERTIFICATE=f"{box}/server/tls.pem", CALIBD_TLS_KEY=f"{box}/server/tls.key",
            CALIBD_ACCESS_FILE=f"{box}/server/access.toml", CALIBD_DATA_DIR=f"{box}/models/store",
            CALIBD_AUDIT_LOG=f"{box}/models/audit.jsonl", CALIBD_LISTEN="127.0.0.1:0", CALIBD_HTTP_LISTEN="127.0.0.1:0",
            CALIBD_READY_FILE=str(ready), CALIBD_DRAIN_SECONDS="40")
        with open(self.folder / "box.log", "w+", encoding="utf-8") as log, subprocess.Popen(
                ["unshare", "--mount", "bash", "-c", script, "box", str(box / "models"), user, group, str(CALIBD)],
                env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log) as server:
            try:
                wait_for(lambda: ready.exists() or server.poll() is not None, SECONDS)
                log.seek(0)
                self.assertTrue(ready.exists(), log.read())
                address = json.loads(ready.read_text(encoding="utf-8"))["grpc"]
                client = clean_environment(CALIBD_CLIENT_TLS_CA=str(self.secrets / "client/ca.pem"),
                                           CALIBD_TOKEN_FILE=str(self.secrets / "client/token"))
                result = run(CALIBCTL, "--server", address.replace("127.0.0.1", "localhost"), "simulate", "demo",
                             "--generator", "M1", "--n", "1000", env=client)
                self.assertEqual(result.returncode, 0, result.stderr)
                status = pathlib.Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
                self.assertRegex(status, rf"Uid:\s+{user}\s+{user}")
                self.assertRegex(status, r"CapEff:\s+0+\n")
            finally:
                server.terminate()
        self.assertEqual(server.returncode, 0)


class RefusedStartTest(unittest.TestCase):
    def test_only_what_may_change_by_itself_is_tried_again(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for arguments, code in ((("--drain-second", "10"), 2),
                                    (("--access-file", f"{folder}/missing"), 2),
                                    (("--tls-certificate", f"{folder}/missing", "--tls-key", f"{folder}/missing"), 1),
                                    (("--listen", f"127.0.0.1:{taken.getsockname()[1]}"), 1),
                                    (("--data-dir", "/proc/missing"), 1)):
                with self.subTest(arguments):
                    result = run(CALIBD, "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir",
                                 f"{folder}/data", *arguments, env=clean_environment())
                    self.assertEqual(result.returncode, code, result.stdout + result.stderr)


class HangUpTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log = self.enterContext(open(self.folder / "log", "w+", encoding="utf-8"))

    def serve(self, *before, **options):
        """Starts calibd and waits until it serves."""
        ready = self.folder / "ready"
        server = subprocess.Popen(
            [*before, str(CALIBD), "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir",
             str(self.folder / "data"), "--ready-file", str(ready)],
            stdout=self.log, stderr=self.log, env=clean_environment(CALIBD_DRAIN_SECONDS="40"), **options)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        wait_for(lambda: ready.exists() or server.poll() is not None, SECONDS)
        self.assertTrue(ready.exists(), self.logged())
        return server, json.loads(ready.read_text(encoding="utf-8"))["grpc"]

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def test_a_service_ignores_a_hang_up(self):
        server, address = self.serve(stdin=subprocess.DEVNULL, start_new_session=True)
        server.send_signal(signal.SIGHUP)
        result = run(CALIBCTL, "--server", address, "list", env=clean_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        status = pathlib.Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
        ignored = int(re.search(r"SigIgn:\s+(\w+)", status)[1], 16)
        self.assertTrue(ignored >> (signal.SIGHUP - 1) & 1)
        server.terminate()
        self.assertEqual(server.wait(SECONDS), 0)

    def test_a_closed_terminal_drains_calibd(self):
        terminal, side = os.openpty()
        # setsid makes the terminal that of the process.
        server, _ = self.serve("setsid", "--ctty", stdin=side)
        os.close(side)
        os.close(terminal)
        self.assertEqual(server.wait(SECONDS), 0)
        self.assertIn("drained", self.logged())


if __name__ == "__main__":
    unittest.main()
