#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how hard the repository's English is to read, and compares it with ceilings.

usage: tools/prose.py [--root FOLDER] [--ceilings FILE] [--lower] [--worst N] [PATH...]

For each document, and for the comments and messages of each folder:
  words/sentence   mean
  over 30          percent of sentences longer than 30 words
  relatives        "that, which, who, whom, whose, what" per 100 words
Comments also have a floor: comment lines per 100 lines of code, so that a ceiling cannot be met by deleting comments.

Without PATH, every group is compared with its row of tools/prose_ceilings.txt. The exit code is 1 if one is worse, or if
a sentence begins with "Of" or "Who".
--lower rewrites that file with the current numbers where they are better, and adds missing rows. It never raises a
ceiling.
With PATHs, prints the counts of those files alone. --worst N also prints their N longest sentences, and the N with the
most relatives. Fenced code, tables, headings and `code` are not counted.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
from collections import namedtuple

RELATIVES = {"that", "which", "who", "whom", "whose", "what", "whoever", "whichever", "whatever"}
LONG = 30
FEW = 100  # words: a group with fewer has no meaningful share
# The goals; no ceiling is lower, so that good prose leaves room for the next sentence.
GOAL = {"per_sentence": 13.0, "over": 5.0, "relatives": 2.0}
GOAL_OF_COMMENTS = 2.5  # relatives
CPP = (".h", ".cc", ".cu", ".c")
FLOOR_SHARE = 0.8  # of the comment density at the time the row was made

Counts = namedtuple("Counts", "words sentences per_sentence over relatives")
Row = namedtuple("Row", "per_sentence over relatives density")


def listed(root):
    """Paths from the root: tracked files, and untracked files that are not ignored."""
    out = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         check=True, capture_output=True, text=True).stdout
    return sorted(path for path in set(out.split("\0")) if path and os.path.isfile(os.path.join(root, path)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def paragraphs_of_markdown(text):
    """Prose only, without fences, tables, headings and images. A list item is a paragraph of its own."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    blocks, block = [], []
    for line in text.split("\n") + [""]:
        line = line.strip()
        is_item = re.match(r"([-*]|\d+\.)\s+", line)
        if not line or is_item or line.startswith(("|", "#", "!")):
            if block:
                blocks.append(" ".join(block))
            block = []
            if is_item:
                block = [line[is_item.end():]]
        else:
            block.append(line.lstrip("> "))
    blocks = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", block) for block in blocks]
    return [re.sub(r"[*_]", "", block) for block in blocks]


def is_licence(line):
    return "SPDX" in line


def paragraphs_of_comments(text, mark=r"//+"):
    """Whole-line and trailing comments. Consecutive lines are one paragraph; an empty comment line ends it."""
    blocks, block = [], []
    for line in text.split("\n") + [""]:
        found = re.match(r"\s*" + mark + r"\s?(.*)", line)
        trailing = None if found else re.search(r"[;{,)]\s+" + mark + r"\s(.*)", line)
        words = (found or trailing).group(1) if found or trailing else ""
        if words and not is_licence(words) and not words.startswith("NOLINT"):
            if trailing:
                blocks.append(words)
            else:
                block.append(words)
        if not found or not words:
            if block:
                blocks.append(" ".join(block))
            block = []
    return blocks


def paragraphs_of_docstrings(text):
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    blocks = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                blocks += [" ".join(block.split()) for block in re.split(r"\n\s*\n", docstring) if "usage:" not in block]
    return blocks


def paragraphs_of_messages(text):
    """String literals of four words and more; adjacent literals are one."""
    text = re.sub(r'^\s*(//|#).*$', "", text, flags=re.M)
    blocks = []
    for run in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        words = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', run.group(0)))
        words = re.sub(r"\\n", ". ", words)
        words = re.sub(r'\\(.)', r"\1", words)
        words = re.sub(r"%[-+ #0-9.*]*[a-zA-Z]+", "it", words)
        if len(re.findall(r"[A-Za-z]{2,}", words)) >= 4 and " " in words.strip():
            blocks.append(words)
    return blocks


def sentences_of(paragraphs):
    for paragraph in paragraphs:
        paragraph = re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "it", paragraph)).strip()
        for sentence in re.split(r'(?<=[.!?])\s+(?=[A-Z"(])', paragraph):
            if len(sentence.split()) > 2:
                yield sentence


def fragments_in(paragraphs):
    """Sentences that begin with "Of" or "Who", which must be read twice."""
    return [sentence for sentence in sentences_of(paragraphs) if re.match(r"(Of|Who) (?!.*\?$)", sentence)]


def relatives_in(sentence):
    return sum(word.lower() in RELATIVES for word in re.findall(r"[A-Za-z']+", sentence))


def count(paragraphs):
    sentences = list(sentences_of(paragraphs))
    words = sum(len(re.findall(r"[A-Za-z']+", sentence)) for sentence in sentences)
    if not sentences or not words:
        return Counts(0, 0, 0.0, 0.0, 0.0)
    lengths = [len(sentence.split()) for sentence in sentences]
    return Counts(words, len(sentences), sum(lengths) / len(lengths), 100 * sum(n > LONG for n in lengths) / len(lengths),
                  100 * sum(map(relatives_in, sentences)) / words)


def density_of(texts):
    """Comment lines per 100 lines of code."""
    comments = code = 0
    for text in texts:
        for line in text.split("\n"):
            line = line.strip()
            if line.startswith("//"):
                comments += not is_licence(line)
            elif line:
                code += 1
    return 100 * comments / code if code else 0.0


def folder_of(path):
    """The group of a source file: lib/analyze/blame, include, test/trace ..."""
    parts = path.split("/")
    if parts[0] in ("lib", "test") and len(parts) > 2:
        depth = 3 if parts[:2] in (["lib", "analyze"], ["lib", "collect"], ["test", "collect"]) and len(parts) > 3 else 2
        return "/".join(parts[:depth])
    return parts[0]


def groups_of(root, paths):
    """name -> (paragraphs, density or None)."""
    prose, sources = {}, {}
    for path in paths:
        if path.endswith(".md"):
            prose.setdefault(path, []).extend(paragraphs_of_markdown(read(root, path)))
        elif path.endswith(CPP):
            text = read(root, path)
            prose.setdefault(f"comments of {folder_of(path)}", []).extend(paragraphs_of_comments(text))
            sources.setdefault(f"comments of {folder_of(path)}", []).append(text)
            if path.startswith(("lib/", "bindings/")):
                prose.setdefault(f"messages of {folder_of(path)}", []).extend(paragraphs_of_messages(text))
        elif path.endswith(".py"):
            text = read(root, path)
            prose.setdefault("Python", []).extend(paragraphs_of_docstrings(text) + paragraphs_of_comments(text, "#+"))
    return {name: (paragraphs, density_of(sources[name]) if name in sources else None) for name, paragraphs in prose.items()}


def read_rows(path):
    rows = {}
    if not os.path.exists(path):
        return rows
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            try:
                name, numbers = line.split(":")
                fields = [None if field == "-" else float(field) for field in numbers.split()]
                rows[name.strip()] = Row(*fields)
            except (ValueError, TypeError):
                sys.exit(f"{path}:{number}: not 'group: words/sentence over-30 relatives comment-density'")
    return rows


HEADER = """# SPDX-License-Identifier: Apache-2.0
#
# Ceilings of tools/prose.py: words per sentence, percent of sentences over 30 words, relatives per 100 words; and the floor
# of comment lines per 100 lines of code. They only go down (the floor stays): tools/prose.py --lower.
"""


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER)
        for name, row in sorted(rows.items()):
            floor = "-" if row.density is None else f"{row.density:.1f}"
            file.write(f"{name}: {row.per_sentence:.1f} {row.over:.1f} {row.relatives:.1f} {floor}\n")


def ceiling(name, row, measure):
    goal = GOAL_OF_COMMENTS if measure == "relatives" and name.startswith("comments") else GOAL[measure]
    return max(getattr(row, measure), goal)


def worse(name, counts, density, row):
    """What of a group is over its ceiling (or under its floor), in words."""
    slack = 0.05  # of rounding
    for measure, text in (("per_sentence", "{:.1f} words a sentence, ceiling {:.1f}"),
                          ("over", "{:.1f} % of sentences over 30 words, ceiling {:.1f}"),
                          ("relatives", "{:.1f} relatives per 100 words, ceiling {:.1f}")):
        most = ceiling(name, row, measure)
        if getattr(counts, measure) > most + slack:
            yield text.format(getattr(counts, measure), most)
    if row.density is not None and density is not None and density < row.density - slack:
        yield f"{density:.1f} comment lines per 100 lines of code, floor {row.density:.1f}"


def print_table(groups):
    print(f"{'':44s} {'words':>7s} {'words/sentence':>15s} {'over 30':>8s} {'relatives':>10s} {'comments':>9s}")
    for name in sorted(groups):
        paragraphs, density = groups[name]
        counts = count(paragraphs)
        if counts.words < FEW:
            continue
        shown = "" if density is None else f"{density:.1f}"
        print(f"{name:44s} {counts.words:7d} {counts.per_sentence:15.1f} {counts.over:7.1f}% {counts.relatives:10.1f} {shown:>9s}")


def total(groups, wanted):
    return count([paragraph for name, (paragraphs, _) in groups.items() if wanted(name) for paragraph in paragraphs])


def print_totals(groups):
    for name, wanted in (("documents", lambda name: name.endswith(".md")), ("comments", lambda name: name.startswith("comments")),
                         ("messages", lambda name: name.startswith("messages"))):
        counts = total(groups, wanted)
        print(f"all {name}: {counts.words} words, {counts.per_sentence:.1f} a sentence, {counts.over:.1f} % over {LONG}, "
              f"{counts.relatives:.1f} relatives per 100")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.dirname(here))
    parser.add_argument("--ceilings", default=os.path.join(here, "prose_ceilings.txt"))
    parser.add_argument("--lower", action="store_true")
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()

    if options.paths:
        groups = groups_of(options.root, [os.path.relpath(path, options.root) for path in options.paths])
        print_table(groups)
        sentences = [sentence for paragraphs, _ in groups.values() for sentence in sentences_of(paragraphs)]
        for measure in (lambda sentence: len(sentence.split()), relatives_in):
            for sentence in sorted(sentences, key=measure, reverse=True)[:options.worst]:
                print(f"{measure(sentence):4d}  {sentence}")
        return 0

    groups = groups_of(options.root, listed(options.root))
    rows = read_rows(options.ceilings)
    if options.lower:
        kept = {}
        for name, (paragraphs, density) in groups.items():
            counts, row = count(paragraphs), rows.get(name)
            if counts.words < FEW:
                continue
            kept[name] = Row(*(min(new, old) for new, old in zip(counts[2:], row[:3])), row.density) if row else \
                Row(*counts[2:], None if density is None else density * FLOOR_SHARE)
        write_rows(options.ceilings, kept)
        rows = kept
    print_table(groups)
    print_totals(groups)
    failed = 0
    for name, (paragraphs, density) in sorted(groups.items()):
        for sentence in fragments_in(paragraphs):
            print(f"{name}: begins with a fragment: {sentence}")
            failed += 1
        counts = count(paragraphs)
        if counts.words < FEW:
            continue
        if name not in rows:
            print(f"{name}: no ceiling; run tools/prose.py --lower")
            failed += 1
            continue
        for fault in worse(name, counts, density, rows[name]):
            print(f"{name}: {fault}")
            failed += 1
    print("to see the worst sentences of a file: tools/prose.py --worst 10 FILE" if failed else "ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
