#include "client/cli/files/npz_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "unit/client/npz_file.h"

namespace calibd::cli {
namespace {

using ::calibd::testing::Npy;
using ::calibd::testing::NpyDict;
using ::calibd::testing::WriteZip;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpzFileTest : public ::testing::Test {
 protected:
  NpzFileTest()
      : path_(::testing::TempDir() + "npz_reader_test_" + std::to_string(getpid()) + ".npz") {}
  ~NpzFileTest() override { std::filesystem::remove(path_); }

  const std::string path_;
};

TEST_F(NpzFileTest, ReadsNamedArraysStoredAndCompressed) {
  const std::string values = Npy(NpyDict("<f8", "(2, 2)"), std::vector<double>{0.25, 0.75, 1, 0});
  const std::string labels = Npy(NpyDict("<i8", "(2,)"), std::vector<std::int64_t>{1, 0});
  for (const bool compressed : {false, true}) {
    WriteZip(path_, {{"p.npy", values}, {"labels.npy", labels}, {"notes.txt", "x"}}, compressed);
    const auto file = NpzFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT(file->names(), ElementsAre("p", "labels"));
    const auto array = file->Read("p");
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->values, ElementsAre(0.25, 0.75, 1, 0));
    EXPECT_THAT(file->Read("labels")->values, ElementsAre(1, 0));
    EXPECT_THAT(std::string(file->Read("absent").status().message()),
                HasSubstr("array \"absent\""));
  }
}

TEST_F(NpzFileTest, DoesNotTrustSizes) {
  WriteZip(path_, {{"p.npy", Npy(NpyDict("<f8", "(1000000000000, 2)"), std::vector<double>{1})}},
           true);
  EXPECT_THAT(std::string(NpzFile::Open(path_)->Read("p").status().message()),
              AllOf(HasSubstr("array \"p\""), HasSubstr("ends before element")));
}

TEST_F(NpzFileTest, SurvivesEveryTruncationAndChangedByte) {
  WriteZip(path_, {{"p.npy", Npy(NpyDict("<f8", "(1, 2)"), std::vector<double>{0.5, 0.5})}}, true);
  std::ifstream input(path_, std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(input), {});
  const auto read = [&](const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    const auto file = NpzFile::Open(path_);
    if (!file.ok()) return false;
    const auto array = file->Read("p");
    if (array.ok()) {
      EXPECT_EQ(array->values.size(), array->row_count * array->column_count);
    }
    return array.ok();
  };
  ASSERT_TRUE(read(whole));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(read(whole.substr(0, i))) << i;
    std::string changed = whole;
    changed[i] = static_cast<char>(~changed[i]);
    (void)read(changed);
  }
}

TEST_F(NpzFileTest, NamesWhatAnotherArchiveContains) {
  WriteZip(path_, {{"[Content_Types].xml", "<x/>"}}, false);
  EXPECT_THAT(std::string(NpzFile::Open(path_).status().message()),
              AllOf(HasSubstr("zip archive without NumPy arrays"), HasSubstr("[Content_Types].xml"),
                    HasSubstr("Excel")));
  std::ofstream(path_, std::ios::binary) << "PK\x03\x04 and no more";
  EXPECT_THAT(std::string(NpzFile::Open(path_).status().message()), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace calibd::cli
