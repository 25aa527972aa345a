#include "client/cli/files/column_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

using Names = std::vector<std::string>;

TEST(OrderByNumberTest, OrdersTheNamesThatProgramsSortAsTexts) {
  EXPECT_THAT(OrderByNumber(Names{"p_0", "p_1", "p_10", "p_2", "p_3", "p_4", "p_5", "p_6", "p_7",
                                  "p_8", "p_9"}),
              Optional(ElementsAre(0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 2)));
  EXPECT_THAT(OrderByNumber(Names{"2", "1"}), Optional(ElementsAre(1, 0)));
  EXPECT_THAT(OrderByNumber(Names{"class02", "class00", "class01"}),
              Optional(ElementsAre(1, 2, 0)));
}

TEST(OrderByNumberTest, KnowsOnlyConsecutiveNumbersAfterTheSameText) {
  for (const Names& names : {Names{},
                             {"p_0"},
                             {"p_0", "p_2"},
                             {"p_2", "p_3"},
                             {"p_0", "q_1"},
                             {"p_0", "p_1", "p"},
                             {"p_1", "p_1"},
                             {"p_1", "p_01"},
                             {"p_0", "p_99999999999999999999"},
                             {"cat", "dog"}}) {
    EXPECT_FALSE(OrderByNumber(names).has_value()) << ::testing::PrintToString(names);
  }
}

TEST(FindClassesTest, FindsTheNamesThemselvesOrAfterOneText) {
  const Names classes = {"no", "yes"};
  EXPECT_THAT(FindClasses(Names{"yes", "id", "no"}, classes), ElementsAre(ElementsAre(2, 0)));
  EXPECT_THAT(FindClasses(Names{".pred_class", ".pred_yes", ".pred_no"}, classes),
              ElementsAre(ElementsAre(2, 1)));
  EXPECT_THAT(FindClasses(Names{"prob_no", "prob_yes", "no", "yes"}, classes),
              ElementsAre(ElementsAre(2, 3)))
      << "the names themselves come first";
  EXPECT_THAT(FindClasses(Names{"a_no", "a_yes", "b_no", "b_yes"}, classes),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(FindClasses(Names{"a_no", "b_yes"}, classes), IsEmpty());
  EXPECT_THAT(FindClasses(Names{"no"}, classes), IsEmpty());
  EXPECT_THAT(FindClasses(Names{"no"}, {}), IsEmpty());
}

TEST(FindLevelsTest, FindsSharesAndPercentages) {
  EXPECT_THAT(FindLevels(Names{"q0.9", "q0.1", "mean", "q.5"}, std::vector{0.1, 0.5, 0.9}),
              ElementsAre(1, 3, 0));
  EXPECT_THAT(FindLevels(Names{"p97.5", "p2.5"}, std::vector{0.025, 0.975}), ElementsAre(1, 0));
  EXPECT_THAT(FindLevels(Names{"p5", "p95"}, std::vector{0.1, 0.95}), IsEmpty());
  EXPECT_THAT(FindLevels(Names{"a10", "b10", "a90"}, std::vector{0.1, 0.9}), IsEmpty())
      << "the level 0.1 has two names";
  EXPECT_THAT(FindLevels(Names{"low", "high"}, std::vector{0.1, 0.9}), IsEmpty());
}

TEST(LevelsOfTest, ReadsSharesAndPercentages) {
  EXPECT_THAT(LevelsOf(Names{"q0.05", "x.5"}), ElementsAre(0.05, 0.5));
  EXPECT_THAT(LevelsOf(Names{"p5", "p50"}), ElementsAre(0.05, 0.5));
  EXPECT_THAT(LevelsOf(Names{"median0.5"}), ElementsAre(0.5));
  for (const Names& names :
       {Names{"q1", "q2"}, Names{"low80", "high80"}, Names{"lo10", "hi90"}, Names{"q5", "q0.5"},
        Names{"q5", "q"}, Names{"model2"}, Names{"q0.5", "q1000"}, Names{}}) {
    EXPECT_THAT(LevelsOf(names), IsEmpty());
  }
}

TEST(RemoveUsualPrefixTest, RemovesWhatAllNamesShare) {
  Names names = {".pred_no", ".pred_yes"};
  RemoveUsualPrefix(names);
  EXPECT_THAT(names, ElementsAre("no", "yes"));
  names = {"prob_no", "yes"};
  RemoveUsualPrefix(names);
  EXPECT_THAT(names, ElementsAre("prob_no", "yes"));
  names = {"prob_", "prob_no"};
  RemoveUsualPrefix(names);
  EXPECT_THAT(names, ElementsAre("prob_", "prob_no"));
}

}  // namespace
}  // namespace calibd::cli
