// HTTP requests. An input consists of the bytes of a connection. All responses are well-formed, and
// those to valid requests do not depend on how the input is divided into pieces. (In pieces, the
// parser may report a different fault of a malformed request, or none before its end.)
#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibd/convert/json.h"
#include "fuzz/require.h"
#include "server/http/http_answer.h"
#include "server/http/json_api.h"

namespace calibd::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using testing::Require;

constexpr std::uint64_t kMaxBodyBytes = 1 << 20;

const HttpHandlers& Handlers() {
  static const Health health(
      "data", [] { return CommitQueue::Refusal::kNothing; }, [] { return absl::OkStatus(); });
  static HttpStatistics requests;
  static AuditLog audit;
  static AccessControl access(audit);
  static const HttpHandlers handlers{.metrics = [] { return std::string("calibd_up 1\n"); },
                                     .health = health,
                                     .requests = requests,
                                     .access = access,
                                     .hosts = {"calibd.example"}};
  return handlers;
}

// Returns the response in its wire format.
std::string Serialize(HttpResponse response, bool keep_alive, bool head) {
  FinishResponse(response, keep_alive, head);
  http::response_serializer<http::string_body> serializer(response);
  std::string text;
  while (!serializer.is_done()) {
    beast::error_code error;
    serializer.next(error, [&](beast::error_code& /*error*/, const auto& buffers) {
      text += beast::buffers_to_string(buffers);
      serializer.consume(beast::buffer_bytes(buffers));
    });
    Require(!error, "an answer can be sent");
  }
  return text;
}

void CheckWellFormed(const std::string& answer, bool head) {
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.skip(head);
  beast::error_code error;
  const std::size_t used = parser.put(boost::asio::buffer(answer), error);
  Require(!error && parser.is_done() && used == answer.size(), "an answer is well-formed");
}

// Reads the body as the answer of a model server, for several models.
void CheckInferenceEvent(const HttpRequest& request, const std::string& body) {
  using Output = v1::InferenceOutput;
  const std::array<std::pair<std::size_t, InferenceOutput>, 6> models{{
      {2, {.name = "", .transform = Output::NONE}},
      {2, {.name = "", .transform = Output::SIGMOID, .columns = {1, 0}}},
      {2, {.name = "out", .transform = Output::SIGMOID, .columns = {0, 1}, .baseline_name = "old"}},
      {2, {.name = "", .transform = Output::SOFTMAX}},
      {3, {.name = "out", .transform = Output::NONE, .columns = {2, 0, 1}, .baseline_name = "old"}},
      {3, {.name = "out", .transform = Output::SOFTMAX, .columns = {1, 2, 0}}},
  }};
  std::vector<ModelDeclaration> declarations;
  for (const auto& [classes, output] : models) {
    ModelDeclaration& declaration = declarations.emplace_back();
    declaration.kind.emplace<ClassesSpec>().count = classes;
    declaration.inference_output = output;
  }
  for (const NumberForecastKind& forecast :
       {NumberForecastKind(NormalForecasts()), NumberForecastKind(QuantileForecasts{{0.5}})}) {
    declarations.emplace_back().kind = NumbersSpec{.forecast = forecast};
  }
  for (const ModelDeclaration& declaration : declarations) {
    InferenceEvent event = EventOf(request);
    event.id = "id";
    event.type = "org.kubeflow.serving.inference.response";
    event.body = body;
    const auto read = ReadInferenceEvent(event, declaration);
    Require(read.ok() || read.status().code() == absl::StatusCode::kInvalidArgument,
            "a fault is named");
  }
}

// Routes and parses a request to the API. Its body is the rest of the input.
void CheckJsonRequest(const HttpRequest& request, std::string_view body) {
  const std::string_view target(request.target().data(), request.target().size());
  if (!IsJsonPath(target)) return;
  for (const bool event : {false, true}) static_cast<void>(CheckWrite(request, false, event));
  JsonRequest json{.last_event = std::string(request["Last-Event-ID"])};
  const auto route = FindJsonRoute(request.method(), target, json);
  if (route.ok()) {
    if (request.method() == http::verb::post) json.body = body;
    if ((*route)->cloud_event) return CheckInferenceEvent(request, json.body);
    const auto parsed = (*route)->parse(json);
    if (parsed.ok()) {
      Require(convert::ToJsonText(**parsed).size() <= convert::MaxJsonLength(**parsed),
              "the bound of JSON holds");
    } else {
      Require(parsed.status().code() == absl::StatusCode::kInvalidArgument, "a fault is named");
    }
  } else {
    CheckWellFormed(Serialize(AnswerError(route.status(), target), false, false), false);
  }
}

// True if the endpoint reads the body of a request, whose header was read.
bool TakesBody(const HttpRequest& request) {
  return request.method() == http::verb::post &&
         IsJsonPath({request.target().data(), request.target().size()});
}

// Removes the request at the start of the input and returns the response to it; unset if the
// request is incomplete or malformed. piece: the number of bytes that the parser gets at a time.
std::optional<std::string> Answer(std::string_view& input, std::size_t piece, bool restricted) {
  HttpParser parser;
  LimitRequest(parser, kMaxBodyBytes);
  beast::flat_buffer buffer(std::size_t{2} * kMaxHttpHeaderBytes);
  beast::error_code error;
  while (!parser.is_header_done()) {
    const std::size_t size = std::min({piece, input.size(), buffer.max_size() - buffer.size()});
    if (size == 0) return std::nullopt;
    buffer.commit(
        boost::asio::buffer_copy(buffer.prepare(size), boost::asio::buffer(input.data(), size)));
    input.remove_prefix(size);
    buffer.consume(parser.put(buffer.data(), error));
    if (error == http::error::need_more) {
      error = {};
    } else if (!error && parser.is_header_done() && !TakesBody(parser.get())) {
      error = CheckNoBody(parser);
    }
    if (error) {
      const bool head = parser.is_header_done() && parser.get().method() == http::verb::head;
      const absl::Status refusal = ReadError(error);
      Require(!absl::IsCancelled(refusal), "a malformed request is answered");
      const auto target = parser.get().target();
      CheckWellFormed(Serialize(AnswerError(refusal, {target.data(), target.size()}), false, head),
                      head);
      return std::nullopt;
    }
  }
  const HttpRequest& request = parser.get();
  // Bytes that were read too far belong to the body or to the next request.
  const std::string_view rest(input.data() - buffer.size(), input.size() + buffer.size());
  CheckJsonRequest(request, rest);
  const bool head = request.method() == http::verb::head;
  HttpResponse response = AnswerRequest(request, Handlers(), {.address = "127.0.0.1:50000"},
                                        restricted && !IsHealthCheck(request));
  const bool keep_alive = request.keep_alive() && response.result() == http::status::ok;
  std::string answer = Serialize(std::move(response), keep_alive, head);
  CheckWellFormed(answer, head);
  input = keep_alive ? rest : std::string_view();
  return answer;
}

std::vector<std::string> AnswerAll(std::string_view input, std::size_t piece, bool restricted) {
  std::vector<std::string> answers;
  while (std::optional<std::string> answer = Answer(input, piece, restricted)) {
    answers.push_back(*std::move(answer));
  }
  return answers;
}

}  // namespace
}  // namespace calibd::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace calibd::server;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  for (const bool restricted : {false, true}) {
    const std::vector<std::string> whole = AnswerAll(input, size, restricted);
    // Beast applies the limit of a header only to incomplete headers.
    if (size <= kMaxHttpHeaderBytes) {
      Require(AnswerAll(input, 1, restricted) == whole, "answers do not depend on the pieces");
      Require(AnswerAll(input, 7, restricted) == whole, "answers do not depend on the pieces");
    }
  }
  return 0;
}
