#include "server/store/postgres/connection.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/store/postgres/pg_errors.h"

namespace calibd::server {
namespace {

constexpr int kBinary = 1;
// The types of array elements: see pg_type.dat of PostgreSQL.
constexpr std::int32_t kInt8Type = 20;
constexpr std::int32_t kBytesType = 17;
constexpr std::chrono::seconds kSetUpTime{30};
// How often a wait looks whether it shall end, and how long it lasts then.
constexpr std::chrono::milliseconds kLook{200};
constexpr std::chrono::seconds kLastWait{1};

template <typename Integer>
void PutInteger(Integer value, std::string& out) {
  std::array<char, sizeof(Integer)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(value));
  if constexpr (std::endian::native == std::endian::little) {
    std::reverse(bytes.begin(), bytes.end());
  }
  out.append(bytes.data(), bytes.size());
}

template <typename Integer>
Integer GetInteger(std::string_view text) {
  Integer value = 0;
  if (text.size() != sizeof(value)) return value;
  std::array<char, sizeof(Integer)> bytes{};
  std::memcpy(bytes.data(), text.data(), text.size());
  if constexpr (std::endian::native == std::endian::little) {
    std::reverse(bytes.begin(), bytes.end());
  }
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// The beginning of an array of one dimension without NULLs.
std::string ArrayHeader(std::int32_t type, std::size_t size) {
  std::string header;
  if (size == 0) {
    for (const std::int32_t number : {0, 0, type}) PutInteger(number, header);
    return header;
  }
  for (const std::int32_t number : {1, 0, type, static_cast<std::int32_t>(size), 1}) {
    PutInteger(number, header);
  }
  return header;
}

// The first line of a message of libpq, without its newline.
std::string FirstLine(const char* text) {
  const std::string line(text == nullptr ? "" : text);
  return line.substr(0, line.find('\n'));
}

// What is said of an SQLSTATE.
absl::StatusCode CodeOf(std::string_view state) {
  const std::string_view group = state.substr(0, 2);
  // The disk is full.
  if (state == "53100") return absl::StatusCode::kResourceExhausted;
  // A constraint does not hold, or an index or a page is damaged.
  if (group == "23" || state == "XX001" || state == "XX002") return absl::StatusCode::kDataLoss;
  // The server ends, has no room for a session or for memory, lost a conflict, was told to stop the
  // statement, or is a standby now. So is an error of its files that a restart may mend.
  constexpr std::array kAgain = {"08", "53", "57", "40", "25", "55", "58"};
  const bool again =
      state.empty() ||
      std::any_of(kAgain.begin(), kAgain.end(), [&](const char* known) { return group == known; });
  return again ? absl::StatusCode::kUnavailable : absl::StatusCode::kFailedPrecondition;
}

// Keywords of a connection with their values. Later ones replace earlier ones.
class Keywords {
 public:
  // Values of `text` replace the former ones.
  void Add(const char* name, std::string value) {
    names_.push_back(name);
    texts_.push_back(std::move(value));
  }
  [[nodiscard]] pg_conn* Connect(pg_conn* (*connect)(const char* const*, const char* const*,
                                                     int)) const {
    std::vector<const char*> names = names_;
    std::vector<const char*> values;
    for (const std::string& text : texts_) values.push_back(text.c_str());
    names.push_back(nullptr);
    values.push_back(nullptr);
    return connect(names.data(), values.data(), /*expand_dbname=*/1);
  }

 private:
  std::vector<const char*> names_;
  std::vector<std::string> texts_;
};

// What a connection with these keywords uses, by libpq's own rules.
struct Used {
  std::vector<std::string> hosts;
  std::string sslmode;
};

Used WhatIsUsed(const pg_conn* connection) {
  Used used;
  PQconninfoOption* const options = PQconninfo(const_cast<pg_conn*>(connection));
  for (const PQconninfoOption* option = options; option != nullptr && option->keyword != nullptr;
       ++option) {
    if (option->val == nullptr) continue;
    const std::string_view keyword = option->keyword;
    if (keyword == "sslmode") used.sslmode = option->val;
    if (keyword == "host" || keyword == "hostaddr") {
      for (const auto host : absl::StrSplit(option->val, ',')) used.hosts.emplace_back(host);
    }
  }
  PQconninfoFree(options);
  return used;
}

// Whether bytes to this host stay on the machine. An empty one is the default socket.
bool IsLocal(const std::string& host) {
  return host.empty() || host.front() == '/' || host.front() == '@' || host == "localhost" ||
         host == "::1" ||
         // A name may begin with these characters too.
         (absl::StartsWith(host, "127.") &&
          host.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace

PgValues& PgValues::Int4(std::int32_t value) {
  PutInteger(value, values_.emplace_back());
  return *this;
}

PgValues& PgValues::Int8(std::int64_t value) {
  PutInteger(value, values_.emplace_back());
  return *this;
}

PgValues& PgValues::Bytes(std::string_view value) {
  values_.emplace_back(value);
  return *this;
}

PgValues& PgValues::Int8Array(std::span<const std::int64_t> values) {
  std::string array = ArrayHeader(kInt8Type, values.size());
  array.reserve(array.size() + 12 * values.size());
  for (const std::int64_t value : values) {
    PutInteger(std::int32_t{sizeof(value)}, array);
    PutInteger(value, array);
  }
  values_.push_back(std::move(array));
  return *this;
}

PgValues& PgValues::BytesArray(std::span<const std::string_view> values) {
  std::string array = ArrayHeader(kBytesType, values.size());
  std::size_t size = array.size();
  for (const std::string_view value : values) size += 4 + value.size();
  array.reserve(size);
  for (const std::string_view value : values) {
    PutInteger(static_cast<std::int32_t>(value.size()), array);
    array.append(value);
  }
  values_.push_back(std::move(array));
  return *this;
}

bool PgRow::IsNull(int column) const { return PQgetisnull(result_, row_, column) != 0; }

std::string_view PgRow::Bytes(int column) const {
  return {PQgetvalue(result_, row_, column),
          static_cast<std::size_t>(PQgetlength(result_, row_, column))};
}

std::int32_t PgRow::Int4(int column) const { return GetInteger<std::int32_t>(Bytes(column)); }
std::int64_t PgRow::Int8(int column) const { return GetInteger<std::int64_t>(Bytes(column)); }

PgResult::PgResult(pg_result* result) : result_(result) {}
void PgResult::Clear::operator()(pg_result* result) const { PQclear(result); }
int PgResult::rows() const { return PQntuples(result_.get()); }

PgConnection::PgConnection(pg_conn* connection) : connection_(connection) {}
PgConnection::~PgConnection() = default;
void PgConnection::Finish::operator()(pg_conn* connection) const { PQfinish(connection); }

absl::StatusOr<std::unique_ptr<PgConnection>> PgConnection::Open(const std::string& text) {
  Keywords keywords;
  for (const auto& [name, value] : {std::pair{"connect_timeout", "5"},
                                    {"keepalives_idle", "5"},
                                    {"keepalives_interval", "2"},
                                    {"keepalives_count", "3"},
                                    {"tcp_user_timeout", "10000"},
                                    {"target_session_attrs", "read-write"},
                                    {"fallback_application_name", "calibd"}}) {
    keywords.Add(name, value);
  }
  keywords.Add("dbname", text);
  keywords.Add("client_encoding", "UTF8");
  {
    // It has begun to connect, but has sent nothing yet.
    const std::unique_ptr<pg_conn, Finish> probe(keywords.Connect(&PQconnectStartParams));
    if (probe == nullptr) return absl::ResourceExhaustedError("no memory for a connection");
    const Used used = WhatIsUsed(probe.get());
    // The default of libpq.
    if (used.sslmode == "prefer" && !std::all_of(used.hosts.begin(), used.hosts.end(), &IsLocal)) {
      keywords.Add("sslmode", "verify-full");
    }
  }
  std::unique_ptr<PgConnection> connection(new PgConnection(keywords.Connect(&PQconnectdbParams)));
  if (PQstatus(connection->connection_.get()) != CONNECTION_OK) {
    return connection->Failed("cannot be reached");
  }
  CALIBD_RETURN_IF_ERROR(connection->Prepare());
  return connection;
}

absl::Status PgConnection::Prepare() {
  PQsetNoticeReceiver(
      connection_.get(),
      [](void* warning, const PGresult* notice) {
        const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
        if (severity == nullptr || std::strcmp(severity, "WARNING") != 0) return;
        *static_cast<std::string*>(warning) =
            FirstLine(PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY));
      },
      &warning_);
  PQsetnonblocking(connection_.get(), 1);
  // Replays merge the indexes of the tables of the log, whatever the statistics say.
  return RunScript(
      "SET search_path = calibd; SET synchronous_commit = on; SET statement_timeout = 0; "
      "SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; "
      "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
      "SET tcp_user_timeout = 10000; SET client_min_messages = warning; SET "
      "default_transaction_isolation = 'read committed'; "
      "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; "
      "SET enable_bitmapscan = off; SET enable_sort = off; SET jit = off",
      std::chrono::steady_clock::now() + kSetUpTime);
}

absl::Status PgConnection::Failed(std::string_view what) const {
  return PgError(absl::StatusCode::kUnavailable,
                 absl::StrCat("the PostgreSQL server ", std::string(what), ": ",
                              FirstLine(PQerrorMessage(connection_.get()))));
}

absl::Status PgConnection::ErrorOf(const pg_result* result) const {
  if (result == nullptr) return Failed("gave no answer");
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_SINGLE_TUPLE:
    case PGRES_PIPELINE_SYNC:
      return absl::OkStatus();
    default:
      break;
  }
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  if (state == nullptr) return Failed("ended the connection");
  return PgError(CodeOf(state), absl::StrCat("the PostgreSQL server answers: ", FirstLine(primary),
                                             " (SQLSTATE ", state, ")"));
}

absl::Status PgConnection::Await(Deadline deadline) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const int unsent = PQflush(connection_.get());
    if (unsent < 0) return Failed("ended the connection");
    if (unsent == 0 && PQisBusy(connection_.get()) == 0) return absl::OkStatus();
    pollfd socket{.fd = PQsocket(connection_.get()),
                  .events = static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN),
                  .revents = 0};
    if (stops_waiting_ != nullptr && *stops_waiting_) {
      deadline = std::min(deadline, begin + kLastWait);
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const std::chrono::milliseconds slice = std::clamp(left, std::chrono::milliseconds(0), kLook);
    const int ready = slice.count() == 0 ? 0 : poll(&socket, 1, static_cast<int>(slice.count()));
    if (ready == 0 && left <= slice) {
      return PgError(absl::StatusCode::kUnavailable,
                     "the PostgreSQL server has not answered in time");
    }
    if (ready < 0 && errno != EINTR) return Failed("cannot be waited for");
    if (ready > 0 && (socket.revents & ~POLLOUT) != 0 && PQconsumeInput(connection_.get()) == 0) {
      return Failed("ended the connection");
    }
  }
}

absl::Status PgConnection::Send(const PgStatement& statement,
                                std::vector<const PgQuery*>& expected) {
  const PgQuery& query = *statement.query;
  if (!prepared_.contains(query.name)) {
    if (PQsendPrepare(connection_.get(), query.name.c_str(), query.text.c_str(), 0, nullptr) == 0) {
      return Failed("cannot be sent to");
    }
    expected.push_back(&query);
    prepared_.insert(query.name);
  }
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const std::string& value : statement.values.values()) {
    values.push_back(value.data());
    lengths.push_back(static_cast<int>(value.size()));
  }
  const std::vector<int> formats(values.size(), kBinary);
  if (PQsendQueryPrepared(connection_.get(), query.name.c_str(), static_cast<int>(values.size()),
                          values.data(), lengths.data(), formats.data(), kBinary) == 0) {
    return Failed("cannot be sent to");
  }
  expected.push_back(nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PgResult>> PgConnection::Run(std::span<const PgStatement> statements,
                                                        Deadline deadline) {
  warning_.clear();
  if (PQenterPipelineMode(connection_.get()) == 0) return Failed("cannot be sent to");
  std::vector<const PgQuery*> expected;
  for (const PgStatement& statement : statements) CALIBD_RETURN_IF_ERROR(Send(statement, expected));
  if (PQpipelineSync(connection_.get()) == 0) return Failed("cannot be sent to");
  std::vector<PgResult> results;
  absl::Status failure;
  for (const PgQuery* const preparation : expected) {
    CALIBD_RETURN_IF_ERROR(Await(deadline));
    pg_result* const raw = PQgetResult(connection_.get());
    PgResult result(raw);
    // After an error, the others are skipped.
    if (failure.ok()) failure = ErrorOf(raw);
    if (preparation == nullptr) {
      results.push_back(std::move(result));
    } else if (!failure.ok()) {
      prepared_.erase(preparation->name);
    }
    // Each result is followed by a null pointer.
    CALIBD_RETURN_IF_ERROR(Await(deadline));
    PQclear(PQgetResult(connection_.get()));
    if (PQstatus(connection_.get()) == CONNECTION_BAD) return Failed("ended the connection");
  }
  CALIBD_RETURN_IF_ERROR(Await(deadline));
  PQclear(PQgetResult(connection_.get()));
  if (PQexitPipelineMode(connection_.get()) == 0 && failure.ok()) {
    failure = Failed("ended the connection");
  }
  CALIBD_RETURN_IF_ERROR(failure);
  if (!warning_.empty()) {
    return PgError(absl::StatusCode::kUnavailable,
                   absl::StrCat("the PostgreSQL server warns: ", warning_));
  }
  return results;
}

absl::StatusOr<PgResult> PgConnection::RunOne(const PgStatement& statement, Deadline deadline) {
  CALIBD_ASSIGN_OR_RETURN(std::vector<PgResult> results, Run({&statement, 1}, deadline));
  return std::move(results.front());
}

absl::Status PgConnection::RunScript(const std::string& script, Deadline deadline) {
  if (PQsendQuery(connection_.get(), script.c_str()) == 0) return Failed("cannot be sent to");
  absl::Status failure;
  while (true) {
    CALIBD_RETURN_IF_ERROR(Await(deadline));
    pg_result* const raw = PQgetResult(connection_.get());
    const PgResult result(raw);
    if (raw == nullptr) return failure;
    failure.Update(ErrorOf(raw));
  }
}

absl::Status PgConnection::Read(const PgStatement& statement, std::chrono::milliseconds row_timeout,
                                const Visit& visit, absl::Status& visited) {
  const auto deadline = [&] { return std::chrono::steady_clock::now() + row_timeout; };
  if (!prepared_.contains(statement.query->name)) {
    if (PQsendPrepare(connection_.get(), statement.query->name.c_str(),
                      statement.query->text.c_str(), 0, nullptr) == 0) {
      return Failed("cannot be sent to");
    }
    absl::Status failure;
    for (bool more = true; more;) {
      CALIBD_RETURN_IF_ERROR(Await(deadline()));
      pg_result* const raw = PQgetResult(connection_.get());
      const PgResult result(raw);
      more = raw != nullptr;
      if (more) failure.Update(ErrorOf(raw));
    }
    CALIBD_RETURN_IF_ERROR(failure);
    prepared_.insert(statement.query->name);
  }
  std::vector<const PgQuery*> expected;
  CALIBD_RETURN_IF_ERROR(Send(statement, expected));
  if (PQsetSingleRowMode(connection_.get()) == 0) return Failed("cannot be sent to");
  absl::Status failure;
  while (true) {
    CALIBD_RETURN_IF_ERROR(Await(deadline()));
    pg_result* const raw = PQgetResult(connection_.get());
    const PgResult result(raw);
    if (raw == nullptr) return failure;
    failure.Update(ErrorOf(raw));
    if (!failure.ok() || PQresultStatus(raw) != PGRES_SINGLE_TUPLE) continue;
    visited = visit(result.row(0));
    if (!visited.ok()) return absl::OkStatus();
  }
}

}  // namespace calibd::server
