"""Each check finds what it is there for: one seeded violation a rule."""
import contextlib
import graphlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

import alert_rules
import braces
import dashboard
import dockerfile_policy
import error_reasons
import layering
import named_files
import proto_style
import self_contained
from sources import ROOT

sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "benchmark")]
import instructions  # noqa: E402
import summary  # noqa: E402


class BracesTest(unittest.TestCase):
    def check(self, text, problems):
        self.assertEqual(len(list(braces.violations(text))), problems, text)

    def test_a_statement_that_fits_on_the_line_of_its_condition_has_no_braces(self):
        self.check("  if (a) {\n    return b;\n  }\n", 1)
        self.check("  if (a) return b;\n", 0)

    def test_braces_stay_around_what_does_not_fit(self):
        self.check("if (a) {\n  b = 1;\n  c = 2;\n}\n", 0)
        self.check("if (a) {\n  b = 1;\n} else {\n  c = 2;\n}\n", 0)
        self.check("if (a) {\n  // Why.\n  b = 1;\n}\n", 0)
        self.check("if (a) {\n  " + "b" * 93 + ";\n}\n", 0)


class NamedFilesTest(unittest.TestCase):
    def check(self, text, *problems):
        self.assertEqual(named_files.violations(text, "server"), list(problems))

    def test_a_file_is_found_from_the_root_and_from_the_folder_of_the_page(self):
        self.check("`server/state/model.h`, `state/model.h`, `state/model`, `state/` and `tests/NAME.rs`",
                   "1: tests/NAME.rs does not exist")
        self.check("a\n`server/state/no_model.h` of `nothing.h`, `tests/lint/*.py`",
                   "2: server/state/no_model.h does not exist")


class ErrorReasonsTest(unittest.TestCase):
    SOURCE = ('MakeError(absl::StatusCode::kNotFound, "GONE", text);\n'
              'return Exhausted("FULL",\n absl::StrCat(1));\n'
              'constexpr char kBad[] = "BAD_ROWS";\nInvalidFieldsError(kBad, violations);\n')
    PAGE = ("| `GONE` | NOT_FOUND | a | b |\n| `FULL` | RESOURCE_EXHAUSTED | a | b |\n"
            "| `BAD_ROWS` | INVALID_ARGUMENT | a | b |\n")

    def check(self, source, page, *problems):
        found = error_reasons.violations({"server/a.cc": source}, page)
        self.assertEqual(len(found), len(problems), found)
        for problem, text in zip(problems, found):
            self.assertIn(problem, text)

    def test_the_page_lists_exactly_the_errors_of_the_sources(self):
        self.check(self.SOURCE, self.PAGE)
        self.check(self.SOURCE, self.PAGE.replace("GONE", "MISSING"), "lacks GONE", "lists MISSING")
        self.check(self.SOURCE, self.PAGE.replace("NOT_FOUND", "ABORTED"),
                   "lacks GONE (NOT_FOUND)", "lists GONE (ABORTED)")

    def test_a_reason_that_the_check_cannot_read_is_a_problem(self):
        self.check(self.SOURCE + "MakeError(absl::StatusCode::kAborted, Name(), text);", self.PAGE,
                   "no literal reason")
        self.check(self.SOURCE + "MakeError(code, reason, text);", self.PAGE)


class LayeringTest(unittest.TestCase):
    def check(self, path, line, problems):
        self.assertEqual(len(layering.violations(path, line)), problems, f"{path}: {line}")

    def test_core_includes_no_other_layer_no_grpc_and_no_io(self):
        for header in ('"calibd/v1/model_service.pb.h"', '"server/state/model_state.h"',
                       '<grpcpp/grpcpp.h>', '<spdlog/spdlog.h>', '<iostream>', '<thread>',
                       '<chrono>', '<unistd.h>', '"absl/time/time.h"'):
            self.check("core/src/skce.cc", f"#include {header}", 1)
        for header in ('"calibd/core/skce.h"', '<Eigen/Core>', '"hwy/highway.h"', '<boost/sort/spreadsort/float_sort.hpp>',
                       '<boost/math/distributions/normal.hpp>', '"absl/status/statusor.h"',
                       '<vector>'):
            self.check("core/src/skce.cc", f"#include {header}", 0)

    def test_a_header_without_a_folder_is_one_of_the_same_folder(self):
        line = '#include "rng.h"'
        self.assertEqual(layering.violations("server/rows/row.cc", line, siblings={"rng.h"}), [])
        self.assertEqual(len(layering.violations("server/rows/row.cc", line)), 1)

    def test_units_do_not_include_each_other(self):
        a, a_source, b = "core/include/calibd/core/a.h", "core/src/base/a.cc", "core/src/base/b.h"
        include_a, include_b = '#include "calibd/core/a.h"', '#include "base/b.h"'
        self.assertEqual(layering.unit_circles({a: "#include <vector>", a_source: include_a, b: include_a}), [])
        self.assertEqual(len(layering.unit_circles({a: include_b, b: include_a})), 1)
        self.assertEqual(len(layering.unit_circles({a: "", a_source: include_b, b: include_a})), 1)
        self.assertEqual(len(layering.unit_circles({"core/src/base/c.h": include_b, b: '#include "c.h"'})), 1)
        self.assertEqual(len(layering.unit_circles({a: '#include "server/b.h"', "server/b.h": include_a})), 1)

    def test_rooms_of_core_include_only_what_they_may(self):
        lens, lens_source = "core/include/calibd/core/lens.h", "core/src/kernels/lens.cc"
        include = '#include "calibd/core/lens.h"'
        self.assertEqual(layering.room_violations({lens: "", lens_source: include, "core/src/loss/a.h": include}), [])
        self.assertEqual(len(layering.room_violations({lens: "", lens_source: "", "core/src/base/a.h": include})), 1)
        self.assertEqual(len(layering.room_violations({lens: '#include "loss/b.h"', lens_source: "", "core/src/loss/b.h": ""})), 1)
        self.assertEqual(len(layering.room_violations({lens: ""})), 1)
        self.assertEqual(len(layering.room_violations({"core/src/attic/a.h": ""})), 1)

    def test_the_rooms_of_core_have_an_order(self):
        graphlib.TopologicalSorter(layering.CORE_ROOMS).prepare()

    def test_only_the_composition_and_its_tests_know_a_store(self):
        include = '#include "server/store/local/sqlite.h"'
        for path in ("server/api/store_upkeep.cc", "server/store/store.h", "server/main.cc",
                     "tests/unit/server/decode_test.cc", "client/cli/main.cc"):
            self.assertEqual(len(layering.store_leaks(path, include)), 1, path)
        for path in ("server/store/local/local_store.h", "server/server.cc",
                     "tests/integration/store/crash_test.cc", "tests/unit/server/store_test.cc"):
            self.assertEqual(layering.store_leaks(path, include), [], path)
        include = '#include "server/store/postgres/session.h"'
        for path in ("server/store/local/schema.cc", "server/main.cc", "server/process/healthcheck.cc"):
            self.assertEqual(len(layering.store_leaks(path, include)), 1, path)
        for path in ("server/store/postgres/postgres_store.h", "server/migrate.cc", "server/process/options.cc"):
            self.assertEqual(layering.store_leaks(path, include), [], path)
        for line in ("// Waits for a checkpoint.", 'path + "/calibd.db"', "sqlite3_open();", "// In SQL."):
            self.assertEqual(len(layering.store_leaks("server/ingest/recovery.cc", line)), 1, line)
            self.assertEqual(layering.store_leaks("tests/unit/server/decode_test.cc", line), [], line)
        self.assertEqual(layering.store_leaks("server/state/model.cc", "// The store walks."), [])

    def test_server_includes_no_client(self):
        self.check("server/rpc/ingest.cc", '#include "calibd/client/client.h"', 1)
        self.check("server/rpc/ingest.cc", '#include "calibd/core/skce.h"', 0)
        self.check("server/net/relay.cc", '#include <boost/beast/core.hpp>', 0)

    def test_state_knows_nothing_above_it(self):
        for header in ('"server/rpc/services.h"', '"server/api/api.h"', '"server/ingest/ingestor.h"',
                       '<grpcpp/grpcpp.h>', '"calibd/v1/ingest_service.grpc.pb.h"'):
            self.check("server/state/model.cc", f"#include {header}", 1)

    def test_each_room_of_the_server_names_what_it_may_include(self):
        rooms = list(layering.SERVER_ROOMS)
        for room, others in layering.SERVER_ROOMS.items():
            for other in others:
                self.assertLess(rooms.index(other), rooms.index(room), f"{room} -> {other}")
        self.check("server/watch/alarm_log.h", '#include "server/kinds/kind_state.h"', 1)
        self.check("server/kinds/classes/class_kind.h", '#include "server/watch/monitor.h"', 0)
        self.check("server/kinds/make_kind_state.cc", '#include "server/kinds/classes/class_state.h"', 0)
        self.check("server/model/model_name.h", '#include "server/state/disk_use.h"', 1)
        self.check("server/base/errors.cc", '#include "server/rpc/grpc_status.h"', 1)
        for room in ("rpc", "http", "net", "compute"):
            self.check(f"server/{room}/a.cc", '#include "server/store/store.h"', 1)
        for header in ("<spdlog/spdlog.h>", "<boost/beast/core.hpp>"):
            self.check("server/state/model.cc", f"#include {header}", 1)

    def test_the_api_knows_no_transport_and_transports_do_not_know_each_other(self):
        for header in ('"server/rpc/call_reactor.h"', '"server/http/http_answer.h"',
                       '"server/net/relay.h"', '<grpcpp/grpcpp.h>',
                       '"calibd/v1/ingest_service.grpc.pb.h"'):
            self.check("server/api/api.h", f"#include {header}", 1)
        self.check("server/net/relay.cc", '#include "server/rpc/call_reactor.h"', 1)
        self.check("server/rpc/serve.h", '#include "server/http/http_answer.h"', 1)
        self.check("server/rpc/serve.h", '#include "server/api/api.h"', 0)
        self.check("server/rpc/services.h", '#include "calibd/v1/ingest_service.grpc.pb.h"', 0)
        self.check("server/http/http_answer.cc", '#include "server/api/health.h"', 0)

    def test_sdk_includes_proto_alone(self):
        self.check("client/cpp/src/client.cc", '#include "calibd/core/skce.h"', 1)
        self.check("client/cpp/src/client.cc", '#include "server/state/model_state.h"', 1)
        self.check("client/cpp/src/client.cc", '#include "calibd/v1/model_service.grpc.pb.h"', 0)

    def test_command_line_may_use_core_but_not_the_server(self):
        self.check("client/cli/evaluate.cc", '#include "calibd/core/skce.h"', 0)
        self.check("client/cli/evaluate.cc", '#include "server/process/options.h"', 1)

    def test_nobody_includes_tests_or_relative_paths(self):
        for path in ("core/src/a.cc", "server/a.cc", "client/cpp/src/a.cc", "client/cli/a.cc"):
            self.check(path, '#include "tests/support/a.h"', 1)
            self.check(path, '#include "../tests/support/a.h"', 1)


class ProtoStyleTest(unittest.TestCase):
    OPTIONS = ('option go_package = "a/v1;av1";\noption java_package = "a.v1";\n'
               'option java_multiple_files = true;\n')

    def problems(self, body):
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root) / "a/v1/a.proto"
            file.parent.mkdir(parents=True)
            file.write_text('syntax = "proto3";\npackage a.v1;\n' + self.OPTIONS + body)
            return proto_style.check_protos(root, ["a/v1/a.proto"])

    def test_accepts_what_follows_the_conventions(self):
        self.assertEqual(self.problems("""
            // A service.
            service S {
              // Gets.
              rpc Get(GetRequest) returns (GetResponse);
            }
            message GetRequest { string name = 1; }
            message GetResponse {
              // Rows, 1..10.
              int32 row_count = 1;
              int32 column_count = 2;
            }
            // A car.
            message Car {
              // Colours.
              enum Colour { UNSPECIFIED = 0; RED = 1; }
            }
            """), [])

    def test_finds_each_violation(self):
        for body in (
                "// M.\nmessage M { string camelCase = 1; }",
                "// M.\nmessage M { int32 count = 1; }",
                "message M { string name = 1; }",
                "// E.\nenum E { UNSPECIFIED = 0; }",
                "// M.\nmessage M {\n// E.\nenum E { RED = 0; } }",
                "// M.\nmessage M {\n// E.\nenum E { UNSPECIFIED = 0; E_RED = 1; } }",
                "// M.\nmessage M { enum E { UNSPECIFIED = 0; } }",
                "message AResponse {} message BRequest {}\n// S.\nservice S {\n// A.\n"
                "rpc A(BRequest) returns (AResponse); }",
        ):
            self.assertEqual(len(self.problems(body)), 1, body)

    def test_finds_a_message_that_two_rpcs_share(self):
        problems = self.problems(
            "message ARequest {} message AResponse {} message BResponse {}\n// S.\nservice S {\n"
            "// A.\nrpc A(ARequest) returns (AResponse);\n"
            "// B.\nrpc B(ARequest) returns (BResponse); }")
        self.assertTrue(any("is used by S.A too" in problem for problem in problems), problems)

    def test_finds_a_package_that_is_not_its_folder(self):
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root) / "a/v1/a.proto"
            file.parent.mkdir(parents=True)
            file.write_text('syntax = "proto3";\npackage b;\n' + self.OPTIONS.replace('"a.v1"', '"b"'))
            self.assertEqual(len(proto_style.check_protos(root, ["a/v1/a.proto"])), 1)

    def test_finds_missing_names_of_generated_packages(self):
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root) / "a/v1/a.proto"
            file.parent.mkdir(parents=True)
            file.write_text('syntax = "proto3";\npackage a.v1;\n')
            self.assertEqual(len(proto_style.check_protos(root, ["a/v1/a.proto"])), 2)


class DockerfilePolicyTest(unittest.TestCase):
    TEXT = (dockerfile_policy.ROOT / "Dockerfile").read_text()

    def test_finds_each_violation(self):
        for good, bad in (
                ("FROM ${RUN_BASE}", "FROM debian:trixie-slim"),
                ("ARG RUN_BASE", "ARG RUN_BASE=debian:bookworm-slim"),
                ("USER 65532:65532", "USER root"),
                ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL"),
                ('ENTRYPOINT ["calibd"]', "ENTRYPOINT calibd"),
                ('CMD ["calibd", "healthcheck"]', "CMD true"),
                ("deploy/install-packages run", "apt-get install -y calibd"),
                ("org.opencontainers.image.licenses=", "licenses="),
        ):
            self.assertIn(good, self.TEXT)
            self.assertTrue(
                dockerfile_policy.dockerfile_violations(self.TEXT.replace(good, bad)), bad)


class AlertRulesTest(unittest.TestCase):
    TEXTS = {name: (alert_rules.ROOT / name).read_text(encoding="utf-8")
             for name in (alert_rules.RULES, alert_rules.TESTS, alert_rules.PAGE)}

    def problems(self, name, good, bad):
        self.assertIn(good, self.TEXTS[name])
        changed = dict(self.TEXTS, **{name: self.TEXTS[name].replace(good, bad)})
        return alert_rules.violations(*changed.values())

    def test_finds_each_violation(self):
        self.assertEqual(alert_rules.violations(*self.TEXTS.values()), [])
        for name, good, bad in (
                (alert_rules.RULES, "operate.md#calibddown", "operate.md#calibdup"),
                (alert_rules.RULES, 'summary: "calibd is down"', ""),
                (alert_rules.RULES, "calibd_recovering == 1", "calibd_test_p_value < 0.05"),
                (alert_rules.RULES, "calibd_recovering == 1", "calibd_max_log10_e_value > 2"),
                (alert_rules.TESTS, 'alertname="CalibdQueueFull"', 'alertname="CalibdQueue"'),
                (alert_rules.TESTS, "alertname: CalibdLabelsMissing", "alertname: Other"),
                (alert_rules.PAGE, "### CalibdQueueFull", "### CalibdQueue"),
        ):
            self.assertEqual(len(self.problems(name, good, bad)), 1, bad)

    def test_finds_each_violation_of_the_recording_rules(self):
        rules = self.TEXTS[alert_rules.RULES]
        records, tests = ((ROOT / name).read_text(encoding="utf-8")
                          for name in (alert_rules.RECORDS, alert_rules.RECORD_TESTS))
        self.assertEqual(alert_rules.record_violations(rules, records, tests), [])
        for good, bad in (("instance:calibd_models:count", "calibd_models_count"),
                          ("instance:calibd_models:count", "instance:calibd_models:number"),
                          ("calibd_dropped_rows_total[1h]", "calibd_dropped_rows_total[2h]")):
            self.assertIn(good, records)
            changed = records.replace(good, bad)
            self.assertTrue(alert_rules.record_violations(rules, changed, tests), bad)


class DashboardTest(unittest.TestCase):
    def check(self, change):
        text = json.loads((ROOT / dashboard.DASHBOARD).read_text(encoding="utf-8"))
        change(text)
        return dashboard.violations(text)

    def test_finds_each_violation(self):
        self.assertEqual(self.check(lambda _: None), [])
        first = 1
        for change in (
                lambda text: text.update(id=7),
                lambda text: text.update(uid=None),
                lambda text: text["panels"][first].update(id=text["panels"][0]["id"]),
                lambda text: text["panels"][first].update(title=text["panels"][0]["title"]),
                lambda text: text["panels"][first].update(type="graph"),
                lambda text: text["panels"][first].update(description=""),
                lambda text: text["panels"][first].update(datasource=None),
                lambda text: text["panels"][first]["fieldConfig"]["defaults"].pop("unit"),
                lambda text: text["panels"][first]["gridPos"].update(w=25),
                lambda text: text["panels"][first]["gridPos"].update(text["panels"][first + 1]["gridPos"]),
                lambda text: text["panels"][first].update(targets=[]),
                lambda text: text["panels"][first]["targets"][0].update(expr="sum(calibd_models)"),
                lambda text: text["panels"][first]["targets"][0].update(
                    expr='calibd_observations_total{instance=~"$instance"}'),
                lambda text: text["panels"][first]["targets"][0].update(
                    expr='rate(calibd_observations_total{instance=~"$instance"}[5m])'),
                lambda text: text["panels"][first].update(title="$group"),
                lambda text: text["templating"]["list"].append({"name": "group"})):
            self.assertTrue(self.check(change))


class InstructionsTest(unittest.TestCase):
    def test_a_count_beyond_the_tolerance_is_a_problem_in_both_directions(self):
        for new in (971, 1000, 1029):
            self.assertIsNone(instructions.problem("blocks/m=10", 1000, new, "update"))
        for new, change in ((969, "-3.1%"), (1031, "+3.1%")):
            text = instructions.problem("blocks/m=10", 1000, new, "the command")
            for part in ("blocks/m=10", str(new), "1000", change, "the command"):
                self.assertIn(part, text)
        self.assertIsNotNone(instructions.problem("blocks/m=10", None, 1000, "update"))


class SelfContainedTest(unittest.TestCase):
    def test_finds_paths_that_lead_out_and_allows_the_test_data_default(self):
        outside = "../" + "shared/data"
        self.assertTrue(self_contained.violations("a.md", "see /" + "home/me/notes"))
        self.assertTrue(self_contained.violations("a.md", f"see {outside}"))
        self.assertEqual(self_contained.violations("a.txt", f"set(CALIBD_TEST_DATA {outside})"), [])


class SummaryTest(unittest.TestCase):
    """The results are as ctest --output-junit writes them."""

    SKIP = '<skipped message="SKIP_RETURN_CODE=77"/>'
    MISSING = '<skipped message="Unable to find executable"/>'

    def summarize(self, first, again=""):
        """The exit code and the closing lines."""
        with tempfile.TemporaryDirectory() as folder:
            for name, cases in (("asan.xml", first), ("asan.again.xml", again)):
                if cases:
                    pathlib.Path(folder, name).write_text(f"<t>{cases}</t>", encoding="utf-8")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = summary.main(["9", f"{folder}/asan.xml"])
        return code, output.getvalue().split("\n\n")[-1].strip().splitlines()

    @staticmethod
    def case(name, status, content=""):
        return f'<testcase name="{name}" time="1" status="{status}">{content}</testcase>'

    def test_the_last_line_counts_and_a_skipped_test_has_not_passed(self):
        passed = self.case("a", "run") + self.case("b", "run")
        self.assertEqual(self.summarize(passed), (0, ["2 passed, 0 failed"]))
        self.assertEqual(self.summarize(passed + self.case("c", "notrun", self.SKIP)),
                         (0, ["2 passed, 0 failed, 1 skipped"]))

    def test_a_test_without_its_program_has_failed(self):
        self.assertEqual(self.summarize(self.case("a", "notrun", self.MISSING)),
                         (1, ["Failed: a in asan", "0 passed, 1 failed"]))

    def test_a_test_that_passes_alone_is_unsteady(self):
        failed = self.case("a", "fail") + self.case("b", "fail")
        self.assertEqual(self.summarize(failed, self.case("a", "run") + self.case("b", "fail")),
                         (1, ["Unsteady: a in asan (failed beside other tests, passed alone)",
                              "Failed: b in asan", "1 passed, 1 failed"]))
        self.assertEqual(self.summarize(self.case("a", "fail"), self.case("a", "run"))[0], 0)

    def test_the_tests_of_a_binary_that_failed_are_named(self):
        for output, name in (
                ("[ RUN      ] A.b\n[  FAILED  ] A.b (1 ms)\n[  FAILED  ] A.b\n", "part.0 (A.b)"),
                ("[ RUN      ] A.b\n[       OK ] A.b\n[ RUN      ] A/C.d/1\n", "part.0 (A/C.d/1)")):
            lines = self.summarize(self.case("part.0", "fail", f"<system-out>{output}</system-out>"))[1]
            self.assertEqual(lines[0], f"Failed: {name} in asan")


if __name__ == "__main__":
    unittest.main()
