"""Fails when an include breaks the layering.

core -> Eigen, Highway, Boost.Math and Boost.Sort, absl status and strings; proto/convert -> core, proto;
proto/text -> nothing;
server -> core, proto, proto/text; client/cpp -> proto, proto/text, core's rule for row sums, recalibration maps, xxhash; client/cli -> client/cpp, core, proto/text; nobody -> tests. core also has no I/O,
no clock, no threads and no log. Inside server, SERVER_ROOMS says which rooms a room may include, and only
rpc and the health check know of gRPC. Units, each a header with its source, do not include each other in a
circle. The rooms of core include each other as CORE_ROOMS says.
Only server.cc, which opens the store, and tests of server/store/local and server/store/postgres know these
implementations of a store: no other file includes their headers, except for commands and the check of the
settings, and no other file of server names SQLite or its files.
"""
import graphlib
import re
import sys

from sources import ROOT, project_files, report

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
SOURCE_SUFFIXES = (".h", ".cc", ".inc")

GRPC_AND_PROTO = ("calibd/v1/", "calibd/rpc/", "grpc/", "grpcpp/", "google/protobuf/", "absl/")
OWN_LAYERS = ("calibd/", "server/", "client/", "core/", "tests/")

# The rooms of core, which are the folders of core/src, and the rooms that each may include. A public
# header is in the room of its source.
CORE_ROOMS = {
    "base": (),
    "kernels": ("base",),
    "hypothesis": ("base", "kernels"),
    "scores": ("base", "kernels", "hypothesis"),
    "evidence": ("base", "kernels", "hypothesis"),
    "loss": ("base", "kernels", "hypothesis"),
    "numbers": ("base", "kernels", "hypothesis", "scores", "evidence", "loss"),
    "labels": ("base", "kernels", "hypothesis", "scores", "evidence"),
    "evaluation": ("base", "kernels", "hypothesis", "scores", "evidence", "loss", "numbers", "labels"),
}
# The rooms of public headers without a source.
HEADER_ROOMS = {
    "condition": "loss",
    "evidence_state": "evidence",
    "forecast_experts": "numbers",
    "fourier_size": "base",
    "labelled_rows": "base",
    "line_vector": "base",
    "outcome_kernel": "loss",
    "prediction_batch": "base",
    "probability": "base",
    "quantile_order": "base",
    "row_sum": "base",
    "rows_until_decided": "scores",
    "run_control": "base",
    "simd_target": "kernels",
    "status_macros": "base",
}

# What a layer may include besides the C++ standard library. `others` says whether
# that holds for third-party headers too or only for those of the project.
RULES = {
    "core": dict(
        allowed=("calibd/core/", *(f"{room}/" for room in CORE_ROOMS), "Eigen/", "hwy/", "xmmintrin.h",
                 "boost/math/", "boost/sort/", "absl/status/", "absl/strings/"),
        others=False,
        forbidden=("iostream", "fstream", "filesystem", "chrono", "thread", "future", "ctime",
                   "cstdio", "syncstream")),
    "proto/convert": dict(
        allowed=("calibd/convert/", "calibd/core/", "calibd/v1/", "calibd/rpc/", "absl/", "google/protobuf/",
                 "nlohmann/"), others=False,
        forbidden=()),
    "proto/text": dict(allowed=("calibd/text/",), others=False, forbidden=()),
    "server": dict(
        allowed=("calibd/core/", "calibd/convert/", "calibd/text/", "calibd/v1/", "calibd/rpc/",
                 "calibd/inference/v2/", "calibd/store/v1/", "server/"),
        others=True, forbidden=()),
    "client/cpp": dict(
        # The rules for values of a row need only the standard library.
        allowed=("calibd/client/", "calibd/text/", "calibd/core/row_sum.h",
                 "calibd/core/probability.h", "calibd/core/quantile_order.h", "calibd/core/violation.h",
                 "calibd/convert/recalibration.h", "client/cpp/", "arpa/inet.h", "fcntl.h", "pthread.h",
                 "sys/file.h", "unistd.h", "xxhash.h",
                 *GRPC_AND_PROTO),
        others=False, forbidden=()),
    # What needs no server needs no transport.
    "client/offline": dict(
        allowed=("calibd/core/", "calibd/convert/", "calibd/v1/", "client/offline/", "absl/",
                 "google/protobuf/"),
        others=False, forbidden=()),
    "client/python": dict(
        allowed=("calibd/core/", "calibd/convert/", "calibd/v1/", "client/offline/", "absl/",
                 "pybind11/"),
        others=False, forbidden=()),
    "client/cli": dict(
        allowed=("calibd/client/", "calibd/core/", "calibd/convert/", "calibd/text/", "calibd/v1/",
                 "calibd/rpc/", "client/cli/", "client/offline/"),
        others=True, forbidden=()),
}

# The rooms of server in their order, and the rooms above that each may include. A folder below a room
# belongs to it, unless it has an entry of its own. Files that are in no room only assemble them.
SERVER_ROOMS = {
    "base": (),
    "access": ("base",),
    "executor": (),
    "model": ("base",),
    "rows": ("base", "model"),
    "watch": ("base", "model", "rows"),
    "kinds": ("base", "model", "rows", "watch"),
    "state": ("base", "executor", "model", "rows", "watch", "kinds"),
    "store": (),
    "store/local": ("base", "store"),
    "store/postgres": ("base", "store"),
    "ingest": ("base", "executor", "model", "rows", "kinds", "state", "store"),
    "archive": ("base", "ingest", "store"),
    "compute": ("base", "executor", "rows", "state"),
    "net": ("base",),
    "answers": ("base", "model", "rows", "watch", "kinds", "state"),
    "api": ("access", "base", "executor", "model", "rows", "kinds", "state", "store", "ingest", "compute", "answers"),
    "intake": ("access", "base", "model", "kinds", "ingest", "answers", "api"),
    "observability": ("access", "base", "watch", "kinds", "state", "ingest", "archive", "compute", "net", "answers"),
    "http": ("access", "base", "executor", "net", "api", "intake", "observability"),
    "process": ("access", "archive", "base", "state", "store/postgres", "net", "http"),
    "rpc": ("access", "base", "kinds", "net", "answers", "api", "observability", "process"),
}
# Rooms that only compute: they have no log and no network.
COMPUTING_ROOMS = ("model", "rows", "watch", "kinds", "state", "answers")
LOG_AND_NETWORK = ("spdlog/", "boost/")
GRPC = ("grpc/", "grpcpp/")
# The transport, and the health check, which is a client.
GRPC_ROOMS = ("rpc", "process")

LOCAL_STORE = "server/store/local/"
# Files that open a store in a folder, and tests of it.
KNOWS_LOCAL_STORE = re.compile(
    LOCAL_STORE + r"|server/(server|restore)\.(cc|h)$|tests/integration/(store|engine)/|tests/support/sealed_database\."
    r"|tests/unit/server/(archive|log_compaction|log_files|store\w*|wal_check)_test\.cc$"
    r"|tests/unit/server/log_compaction_fixture\.h$"
    r"|tests/fuzz/log_fuzzer\.cc$|tests/benchmark/ingest_benchmark\.cc$")
POSTGRES_STORE = "server/store/postgres/"
# Files that open a store in a database, and tests of it.
KNOWS_POSTGRES_STORE = re.compile(
    POSTGRES_STORE + r"|server/(server|migrate)\.(cc|h)$|server/process/options\.cc$|tests/integration/(store|engine)/"
    r"|tests/support/postgres_cluster\.|tests/unit/server/(log_tables|store_conformance)_test\.cc$"
    r"|tests/benchmark/postgres_benchmark\.cc$")
# Words for details of the local store, which the interface hides.
LOCAL_WORDS = re.compile(r"sqlite|\bSQL\b|calibd\.db|write-ahead|checkpoint|\bWAL\b|wal_", re.IGNORECASE)


def is_standard(header):
    return re.fullmatch(r"[a-z_0-9]+", header) is not None


def room_of(path):
    """The room of a file or header of server; None for other files."""
    found = None
    for room in SERVER_ROOMS:
        if path.startswith(f"server/{room}/") and (found is None or len(room) > len(found)):
            found = room
    return found


def room_forbids(room, header):
    """Whether a file in the room of server may not include the header."""
    other = room_of(header)
    grpc = header.startswith(GRPC) or header.endswith(".grpc.pb.h")
    return ((grpc and room not in GRPC_ROOMS) or (other is not None and other != room and other not in SERVER_ROOMS[room])
            or (room in COMPUTING_ROOMS and header.startswith(LOG_AND_NETWORK)))


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
    room = room_of(path)
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
        elif room and room_forbids(room, header):
            reason = f"server/{room}/ may not include {header}"
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
    """Places where a file that must not know a store names it."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        header = match.group(1) or "" if match else ""
        for store, knows in ((LOCAL_STORE, KNOWS_LOCAL_STORE), (POSTGRES_STORE, KNOWS_POSTGRES_STORE)):
            if header.startswith(store) and not knows.match(path):
                found.append(f"{path}:{number}: only server.cc and tests of {store} may include its headers")
        if KNOWS_LOCAL_STORE.match(path) or path.startswith(POSTGRES_STORE):
            continue
        if path.startswith("server/") and not header.startswith(LOCAL_STORE) and (word := LOCAL_WORDS.search(line)):
            found.append(f"{path}:{number}: {word.group()} belongs into {LOCAL_STORE}")
    return found


def unit_of(path):
    """A header and its source are one unit: core/include/calibd/core/lens.h and core/src/base/lens.cc."""
    stem = path.rsplit(".", 1)[0]
    if stem.startswith("core/"):
        return "core/" + stem.rsplit("/", 1)[1]
    return re.sub(r"/(src|include/[a-z]+/[a-z]+)/", "/", stem)


def included_files(files):
    """The files that each of `files`, the text of each by its path, includes."""
    # core/include/calibd/core/skce.h is included as calibd/core/skce.h, core/src/base/rng.h as base/rng.h.
    by_name = {path.split("/include/")[-1].removeprefix("core/src/"): path for path in files}
    includes = {}
    for path, text in files.items():
        folder = path.rsplit("/", 1)[0]
        names = [match[1] for match in map(INCLUDE.match, text.splitlines()) if match and match[1]]
        includes[path] = [found for name in names
                          for found in (by_name.get(name), f"{folder}/{name}") if found in files]
    return includes


def unit_circles(files):
    """A circle of units that include each other, if there is one."""
    units = {unit_of(path): set() for path in files}
    for path, found in included_files(files).items():
        units[unit_of(path)] |= {unit_of(file) for file in found} - {unit_of(path)}
    try:
        graphlib.TopologicalSorter(units).prepare()
    except graphlib.CycleError as error:
        return ["units include each other: " + " <- ".join(error.args[1])]
    return []


def room_violations(files):
    """Includes between the rooms of core that CORE_ROOMS does not allow."""
    rooms = {unit_of(path): path.split("/")[2] for path in files if path.startswith("core/src/")}
    headers = {f"core/{header}": room for header, room in HEADER_ROOMS.items()}
    found = []
    for path, includes in included_files(files).items():
        if not path.startswith("core/"):
            continue
        room = rooms.get(unit_of(path)) or headers.get(unit_of(path))
        if room not in CORE_ROOMS:
            found.append(f"{path}: its room is not in CORE_ROOMS, and it is not in HEADER_ROOMS")
            continue
        for header in includes:
            other = rooms.get(unit_of(header)) or headers.get(unit_of(header))
            if other != room and other not in CORE_ROOMS[room]:
                found.append(f"{path}: {room} may not include {header}, which is in {other}")
    return found


def main():
    problems = []
    files = {}
    for file in project_files(*(layer for layer in RULES), "tests"):
        if file.suffix in SOURCE_SUFFIXES:
            path = str(file.relative_to(ROOT))
            text = file.read_text()
            problems += store_leaks(path, text)
            problems += violations(path, text,
                                   siblings={header.name for header in file.parent.glob("*.h")})
            files[path] = text
    return report("layering", problems + unit_circles(files) + room_violations(files))


if __name__ == "__main__":
    sys.exit(main())
