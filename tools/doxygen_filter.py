#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the plain `//` comments of Pitot's headers into Doxygen's (docs/Doxyfile, tools/site).

usage: tools/doxygen_filter.py HEADER

Prints the header with the same number of lines. The comment at its beginning becomes `/// @file`. A comment directly above
a declaration or a macro becomes `///`, one behind a member or a declaration `///<`. Other comments stay: inside of function
bodies, above an #include, and before an empty line. Doxygen's own characters are escaped. Indented lines become code.
"""

import re
import sys

NOT_WORDS = ("clang-format", "NOLINT", "SPDX")
# Not a declaration: a comment above it is about something else.
NOT_DOCUMENTED = re.compile(r"(}|public:|private:|protected:|#(?!define)|static_assert|friend\b|using namespace|"
                            r"extern \"C\"|PITOT_NAMESPACE_(BEGIN|END)|return\b)")
TEXT = re.compile(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])'")
ATTRIBUTE = re.compile(r"alignas\([^)]*\)|__attribute__\(\(.*?\)\)")

NO_STATEMENT = re.compile(r"(PITOT_NAMESPACE_(BEGIN|END)|public:|private:|protected:)$")  # and yet ends here


def code_and_comment(line):
    """A line's code, and the column of its `//` comment, or None."""
    at, quote = 0, ""
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "\"'" and not (char == "'" and re.search(r"\d$", line[:at])):  # 100'000 is not text
            quote = char
        elif line.startswith("//", at):
            return line[:at], at
        at += 1
    return line, None


class Scopes:
    """The kinds of open braces: `type`, `enum`, `namespace` or `body`. A body has no documentation."""

    def __init__(self):
        self.open, self.head = [], ""

    def inner(self):
        return "body" if "body" in self.open else self.open[-1] if self.open else "namespace"

    @staticmethod
    def kind_of(head):
        head = re.sub(r"^.*\btemplate\s*<[^{}]*>\s*(?=(class|struct|union)\b)", "", head)
        if re.search(r"\bnamespace\b|extern \"C\"", head):
            return "namespace"
        if re.search(r"\benum\b", head):
            return "enum"
        is_type = re.search(r"\b(struct|class|union)\b", head) and not re.search(r"[(=]", ATTRIBUTE.sub("", head))
        return "type" if is_type else "body"

    def feed(self, code):
        for char in TEXT.sub(lambda text: text.group(0) if text.group(0) == '"C"' else '""', code):
            if char == "{":
                self.open.append(self.kind_of(self.head))
                self.head = ""
            elif char == "}":
                if self.open:
                    self.open.pop()
                self.head = ""
            elif char == ";":
                self.head = ""
            else:
                self.head += char
        self.head += " "
        if NO_STATEMENT.match(self.head.strip()):
            self.head = ""


def escaped(text):
    """The words with Doxygen's own characters \\, @, <, >, #, % and & escaped. `Code` stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\@<>#%&])", r"\\\1", part) for part in parts)


def words_of(line):
    """The words of a comment's line, without `//` and one space."""
    return re.sub(r"^\s*// ?", "", line).rstrip()


def code_of(words):
    """Whether each line of a comment is code: indented by two spaces, after an empty line, and not in a list."""
    is_code, in_list = [False] * len(words), False
    for i, word in enumerate(words):
        if not word:
            continue
        is_indented = word.startswith("  ")
        in_list = bool(re.match(r"\s*([-*]|\d+\.) ", word)) or (in_list and is_indented)
        is_code[i] = is_indented and not in_list and i > 0 and (not words[i - 1] or is_code[i - 1])
    return is_code


def documented(words):
    """A comment's lines for Doxygen. The empty lines around code begin and end it."""
    is_code, out = code_of(words), []
    for i, word in enumerate(words):
        before, after = i > 0 and is_code[i - 1], i + 1 < len(words) and is_code[i + 1]
        if is_code[i]:
            out.append(f"/// {word}" + (" @endcode" if i + 1 == len(words) or words[i + 1] and not after else ""))
        elif not word:
            out.append("/// @endcode" if before else "/// @code{.cpp}" if after else "///")
        else:
            out.append(f"/// {escaped(word)}")
    return out


def is_comment(line):
    return line.lstrip().startswith("//")


def is_words(line):
    return not any(word in line for word in NOT_WORDS)


class Filter:
    def __init__(self, lines):
        self.lines, self.scopes, self.out = lines, Scopes(), []

    def block(self, begin):
        end = begin
        while end < len(self.lines) and is_comment(self.lines[end]):
            end += 1
        return end

    def is_of_declaration(self, end):
        """Whether the comment that ends before this line is about it."""
        if end >= len(self.lines) or self.scopes.inner() == "body":
            return False
        code = self.lines[end].strip()
        if code.startswith("#if") and end + 1 < len(self.lines):  # which may hold a macro
            code = self.lines[end + 1].strip()
            return code.startswith("#define")
        return bool(code) and not NOT_DOCUMENTED.match(code) and not self.scopes.head.strip()

    def comment(self, begin):
        """Whole-line comments from here on; returns where they end."""
        end = self.block(begin)
        lines = self.lines[begin:end]
        indent = re.match(r"\s*", lines[0]).group(0)
        if begin == 0:
            words = [words_of(line) for line in lines if is_words(line)]
            while words and not words[0]:
                words.pop(0)
            said = ["/// @file"] + documented(words)
            self.out += said + [""] * (len(lines) - len(said))
        elif self.is_of_declaration(end) and any(map(is_words, lines)):
            words = [words_of(line) if is_words(line) else "" for line in lines]
            self.out += [indent + line for line in documented(words)]
        else:
            self.out += lines
        return end

    def code(self, at):
        """A line of code, and the lines of the comment behind it; returns where these end."""
        line, end = self.lines[at], at + 1
        code, column = code_and_comment(line)
        if line.lstrip().startswith("#"):
            while self.lines[end - 1].endswith("\\") and end < len(self.lines):
                end += 1
            self.out += self.lines[at:end]
            return end
        before = self.scopes.inner()
        self.scopes.feed(code)
        is_whole = before == "enum" or code.rstrip().endswith((";", ",", "}", ")")) and not self.scopes.head.strip(" ,")
        is_of_scope = before != "body" and self.scopes.inner() == before and code.strip() not in ("", "}", "};")
        if column is None or not is_words(line) or not is_whole or not is_of_scope:
            self.out.append(line)
            return end
        words = [words_of(line[column:])]
        while end < len(self.lines) and is_comment(self.lines[end]) and self.lines[end].index("//") == column:
            words.append(words_of(self.lines[end]))
            end += 1
        said = [escaped(word) for word in words]
        self.out.append(f"{code}///< {said[0]}")
        self.out += [" " * column + f"///< {word}" for word in said[1:]]
        return end

    def run(self):
        at = 0
        while at < len(self.lines):
            at = self.comment(at) if is_comment(self.lines[at]) else self.code(at)
        return self.out


def filtered(text):
    return "\n".join(Filter(text.split("\n")).run())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n\n")[1])
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(filtered(file.read()))


if __name__ == "__main__":
    main()
