"""Who may do what: every role against every call, over gRPC and HTTP, by the descriptors.

    access_test.py CALIBD CALIBCTL PYTHON_PACKAGE
"""
import base64
import hashlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
from google.protobuf import symbol_database

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALIBD, CALIBCTL, PACKAGE = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
sys.path[:0] = [str(ROOT / "tests/support"), PACKAGE]
from calibd_server import CalibdServer  # noqa: E402
from wait_for import wait_for  # noqa: E402

import calibd  # noqa: E402
from calibd.rpc import rules_pb2 as rules  # noqa: E402
from calibd.v1 import calibration_service_pb2 as calibration  # noqa: E402
from calibd.v1 import ingest_service_pb2 as ingest  # noqa: E402
from calibd.v1 import model_service_pb2 as models  # noqa: E402
from calibd.v1 import store_service_pb2 as store  # noqa: E402

Code = grpc.StatusCode
CALL_SECONDS = 60
# A revoked stream ends within 10 s; a busy machine takes longer.
REVOKED_SECONDS = 60

READ = {"reader", "operator", "admin"}
OPERATE = {"operator", "admin"}
WRITE = {"writer", "admin"}
ADMIN = {"admin"}
ANY = {"writer", "reader", "operator", "admin"}
# The roles that may make each call. A call that is not listed here fails the test.
RIGHTS = {
    "CreateModel": OPERATE, "GetModel": READ, "ListModels": ANY, "UpdateModel": OPERATE,
    "DeleteModel": ADMIN, "Observe": WRITE, "StreamObservations": WRITE, "GetCalibration": READ,
    "AcknowledgeAlarm": OPERATE, "ListVerdicts": ANY, "GetHistory": READ, "RunTest": READ,
    "Evaluate": READ, "Recalibrate": READ, "EstimateCalibrationError": READ, "CompareModels": READ,
    "WatchCalibration": READ, "Backup": ADMIN, "Verify": ADMIN,
}
# Calls of the whole store: the roles on one model are not enough.
OF_STORE = {"Backup", "Verify"}
OF_NO_MODEL = OF_STORE | {"ListModels", "ListVerdicts"}
# What HTTP needs in a body besides {}.
BODIES = {":observe": {"observations": {}}, ":label": {"labels": {}}}


def token_line(token, day="2100-01-01"):
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}:{day}"


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("CALIBD_")}


def principal(name, *grants, day="2100-01-01"):
    return (f'[[principal]]\nname = "{name}"\ntokens = ["{token_line("token_" + name, day)}"]\n'
            f"grants = {json.dumps(grants)}\n")


POLICY = "".join([
    principal("root", "admin models/*"),
    principal("writer", "writer models/own*"),
    principal("reader", "reader models/own*"),
    principal("operator", "operator models/own*"),
    principal("admin", "admin models/own*"),
    principal("everywhere", "reader models/*"),
    principal("second", "writer models/own*"),
    principal("nothing"),
    principal("expired", "admin models/*", day="2020-01-01"),
])


def api_methods():
    for file in (models, ingest, calibration, store):
        for service in file.DESCRIPTOR.services_by_name.values():
            yield from service.methods


def message_class(descriptor):
    return symbol_database.Default().GetPrototype(descriptor)


def metadata(name):
    return () if name is None else (("authorization", f"Bearer token_{name}"),)


def classes_model(name):
    message = models.CreateModelRequest()
    message.model.name = f"models/{name}"
    message.model.classes.count = 2
    return message


class AccessCase(unittest.TestCase):
    # Further flags of the server.
    options = ()

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.file = pathlib.Path(folder) / "access.toml"
        cls.write_policy(POLICY)
        cls.server = cls.enterClassContext(
            CalibdServer(CALIBD, "--access-file", str(cls.file), *cls.options))
        cls.channel = cls.enterClassContext(grpc.insecure_channel(cls.server.grpc))
        for name in ("own", "other"):
            cls.call(cls.method("CreateModel"), classes_model(name), "root")

    @classmethod
    def write_policy(cls, text):
        """Replaces the file at once, as deployments do."""
        new = cls.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, cls.file)

    @staticmethod
    def method(name):
        return next(one for one in api_methods() if one.name == name)

    @classmethod
    def start(cls, method, request, caller):
        """Begins a call. Returns an iterator of its answers."""
        path = f"/{method.containing_service.full_name}/{method.name}"
        kinds = {(False, False): cls.channel.unary_unary, (False, True): cls.channel.unary_stream,
                 (True, True): cls.channel.stream_stream}
        stub = kinds[method.client_streaming, method.server_streaming](
            path, request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=message_class(method.output_type).FromString)
        if method.client_streaming:
            request = iter([request])
        answer = stub(request, timeout=CALL_SECONDS, metadata=metadata(caller))
        return answer if method.server_streaming else iter([answer])

    @classmethod
    def call(cls, method, request, caller):
        """The first answer of a call."""
        return next(cls.start(method, request, caller))

    def error_of(self, method, request, caller):
        """The code and the message of a call; OK after its first answer."""
        try:
            self.call(method, request, caller)
        except grpc.RpcError as error:
            return error.code(), error.details()
        except StopIteration:
            pass
        return Code.OK, ""

    def request_for(self, method, model):
        """A request that names the model."""
        request = message_class(method.input_type)()
        if method.name == "CreateModel":
            return classes_model(model)
        if method.name == "StreamObservations":
            request.open.model = f"models/{model}"
            request.open.producer_id = "sender"
        elif method.name == "UpdateModel":
            request.model.name = f"models/{model}"
        elif "model" in method.input_type.fields_by_name:
            request.model = f"models/{model}"
        elif "name" in method.input_type.fields_by_name:
            request.name = f"models/{model}"
            if method.name == "DeleteModel":
                request.confirmation = request.name
        if method.name == "CompareModels":
            request.baseline = f"models/{model}"
        return request

    def ask(self, method, path, caller=None, body=None, headers=(), text=None):
        """Returns the status, the headers and the body of an HTTP request."""
        connection = http.client.HTTPConnection(self.server.http, timeout=CALL_SECONDS)
        try:
            sent = dict(metadata(caller)) | dict(headers)
            if body is not None:
                text = json.dumps(body)
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, text, sent)
            answer = connection.getresponse()
            if answer.getheader("Content-Type") == "text/event-stream":
                return answer.status, answer.headers, ""
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()


class EveryCallTest(AccessCase):
    def model_of(self, method, role):
        """A model of the role for a call that creates or deletes one."""
        if method.name == "CreateModel":
            return f"own-new-{role}"
        if method.name == "DeleteModel":
            self.call(self.method("CreateModel"), classes_model(f"own-old-{role}"), "root")
            return f"own-old-{role}"
        return "own"

    def test_every_call_is_listed(self):
        self.assertEqual({method.name for method in api_methods()}, set(RIGHTS))

    def test_every_call_needs_credentials(self):
        for method in api_methods():
            for caller in (None, "unknown", "expired"):
                with self.subTest(method=method.name, caller=caller):
                    code, message = self.error_of(method, self.request_for(method, "own"), caller)
                    self.assertEqual(code, Code.UNAUTHENTICATED)
                    self.assertRegex(message, "authorization: Bearer TOKEN|calibctl token create")

    def test_every_role_against_every_call(self):
        for method in api_methods():
            for role in ("writer", "reader", "operator", "admin"):
                with self.subTest(method=method.name, role=role):
                    request = self.request_for(method, self.model_of(method, role))
                    code, message = self.error_of(method, request, role)
                    if role in RIGHTS[method.name] and method.name not in OF_STORE:
                        self.assertNotIn(code, (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED,
                                                Code.NOT_FOUND, Code.UNIMPLEMENTED), message)
                    else:
                        self.assertEqual(code, Code.PERMISSION_DENIED, message)
                        self.assertRegex(message, f"needs the role [a-z]+ on models/.*, which {role} does not have")

    def test_a_model_without_rights_looks_unknown(self):
        compared = set()
        for method in api_methods():
            if method.name in OF_NO_MODEL:
                continue
            for caller in ("admin", "nothing"):
                with self.subTest(method=method.name, caller=caller):
                    found = self.error_of(method, self.request_for(method, "other"), caller)
                    self.assertEqual(found[0], Code.NOT_FOUND)
                    unknown = self.error_of(method, self.request_for(method, "never"), caller)
                    self.assertEqual((unknown[0], unknown[1].replace("never", "other")), found)
                    if method.name == "CreateModel":
                        continue
                    # The real error, unless the request is refused before the model is looked up.
                    real = self.error_of(method, self.request_for(method, "never"), "root")
                    if real[0] == Code.NOT_FOUND:
                        self.assertEqual(real, unknown)
                        compared.add(method.name)
        self.assertLessEqual({"GetModel", "DeleteModel", "GetCalibration", "GetHistory"}, compared)

    def test_a_baseline_needs_the_right_too(self):
        request = self.request_for(self.method("CompareModels"), "own")
        request.baseline = "models/other"
        self.assertEqual(self.error_of(self.method("CompareModels"), request, "reader")[0],
                         Code.NOT_FOUND)

    def test_the_store_needs_an_admin_of_all_models(self):
        for name in OF_STORE:
            method = self.method(name)
            self.assertEqual(self.error_of(method, self.request_for(method, "own"), "admin")[0],
                             Code.PERMISSION_DENIED)
            # To its end, as only one may run at a time.
            self.assertTrue(list(self.start(method, self.request_for(method, "own"), "root")))

    def test_a_writer_may_declare_a_model_that_exists(self):
        create = self.method("CreateModel")
        self.assertEqual(self.error_of(create, classes_model("own"), "writer")[0], Code.OK)
        self.assertEqual(self.error_of(create, classes_model("own"), "reader")[0],
                         Code.PERMISSION_DENIED)

    def test_a_declaration_shows_a_writer_nothing_of_the_model(self):
        create = self.method("CreateModel")
        declared = classes_model("own-secret")
        declared.model.description = "secret"
        self.call(create, declared, "root")
        answer = self.call(create, classes_model("own-secret"), "writer")
        self.assertEqual(answer.model, classes_model("own-secret").model)
        self.assertEqual(self.call(create, classes_model("own-secret"), "admin").model.description,
                         "secret")
        other = classes_model("own-secret")
        other.model.classes.count = 3
        code, message = self.error_of(create, other, "writer")
        self.assertEqual(code, Code.ALREADY_EXISTS)
        self.assertIn("exists with another declaration, which a reader of it can see", message)
        self.assertRegex(self.error_of(create, other, "admin")[1], "classes.count")

    def test_health_needs_nothing(self):
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.assertEqual(check(b"", timeout=CALL_SECONDS), b"\x08\x01")

    def test_every_role_against_every_path(self):
        for method in api_methods():
            for route in method.GetOptions().Extensions[rules.http]:
                template = route.path.partition("{model}")[2]
                for caller in (None, "expired", "writer", "reader", "operator", "admin"):
                    with self.subTest(path=f"{route.method} {route.path}", caller=caller):
                        model = self.model_of(method, f"{caller}-http")
                        body = None
                        if route.method == "POST":
                            body = BODIES.get(template, {})
                            if method.name == "CreateModel":
                                body = {"model": {"name": f"models/{model}", "classes": {"count": 2}}}
                        headers = {"ce-id": "1"} if route.cloud_event else {}
                        status, _, text = self.ask(route.method, route.path.replace("{model}", model),
                                                   caller, body, headers)
                        if caller in (None, "expired"):
                            self.assertEqual(status, 401, text)
                        elif caller in RIGHTS[method.name]:
                            self.assertNotIn(status, (401, 403, 404, 405), text)
                        else:
                            self.assertEqual(status, 403, text)

    def test_lists_show_the_readable_models(self):
        for name, field in (("ListModels", "name"), ("ListVerdicts", "model")):
            method = self.method(name)
            for caller, least in (("reader", {"models/own"}), ("writer", set()), ("nothing", set()),
                                  ("everywhere", {"models/own", "models/other"})):
                with self.subTest(method=name, caller=caller):
                    answer = self.call(method, self.request_for(method, ""), caller)
                    names = {getattr(one, field) for one in answer.models}
                    self.assertLessEqual(least, names)
                    if caller != "everywhere":
                        self.assertTrue(all(one.startswith("models/own") for one in names), names)
                    if not least:
                        self.assertEqual(names, set())

    def test_pages_of_a_list_skip_other_models(self):
        for name in ("own-a", "own-b", "own-c"):
            self.call(self.method("CreateModel"), classes_model(name), "root")
        listed, token = [], ""
        while True:
            answer = self.call(self.method("ListModels"),
                               models.ListModelsRequest(page_size=1, page_token=token), "reader")
            listed += [one.name for one in answer.models]
            token = answer.next_page_token
            if not token:
                break
        self.assertLessEqual({"models/own", "models/own-a", "models/own-b", "models/own-c"}, set(listed))
        self.assertNotIn("models/other", listed)
        self.assertEqual(len(listed), len(set(listed)))


class HttpTest(AccessCase):
    def test_paths_without_a_model(self):
        for path in ("/healthz", "/readyz", "/page.js", "/page.css"):
            self.assertEqual(self.ask("GET", path)[0], 200, path)
        for path in ("/metrics", "/v1/openapi.json", "/"):
            status, headers, text = self.ask("GET", path)
            self.assertEqual(status, 401, path)
            self.assertNotIn("calibd_", text)
        self.assertEqual(self.ask("GET", "/metrics")[1]["WWW-Authenticate"], 'Bearer realm="calibd"')
        self.assertEqual(self.ask("GET", "/metrics", "reader")[0], 403)
        self.assertEqual(self.ask("GET", "/metrics", "everywhere")[0], 200)
        self.assertEqual(self.ask("GET", "/v1/openapi.json", "nothing")[0], 200)

    def test_basic_takes_the_token_as_the_password(self):
        def basic(text):
            return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}
        path = "/v1/models/own"
        self.assertEqual(self.ask("GET", path, headers=basic("kserve:token_reader"))[0], 200)
        for wrong in ("token_reader:", "token_reader", "kserve:token_readeR", ":"):
            self.assertEqual(self.ask("GET", path, headers=basic(wrong))[0], 401, wrong)

    def test_malformed_credentials_are_refused(self):
        for value in ("Bearer", "Bearer ", "token_reader", "Bearer token_reader x", "Basic !!!",
                      "Bearer " + "x" * 6000, "Bearer \x01", "Negotiate token_reader"):
            status, _, text = self.ask("GET", "/v1/models/own", headers={"Authorization": value})
            self.assertIn(status, (400, 401, 431), text)

    def test_a_body_without_credentials_is_not_read(self):
        status, _, text = self.ask("POST", "/v1/models/own:observe", None, {"observations": {}})
        self.assertEqual((status, json.loads(text)["error"]["status"]), (401, "UNAUTHENTICATED"))

    def log_in(self, token, **headers):
        origin = {"Origin": f"http://{self.server.http}",
                  "Content-Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", "/login", headers=origin | headers, text=f"token={token}")

    def test_the_page_logs_in_with_a_token(self):
        status, headers, form = self.ask("GET", "/")
        self.assertEqual(status, 401)
        self.assertIn('action="/login"', form)
        self.assertIn("form-action 'self'", headers["Content-Security-Policy"])
        self.assertNotIn("script-src", headers["Content-Security-Policy"])
        status, headers, _ = self.log_in("token_reader")
        self.assertEqual((status, headers["Location"]), (303, "/"))
        cookie = headers["Set-Cookie"]
        for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="):
            self.assertIn(part, cookie)
        session = {"Cookie": cookie.partition(";")[0]}
        self.assertNotIn("token_reader", cookie)
        self.assertEqual(self.ask("GET", "/v1/models/own", headers={"Cookie": "calibd=token_reader"})[0], 401)
        status, _, page = self.ask("GET", "/", headers=session)
        # An encrypted connection has a cookie of its own.
        foreign = {"Cookie": "__Host-" + session["Cookie"]}
        self.assertEqual(self.ask("GET", "/v1/models/own", headers=foreign)[0], 401)
        self.assertEqual(status, 200)
        self.assertIn("page.js", page)
        self.assertEqual(self.ask("GET", "/v1/models/own", headers=session)[0], 200)
        self.assertEqual(self.ask("GET", "/v1/models/other", headers=session)[0], 404)
        # A page of another origin cannot use the session.
        status, _, _ = self.ask("POST", "/v1/models/own:test", body={},
                                headers=session | {"Origin": "http://evil.test"})
        self.assertEqual(status, 403)
        # The page offers to log out if scripts find this cookie, which has no secret.
        mark = headers.get_all("Set-Cookie")[1]
        self.assertTrue(mark.startswith("calibd-session=1;") and "HttpOnly" not in mark, mark)
        status, headers, _ = self.log_in("", **session)
        self.assertEqual([one.split("Max-Age=")[1][:2] for one in headers.get_all("Set-Cookie")],
                         ["0;", "0;"])
        # The server has ended the session too.
        self.assertEqual(self.ask("GET", "/v1/models/own", headers=session)[0], 401)

    def test_a_wrong_login_shows_the_form_again(self):
        for token in ("wrong", "token_expired", "%3Cscript%3E", "a%0d%0ab", "a;b"):
            status, headers, text = self.log_in(token)
            self.assertEqual(status, 401, token)
            self.assertNotIn("Set-Cookie", headers)
            self.assertIn("does not know this token", text)
            self.assertNotIn(token, text)
        self.assertEqual(self.log_in("token_reader", Origin="http://evil.test")[0], 403)
        self.assertEqual(self.log_in("x" * 5000)[0], 413)


class ChangeTest(AccessCase):
    def setUp(self):
        self.write_policy(POLICY)
        self.await_policy(POLICY)

    def await_policy(self, text):
        """Waits until the server has read the file: the log or the metric says so."""
        marker = f"marker{time.monotonic_ns()}"
        self.write_policy(text + principal(marker))
        self.assertTrue(wait_for(lambda: self.ask("GET", "/v1/openapi.json", marker)[0] == 200,
                                 REVOKED_SECONDS))

    def stream(self, caller):
        """An open stream of a producer: its call and its answers."""
        finished = []

        def requests():
            yield self.request_for(self.method("StreamObservations"), "own")
            wait_for(lambda: finished, 2 * REVOKED_SECONDS)
        stub = self.channel.stream_stream(
            "/calibd.v1.IngestService/StreamObservations",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=ingest.StreamObservationsResponse.FromString)
        call = stub(requests(), timeout=2 * REVOKED_SECONDS, metadata=metadata(caller))
        self.assertTrue(next(call).HasField("opened"))
        self.addCleanup(finished.append, True)
        return call

    def revoked(self, call):
        begin = time.monotonic()
        with self.assertRaises(grpc.RpcError) as caught:
            for _ in call:
                pass
        self.assertEqual(caught.exception.code(), Code.PERMISSION_DENIED)
        self.assertIn("was revoked or has expired", caught.exception.details())
        self.assertLess(time.monotonic() - begin, REVOKED_SECONDS)

    def test_a_lost_grant_ends_streams_and_watches(self):
        stream = self.stream("writer")
        watch = self.start(self.method("WatchCalibration"),
                           calibration.WatchCalibrationRequest(model="models/own"), "reader")
        next(watch)
        kept = self.start(self.method("WatchCalibration"),
                          calibration.WatchCalibrationRequest(model="models/own"), "operator")
        next(kept)
        connection = http.client.HTTPConnection(self.server.http, timeout=REVOKED_SECONDS)
        connection.request("GET", "/v1/models/own/events", headers=dict(metadata("reader")))
        events = connection.getresponse()
        self.assertIn(b"retry", events.readline())
        self.await_policy(POLICY.replace("writer models/own*", "reader models/own*")
                          .replace('"reader models/own*"', '"reader models/else*"'))
        self.revoked(stream)
        self.revoked(watch)
        self.assertIn(b"ACCESS_REVOKED", events.read())
        connection.close()
        self.assertTrue(kept.is_active())
        kept.cancel()

    def test_a_revoked_token_ends_its_stream_and_no_other(self):
        first, second = self.stream("writer"), self.stream("second")
        self.await_policy(POLICY.replace(principal("writer", "writer models/own*"), ""))
        self.revoked(first)
        self.assertTrue(second.is_active())
        second.cancel()
        code, _ = self.error_of(self.method("ListModels"), models.ListModelsRequest(), "writer")
        self.assertEqual(code, Code.UNAUTHENTICATED)

    def test_a_bad_file_keeps_the_former_policy(self):
        self.write_policy(POLICY + "[[principal]]\nname = 7\n")

        def invalid():
            return "\ncalibd_access_file_invalid 1\n" in self.ask("GET", "/metrics", "everywhere")[2]
        self.assertTrue(wait_for(invalid, REVOKED_SECONDS))
        self.assertEqual(self.ask("GET", "/v1/models/own", "reader")[0], 200)
        logged = re.compile(r"access file is invalid.*line \d+: name is")
        self.assertTrue(wait_for(lambda: logged.search(self.server.log())), self.server.log())
        self.await_policy(POLICY)
        self.assertFalse(invalid())


class ProducerTest(AccessCase):
    def test_principals_with_the_same_ids_do_not_share_them(self):
        body = {"observations": {"probabilities": {"values": [0.25, 0.75, 0.5, 0.5]},
                                 "labels": [1, 0]}}
        for position in ({"requestId": "one"},
                         {"producer": {"producerId": "sender", "epoch": "0", "sequence": "1"}}):
            for caller in ("writer", "second"):
                first = self.ask("POST", "/v1/models/own:observe", caller, body | position)
                self.assertEqual(first[0], 200, first[2])
                self.assertEqual(json.loads(first[2])["acceptedRows"], "2")
            again = self.ask("POST", "/v1/models/own:observe", "second", body | position)
            self.assertEqual(json.loads(again[2])["duplicateRows"], "2", again[2])


class ClientTest(AccessCase):
    def calibctl(self, *arguments, **environment):
        return subprocess.run([CALIBCTL, "--server", self.server.grpc, *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=CALL_SECONDS, env=clean_environment() | environment)

    def token_file(self, text):
        file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "token"
        file.write_text(text, encoding="utf-8")
        return str(file)

    def test_a_created_token_works(self):
        created = self.calibctl("token", "create", "--expires", "2099-12-31", "--output", "json")
        self.assertEqual(created.returncode, 0, created.stderr)
        answer = json.loads(created.stdout)
        token = answer["token"]
        self.assertRegex(token, "^calibd_[0-9a-f]{72}$")
        random = token.removeprefix("calibd_")[:64]
        self.assertEqual(token[-8:], hashlib.sha256(random.encode()).hexdigest()[:8])
        self.assertEqual(answer["entry"], token_line(token, "2099-12-31"))
        self.write_policy(POLICY + '[[principal]]\nname = "created"\ngrants = ["reader models/own"]\n'
                          f'tokens = ["{answer["entry"]}"]\n')
        file = self.token_file(token + "\n")
        self.assertTrue(wait_for(lambda: self.calibctl("--token-file", file, "model", "list")
                                 .returncode == 0, REVOKED_SECONDS))
        listed = self.calibctl("model", "list", CALIBD_TOKEN_FILE=file)
        self.assertIn("own", listed.stdout, listed.stderr)
        self.assertNotIn("other", listed.stdout)

    def test_tokens_differ_and_expire_in_a_year(self):
        first, second = (self.calibctl("token", "create").stdout for _ in range(2))
        self.assertNotEqual(first, second)
        self.assertRegex(first, r'tokens = \["sha256:[0-9a-f]{64}:20\d\d-\d\d-\d\d"\]')
        for day in ("2020-01-01", "tomorrow", "2027-02-30", "7d"):
            refused = self.calibctl("token", "create", "--expires", day)
            self.assertEqual(refused.returncode, 2, day)
            self.assertRegex(refused.stderr, f"--expires is {day}, (which is in the past, )?expected ")

    def test_calibctl_says_what_is_missing(self):
        without = self.calibctl("model", "list")
        self.assertEqual(without.returncode, 1)
        self.assertIn("calibctl --token-file FILE", without.stderr)
        wrong = self.calibctl("--token-file", self.token_file("token_wrong"), "model", "list")
        self.assertIn("no such token", wrong.stderr)
        self.assertNotIn("token_wrong", wrong.stderr + self.server.log())
        denied = self.calibctl("--token-file", self.token_file("token_reader"), "model", "delete", "own",
                               "--confirm", "own")
        self.assertIn("needs the role admin on models/own, which reader does not have", denied.stderr)
        empty = self.calibctl("--token-file", self.token_file(""), "model", "list")
        self.assertEqual((empty.returncode, "cannot be read, is empty" in empty.stderr), (2, True), empty.stderr)
        missing = self.calibctl("--token-file", "/nonexistent", "model", "list")
        self.assertEqual(missing.returncode, 2)

    def test_python_takes_a_token_a_file_or_a_function(self):
        file = pathlib.Path(self.token_file("token_writer\n"))
        for token in ("token_writer", file, lambda: "token_writer"):
            with calibd.Client(self.server.grpc, token=token) as client:
                with client.stream("own", classes=2) as stream:
                    stream.send([[0.25, 0.75], [0.5, 0.5]], [1, 0])
                self.assertNotIn("token_writer", repr(client))
        with self.assertRaises(calibd.Unauthenticated) as caught:
            calibd.Client(self.server.grpc).get_model("own")
        self.assertEqual(caught.exception.reason, "NO_CREDENTIALS")
        with calibd.Client(self.server.grpc, token="token_reader") as client:
            self.assertEqual(client.get_model("own").name, "models/own")
            with self.assertRaises(calibd.PermissionDenied):
                client.delete_model("own", confirm="own")
            next(iter(client.watch("own")))
        for token in ("", "two words", "line\n", 7, pathlib.Path("/nonexistent")):
            with self.assertRaises(calibd.InvalidArgument) as refused:
                calibd.Client(self.server.grpc, token=token).get_model("own")
            self.assertNotIn("two words", str(refused.exception))


class AuditTest(AccessCase):
    @classmethod
    def setUpClass(cls):
        cls.log = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory())) / "audit.jsonl"
        cls.options = ("--audit-log", str(cls.log))
        super().setUpClass()

    def entries(self):
        return [json.loads(line) for line in self.log.read_text(encoding="ascii").splitlines()]

    def find(self, **fields):
        def found():
            return any(fields.items() <= entry.items() for entry in self.entries())
        self.assertTrue(wait_for(found, CALL_SECONDS), (fields, self.entries()))

    def test_changes_and_refusals_are_recorded(self):
        self.find(principal="root", method="CreateModel", resource="models/own", status="OK")
        self.call(self.method("CreateModel"), classes_model("own-gone"), "root")
        self.ask("DELETE", "/v1/models/own-gone?confirmation=models/own-gone", "admin")
        self.find(principal="admin", method="DeleteModel", resource="models/own-gone", status="OK")
        self.ask("DELETE", "/v1/models/own", "reader")
        self.find(principal="reader", method="DeleteModel", status="PERMISSION_DENIED")
        self.ask("GET", "/v1/models/own", "unknown")
        self.find(principal="", status="UNAUTHENTICATED", method="/v1/models/{model}")
        self.ask("POST", "/login", text="token=wrong",
                 headers={"Content-Type": "application/x-www-form-urlencoded"})
        self.find(principal="", status="UNAUTHENTICATED", method="/login")
        connection = http.client.HTTPConnection(self.server.http, timeout=CALL_SECONDS)
        connection.putrequest("GET", "/metrics")
        for _ in range(2):
            connection.putheader("Authorization", "Bearer token_reader")
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 401)
        connection.close()
        self.find(principal="", status="UNAUTHENTICATED", method="/metrics")
        self.error_of(self.method("AcknowledgeAlarm"),
                      self.request_for(self.method("AcknowledgeAlarm"), "own"), "operator")
        self.find(principal="operator", method="AcknowledgeAlarm", resource="models/own")
        self.begin_backup().cancel()
        self.write_policy(POLICY + principal("another"))
        self.find(method="ReloadAccessFile", status="OK")
        for entry in self.entries():
            self.assertEqual(list(entry), ["time", "principal", "address", "method", "resource",
                                           "status"])
            if entry["method"] != "ReloadAccessFile":
                self.assertRegex(entry["address"], r"^127\.0\.0\.1:\d+$")
        self.assertNotIn("token_", self.log.read_text(encoding="ascii"))

    def begin_backup(self):
        """A backup whose first part has come. One that another test has given up may run a while."""
        begun = []

        def begin():
            backup = self.start(self.method("Backup"), store.BackupRequest(), "root")
            try:
                begun.append((next(backup), backup))
            except grpc.RpcError as error:
                self.assertEqual(error.code(), Code.RESOURCE_EXHAUSTED, error)
            return begun != []

        self.assertTrue(wait_for(begin, CALL_SECONDS))
        return begun[0][1]

    def test_a_backup_is_recorded_before_it_ends(self):
        before = len(self.entries())
        backup = self.begin_backup()
        self.assertTrue(wait_for(lambda: any(entry["method"] == "Backup"
                                             for entry in self.entries()[before:]), CALL_SECONDS))
        backup.cancel()

    def test_a_declaration_that_changes_nothing_is_not_recorded(self):
        declared = classes_model("own-again")
        for caller in ("root", "writer", "operator"):
            self.call(self.method("CreateModel"), declared, caller)
        self.ask("DELETE", "/v1/models/own-again", "writer")
        self.find(principal="writer", method="DeleteModel", resource="models/own-again")
        made = [entry for entry in self.entries() if entry["method"] == "CreateModel"
                and entry["resource"] == "models/own-again"]
        self.assertEqual([entry["principal"] for entry in made], ["root"])

    def test_reads_are_not_recorded(self):
        self.call(self.method("GetModel"), models.GetModelRequest(name="models/own"), "reader")
        self.ask("DELETE", "/v1/models/never", "root")
        self.find(method="DeleteModel", resource="models/never", status="NOT_FOUND")
        self.assertFalse([entry for entry in self.entries() if entry["method"] == "GetModel"])


class SecretsTest(AccessCase):
    def test_no_token_reaches_log_or_metrics(self):
        self.error_of(self.method("GetModel"), models.GetModelRequest(name="models/own"), "reader")
        self.error_of(self.method("GetModel"), models.GetModelRequest(name="models/own"), "unknown")
        self.ask("GET", "/v1/models/own", "unknown")
        metrics = self.ask("GET", "/metrics", "everywhere")[2]
        self.assertRegex(metrics, r'calibd_access_denied_total\{reason="unauthenticated"\} [1-9]')
        for text in (metrics, self.server.log()):
            self.assertNotIn("token_", text)

    def test_check_config_reads_the_file(self):
        page = (ROOT / "docs/access.md").read_text(encoding="utf-8")
        example, quota = re.findall(r"```toml\n(.*?)```", page, re.S)[:2]
        self.assertIn("fraud-sender", example)
        self.assertIn("quota = ", quota)
        for text, expected in ((POLICY, 0), (example, 0), (f"[[principal]]\nname = \"a\"\n{quota}", 0),
                               (POLICY + "[[principal]]\nname = \"x y\"\n", 2)):
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text)
                file.flush()
                done = subprocess.run([CALIBD, "--check-config", "--access-file", file.name],
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      check=False, timeout=60)
                self.assertEqual(done.returncode, expected, done.stderr)
                if expected:
                    self.assertRegex(done.stderr, r'--access-file: .*, line \d+: name is "x y", expect')


if __name__ == "__main__":
    unittest.main(verbosity=2)
