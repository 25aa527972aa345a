#ifndef CALIBD_TESTS_INTEGRATION_STORE_STORE_ANSWERS_H_
#define CALIBD_TESTS_INTEGRATION_STORE_STORE_ANSWERS_H_

#include <grpcpp/support/status_code_enum.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibd/v1/ingest_service.pb.h"

namespace calibd::testing {

// What clients ask a server in order to compare its store with another one.
struct Questions {
  // Declared or deleted; each answer of each is compared.
  std::vector<std::string> models;
  // Of the newest observations in the history, in seconds since 1970.
  std::int64_t newest_s = 0;
  // The newest numbered batches, with their producers. They are sent again, which must count
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
  // By question.
  std::map<std::string, Answer> answers;
  // What Verify answers.
  Answer verification;
  std::vector<std::string> problems;
};

// Asks all questions: first those that change nothing, then a backup, then those that write. Two
// servers with equal stores give equal answers, whatever the time is. After a call that writes
// fails, all later answers are its error.
// backup: a file that does not exist; there is none afterwards if the backup failed.
StoreAnswers AskAll(const std::string& address, const Questions& questions,
                    const std::string& backup);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_STORE_ANSWERS_H_
