"""Fails when an include breaks the layering.

core -> Eigen, Highway, Boost.Math and Boost.Sort, absl status and strings; proto/convert -> core, proto;
proto/text -> nothing;
server -> core, proto, proto/text; client/cpp -> proto, proto/text, core's rule for row sums, recalibration maps, xxhash; client/cli -> client/cpp, core, proto/text; nobody -> tests. core also has no I/O,
no clock, no threads and no log. Inside server: rpc, http -> api -> ingest, compute -> state -> executor,
ingest -> store, and nobody but rpc knows of gRPC. No header includes itself, directly or through others.
Only server.cc, which opens the store, and tests of server/store/local know that implementation of a
store: no other file includes its headers, and no other file of server names SQLite or its files.
"""
import graphlib
import re
import sys

from sources import ROOT, project_files, report

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
SOURCE_SUFFIXES = (".h", ".cc", ".inc")

GRPC_AND_PROTO = ("calibd/v1/", "calibd/rpc/", "grpc/", "grpcpp/", "google/protobuf/", "absl/")
OWN_LAYERS = ("calibd/", "server/", "client/", "core/", "tests/")

# What a layer may include besides the C++ standard library. `others` says whether
# that holds for third-party headers too or only for those of the project.
RULES = {
    "core": dict(
        allowed=("calibd/core/", "base/", "kernels/", "hypothesis/", "scores/", "evidence/", "labels/", "loss/",
                 "numbers/", "evaluation/", "Eigen/", "hwy/", "xmmintrin.h", "boost/math/", "boost/sort/",
                 "absl/status/", "absl/strings/"),
        others=False,
        forbidden=("iostream", "fstream", "filesystem", "chrono", "thread", "future", "ctime",
                   "cstdio", "syncstream")),
    "proto/convert": dict(
        allowed=("calibd/convert/", "calibd/core/", "calibd/v1/", "absl/", "google/protobuf/",
                 "nlohmann/"), others=False,
        forbidden=()),
    "proto/text": dict(allowed=("calibd/text/",), others=False, forbidden=()),
    "server": dict(
        allowed=("calibd/core/", "calibd/convert/", "calibd/text/", "calibd/v1/", "calibd/rpc/",
                 "calibd/inference/v2/", "calibd/store/v1/", "server/"),
        others=True, forbidden=()),
    "client/cpp": dict(
        # The rule for row sums needs only the standard library.
        allowed=("calibd/client/", "calibd/text/", "calibd/core/row_sum.h",
                 "calibd/convert/recalibration.h", "client/cpp/", "fcntl.h", "sys/file.h", "unistd.h",
                 "xxhash.h",
                 *GRPC_AND_PROTO),
        others=False, forbidden=()),
    "client/cli": dict(
        allowed=("calibd/client/", "calibd/core/", "calibd/convert/", "calibd/text/", "calibd/v1/",
                 "calibd/rpc/", "client/cli/"),
        others=True, forbidden=()),
}

# What a folder of server may not include.
GRPC = ("server/rpc/", "grpc/", "grpcpp/")
# The adapters of the transports and the functions that they share.
API = ("server/api/", "server/http/", *GRPC)
SERVER_FORBIDDEN = {
    "server/executor/": ("server/state/", "server/ingest/", "server/compute/",
                         "server/observability/", *API),
    "server/store/": ("server/executor/", "server/state/", "server/ingest/", "server/compute/",
                      "server/observability/", *API),
    "server/state/": ("server/store/", "server/ingest/", "server/compute/",
                      "server/observability/", *API),
    "server/ingest/": ("server/compute/", *API),
    "server/compute/": ("server/ingest/", *API),
    "server/net/": ("server/state/", "server/ingest/", "server/compute/",
                    "server/observability/", *API),
    "server/observability/": API,
    "server/api/": ("server/net/", "server/observability/", "server/http/", *GRPC),
    "server/http/": ("server/state/", "server/ingest/", "server/compute/", *GRPC),
    "server/rpc/": ("server/http/",),
}

LOCAL_STORE = "server/store/local/"
# Files that open a store in a folder, and tests of it.
KNOWS_LOCAL_STORE = re.compile(
    LOCAL_STORE + r"|server/server\.cc$|tests/integration/(store|engine)/|tests/support/sealed_database\."
    r"|tests/unit/server/(log_compaction|log_files|log_upgrade|store\w*|wal_check)_test\.cc$"
    r"|tests/unit/server/log_compaction_fixture\.h$"
    r"|tests/fuzz/log_fuzzer\.cc$|tests/benchmark/ingest_benchmark\.cc$")
# Words for details of the local store, which the interface hides.
LOCAL_WORDS = re.compile(r"sqlite|\bSQL\b|calibd\.db|write-ahead|checkpoint|\bWAL\b|wal_", re.IGNORECASE)


def is_standard(header):
    return re.fullmatch(r"[a-z_0-9]+", header) is not None


def layer_of(path):
    return next((layer for layer in RULES if path.startswith(layer + "/")), None)


def violations(path, text, siblings=()):
    """Problems of the file at `path` (relative to the root) with content `text`.

    siblings: names of the headers in its folder, which it may include by name alone.
    """
    layer = layer_of(path)
    if layer is None:
        return []
    rule = RULES[layer]
    inner = next((folder for folder in SERVER_FORBIDDEN if path.startswith(folder)), None)
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(1) or match.group(2)
        own = match.group(1) is not None and (
            header.startswith(OWN_LAYERS) or header.startswith(".") or "/" not in header)
        if header in rule["forbidden"]:
            reason = f"{layer} does not use <{header}>"
        elif inner and (header.startswith(SERVER_FORBIDDEN[inner])
                        or (inner != "server/rpc/" and header.endswith(".grpc.pb.h"))):
            reason = f"{inner} may not include {header}"
        elif (is_standard(header) or header.startswith(rule["allowed"])
              or (match.group(1) and header in siblings)):
            continue
        elif header.startswith(".") or (own and "/" not in header):
            reason = f'"{header}" does not start at an include folder'
        elif header.startswith(OWN_LAYERS) or not rule["others"]:
            reason = f"{layer} may not include {header}"
        else:
            continue
        found.append(f"{path}:{number}: {reason}")
    return found


def store_leaks(path, text):
    """Places where a file that must not know the local store names it."""
    if KNOWS_LOCAL_STORE.match(path):
        return []
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if match and (match.group(1) or "").startswith(LOCAL_STORE):
            found.append(f"{path}:{number}: only server.cc and tests of {LOCAL_STORE} may include its headers")
        elif path.startswith("server/") and (word := LOCAL_WORDS.search(line)):
            found.append(f"{path}:{number}: {word.group()} belongs into {LOCAL_STORE}")
    return found


def cycles(headers):
    """A cycle of includes, if there is one, among `headers`: the text of each by its path."""
    # core/include/calibd/core/skce.h is included as calibd/core/skce.h, core/src/base/rng.h as base/rng.h.
    by_name = {path.split("/include/")[-1].removeprefix("core/src/"): path for path in headers}
    includes = {}
    for path, text in headers.items():
        folder = path.rsplit("/", 1)[0]
        names = [match[1] for match in map(INCLUDE.match, text.splitlines()) if match and match[1]]
        includes[path] = [found for name in names
                          for found in (by_name.get(name), f"{folder}/{name}") if found in headers]
    try:
        graphlib.TopologicalSorter(includes).prepare()
    except graphlib.CycleError as error:
        return ["headers include each other: " + " <- ".join(error.args[1])]
    return []


def main():
    problems = []
    headers = {}
    for file in project_files(*(layer for layer in RULES), "tests"):
        if file.suffix in SOURCE_SUFFIXES:
            path = str(file.relative_to(ROOT))
            text = file.read_text()
            problems += store_leaks(path, text)
            problems += violations(path, text,
                                   siblings={header.name for header in file.parent.glob("*.h")})
            if file.suffix == ".h":
                headers[path] = text
    return report("layering", problems + cycles(headers))


if __name__ == "__main__":
    sys.exit(main())
