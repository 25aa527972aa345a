#ifndef CALIBD_TESTS_INTEGRATION_STORE_STORE_ANSWERS_H_
#define CALIBD_TESTS_INTEGRATION_STORE_STORE_ANSWERS_H_

#include <grpcpp/support/status_code_enum.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibd/v1/ingest_service.pb.h"

namespace calibd::testing {

// The questions that clients ask a server, to compare its store with another one.
struct Questions {
  // Declared or deleted models; all answers about them are compared.
  std::vector<std::string> models;
  // Time of the newest observations in the history, in seconds since 1970.
  std::int64_t newest_s = 0;
  // The newest numbered batches with their producers. They are sent again, which must count
  // nothing; then each producer sends one new batch.
  std::vector<v1::ObserveRequest> newest_batches;
  // Labels of predictions, most of which are pending, without a producer.
  v1::ObserveRequest labels;
};

struct Answer {
  grpc::StatusCode code = grpc::StatusCode::OK;
  // The response in protobuf's text format, or the error's message.
  std::string text;

  friend bool operator==(const Answer&, const Answer&) = default;
};

struct StoreAnswers {
  // The answers by question.
  std::map<std::string, Answer> answers;
  // The answer of Verify.
  Answer verification;
  std::vector<std::string> problems;
};

// Asks all questions: first those that change nothing, then a backup, then those that write. Two
// servers with equal stores give equal answers at any time. After a call that writes fails, all
// later answers are its error. backup: a file that does not exist; it does not exist afterwards if
// the backup failed.
StoreAnswers AskAll(const std::string& address, const Questions& questions,
                    const std::string& backup);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_STORE_ANSWERS_H_
