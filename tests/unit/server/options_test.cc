#include "server/process/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "support/server_process.h"

namespace calibd::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::variant<Invocation, Exit> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "calibd");
  return ParseOptions(static_cast<int>(arguments.size()), arguments.data());
}

Options Parsed(const std::vector<const char*>& arguments) {
  const auto parsed = Parse(arguments);
  const auto* invocation = std::get_if<Invocation>(&parsed);
  EXPECT_NE(invocation, nullptr);
  return invocation == nullptr ? Options{} : invocation->options;
}

// Returns the output for arguments that are refused with exit code 2.
std::string Refusal(const std::vector<const char*>& arguments) {
  ::testing::internal::CaptureStderr();
  const auto parsed = Parse(arguments);
  const std::string text = ::testing::internal::GetCapturedStderr();
  const auto* exit = std::get_if<Exit>(&parsed);
  EXPECT_NE(exit, nullptr);
  EXPECT_EQ(exit == nullptr ? 0 : exit->code, 2);
  return text;
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class OptionsFileTest : public ::testing::Test {
 protected:
  const char* Write(const std::string& content) {
    path_ = (folder_.path() / "calibd.toml").string();
    std::ofstream(path_) << content;
    return path_.c_str();
  }

 private:
  testing::TemporaryFolder folder_;
  std::string path_;
};

TEST(OptionsTest, ListensOnLoopbackByDefault) {
  const Options options = Parsed({});
  EXPECT_EQ(options.listen, "127.0.0.1:8460");
  EXPECT_EQ(options.http_listen, "127.0.0.1:8461");
}

TEST(OptionsTest, TheStoreIsAFolderOrADatabase) {
  EXPECT_EQ(Parsed({}).store, "local");
  const Options options = Parsed({"--store", "postgres", "--postgres", "service=calibd"});
  EXPECT_EQ(options.store, "postgres");
  EXPECT_EQ(options.postgres, "service=calibd");
  EXPECT_EQ(Parsed({"--store", "postgres"}).postgres, "");
  EXPECT_THAT(Refusal({"--store", "tape"}), HasSubstr("--store"));
  EXPECT_THAT(Refusal({"--postgres", "service=calibd"}), HasSubstr("--store postgres"));
  EXPECT_THAT(Refusal({"--advertise", "a:8460"}),
              AllOf(HasSubstr("--advertise"), HasSubstr("add --store postgres")));
  EXPECT_THAT(Refusal({"--tls-peer-ca", "ca.pem"}),
              AllOf(HasSubstr("--tls-peer-ca"), HasSubstr("add --store postgres")));
  EXPECT_THAT(Refusal({"--store", "postgres", "--tls-peer-ca", "ca.pem"}),
              HasSubstr("--tls-peer-ca: needs --tls-certificate"));
  EXPECT_EQ(Parsed({"--store", "postgres", "--tls-peer-ca", "ca.pem", "--tls-certificate", "c.pem",
                    "--tls-key", "k.pem"})
                .tls_peer_ca,
            "ca.pem");
  EXPECT_THAT(Refusal({"--store", "postgres", "--postgres", "host=db password=secret"}),
              AllOf(HasSubstr("password"), Not(HasSubstr("secret"))));
  EXPECT_THAT(Refusal({"--store", "postgres", "--archive-command", "cp %p /archive/%f"}),
              HasSubstr("--archive-command"));
}

TEST(OptionsTest, MigratesWithTheSettingsOfTheStore) {
  const auto parsed = Parse({"migrate", "--postgres", "service=owner", "--grant", "calibd"});
  const auto* const invocation = std::get_if<Invocation>(&parsed);
  ASSERT_NE(invocation, nullptr);
  EXPECT_EQ(invocation->command, Command::kMigrate);
  EXPECT_EQ(invocation->options.postgres, "service=owner");
  EXPECT_EQ(invocation->grant, "calibd");
}

TEST_F(OptionsFileTest, ReflectionIsServedOnLoopbackUnlessSet) {
  EXPECT_TRUE(Parsed({}).reflection);
  EXPECT_TRUE(Parsed({"--listen", "[::1]:0"}).reflection);
  EXPECT_FALSE(Parsed({"--listen", "0.0.0.0:8460", "--insecure-allow-remote"}).reflection);
  EXPECT_TRUE(
      Parsed({"--listen", "0.0.0.0:8460", "--insecure-allow-remote", "--reflection"}).reflection);
  EXPECT_FALSE(Parsed({"--reflection=false"}).reflection);
  EXPECT_FALSE(Parsed({"--config", Write("reflection = false\n")}).reflection);
}

TEST(OptionsTest, NonLoopbackAddressNeedsTheInsecureFlag) {
  EXPECT_THAT(Refusal({"--listen", "0.0.0.0:8460"}), HasSubstr("--insecure-allow-remote"));
  EXPECT_THAT(Refusal({"--http-listen", "192.0.2.1:80"}), HasSubstr("192.0.2.1:80"));
  EXPECT_THAT(Refusal({"--listen", "[::]:8460"}), HasSubstr("not loopback"));
  EXPECT_EQ(Parsed({"--listen", "0.0.0.0:8460", "--insecure-allow-remote"}).listen, "0.0.0.0:8460");
  EXPECT_EQ(Parsed({"--listen", "[::1]:0"}).listen, "[::1]:0");
}

TEST(OptionsTest, NonLoopbackAddressIsAllowedForClientsWithCertificates) {
  const std::vector<const char*> remote{"--listen", "0.0.0.0:8460", "--tls-certificate",
                                        "c.pem",    "--tls-key",    "k.pem"};
  const auto with = [&remote](std::vector<const char*> more) {
    more.insert(more.begin(), remote.begin(), remote.end());
    return more;
  };
  EXPECT_THAT(Refusal(remote), HasSubstr("--tls-client-ca"));
  EXPECT_EQ(Parsed(with({"--tls-client-ca", "ca.pem"})).tls_client_ca, "ca.pem");
  EXPECT_THAT(Refusal(with({"--tls-client-ca", "ca.pem", "--tls-client-auth", "optional"})),
              HasSubstr("not loopback"));
  EXPECT_EQ(Parsed(with({"--insecure-allow-remote"})).tls_key, "k.pem");
}

TEST(OptionsTest, TlsNeedsBothFiles) {
  EXPECT_THAT(Refusal({"--tls-certificate", "c.pem"}), HasSubstr("add --tls-key"));
  EXPECT_THAT(Refusal({"--tls-key", "k.pem"}), HasSubstr("add --tls-certificate"));
  EXPECT_THAT(Refusal({"--tls-client-ca", "ca.pem"}), HasSubstr("--tls-certificate"));
  EXPECT_THAT(Refusal({"--tls-client-auth", "optional"}), HasSubstr("needs --tls-client-ca"));
  EXPECT_THAT(Refusal({"--tls-client-auth", "maybe"}), HasSubstr("--tls-client-auth"));
  EXPECT_THAT(Refusal({"--check-config", "--tls-certificate", "/no/c.pem", "--tls-key", "k.pem"}),
              HasSubstr("--tls-certificate /no/c.pem cannot be read"));
}

TEST(OptionsTest, ErrorsNameTheWrongOption) {
  EXPECT_THAT(Refusal({"--no-such-flag"}), HasSubstr("--no-such-flag"));
  EXPECT_THAT(Refusal({"--max-models", "0"}), HasSubstr("--max-models"));
  EXPECT_THAT(Refusal({"--max-models", "many"}), HasSubstr("--max-models"));
  EXPECT_THAT(Refusal({"--log-format", "xml"}), HasSubstr("--log-format"));
  EXPECT_THAT(Refusal({"--listen", "127.0.0.1"}), HasSubstr("127.0.0.1"));
  EXPECT_THAT(Refusal({"--listen", "127.0.0.1:65536"}), HasSubstr("65536"));
}

TEST(OptionsTest, DiskLimitsFitAtLeastOneModel) {
  for (const std::string flag : {"--disk-bytes", "--model-disk-bytes"}) {
    const std::string refusal = Refusal({flag.c_str(), "1048576"});
    const std::string expected = flag + ": is 1048576, expected at least ";
    EXPECT_THAT(refusal, HasSubstr(expected));
    const std::string least =
        std::to_string(std::stoll(refusal.substr(refusal.find(expected) + expected.size())));
    EXPECT_TRUE(std::holds_alternative<Invocation>(Parse({flag.c_str(), least.c_str()}))) << least;
  }
}

TEST_F(OptionsFileTest, HttpHostsIsAList) {
  EXPECT_EQ(Parsed({}).http_hosts, "");
  EXPECT_EQ(Parsed({"--http-hosts", "calibd.example,node_1"}).http_hosts, "calibd.example,node_1");
  EXPECT_EQ(Parsed({"--config", Write("http-hosts = \"a, b\"\n")}).http_hosts, "a, b");
  EXPECT_THAT(Refusal({"--http-hosts", "calibd.example:8461"}),
              AllOf(HasSubstr("--http-hosts"), HasSubstr("calibd.example:8461"),
                    HasSubstr("without a port")));
  EXPECT_THAT(Refusal({"--http-hosts", "a,,b"}), HasSubstr("\"\" is not a host name"));
}

TEST_F(OptionsFileTest, FlagsOverrideEnvironmentFileAndDefaults) {
  const char* file = Write(
      "max-models = 7\nmax-queued-tests = 7\nwriter-threads = 7\nreflection = true\n"
      "log-format = \"json\"\n");
  const Variable models("CALIBD_MAX_MODELS", "8");
  const Variable tests("CALIBD_MAX_QUEUED_TESTS", "8");
  const Options options = Parsed({"--config", file, "--max-models", "9"});
  EXPECT_EQ(options.max_models, 9);
  EXPECT_EQ(options.max_queued_tests, 8);
  EXPECT_EQ(options.writer_threads, 7);
  EXPECT_TRUE(options.reflection);
  EXPECT_EQ(options.log_format, "json");
  EXPECT_EQ(options.max_batches_in_flight, Options().max_batches_in_flight);
}

TEST_F(OptionsFileTest, UnknownKeyIsAnErrorNamingIt) {
  const char* file = Write("max-modells = 7\n");
  EXPECT_THAT(Refusal({"--config", file}), HasSubstr("max-modells"));
}

TEST_F(OptionsFileTest, TheFileHasTheSameLimits) {
  EXPECT_THAT(Refusal({"--config", Write("max-models = 0\n")}), HasSubstr("--max-models"));
  EXPECT_THAT(Refusal({"--config", Write("max-models = [1]\n")}), HasSubstr("max-models"));
  EXPECT_THAT(Refusal({"--config", Write("max-models = \n")}), HasSubstr("line 1"));
  EXPECT_THAT(Refusal({"--config", Write("listen = \"0.0.0.0:1\"\n")}), HasSubstr("not loopback"));
  EXPECT_THAT(Refusal({"--config", "/nonexistent/calibd.toml"}),
              HasSubstr("--config /nonexistent/calibd.toml cannot be read: No such file or "
                        "directory; name a TOML file"));
  EXPECT_THAT(Refusal({"--config", "/tmp"}), HasSubstr("--config /tmp cannot be read: Is a dir"));
}

TEST(OptionsTest, AmountsMustBeNumbersInRange) {
  EXPECT_THAT(Refusal({"--max-models", "many"}),
              HasSubstr("--max-models: \"many\" is not an integer from 1 to 1000000"));
  for (const char* value : {"nan", "inf", "0.5", "some"}) {
    EXPECT_THAT(Refusal({"--max-test-operations", value}),
                AllOf(HasSubstr("--max-test-operations: \""), HasSubstr(value),
                      HasSubstr("is not a number from 1 to 1e+18")));
  }
  EXPECT_EQ(Parsed({"--max-test-operations", "2e9"}).max_test_operations, 2e9);
}

TEST(OptionsTest, TheNextOptionIsNotAValue) {
  EXPECT_THAT(Refusal({"--data-dir=", "--check-config"}),
              HasSubstr("--data-dir: there is no value after =; give one"));
  EXPECT_THAT(Refusal({"--data-dir", "--check-config"}),
              HasSubstr("--data-dir: \"--check-config\" is not a value"));
  EXPECT_THAT(Refusal({"--data-dir", ""}), HasSubstr("--data-dir: the value is empty"));
  EXPECT_EQ(Parsed({"--http-hosts", ""}).http_hosts, "");
}

TEST(OptionsTest, ListenAddressesMustNotOverlap) {
  EXPECT_THAT(Refusal({"--listen", "127.0.0.1:9000", "--http-listen", "localhost:9000"}),
              AllOf(HasSubstr("--http-listen: localhost:9000"),
                    HasSubstr("--listen 127.0.0.1:9000"), HasSubstr("another port")));
  EXPECT_THAT(Refusal({"--insecure-allow-remote", "--listen", "0.0.0.0:8461"}),
              HasSubstr("overlap"));
  EXPECT_EQ(Parsed({"--listen", "127.0.0.2:8461"}).listen, "127.0.0.2:8461");
  EXPECT_EQ(Parsed({"--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"}).listen,
            "127.0.0.1:0");
}

TEST_F(OptionsFileTest, APartThatIsSetMustNotExceedTheWhole) {
  EXPECT_THAT(Refusal({"--max-connections", "10", "--max-connections-per-address", "11"}),
              AllOf(HasSubstr("--max-connections-per-address: 11 is more than"),
                    HasSubstr("--max-connections 10; lower the first or raise the second")));
  EXPECT_THAT(Refusal({"--max-message-bytes", "20000000", "--call-memory-bytes", "16777216"}),
              HasSubstr("--call-memory-bytes 16777216"));
  EXPECT_THAT(Refusal({"--model-memory-bytes", "4294967297"}),
              HasSubstr("--state-memory-bytes 4294967296"));
  EXPECT_THAT(
      Refusal({"--config", Write("model-disk-bytes = 700000001\ndisk-bytes = 700000000\n")}),
      HasSubstr("--model-disk-bytes: 700000001 is more than --disk-bytes 700000000"));
  // The default of --model-disk-bytes is larger.
  EXPECT_EQ(Parsed({"--disk-bytes", "700000000"}).disk_bytes, 700'000'000);
  EXPECT_EQ(
      Parsed({"--max-connections", "1", "--max-connections-per-address", "1"}).max_connections, 1);
}

TEST(OptionsTest, EnvironmentIsReadAndChecked) {
  const Variable listen("CALIBD_LISTEN", "127.0.0.1:9000");
  EXPECT_EQ(Parsed({}).listen, "127.0.0.1:9000");
  const Variable models("CALIBD_MAX_MODELS", "-1");
  EXPECT_THAT(Refusal({}), HasSubstr("--max-models"));
}

TEST(OptionsTest, HelpDescribesEveryOptionWithItsDefault) {
  ::testing::internal::CaptureStdout();
  const auto parsed = Parse({"--help"});
  const std::string text = ::testing::internal::GetCapturedStdout();
  ASSERT_NE(std::get_if<Exit>(&parsed), nullptr);
  EXPECT_EQ(std::get<Exit>(parsed).code, 0);
  for (const char* part : {"--listen TEXT=127.0.0.1:8460", "CALIBD_STATE_MEMORY_BYTES",
                           "--drain-seconds", "healthcheck", "--ready-file", "=1048576"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(OptionsFileTest, CheckConfigSaysWhetherTheSettingsAreValid) {
  const auto outcome = [this](const char* content) {
    return Parse({"--check-config", "--config", Write(content)});
  };
  ::testing::internal::CaptureStdout();
  const auto valid = outcome("drain-seconds = 7\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "the settings are valid\n");
  ASSERT_TRUE(std::holds_alternative<Exit>(valid));
  EXPECT_EQ(std::get<Exit>(valid).code, 0);
  EXPECT_THAT(Refusal({"--check-config", "--config", Write("drain-second = 7\n")}),
              HasSubstr("drain-second"));
}

TEST(OptionsTest, HealthcheckIsACommandWithTheSameAddressOption) {
  const auto parsed = Parse({"healthcheck", "--listen", "0.0.0.0:8460"});
  ASSERT_NE(std::get_if<Invocation>(&parsed), nullptr);
  EXPECT_EQ(std::get<Invocation>(parsed).command, Command::kHealthcheck);
  EXPECT_EQ(std::get<Invocation>(parsed).options.listen, "0.0.0.0:8460");
}

}  // namespace
}  // namespace calibd::server
