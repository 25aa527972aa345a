#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/access/access_control.h"
#include "server/access/policy.h"
#include "server/base/errors.h"
#include "support/server_process.h"

namespace calibd::server {
namespace {

using std::chrono::sys_days;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

// SHA-256 of "abc", from FIPS 180-2, appendix B.1.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string HashText(std::string_view token) {
  const TokenHash hash = HashToken(token);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

std::string TokenLine(std::string_view token, const std::string& day = "2999-01-01") {
  return absl::StrCat("sha256:", HashText(token), ":", day);
}

std::shared_ptr<const Policy> Parsed(const std::string& text) {
  auto policy = Policy::Parse(text);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? *policy : nullptr;
}

std::string Refused(const std::string& text) {
  return std::string(Policy::Parse(text).status().message());
}

TEST(PolicyTest, HashesTokensBySha256) { EXPECT_EQ(HashText("abc"), kAbc); }

TEST(PolicyTest, AGrantCoversItsPattern) {
  const Grant exact{.role = Role::kReader, .pattern = "models/fraud"};
  EXPECT_TRUE(exact.Covers("models/fraud"));
  EXPECT_TRUE(exact.Covers("models/fraud/versions/2"));
  EXPECT_FALSE(exact.Covers("models/fraud-eu"));
  EXPECT_FALSE(exact.Covers("models/frau"));
  EXPECT_FALSE(exact.Covers(kAllModels));
  const Grant prefix{.role = Role::kReader, .pattern = "models/fraud-*"};
  EXPECT_TRUE(prefix.Covers("models/fraud-eu"));
  EXPECT_TRUE(prefix.Covers("models/fraud-eu/versions/1"));
  EXPECT_FALSE(prefix.Covers("models/fraud"));
  EXPECT_FALSE(prefix.Covers("models/weather"));
  EXPECT_FALSE(prefix.Covers(kAllModels));
  const Grant version{.role = Role::kReader, .pattern = "models/fraud/versions/2"};
  EXPECT_TRUE(version.Covers("models/fraud/versions/2"));
  EXPECT_FALSE(version.Covers("models/fraud/versions/21"));
  EXPECT_FALSE(version.Covers("models/fraud"));
  EXPECT_TRUE((Grant{.role = Role::kReader, .pattern = "models/*"}.Covers(kAllModels)));
}

TEST(PolicyTest, RolesIncludeOthersAsDocumented) {
  const auto has = [](Role granted, Role needed) {
    return Principal{.name = "p", .grants = {{.role = granted, .pattern = "models/*"}}}.Has(
        needed, "models/m");
  };
  // Rows: the granted role; columns: writer, reader, operator, admin.
  const std::vector<std::vector<bool>> expected{{true, false, false, false},
                                                {false, true, false, false},
                                                {false, true, true, false},
                                                {true, true, true, true}};
  for (int granted = 0; granted < 4; ++granted) {
    for (int needed = 0; needed < 4; ++needed) {
      EXPECT_EQ(has(static_cast<Role>(granted), static_cast<Role>(needed)),
                expected[static_cast<std::size_t>(granted)][static_cast<std::size_t>(needed)])
          << granted << " " << needed;
    }
  }
}

TEST(PolicyTest, FindsThePrincipalOfATokenUntilTheEndOfItsDay) {
  const auto policy = Parsed(
      absl::StrCat("[[principal]]\nname = \"a\"\ntokens = [\"", TokenLine("one", "2027-03-01"),
                   "\", \"", TokenLine("two", "2027-04-01"),
                   "\"]\n[[principal]]\nname = \"b\"\ntokens = [\"", TokenLine("three"), "\"]\n"));
  const Policy::Time end = sys_days(2027y / 3 / 2);
  ASSERT_NE(policy->FindToken(HashToken("one"), end - 1s), nullptr);
  EXPECT_EQ(policy->FindToken(HashToken("one"), end - 1s)->name, "a");
  EXPECT_EQ(policy->FindToken(HashToken("one"), end), nullptr);
  EXPECT_TRUE(policy->HasToken(HashToken("one")));
  EXPECT_EQ(policy->FindToken(HashToken("two"), end)->name, "a");
  EXPECT_EQ(policy->FindToken(HashToken("three"), end)->name, "b");
  EXPECT_EQ(policy->FindToken(HashToken("four"), end), nullptr);
  EXPECT_EQ(policy->NextExpiry(end - 1s), end);
  EXPECT_EQ(policy->NextExpiry(end), Policy::Time(sys_days(2027y / 4 / 2)));
}

TEST(PolicyTest, TheLongestPatternOfACertificateDecides) {
  const auto policy = Parsed(
      "[[principal]]\nname = \"team\"\ncertificates = [\"spiffe://corp/ns/fraud/*\"]\n"
      "[[principal]]\nname = \"batch\"\n"
      "certificates = [\"spiffe://corp/ns/fraud/sa/batch\", \"dns:Batch.Corp\"]\n"
      "[[principal]]\nname = \"other\"\ncertificates = [\"dns:other.corp\"]\n");
  const auto name = [&](const std::vector<std::string>& names) -> std::string {
    const Principal* const found = policy->FindCertificate(names);
    return found == nullptr ? "" : found->name;
  };
  EXPECT_EQ(name({"spiffe://corp/ns/fraud/sa/web"}), "team");
  EXPECT_EQ(name({"spiffe://corp/ns/fraud/sa/batch"}), "batch");
  EXPECT_EQ(name({"dns:unknown", "spiffe://corp/ns/fraud/sa/batch"}), "batch");
  EXPECT_EQ(name({"dns:batch.corp"}), "batch");
  EXPECT_EQ(name({"spiffe://corp/ns/fraud"}), "");
  EXPECT_EQ(name({"spiffe://corp/ns/fraudulent/x"}), "");
  // Equally long patterns of two principals.
  EXPECT_EQ(name({"dns:batch.corp", "dns:other.corp"}), "");
  EXPECT_EQ(name({}), "");
}

TEST(PolicyTest, ErrorsNameTheLineTheFieldAndTheValue) {
  const std::string begin = "[[principal]]\nname = \"a\"\n";
  EXPECT_THAT(Refused(begin + "grants = [\"owner models/*\"]\n"),
              AllOf(HasSubstr("line 3: grants is \"owner models/*\", expected"),
                    HasSubstr("writer, reader, operator or admin")));
  for (const std::string grant : {"reader", "reader weather", "reader models/", "reader models/*a",
                                  "reader models/a b", "reader *", "reader models/a\\u0007"}) {
    EXPECT_THAT(Refused(absl::StrCat(begin, "grants = [\"", grant, "\"]\n")),
                HasSubstr("line 3: grants is"))
        << grant;
  }
  EXPECT_THAT(Refused(begin + "grants = \"reader models/*\"\n"),
              HasSubstr("line 3: grants is not a list, expected a list of texts"));
  EXPECT_THAT(Refused(begin + "\n\nrole = 1\n"), HasSubstr("line 5: the key is \"role\""));
  EXPECT_THAT(Refused("users = 1\n"), HasSubstr("line 1: the key is \"users\", expected only"));
  EXPECT_THAT(Refused("[[principal]]\n"), HasSubstr("line 1: name is missing"));
  EXPECT_THAT(Refused("[[principal]]\nname = \"a b\"\n"), HasSubstr("line 2: name is \"a b\""));
  EXPECT_THAT(Refused("[[principal]]\nname = \"a@b\"\n"), HasSubstr("line 2: name is \"a@b\""));
  EXPECT_THAT(Refused(begin + begin), HasSubstr("line 4: name is \"a\", expected a name that no"));
  EXPECT_THAT(Refused(""), HasSubstr("there is no [[principal]]"));
  EXPECT_THAT(Refused("[[principal]\n"), HasSubstr("line 1: "));
  EXPECT_THAT(Refused(absl::StrCat(begin, "tokens = [\"", TokenLine("x", "2027-02-30"), "\"]\n")),
              HasSubstr("line 3: tokens is \"2027-02-30\""));
  EXPECT_THAT(Refused(absl::StrCat(begin, "tokens = [\"", TokenLine("x"), "\", \"", TokenLine("x"),
                                   "\"]\n")),
              HasSubstr("line 3: tokens is there twice"));
  for (const std::string pattern : {"fraud", "CN=fraud", "dns:", "dns:*.corp", "spiffe://",
                                    "spiffe://*", "spiffe://corp/*/a", "spiffe://corp/a*"}) {
    EXPECT_THAT(Refused(absl::StrCat(begin, "certificates = [\"", pattern, "\"]\n")),
                HasSubstr("line 3: certificates is"))
        << pattern;
  }
}

// A token that someone writes in place of its hash would otherwise end up in the log.
TEST(PolicyTest, ErrorsDoNotRepeatAToken) {
  EXPECT_THAT(Refused("[[principal]]\nname = \"a\"\ntokens = [\"calibd_SECRET\"]\n"),
              AllOf(HasSubstr("line 3: tokens is of another form"), Not(HasSubstr("SECRET"))));
}

class AccessControlTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path()) << text; }
  // The second poll applies a content.
  void Apply(AccessControl& control, const std::string& text) {
    Write(text);
    control.Poll();
    control.Poll();
  }
  [[nodiscard]] std::string path() const { return (folder_.path() / "access.toml").string(); }
  static std::string Grants(const std::string& token, const std::string& grants) {
    return absl::StrCat("[[principal]]\nname = \"p\"\ntokens = [\"", TokenLine(token),
                        "\"]\ngrants = [", grants, "]\n");
  }
  std::unique_ptr<AccessControl> Opened(const std::string& text) {
    Write(text);
    auto control = AccessControl::Open(path(), audit_);
    EXPECT_TRUE(control.ok()) << control.status();
    return *std::move(control);
  }

  AuditLog audit_;

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(AccessControlTest, IdentifiesByBearerBasicSessionAndCertificate) {
  const auto control =
      Opened(Grants("t1", "\"reader models/*\"") + "certificates = [\"dns:a.corp\"]\n");
  const auto name = [&](const Credentials& credentials) {
    const auto identity = control->Identify(credentials);
    return identity.ok() ? identity->name() : GetErrorInfo(identity.status())->reason();
  };
  EXPECT_EQ(name({.authorization = "Bearer t1"}), "p");
  EXPECT_EQ(name({.authorization = "bearer  t1 "}), "p");
  EXPECT_EQ(name({.authorization = "Basic " + absl::Base64Escape("kserve:t1")}), "p");
  const std::string session =
      control->BeginSession(*control->Identify({.authorization = "Bearer t1"}));
  EXPECT_EQ(name({.session = session}), "p");
  // A session is not a token, and a token is not a session.
  EXPECT_EQ(name({.authorization = "Bearer " + session}), "UNKNOWN_TOKEN");
  EXPECT_EQ(name({.session = "t1"}), "NO_CREDENTIALS");
  EXPECT_EQ(name({.certificate_names = {"dns:a.corp"}}), "p");
  EXPECT_EQ(name({}), "NO_CREDENTIALS");
  EXPECT_EQ(name({.certificate_names = {"dns:b.corp"}}), "UNKNOWN_CERTIFICATE");
  // A browser also sends the session of a token that has expired.
  EXPECT_EQ(name({.session = "t2", .certificate_names = {"dns:a.corp"}}), "p");
  EXPECT_EQ(name({.session = "t2"}), "NO_CREDENTIALS");
  // A wrong token is not replaced by a right certificate.
  for (const std::string& wrong : std::vector<std::string>{
           "Bearer t2", "Bearer", "Bearer ", "t1", "Basic t1", "Basic " + absl::Base64Escape("t1"),
           "Basic " + absl::Base64Escape("t1:"), "Digest t1", "Bearer t1 t1"}) {
    EXPECT_EQ(name({.authorization = wrong, .certificate_names = {"dns:a.corp"}}), "UNKNOWN_TOKEN")
        << wrong;
  }
  EXPECT_EQ(control->statistics().unauthenticated, 14);
}

TEST_F(AccessControlTest, ASessionEndsWithItsLogoutOrItsToken) {
  const auto control = Opened(Grants("t", "\"reader models/*\""));
  const Identity caller = *control->Identify({.authorization = "Bearer t"});
  const std::string first = control->BeginSession(caller);
  const std::string second = control->BeginSession(caller);
  EXPECT_EQ(first.size(), 64U);
  EXPECT_NE(first, second);
  control->EndSession(first);
  EXPECT_FALSE(control->Identify({.session = first}).ok());
  EXPECT_TRUE(control->Identify({.session = second}).ok());
  Apply(*control, Grants("other", "\"reader models/*\""));
  EXPECT_FALSE(control->Identify({.session = second}).ok());
}

TEST_F(AccessControlTest, ASessionIsNotOfAnotherPrincipalThatGetsTheToken) {
  const auto control = Opened(Grants("t", "\"reader models/*\""));
  const std::string session =
      control->BeginSession(*control->Identify({.authorization = "Bearer t"}));
  const Identity before = *control->Identify({.session = session});
  std::string renamed = Grants("t", "\"admin models/*\"");
  renamed.replace(renamed.find("\"p\""), 3, "\"q\"");
  Apply(*control, renamed);
  EXPECT_EQ(control->Identify({.authorization = "Bearer t"})->name(), "q");
  EXPECT_EQ(GetErrorInfo(control->Identify({.session = session}).status())->reason(),
            "NO_CREDENTIALS");
  EXPECT_FALSE(control->Check(before, "", "GetModel", Role::kReader, "models/m").ok());
}

TEST_F(AccessControlTest, OnlyATokenBeginsASession) {
  const auto control =
      Opened(Grants("t", "\"reader models/*\"") + "certificates = [\"dns:a.corp\"]\n");
  EXPECT_EQ(control->BeginSession(*control->Identify({.certificate_names = {"dns:a.corp"}})), "");
}

TEST(PageSessionsTest, ASessionEndsAfterItsTimeAndTheOldestMakesRoom) {
  PageSessions sessions;
  const auto begin = PageSessions::Clock::now();
  const TokenHash token = HashToken("t");
  const auto find = [&sessions](const std::string& id, PageSessions::Clock::time_point now) {
    return sessions.Find(HashToken(id), now);
  };
  const std::string first = sessions.Begin(token, "p", begin).id;
  const auto owner = find(first, begin + PageSessions::kDuration - 1s);
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->token, token);
  EXPECT_EQ(owner->principal, "p");
  EXPECT_FALSE(find(first, begin + PageSessions::kDuration).has_value());
  const std::string other = sessions.Begin(HashToken("u"), "p", begin).id;
  std::string last;
  for (std::size_t i = 0; i < PageSessions::kMostOfToken; ++i) {
    const PageSessions::Begun begun = sessions.Begin(token, "p", begin + 1s);
    EXPECT_EQ(begun.ended_another, i + 1 == PageSessions::kMostOfToken) << i;
    last = begun.id;
  }
  EXPECT_FALSE(find(first, begin + 1s).has_value());
  EXPECT_TRUE(find(last, begin + 1s).has_value());
  EXPECT_TRUE(find(other, begin + 1s).has_value());
}

TEST_F(AccessControlTest, AnUnknownModelAndOneWithoutRightsHaveOneError) {
  const auto control = Opened(Grants("t", "\"writer models/w\", \"reader models/r\""));
  const Identity identity = *control->Identify({.authorization = "Bearer t"});
  EXPECT_TRUE(identity.Check("GetModel", Role::kReader, "models/r").ok());
  EXPECT_EQ(identity.Check("GetModel", Role::kReader, "models/x"), ModelNotFoundError("models/x"));
  const absl::Status missing = identity.Check("Observe", Role::kWriter, "models/r");
  EXPECT_TRUE(absl::IsPermissionDenied(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("Observe needs the role writer on models/r, which p does not have"));
  EXPECT_TRUE(absl::IsPermissionDenied(identity.Check("GetModel", Role::kReader, "models/w")));
  EXPECT_TRUE(absl::IsPermissionDenied(identity.Check("Backup", Role::kAdmin, kAllModels)));
}

TEST_F(AccessControlTest, PrincipalsDoNotShareIds) {
  const auto control = Opened(Grants("t", "\"writer models/*\""));
  EXPECT_EQ(control->Identify({.authorization = "Bearer t"})->Scoped("sender"), "sender@p");
  EXPECT_EQ(Identity::Unrestricted().Scoped("sender"), "sender");
  const Identity caller = *control->Identify({.authorization = "Bearer t"});
  EXPECT_EQ(caller.Scoped(std::string(126, 'a')), std::string(126, 'a') + "@p");
  const std::string shortened = caller.Scoped(std::string(127, 'a'));
  EXPECT_EQ(shortened.size(), 66U);
  EXPECT_NE(shortened, caller.Scoped(std::string(128, 'a')));
}

TEST_F(AccessControlTest, AChangedFileAppliesAndABadOneDoesNot) {
  const auto control = Opened(Grants("t1", "\"reader models/*\""));
  const auto known = [&](const std::string& token) {
    return control->Identify({.authorization = "Bearer " + token}).ok();
  };
  const std::uint64_t version = control->version();
  control->Poll();
  EXPECT_EQ(control->version(), version);
  Apply(*control, Grants("t2", "\"reader models/*\""));
  EXPECT_GT(control->version(), version);
  EXPECT_TRUE(known("t2"));
  EXPECT_FALSE(known("t1"));
  Write("[[principal]]\n");
  for (int i = 0; i < 3; ++i) control->Poll();
  EXPECT_TRUE(known("t2"));
  EXPECT_TRUE(control->statistics().file_invalid);
  EXPECT_EQ(control->statistics().failed_reloads, 1);
  Apply(*control, Grants("t2", "\"reader models/*\""));
  EXPECT_FALSE(control->statistics().file_invalid);
  EXPECT_TRUE(known("t2"));
}

TEST_F(AccessControlTest, AHeldRightEndsWithItsGrantOrItsToken) {
  const auto control = Opened(Grants("t", "\"writer models/*\""));
  const auto hold = [&](absl::Status& revoked) {
    return *control->Hold(*control->Identify({.authorization = "Bearer t"}), "StreamObservations",
                          Role::kWriter, "models/m",
                          [&revoked](const absl::Status& status) { revoked = status; });
  };
  absl::Status revoked;
  const auto held = hold(revoked);
  EXPECT_TRUE(held->Check().ok());
  Apply(*control, Grants("t", "\"writer models/m\""));
  EXPECT_TRUE(held->Check().ok());
  EXPECT_TRUE(revoked.ok());
  Apply(*control, Grants("t", "\"reader models/*\""));
  EXPECT_TRUE(absl::IsPermissionDenied(held->Check()));
  EXPECT_TRUE(absl::IsPermissionDenied(revoked)) << revoked;
  Apply(*control, Grants("t", "\"writer models/*\""));
  absl::Status again;
  const auto second = hold(again);
  Apply(*control, Grants("other", "\"writer models/*\""));
  EXPECT_TRUE(absl::IsPermissionDenied(again)) << again;
}

// The policy may change between the identification of the caller and the registration of its right.
TEST_F(AccessControlTest, ARightThatWasLostMeanwhileIsNotHeld) {
  const auto control = Opened(Grants("t", "\"reader models/*\""));
  const Identity caller = *control->Identify({.authorization = "Bearer t"});
  Apply(*control, Grants("t", "\"writer models/*\""));
  const auto held = control->Hold(caller, "WatchCalibration", Role::kReader, "models/m",
                                  [](const absl::Status& /*status*/) {});
  EXPECT_TRUE(absl::IsPermissionDenied(held.status())) << held.status();
  EXPECT_TRUE(
      absl::IsPermissionDenied(control->Check(caller, "", "GetModel", Role::kReader, "models/m")));
  EXPECT_TRUE(control->Check(caller, "", "Observe", Role::kWriter, "models/m").ok());
  Apply(*control, Grants("other", "\"writer models/*\""));
  EXPECT_TRUE(
      absl::IsUnauthenticated(control->Check(caller, "", "Observe", Role::kWriter, "models/m")));
}

TEST_F(AccessControlTest, AnErrorOfOneCallDoesNotKeepOthers) {
  const auto control = Opened(Grants("t", "\"reader models/*\""));
  const Identity caller = *control->Identify({.authorization = "Bearer t"});
  int calls = 0;
  const auto first = control->Hold(caller, "WatchCalibration", Role::kReader, "models/m",
                                   [&calls](const absl::Status& /*status*/) {
                                     if (++calls == 1) throw std::bad_alloc();
                                   });
  absl::Status revoked;
  const auto second = control->Hold(caller, "WatchCalibration", Role::kReader, "models/m",
                                    [&revoked](const absl::Status& status) { revoked = status; });
  Apply(*control, Grants("t", "\"writer models/*\""));
  EXPECT_TRUE(absl::IsPermissionDenied(revoked)) << revoked;
  // The first call is ended in the next poll.
  control->Poll();
  EXPECT_EQ(calls, 2);
}

// The content of a file that is being written is not a policy.
TEST_F(AccessControlTest, AContentAppliesWhenTwoPollsReadIt) {
  const std::string before = Grants("t1", "\"reader models/*\"");
  const auto control = Opened(before);
  Write(Grants("t2", "\"reader models/*\""));
  control->Poll();
  EXPECT_TRUE(control->Identify({.authorization = "Bearer t1"}).ok());
  Write(Grants("t3", "\"reader models/*\""));
  control->Poll();
  EXPECT_TRUE(control->Identify({.authorization = "Bearer t1"}).ok());
  control->Poll();
  EXPECT_TRUE(control->Identify({.authorization = "Bearer t3"}).ok());
  EXPECT_EQ(control->statistics().reloads, 1);
  EXPECT_EQ(control->statistics().failed_reloads, 0);
}

TEST_F(AccessControlTest, WithoutAFileEverythingIsAllowed) {
  const auto control = AccessControl::Open("", audit_);
  ASSERT_TRUE(control.ok());
  const auto identity = (*control)->Identify({});
  ASSERT_TRUE(identity.ok());
  EXPECT_TRUE(identity->unrestricted());
  EXPECT_TRUE(identity->Check("Backup", Role::kAdmin, kAllModels).ok());
}

TEST_F(AccessControlTest, ErrorsNameTheFile) {
  EXPECT_THAT(std::string(AccessControl::Open("/nonexistent", audit_).status().message()),
              HasSubstr("/nonexistent cannot be read: No such file"));
  Write("[[principal]]\n");
  EXPECT_THAT(std::string(AccessControl::Open(path(), audit_).status().message()),
              HasSubstr(path() + ", line 1: name is missing"));
  Write(std::string((std::size_t{4} << 20) + 1, '#'));
  EXPECT_THAT(std::string(ReadPolicy(path()).status().message()),
              HasSubstr("has more than 4194304 bytes"));
  // To open a pipe waits for a writer.
  const std::string pipe = path() + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadPolicy(pipe).status().message()), HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace calibd::server
