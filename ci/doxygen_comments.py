#!/usr/bin/env python3
"""usage: ci/doxygen_comments.py HEADER

The input filter of ci/doxygen.conf: prints a header whose plain comments are Doxygen's, line for line. A comment that
begins a line belongs to what follows, unless a blank line follows; in front of several prototypes it belongs to them
all. A comment behind code belongs to that code, and the first comment of a file to the file. What Doxygen would take
for a command or for markup is escaped, but between backticks and in indented lines, which are code. The rows of a table
stand where the header includes it.
"""
import re
import sys

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*(.*?)\*/', re.S)
MARGIN = re.compile(r"\n *\*(?: |(?=\n)|\Z)|\n {8,}")  # the stars; the blanks in front of a comment's lines behind code
CODE = re.compile(r"(`[^`]*`|(?:^ {4,}\S.*\n?)+)", re.M)
MARKUP = re.compile(r"--+|[\\@<>#&*]|%(?!\w+\")")


def translate(text):
    def comment(match):
        if match.group(1) is None or match.group(1).startswith("*"):
            return match.group()  # a string, or Doxygen's already
        inside = markup(MARGIN.sub("\n", match.group(1)))
        before = text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip()
        if match.start() == 0:
            return f"/**{inside}\\file */"
        if before:
            return match.group() if re.match(r"#(?!\s*define)", before) else f"/**<{inside}*/"
        return match.group() if text.startswith("\n\n", match.end()) else f"/**{inside}*/"

    return "\n\n".join(grouped(part) for part in TOKEN.sub(comment, text).split("\n\n"))


def markup(text):
    parts = CODE.split(re.sub(r"^ SPDX-.*", "", text))
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = MARKUP.sub(r"\\\g<0>", part)
        elif part[0] != "`":
            parts[i] = "\\verbatim " + part.rstrip() + " \\endverbatim\n"
    return "".join(parts)


def grouped(part):
    """A comment and what follows it up to a blank line: one of Doxygen's groups if that is two prototypes or more."""
    match = re.match(r"/\*\*(?!<).*?\*/\n", part, re.S)
    rest = part[match.end():] if match else ""
    code = re.sub(r"/\*.*?\*/", "", rest, flags=re.S)
    several = "(" in code and code.count(";") > 1 and not re.search(r"[{}]|^#", code, re.M)
    return f"/**@{{*/ {part} /**@}}*/" if several and "\n/**" not in "\n" + rest else part


def rows(include):
    with open(include.group(1), encoding="ascii") as table:
        return re.sub(r"/\*.*?\*/", "", table.read(), flags=re.S).replace("\n", " ")


with open(sys.argv[1], encoding="ascii") as file:
    print(re.sub(r'#include "(.*\.def)"', rows, translate(file.read())), end="")
