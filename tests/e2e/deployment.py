"""What the files of deploy/compose.yaml and deploy/kubernetes must have in common with calibd and each other.

Each function returns the problems that it finds. `texts` has the texts of the files by their path in
the repository, so that a test can change one.
"""
import pathlib
import re
import subprocess
import sys
import tomllib

import jsonschema
import kubernetes.client
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lint"))
from dockerfile_policy import instructions  # noqa: E402

COMPOSE, DOCKERFILE = "deploy/compose.yaml", "Dockerfile"
FOLDER, SETTINGS = "deploy/kubernetes/", "deploy/kubernetes/calibd.toml"
PROMETHEUS = "deploy/compose/prometheus.yml"
# Memory besides that of models, calls, observations and tests: code, gRPC, SQLite and /metrics.
OTHER_MEMORY = 1 << 30
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "": 1}
# Kinds of the operator of Prometheus, with the keys that are used here.
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
TEXT = {"type": "string"}


def _object(**properties):
    return {"type": "object", "additionalProperties": False, "properties": properties,
            "required": list(properties)}


SECRET_KEY = _object(name=TEXT, key=TEXT)
OPERATOR_SPECS = {
    "ServiceMonitor": _object(
        selector=_object(matchLabels=STRINGS),
        endpoints={"type": "array", "minItems": 1, "items": _object(
            port=TEXT, path=TEXT, scheme={"enum": ["http", "https"]}, interval=TEXT,
            authorization=_object(type=TEXT, credentials=SECRET_KEY),
            tlsConfig=_object(ca=_object(secret=SECRET_KEY), serverName=TEXT))}),
    # promtool checks the groups.
    "PrometheusRule": _object(groups={"type": "array", "minItems": 1}),
}


def _load(text):
    return yaml.load(text, Loader=yaml.CSafeLoader)


def read_texts():
    files = [ROOT / DOCKERFILE, ROOT / COMPOSE, *(ROOT / "deploy/compose").glob("*.yml"),
             *(ROOT / FOLDER).glob("*.yaml"), ROOT / SETTINGS,
             *(ROOT / "deploy/systemd").iterdir(), *(ROOT / "deploy/prometheus").glob("calibd_*s.yml"),
             *(ROOT / "deploy/grafana/provisioning").glob("*/*.yml")]
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


def settings_of(calibd):
    """The environment variable of each flag of the program: {"--listen": "CALIBD_LISTEN"}; and its defaults."""
    text = subprocess.run([calibd, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=True, timeout=60).stdout
    found = re.findall(r"^  (--[a-z-]+)(.*?) \(Env:(\w+)\)", text, re.M)
    return ({flag: variable for flag, _, variable in found},
            {flag: value.rpartition("=")[2] for flag, value, _ in found if "=" in value})


def number(text):
    """A number of bytes: 3Gi, 3g, 1024."""
    digits, unit = re.fullmatch(r"(\d+)([A-Za-z]*)", str(text)).groups()
    return int(digits) * UNITS[unit]


def seconds(text):
    return int(re.fullmatch(r"(\d+)s?", str(text))[1])


def image(texts):
    """The last stage of the Dockerfile: {keyword: arguments}, with ENV as a dictionary."""
    steps = instructions(texts[DOCKERFILE])
    last = max(i for i, (keyword, _) in enumerate(steps) if keyword == "FROM")
    found = dict(steps[last:])
    found["ENV"] = dict(re.findall(r"(\w+)=(\S+)", found["ENV"]))
    return found


def port_of(address):
    return int(address.rpartition(":")[2])


def dockerfile_problems(texts, settings):
    variables, defaults = settings
    stage, problems = image(texts), []
    for variable in stage["ENV"]:
        if variable not in variables.values():
            problems.append(f"Dockerfile: calibd has no variable {variable}")
    if any("INSECURE" in variable for variable in stage["ENV"]):
        problems.append("Dockerfile: the image is insecure unless someone changes it")
    ports = {port_of(defaults["--listen"]), port_of(defaults["--http-listen"])}
    if {int(port) for port in stage["EXPOSE"].split()} != ports:
        problems.append(f"Dockerfile: EXPOSE is not {ports}")
    if {port_of(stage["ENV"].get(name, ":0")) for name in ("CALIBD_LISTEN", "CALIBD_HTTP_LISTEN")} != ports:
        problems.append(f"Dockerfile: the addresses do not have the ports {ports}")
    if stage["ENV"].get("CALIBD_DATA_DIR") != stage["VOLUME"]:
        problems.append("Dockerfile: VOLUME is not the folder of the models")
    return problems


def memory_problems(name, values, limit, defaults):
    """Whether the settings of calibd, {flag: value}, fit into the limit of its container."""
    def value(flag):
        return int(values.get(flag, defaults[flag]))
    threads = value("--compute-threads")
    if threads == 0:
        return [f"{name}: the memory of tests is not bounded without --compute-threads"]
    needed = (value("--state-memory-bytes") + value("--call-memory-bytes") + value("--ingest-queue-bytes") +
              threads * value("--test-memory-bytes") + OTHER_MEMORY)
    return [] if needed <= limit else [f"{name}: the settings allow {needed} bytes, and the limit is {limit}"]


def compose_problems(texts, settings):
    variables, defaults = settings
    flags = {variable: flag for flag, variable in variables.items()}
    compose = _load(texts[COMPOSE])
    services, problems, stage = compose["services"], [], image(texts)
    ports = {int(port) for port in stage["EXPOSE"].split()}
    used = set()
    bases = [value.rpartition(":-")[2].rstrip("}") for value in compose["x-build"]["args"].values()]

    def require(condition, problem):
        if not condition:
            problems.append(f"{COMPOSE}: {problem}")

    require(bases == ["debian:bookworm", "debian:bookworm-slim"], f"the bases are {bases}")
    require(set(compose["x-build"]["args"]) == set(re.findall(r"^ARG (\w+)$", texts[DOCKERFILE], re.M)),
            "the arguments of the Dockerfile have other names")
    for name, service in services.items():
        require(service.get("read_only") is True, f"{name}: the root is not read-only")
        require(service.get("cap_drop") == ["ALL"], f"{name}: keeps capabilities")
        require("no-new-privileges:true" in service.get("security_opt", ()), f"{name}: may gain privileges")
        require("user" not in service and "privileged" not in service, f"{name}: runs as another user")
        serves = service.get("restart") == "unless-stopped"
        require(not serves or "healthcheck" in service or service.get("image") == "calibd",
                f"{name}: has no health check")
        require(not serves or "mem_limit" in service, f"{name}: has no limit of memory")
        for port in service.get("ports", ()):
            address, outside, inside = port.split(":")
            require(address == "127.0.0.1" and outside == inside, f"{name}: port {port}")
        targets = []
        for mount in service.get("volumes", ()):
            source, target = mount.split(":")[:2]
            targets.append(target)
            if source.startswith("."):
                require((ROOT / "deploy" / source).exists(), f"{name}: {source} does not exist")
            else:
                used.add(source)
        for variable, value in service.get("environment", {}).items():
            if str(value).startswith("/"):
                require(any(str(value).startswith(target + "/") for target in targets),
                        f"{name}: {value} is in no volume")
        for other, condition in service.get("depends_on", {}).items():
            require(other in services, f"{name}: depends on {other}, which does not exist")
            require(condition["condition"] == ("service_completed_successfully" if other == "setup" else
                                               "service_healthy"), f"{name}: does not wait for {other}")
    require(used == set(compose["volumes"]), f"volumes {used ^ set(compose['volumes'])} are not used, or unknown")
    calibd = services["calibd"]
    environment = calibd["environment"]
    for variable in environment:
        require(variable in flags, f"calibd has no variable {variable}")
    require({int(port.rpartition(":")[2]) for port in calibd["ports"]} == ports, f"calibd's ports are not {ports}")
    require(f"models:{stage['VOLUME']}" in calibd["volumes"], "the models are not in a volume")
    require(seconds(calibd["stop_grace_period"]) > int(environment["CALIBD_DRAIN_SECONDS"]),
            "calibd is killed before it has drained")
    values = {flags[variable]: value for variable, value in environment.items() if variable in flags}
    problems += memory_problems(COMPOSE, values, number(calibd["mem_limit"]), defaults)
    prometheus = _load(texts[PROMETHEUS])
    mounted = {mount.split(":")[1] for mount in services["prometheus"]["volumes"]}
    for rules in prometheus["rule_files"]:
        require(f"/etc/prometheus/{rules}" in mounted, f"Prometheus has no {rules}")
    (job,) = prometheus["scrape_configs"]
    require(job["job_name"] == "calibd", "the rules need the job name calibd")
    host, port = job["static_configs"][0]["targets"][0].split(":")
    require(host in services and host in environment["CALIBD_HTTP_HOSTS"].split(","), f"no service {host}")
    require(int(port) == port_of(stage["ENV"]["CALIBD_HTTP_LISTEN"]), f"Prometheus scrapes port {port}")
    require(services["calibctl"]["environment"]["CALIBD_SERVER"] == f"calibd:{port_of(defaults['--listen'])}",
            "calibctl calls another port")
    for file in (job["authorization"]["credentials_file"], job["tls_config"]["ca_file"]):
        require(any(file.startswith(target + "/") for target in mounted), f"Prometheus has no {file}")
    source, host_source = (_load(texts[name])["datasources"][0] for name in (
        "deploy/compose/datasources.yml", "deploy/grafana/provisioning/datasources/calibd.yml"))
    require({**source, "url": ""} == {**host_source, "url": ""}, "the sources of data of Grafana differ")
    require(source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"],
            "Grafana takes another scrape_interval")
    dashboards = _load(texts["deploy/grafana/provisioning/dashboards/calibd.yml"])
    folder = dashboards["providers"][0]["options"]["path"]
    require(f"./grafana/calibd.json:{folder}/calibd.json:ro" in services["grafana"]["volumes"],
            "Grafana has no dashboard")
    return problems


def model_problems(value, kind, place):
    """Differences between a value and a type of the API of Kubernetes, as its Python package has it."""
    if kind.startswith("list["):
        if not isinstance(value, list):
            return [f"{place} is no list"]
        return [problem for i, item in enumerate(value)
                for problem in model_problems(item, kind[5:-1], f"{place}[{i}]")]
    if kind.startswith("dict("):
        if not isinstance(value, dict):
            return [f"{place} is no map"]
        inner = kind[5:-1].split(", ")[1]
        return [problem for key, item in value.items()
                for problem in model_problems(item, inner, f"{place}.{key}")]
    simple = {"str": str, "int": int, "bool": bool, "object": (str, int)}
    if kind in simple:
        right = isinstance(value, simple[kind]) and (kind != "int" or not isinstance(value, bool))
        return [] if right else [f"{place} is {value!r}, expected {kind}"]
    model = getattr(kubernetes.client, kind)
    if not isinstance(value, dict):
        return [f"{place} is no {kind}"]
    names = {key: name for name, key in model.attribute_map.items()}
    problems = [f"{place} has no field {key}" for key in value if key not in names]
    known = {names[key]: item for key, item in value.items() if key in names}
    try:
        model(**known)
    except ValueError as error:
        problems.append(f"{place}: {error}")
    for name, item in known.items():
        problems += model_problems(item, model.openapi_types[name], f"{place}.{model.attribute_map[name]}")
    return problems


def documents(texts):
    """All objects of deploy/kubernetes: {(kind, name): object}."""
    found = {}
    for name, text in texts.items():
        if name.startswith(FOLDER) and name.endswith(".yaml") and not name.endswith("kustomization.yaml"):
            for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
                if document is not None:
                    found[document["kind"], document["metadata"]["name"]] = document
    return found


def schema_problems(texts):
    problems = []
    for (kind, name), document in documents(texts).items():
        place = f"{kind} {name}"
        if kind in OPERATOR_SPECS:
            schema = _object(apiVersion={"const": "monitoring.coreos.com/v1"}, kind=TEXT,
                             metadata=_object(name=TEXT), spec=OPERATOR_SPECS[kind])
            problems += [f"{place}: {error.message}"
                         for error in jsonschema.Draft7Validator(schema).iter_errors(document)]
            continue
        group, _, version = document["apiVersion"].rpartition("/")
        api = {"": "Core", "apps": "Apps", "policy": "Policy", "networking.k8s.io": "Networking"}.get(group)
        if api is None or not hasattr(kubernetes.client, f"{api}{version.upper()}Api"):
            problems.append(f"{place}: unknown apiVersion {document['apiVersion']}")
            continue
        problems += model_problems(document, version.upper() + kind, place)
    return problems


def kubernetes_problems(texts, settings):
    variables, defaults = settings
    objects, problems = documents(texts), []

    def require(condition, problem):
        if not condition:
            problems.append(problem)

    kustomization = _load(texts[FOLDER + "kustomization.yaml"])
    present = {name.removeprefix(FOLDER) for name in texts if name.startswith(FOLDER)} - {"kustomization.yaml"}
    (generator,) = kustomization["configMapGenerator"]
    require(set(kustomization["resources"]) | set(generator["files"]) == present, "kustomization.yaml lacks a file")
    require(("Namespace", kustomization["namespace"]) in objects, "the namespace does not exist")

    values = {f"--{key}": value for key, value in tomllib.loads(texts[SETTINGS]).items()}
    for flag in values:
        require(flag in variables, f"calibd has no setting {flag}")
    values = {**defaults, **values}
    stage = image(texts)
    user = [int(part) for part in stage["USER"].split(":")]

    workload = objects["StatefulSet", "calibd"]["spec"]
    pod, labels = workload["template"]["spec"], workload["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    require(workload["replicas"] == 1, "the store belongs to one calibd")
    require(ports == {"grpc": port_of(values["--listen"]), "https": port_of(values["--http-listen"])},
            f"calibd does not listen on {ports}")
    for variable, flag in (("CALIBD_LISTEN", "--listen"), ("CALIBD_HTTP_LISTEN", "--http-listen"),
                           ("CALIBD_DATA_DIR", "--data-dir")):
        require(stage["ENV"][variable] == values[flag], f"{variable} of the image wins over {flag}")
    require("env" not in container and "envFrom" not in container, "a setting may hide the one of the file")
    for argument in container["args"]:
        require(not argument.startswith("-") or argument in variables, f"calibd has no flag {argument}")

    context = pod["securityContext"]
    require(context["runAsNonRoot"] is True, "may run as root")
    require([context["runAsUser"], context["runAsGroup"]] == user, f"the user of the image is {user}")
    require(context["fsGroup"] == user[1], "the volumes belong to another group")
    require(context["seccompProfile"] == {"type": "RuntimeDefault"}, "has no seccomp profile")
    own = container["securityContext"]
    require(own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True
            and own["capabilities"] == {"drop": ["ALL"]}, "the container may too much")
    require(pod["automountServiceAccountToken"] is False, "has a token for Kubernetes")
    require(pod["enableServiceLinks"] is False, "Kubernetes sets variables CALIBD_...")
    require(pod["terminationGracePeriodSeconds"] > int(values["--drain-seconds"]), "is killed before it has drained")
    require("@" in container["image"] or container["image"].startswith("registry.invalid/"), "an image by tag")

    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        call = container[probe]["httpGet"]
        require(call["port"] == "https" and call["scheme"] == "HTTPS", f"{probe} calls another port")
        # A recovering server is not ready. It must not be killed.
        require(call["path"] == ("/readyz" if probe == "readinessProbe" else "/healthz"), f"{probe}: {call['path']}")

    claims = {claim["metadata"]["name"]: claim["spec"] for claim in workload["volumeClaimTemplates"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    require({mount["name"] for mount in mounts.values()} == set(claims) | set(volumes), "volumes without a mount")
    require(not any("subPath" in mount for mount in mounts.values()), "a file of a subPath is not renewed")
    writable = {path for path, mount in mounts.items() if not mount.get("readOnly")}
    require(writable == {values["--data-dir"]}, f"calibd writes to {writable}")
    require(volumes["settings"]["configMap"]["name"] == generator["name"], "the settings have another name")
    paths = [values[flag] for flag in ("--tls-certificate", "--tls-key", "--access-file")]
    for path in [*paths, container["args"][1]]:
        require(str(pathlib.Path(path).parent) in mounts, f"{path} is in no volume")
    for name in ("tls", "access"):
        require(volumes[name]["secret"]["defaultMode"] & 0o007 == 0, f"everyone may read the secret {name}")
    require(pathlib.Path(container["args"][1]).name in generator["files"], "the settings are another file")

    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    require(limits["memory"] == requests["memory"], "memory that is not reserved may be missing")
    require(int(limits["cpu"]) >= max(int(values["--compute-threads"]), int(values["--writer-threads"])) > 0,
            "more threads than CPUs")
    problems += memory_problems("StatefulSet", values, number(limits["memory"]), defaults)
    storage = number(claims["models"]["resources"]["requests"]["storage"])
    require(storage >= 2 * int(values["--disk-bytes"]) + 10 * int(values["--audit-log-bytes"]),
            "the volume is too small for --disk-bytes and --audit-log-bytes")

    service = objects["Service", "calibd"]
    require(workload["serviceName"] == "calibd", "the StatefulSet has another service")
    service_ports = {port["name"]: port for port in service["spec"]["ports"]}
    require({name: port["port"] for name, port in service_ports.items()} == ports
            and all(port["targetPort"] == name for name, port in service_ports.items()), "the ports of the Service")
    budget = objects["PodDisruptionBudget", "calibd"]["spec"]
    require(budget.get("maxUnavailable") == 1, "the budget blocks the drain of a node")
    policy = objects["NetworkPolicy", "calibd"]["spec"]
    require(set(policy["policyTypes"]) == {"Ingress", "Egress"} and policy["egress"] == [], "calibd calls nobody")
    for rule in policy["ingress"]:
        require(rule.get("from"), "everyone reaches calibd")
        require(all(port["port"] in ports for port in rule["ports"]), "the policy has an unknown port")
    for selector in (workload["selector"]["matchLabels"], service["spec"]["selector"],
                     budget["selector"]["matchLabels"], policy["podSelector"]["matchLabels"]):
        require(selector and selector.items() <= labels.items(), f"{selector} does not select the pod")

    monitor = objects["ServiceMonitor", "calibd"]["spec"]
    (endpoint,) = monitor["endpoints"]
    require(monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items(),
            "the ServiceMonitor does not select the Service")
    require(endpoint["port"] == "https" and endpoint["scheme"] == "https", "the ServiceMonitor has another port")
    require(endpoint["tlsConfig"]["serverName"] in values["--http-hosts"].split(","), "serverName is no known name")
    # The operator takes the name of the Service as the name of the job.
    require('up{job="calibd"}' in texts["deploy/prometheus/calibd_alerts.yml"], "the rules have another job")
    for rules in ("alerts", "records"):
        written = objects["PrometheusRule", f"calibd-{rules}"]["spec"]
        require(written == _load(texts[f"deploy/prometheus/calibd_{rules}.yml"]),
                "deploy/kubernetes/write-rules writes prometheus-rules.yaml")
    return problems


def systemd_problems(texts, settings):
    variables, _ = settings
    unit, toml = texts["deploy/systemd/calibd.service"], texts["deploy/systemd/calibd.toml"]
    problems = []
    credentials = set(re.findall(r"^LoadCredential=(\S+)$", unit, re.M))
    named = set(re.findall(r"/run/credentials/calibd\.service/(\S+?)\"", toml))
    if credentials != named:
        problems.append(f"calibd.service and calibd.toml name different credentials: {credentials ^ named}")
    for key in re.findall(r"^#? ?([a-z-]+) = ", toml, re.M):
        if f"--{key}" not in variables:
            problems.append(f"calibd.toml: calibd has no setting {key}")
    for command in re.findall(r"^Exec\w+=(.*)$", unit, re.M):
        for flag in re.findall(r"--[a-z-]+", command):
            if flag not in {*variables, "--check-config"}:
                problems.append(f"calibd.service: calibd has no flag {flag}")
    return problems


def all_problems(texts, settings):
    problems = schema_problems(texts)
    for check in (dockerfile_problems, compose_problems, kubernetes_problems, systemd_problems):
        try:
            problems += check(texts, settings)
        except (KeyError, TypeError, ValueError) as error:
            problems.append(f"{check.__name__}: {error!r}")
    return problems
