#!/usr/bin/python3 -B
"""Writes the first inputs of each fuzz target into tests/fuzz/corpus.

They are valid inputs, from which libFuzzer goes on: files as calibctl reads them, calls as clients
make them, and blobs of tests/golden/store. Other files of the corpora stay as they are: those are
inputs that once failed.
"""
import importlib
import io
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

from google.protobuf import text_format

FUZZ = pathlib.Path(__file__).resolve().parent
ROOT = FUZZ.parents[1]
CORPUS = FUZZ / "corpus"
GOLDEN = ROOT / "tests/golden/store"


def load_messages():
    """The module of inputs.proto, and that of store.proto."""
    with tempfile.TemporaryDirectory() as folder:
        protos = sorted((ROOT / "proto").rglob("*.proto"))
        subprocess.run(["protoc", "-I", FUZZ, "-I", ROOT / "proto", f"--python_out={folder}",
                        FUZZ / "inputs.proto", *protos], check=True)
        sys.path.insert(0, folder)
        return importlib.import_module("inputs_pb2"), importlib.import_module(
            "calibd.store.v1.store_pb2")


def write(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def write_message(target, name, message):
    write(target, name + ".txt",
          text_format.MessageToString(message, use_short_repeated_primitives=True))


def golden(name):
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def make_csv():
    """Inputs of csv_fuzzer: the reader, the flags of its options, and the file."""
    def write_input(name, reader, flags, text):
        write("csv", name, bytes([reader, flags]) + text.encode("latin-1"))

    base, names, column, header, drop = 4, 8, 16, 3, 64
    for name, table in {"plain": "0.25,0.5,0.25\n0.1,0.2,0.7\n",
                        "blanks": " 0.5 ,\t0.5\r\n1e-3,.999\r\n",
                        "not_finite": "nan,inf\n-inf,1e400\n",
                        "mark": "\xef\xbb\xbf0.5,0.5\n"}.items():
        write_input(name, 0, base, table)
    write_input("header", 0, header | names, "b,a\n0.25,0.75\n")
    write_input("labelled", 0, base | column, "0.5,0.5,0\n0.1,0.9,1\n")
    write_input("labelled_header", 0, names | column | header, "a,b,label\n0.5,0.5,b\n")
    write_input("index", 0, names, ",a,b\n0,0.5,0.5\n")
    write_input("columns", 0, base | 1 | 32, "2026-01-31T12:30:00Z,id,0.5,x,0.5\n0,id,1,,0\n")
    write_input("dropped", 0, names | column | header | drop, "a,b,label\n,x,\n0.5\n0,1,b\n")
    write_input("semicolons", 0, base | 128, '0.5;"0.5"\n')
    write_input("json", 1, names | column | header, '{"a": 0.5, "b": 0.5, "label": "b"}\n')
    write_input("json_array", 1, base,
                '{"probabilities": [0.5, 0.5], "label": 1, "id": "x", "time": 0}\n')
    write_input("json_object", 1, names, '{"probs": {"a": 0.5, "b": 0.5}, "label": null}\n')
    write_input("positives", 2, base | column | header, "p,label\n0.5,True\n")
    write_input("magic", 3, 0, "PAR1\x15\x04")
    write_input("labels", 4, base, "0\n1\n-7\n9223372036854775807\n")
    write_input("labels_header", 4, names, "label\na\nb\na\n")
    write_input("labels_json", 5, base | column | header, '{"label": 1}\n{"label": true}\n')
    write_input("labels_by_id", 6, base, 'order-1,2\n"a,b",0\n')
    write_input("labels_by_id_header", 6, names | header, "id,label\norder-1,b\n")
    write_input("labels_by_id_json", 7, names, '{"id": 7, "label": "a"}\n')
    write_input("ids", 8, base, 'order-1\n"with, comma"\n"a ""quote"""\n"two\nlines"\n')
    write_input("ids_header", 8, base | header, "id\norder-1\n")


def npy(descr, shape, data, version=1, fortran=False):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    header = header.ljust(54 if version == 1 else 52) + "\n"
    return (b"\x93NUMPY" + bytes([version, 0]) +
            struct.pack("<H" if version == 1 else "<I", len(header)) + header.encode() + data)


def make_npy():
    for descr, code in (("<f8", "d"), ("<f4", "f")):
        data = struct.pack(f"<6{code}", .25, .5, .25, 0, 0, 1)
        write("npy", f"matrix_{descr[1:]}", npy(descr, "(2, 3)", data))
        write("npy", f"matrix_{descr[1:]}_version_2", npy(descr, "(2, 3)", data, version=2))
    for descr, code in (("<i8", "q"), ("<i4", "i"), ("<i2", "h"), ("|i1", "b"), ("<u8", "Q"),
                        ("<u4", "I"), ("<u2", "H"), ("|u1", "B")):
        write("npy", f"labels_{descr[1:]}", npy(descr, "(3,)", struct.pack(f"<3{code}", 0, 1, 2)))
    write("npy", "fortran", npy("<f8", "(1, 2)", struct.pack("<2d", 1, 0), fortran=True))
    write("npy", "matrix_f2", npy("<f2", "(1, 2)", struct.pack("<2e", 1, 0)))
    write("npy", "truth_values", npy("|b1", "(2, 1)", b"\1\0"))
    write("npy", "texts", npy("<U2", "(2,)", "a\0\u00e4b".encode("utf-32-le")))
    write("npy", "huge_shape", npy("<f8", "(4294967296, 4294967296)", b""))
    write("npy", "cut", npy("<f8", "(2, 2)", b"\0" * 9))
    for name, method in (("stored", zipfile.ZIP_STORED), ("compressed", zipfile.ZIP_DEFLATED)):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", method) as file:
            for entry, content in (("y_prob", npy("<f4", "(1, 2)", struct.pack("<2f", 1, 0))),
                                   ("y_true", npy("|u1", "(1,)", b"\0"))):
                file.writestr(zipfile.ZipInfo(entry + ".npy"), content, method)
        write("npy", f"archive_{name}", archive.getvalue())


def make_text():
    kinds = {
        "name": ["models/m", "models/m/versions/2026-01.3_x", "models/", "models/a/versions/"],
        "page_token": ["YWZ0ZXI6bW9kZWxzL20", "YWZ0ZXI6", "not a token"],
        "address": ["127.0.0.1:8460", "[::1]:0", "localhost:65535", "[fe80::1%1]:1"],
        "duration": ["90s", "1.5h", "7d", "0.000000001s", "1e3m"],
        "time": ["2026-01-31", "2026-01-31T12:30:00Z", "2024-02-29T23:59:60.5+14:00", "7d"],
        "lens": ["canonical", "top_label", "class_wise", "class:3", "top_k:2", "grouped:0/0/1"],
        "bins": ["top_label:15", "class_wise:10", "uniform:3:euclidean", "median_variance:20"],
    }
    for kind, (name, texts) in enumerate(kinds.items()):
        for i, text in enumerate(texts):
            write("text", f"{name}_{i}", bytes([kind]) + text.encode())


def make_log(inputs):
    def log(frames=6, segment_bytes=4096):
        message = inputs.DamagedLog(segment_bytes=segment_bytes)
        for i in range(frames):
            frame = message.frames.add()
            for j in range(1 + i % 3):
                frame.batches.add(model_id=7, time_us=1000 * i + j, data=b"batch" * (i * j))
        return message

    write_message("log", "undamaged", log())
    segments = log(segment_bytes=4096)
    for frame in segments.frames:
        frame.batches.add(model_id=1, data=b"x" * 1500)
    write_message("log", "segments", segments)
    for name, damage in {
            "flip": dict(offset=300, flip_bit=3), "flip_header": dict(offset=20, flip_bit=1),
            "cut": dict(offset=500, cut=True), "zeros": dict(offset=200, zeros=64),
            "copy": dict(offset=400, copy_bytes=300), "remove": dict(remove=True),
            "overwrite": dict(offset=100, overwrite=b"logframe")}.items():
        message = log()
        message.damage.add(**damage)
        write_message("log", name, message)
        message = inputs.DamagedLog()
        message.CopyFrom(segments)
        message.damage.add(segment=1, **damage)
        write_message("log", f"segments_{name}", message)
        message.damage.add(segment=1, fix_hashes=True)
        write_message("log", f"fixed_{name}", message)
        message = log()
        message.late_damage.add(**damage)
        message.clean = True
        write_message("log", f"late_{name}", message)


def declarations(inputs):
    """Models by name: those that the golden blobs are of, and others."""
    model = type(inputs.StoredModel().declaration)

    def parse(text):
        return text_format.Parse(text, model())

    three = ('name: "models/m" classes { count: 3 bandwidth { fixed: 0.5 } '
             "lenses { canonical {} } lenses { top_label {} } block_sizes: [2, 7] } window: 100 "
             "label_grace { seconds: 60 } max_pending: 100 ")
    return {
        "unwatched": parse(three + "monitoring { disabled: true }"),
        "watched": parse(three + 'monitoring { group_tag: "region" max_groups: 1 }'),
        "median": parse('name: "models/m" window: 50 classes { count: 2 '
                        "bandwidth { median { warmup: 4 } } lenses { class_wise {} } "
                        "lenses { grouped { group_of_class: [0, 1] } } }"),
        "matrix": parse('name: "models/m" window: 20 classes { count: 2 kernel { matrix { terms { '
                        "exponential { distance: EUCLIDEAN } bandwidth: 1 "
                        "matrix: [1, 0.5, 0.5, 1] } } } } monitoring { disabled: true }"),
        "mean": parse('name: "models/m" classes { names: ["a", "b"] '
                      "bandwidth { mean_total_variation { alpha: [1, 2] } } } "
                      "monitoring { min_observations: 2 min_group_observations: 2 }"),
        "normal": parse('name: "models/m" window: 100 '
                        "forecast { normal {} decision { threshold: 1 miss_cost: 5 } } "
                        'monitoring { group_tag: "region" max_groups: 1 min_observations: 2 }'),
        "quantiles": parse('name: "models/m" forecast { quantiles { levels: [0.25, 0.75] } } '
                           "window: 100 label_grace { seconds: 60 } max_pending: 100"),
        "samples": parse('name: "models/m" window: 100 '
                         "forecast { samples { draws: 2 } decision { threshold: 0 } }"),
    }


def forecasts(count):
    """Rows of two numbers that are valid for every kind of forecast above, with outcomes."""
    values = [value for i in range(count) for value in (i % 5 - 2, i % 5 - 2 + 2 + i % 3)]
    # A standard deviation is positive.
    values = [value if i % 2 == 0 else max(value, 1) for i, value in enumerate(values)]
    return values, [i % 7 - 3 + 0.5 for i in range(count)]


def make_stored_model(inputs, store):
    models = declarations(inputs)
    states = {"unwatched": store.ModelState.FromString(golden("model_state")),
              "watched": store.ModelState.FromString(golden("model_state_watched"))}
    history = store.HistoryBucket.FromString(golden("history_bucket"))
    for name, declaration in models.items():
        message = inputs.StoredModel(declaration=declaration)
        if name in states:
            message.state.CopyFrom(states[name])
            message.history.add().CopyFrom(history)
            message.state.history.CopyFrom(store.HistoryState.FromString(golden("history_state")))
            message.cursor_contents = golden("cursor_complete")
        m = declaration.classes.count or 2
        if declaration.HasField("forecast"):
            # There are more rows than a warm-up has.
            observations = message.observations.add()
            values, outcomes = forecasts(520)
            observations.forecasts.values.extend(values)
            observations.outcomes.extend(outcomes)
            write_message("stored_model", name, message)
            continue
        for i in range(4):
            observations = message.observations.add()
            observations.probabilities.values.extend([1 / m] * m)
            observations.labels.append(i % m)
            if name == "watched":
                observations.group_values.append(f"value-{i % 3}")
        write_message("stored_model", name, message)
    for file in sorted(GOLDEN.glob("row_*.hex")):
        message = inputs.StoredModel(declaration=models["watched"])
        row = message.rows.add(time_us=1_767_225_600_000_000)
        row.row.ParseFromString(golden(file.stem))
        if row.row.producer.sequence:
            row.row.producer.sequence = 1
        write_message("stored_model", file.stem, message)
        if file.stem.startswith("row_observations"):
            raw = inputs.StoredModel(declaration=models["unwatched"])
            raw.rows.add(raw=golden(file.stem))
            write_message("stored_model", f"{file.stem}_raw", raw)


def make_call(inputs):
    models = declarations(inputs)
    model = "models/m"

    def calls(name, *requests, declaration="watched"):
        message = inputs.Calls()
        if declaration:
            message.calls.add().create_model.model.CopyFrom(models[declaration])
        for request in requests:
            text_format.Parse(request, message.calls.add())
        write_message("call", name, message)

    rows = "values: [0.25, 0.5, 0.25, 0.125, 0.125, 0.75]"
    labelled = f"probabilities {{ {rows} }} labels: [1, 2]"
    observe = f'observe {{ model: "{model}" observations {{ {labelled} }} }}'
    answer = f'get_calibration {{ model: "{model}" }}'
    opened = f'requests {{ open {{ model: "{model}" producer_id: "p" }} }}'
    calls("create", f'get_model {{ name: "{model}" }}', "list_models { page_size: 1 }",
          'create_model { model { name: "models/m/versions/2" classes { count: 2 } } }',
          "list_models { page_size: 1 page_token: \"YWZ0ZXI6bW9kZWxzL20\" }",
          f'delete_model {{ name: "{model}" confirmation: "{model}" }}')
    for kind in ("probabilities", "probabilities_float32", "logits", "logits_float32"):
        calls(f"observe_{kind}", observe.replace("probabilities", kind), answer)
    for name in models:
        if models[name].HasField("forecast"):
            values, outcomes = forecasts(300)
            batch = f'observe {{ model: "{model}" observations {{ forecasts {{ values: {values} }} ' \
                f"outcomes: {outcomes} }} }}"
            threshold = "" if name == "quantiles" else "threshold: 0.5"
            calls(f"evaluate_{name}", batch, batch, answer,
                  f'evaluate {{ model: "{model}" window: 20 replicates: 99 seed: 1 {threshold} }}',
                  f'get_history {{ model: "{model}" resolution: MINUTE }}', "scrape {}",
                  declaration=name)
            continue
        values = labelled if name in ("watched", "unwatched") else \
            "probabilities { values: [0.25, 0.75, 1, 0, 0.5, 0.5] } labels: [1, 0, 1]"
        batch = f'observe {{ model: "{model}" observations {{ {values} }} }}'
        calls(f"evaluate_{name}", batch, batch, batch, answer,
              f'run_test {{ model: "{model}" replicates: 50 seed: 1 }}',
              f'evaluate {{ model: "{model}" replicates: 20 consistency_replicates: 10 '
              "lenses { class_wise {} } lenses { top_k { k: 2 } } cme_test_locations: 3 "
              "binned_errors { top_label { bins: 15 } } reliability_classes: 1 "
              f'actions {{ name: "wait" losses: {[1] * (models[name].classes.count or 2)} }} }}',
              declaration=name)
    # A recalibration needs this many observations.
    many = f"probabilities {{ {' '.join([rows] * 50)} }} labels: {[0, 1] * 50}"
    calls("estimate", f'observe {{ model: "{model}" observations {{ {many} }} }}',
          f'estimate_calibration_error {{ model: "{model}" window: 20 folds: 2 seed: 1 }}',
          f'estimate_calibration_error {{ model: "{model}" window: 20 lens {{ top_label {{}} }} '
          "estimators: BINS replicates: 99 seed: 1 }",
          f'recalibrate {{ model: "{model}" }}')
    calls("groups", observe.replace("labels:", 'group_values: ["eu", "us"] labels:'), answer,
          "list_verdicts { false_discovery_rate: 0.1 }", "scrape {}")
    calls("late_labels",
          f'observe {{ model: "{model}" observations {{ probabilities {{ {rows} }} '
          'prediction_ids: ["a", "b"] } }',
          f'observe {{ model: "{model}" labels {{ prediction_ids: ["b", "c"] labels: [1, 0] }} '
          'producer { producer_id: "q" epoch: 1 sequence: 1 } }', answer)
    later = 'create_model { model { name: "models/%s" label_grace { seconds: 60 } ' \
        "labels_come_with_predictions: true classes { count: 3 bandwidth { fixed: 0.5 } } } }"
    with_ids = f'observations {{ {labelled} prediction_ids: ["a", "b"] }} }}'
    calls("compare", later % "m", later % "n", f'observe {{ model: "models/m" {with_ids}',
          f'observe {{ model: "models/n" {with_ids}',
          'compare_models { model: "models/m" baseline: "models/n" }', declaration=None)
    calls("stream",
          f"stream_observations {{ {opened} requests {{ batch {{ sequence: 1 observations {{ "
          f"{labelled} }} }} }} requests {{ batch {{ sequence: 2 labels {{ prediction_ids: \"a\" "
          "labels: 0 } } } requests { finish { last_sequence: 2 } } }", answer)
    calls("stream_gap", f"stream_observations {{ {opened} requests {{ batch {{ sequence: 3 "
          f"observations {{ {labelled} }} }} }} }}")
    calls("watch", observe, f'watch_calibration {{ model: "{model}" }}')
    calls("history", observe, f'get_history {{ model: "{model}" resolution: MINUTE '
          "page_size: 1 start_time { seconds: 1 } end_time { seconds: 253402300799 } }")
    calls("acknowledge", f'acknowledge_alarm {{ model: "{model}" alarm_id: 1 note: "seen" }}')
    calls("store", observe, "verify {}", "backup {}")
    calls("raw", 'raw { path: "/calibd.v1.ModelService/GetModel" messages: "\\n\\010models/m" }',
          'raw { path: "/calibd.v1.IngestService/StreamObservations" messages: "\\377" }',
          'raw { path: "/grpc.health.v1.Health/Check" messages: "" }',
          'raw { path: "/unknown" }', 'raw { path: "/" messages: "a" messages: "b" }', "scrape {}",
          declaration=None)


def make_http():
    def request(line, *fields, host="127.0.0.1:8461"):
        return "\r\n".join([line, *([f"Host: {host}"] if host else []), *fields, "", ""])

    def json(path, body):
        return request(f"POST /v1/models{path} HTTP/1.1", "Content-Type: application/json",
                       f"Content-Length: {len(body)}") + body

    get = "GET /metrics HTTP/1.1"
    for name, text in {
            "metrics": request(get), "healthz": request("GET /healthz HTTP/1.1", host="[::1]"),
            "readyz": request("HEAD /readyz?verbose HTTP/1.1", host="localhost"),
            "version_1_0": request("GET /healthz HTTP/1.0", host=None),
            "host_missing": request(get, host=None), "host_foreign": request(get, host="a.example"),
            "host_named": request(get, host="calibd.example:80"),
            "host_twice": request(get, "Host: localhost"),
            "post": request("POST /metrics HTTP/1.1", "Content-Length: 2") + "ab",
            "chunked": request(get, "Transfer-Encoding: chunked") + "1\r\na\r\n0\r\n\r\n",
            "pipelined": 2 * request("GET /healthz HTTP/1.1"), "version_3": request("GET / HTTP/3.0"),
            "long": request(get, "X: " + "a" * 9000), "half": get, "not_http": "\x16\x03\x01\x02",
            **{f"inference_{name}": request(
                "POST /v1/models/m:inference HTTP/1.1", f"Content-Type: application/{kind}",
                "ce-id: 1", "ce-type: inference.response", f"Content-Length: {len(body)}") + body
               for name, kind, body in (
                   ("v1", "json", '{"predictions":[[0.5,0.5],{"out":[1]}]}'),
                   ("v2", "json", '{"outputs":[{"name":"out","shape":[1,2],"data":[0.5,0.5]}]}'),
                   ("binary", "protobuf", "\x2a\x0d\x0a\x03out\x12\x04FP32\x32\x04\0\0\0\0"))},
            **{f"inference_tensors_{name}": request(
                "POST /v1/models/m:inference HTTP/1.1", "Content-Type: application/octet-stream",
                f"Inference-Header-Content-Length: {len(text)}", "ce-id: 1",
                "ce-type: inference.response", f"Content-Length: {len(text) + size}") + text +
               size * "\0"
               for name, size, text in (
                   ("one", 12, '{"outputs":[{"name":"out","datatype":"FP32","shape":[1,3],'
                               '"parameters":{"binary_data_size":12}}]}'),
                   ("two", 17, '{"outputs":[{"name":"in","datatype":"BYTES","shape":[1],'
                               '"parameters":{"binary_data_size":1}},{"name":"out",'
                               '"datatype":"FP64","shape":[1,2],'
                               '"parameters":{"binary_data_size":16}}]}'),
                   ("text", 0, '{"outputs":[{"name":"out","shape":[1,2],"data":[0.5,0.5]}]}'))},
            **{f"inference_structured_{name}": request(
                "POST /v1/models/m:inference HTTP/1.1",
                "Content-Type: application/cloudevents+json; charset=utf-8",
                f"Content-Length: {len(text)}") + text
               for name, text in (
                   (name, '{"specversion":"1.0","id":"1","source":"/s","type":"inference.response",'
                          '"time":"2026-01-01T00:00:00Z",' + data + "}")
                   for name, data in (
                       ("json", '"data":{"outputs":[{"name":"out","shape":[1,2],"data":[0.5,1]}]}'),
                       ("text", '"datacontenttype":"x/y","data":"{\\"predictions\\":[[0,1]]}"'),
                       ("base64", '"datacontenttype":"application/octet-stream","data_base64":'
                                  '"Kg0KA291dBIERlAzMjIEAAAAAA=="')))},
            "json_list": request("GET /v1/models?pageSize=10&pageToken=a%20b HTTP/1.1"),
            "json_history": request("GET /v1/models/m/versions/2/history?resolution=DAY"
                                    "&startTime=2026-01-01T00%3A00%3A00Z HTTP/1.1"),
            "json_events": request("GET /v1/models/m/events?minInterval=1s HTTP/1.1",
                                   "Last-Event-ID: 7"),
            "json_create": json("", '{"model":{"name":"models/m","classes":{"count":2,"lenses":[{}]}}}'),
            "json_observe": json("/m:observe", '{"observations":{"probabilities":{"values":[0.5,1e-3]},'
                                 '"labels":[1],"predictionTimes":["2026-01-01T00:00:00Z"]}}'),
            "json_label": json("/m:label", '{"labels":{"predictionIds":["\\u0061"],"labels":[1]}}'),
            "json_evaluate": json("/m:evaluate", '{"lenses":[{"topLabel":{}}],"seed":"7","window":9}'),
            "json_compare": json("/m/versions/2:compare", '{"baseline":"models/n"}'),
            "connection": request(get, "Connection: close, upgrade", "Upgrade: h2c")}.items():
        write("http", name, text)


def make_json():
    for name, message, text in (
            ("observe", 0, '{"observations":{"probabilities":{"values":[0.5,"1e-3",-1]},"labels":[1]}}'),
            ("label", 0, '{"labels":{"prediction_ids":["\\u00fc"],"labels":[null]},"requestId":"a"}'),
            ("create", 1, '{"model":{"name":"models/m","classCount":"2","labelGrace":"1.5s","lenses":[{}]}}'),
            ("update", 2, '{"model":{"description":"a"},"updateMask":"description,labelGrace"}'),
            ("history", 3, '{"resolution":"day","startTime":"2026-01-01T00:00:00Z","pageSize":5}'),
            ("evaluate", 4, '{"lenses":[{"topLabel":{}}],"seed":18446744073709551615,"null":2}'),
            ("loss", 5, '{"penaltyWeight":"-Infinity","biased":null,'
                        '"outcomeKernel":{"rbf":{"gamma":1e999}}}')):
        write("json", name, bytes([message]) + text.encode())


def make_http2_guard(inputs):
    def connection(name, *events, restricted=False):
        message = inputs.Http2Connection(piece=len(name), restricted=restricted)
        for event in events:
            text_format.Parse(event, message.events.add())
        write_message("http2_guard", name, message)

    def field(name, value):
        return f'payload {{ field {{ name: "{name}" value: "{value}" }} }}'

    def data(stream, length, sent, flags=0):
        return (f"client {{ type: 0 flags: {flags} stream_id: {stream} "
                f"payload {{ message_length: {length} }} payload {{ zeros: {sent} }} }}")

    path = "/calibd.v1.IngestService/Observe"
    request = field(":method", "POST") + field(":path", path)
    settings = ["client { type: 4 }", "server { type: 4 }", "client { type: 4 flags: 1 }"]
    call = f"client {{ type: 1 flags: 4 stream_id: 1 {request} }}"
    answered = ["server { type: 1 flags: 4 stream_id: 1 payload { bytes: \"\\210\" } }",
                "server { type: 0 stream_id: 1 payload { message_length: 4 } payload { zeros: 4 } }",
                "server { type: 1 flags: 5 stream_id: 1 payload { bytes: \"\\276\" } }"]
    connection("call", *settings, call, data(1, 8, 8, 1), *answered)
    connection("padded", *settings, call, "client { type: 0 flags: 9 stream_id: 1 payload { bytes: "
               '"\\003\\000\\000\\000\\000\\001a" } payload { zeros: 3 } }', *answered)
    connection("large_message", *settings, call, data(1, 4294967295, 100), *answered)
    connection("memory", *settings, *(call.replace("stream_id: 1", f"stream_id: {i}")
                                      for i in range(1, 13, 2)),
               *(data(i, 1000000, 10) for i in range(1, 13, 2)))
    connection("continuation", *settings, f"client {{ type: 1 stream_id: 1 {request} }}",
               *([f"client {{ type: 9 stream_id: 1 {field('a', 'b' * 100)} }}"] * 5),
               "client { type: 9 flags: 4 stream_id: 1 }")
    connection("rapid_reset", *settings, f"client {{ type: 1 flags: 5 stream_id: 1 times: 1000 {request} }}",
               "client { type: 3 stream_id: 1 times: 1000 payload { number: 8 } }")
    connection("window", *settings, "client { type: 4 payload { bytes: "
               '"\\000\\004\\000\\000\\000\\000" } }', call,
               "milliseconds: 61000", "client { type: 8 stream_id: 1 payload { number: 65536 } }")
    connection("stalled_message", *settings, call, data(1, 1000, 10), "milliseconds: 61000",
               data(1, 10, 10))
    connection("pings", "client { type: 6 times: 1100 payload { zeros: 8 } }", "drain: true",
               "server { type: 7 payload { zeros: 8 } }", "milliseconds: 1000")
    connection("no_call", *settings, "milliseconds: 15001")
    connection("restricted", *settings, call, data(1, 1, 1), restricted=True)
    connection("health", *settings,
               call.replace(path, "/grpc.health.v1.Health/Check"), restricted=True)
    later = call.replace("stream_id: 1", "stream_id: 3")
    trailers = f"client {{ type: 1 flags: 5 stream_id: 1 {field('a', 'b')} }}"
    connection("retired", *settings, call, "retire: true", later, data(3, 8, 8, 1),
               data(1, 8, 8), trailers, *answered)
    connection("retired_restricted", *settings,
               call.replace(path, "/grpc.health.v1.Health/Watch"), "retire: true", later,
               "milliseconds: 1000", restricted=True)
    connection("server_goaway", *settings, call, later,
               "server { type: 7 payload { number: 1 } payload { number: 0 } }",
               later.replace("stream_id: 3", "stream_id: 5"), data(3, 8, 8), trailers, *answered)
    connection("not_http2", 'client_bytes: "GET / HTTP/1.1\\r\\n"', 'server_bytes: "x"')


def main():
    inputs, store = load_messages()
    make_http2_guard(inputs)
    make_http()
    make_json()
    make_csv()
    make_npy()
    make_text()
    make_log(inputs)
    make_stored_model(inputs, store)
    make_call(inputs)


if __name__ == "__main__":
    main()
