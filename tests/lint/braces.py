"""Fails when a lone statement has braces although it fits on the line of its condition.

clang-tidy (readability-braces-around-statements) finds the opposite: a statement on a line of its
own without braces. The macros of GoogleTest hide an `else`, CALIBD_ASSIGN_OR_RETURN
is several statements: they keep their braces.
"""
import re
import sys

from sources import ROOT, project_files, report

LINE_LENGTH = 100  # ColumnLimit in .clang-format
LONE_STATEMENT = re.compile(
    r"^( *)((?:if|for|while) (?:constexpr )?\([^\n]*\)) \{\n *((?! |if|for|while|EXPECT_|ASSERT_|CALIBD_ASSIGN_)[^\n{}/]*;)\n\1\}\n(?! *else)",
    re.MULTILINE)


def violations(text):
    """The statements of a source that need no braces."""
    for match in LONE_STATEMENT.finditer(text):
        indent, head, statement = match.groups()
        if head.count("(") == head.count(")") and len(indent + head + statement) < LINE_LENGTH:
            yield text.count("\n", 0, match.start()) + 1, statement


def main():
    problems = [f"{path.relative_to(ROOT)}:{line}: write `{statement}` on the line of its condition"
                for path in project_files("*.cc", "*.h")
                for line, statement in violations(path.read_text())]
    return report("braces", problems)


if __name__ == "__main__":
    sys.exit(main())
