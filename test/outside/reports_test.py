#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports of others' incidents: short before the appendix, and every output opens with the same sentence."""

import glob
import html
import os
import re
import sys
import tempfile

import outside

MOST_LINES = 60  # before the appendix; with the session's line about repeats
OF_SESSION = 2
APPENDIX = "APPENDIX"


def one_line(text):
    return " ".join(text.split())


def faults_of(path):
    """What is wrong with the reports of a dump, in words."""
    lines = outside.pitot("report", path).stdout.split("\n")
    if lines.count(APPENDIX) != 1:
        yield f"{lines.count(APPENDIX)} lines {APPENDIX}"
        return
    front = lines[:lines.index(APPENDIX)]
    if len(front) > MOST_LINES - OF_SESSION:
        yield f"{len(front)} lines before the appendix"
    sentence = outside.pitot_json("why", path).get("summary")
    if not sentence:
        yield "no sentence"
        return
    page = outside.pitot("report", path, "--html").stdout
    headline = re.search("<h1>(.*?) <small>", page)
    outputs = {"report": one_line("\n".join(front)), "why": one_line(outside.pitot("why", path).stdout),
               "report --html": html.unescape(headline.group(1)) if headline else ""}
    for name, text in outputs.items():
        if not text.startswith(sentence):
            yield f"{name} begins with {text[:200]!r}, and not with {sentence!r}"


def main():
    folders = [outside.folder_of(name) for name in ("llama_server", "python_h100")]
    dumps = sorted(path for folder in folders for path in glob.glob(os.path.join(folder, "*.pitot.gz")))
    archive = os.path.join(outside.folder_of("vllm"), "dumps_ft.tar.xz")
    with tempfile.TemporaryDirectory() as work:
        dumps += outside.unpack(archive, work)
        return outside.tell([(path, list(faults_of(path))) for path in dumps])


if __name__ == "__main__":
    sys.exit(main())
