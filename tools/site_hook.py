# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: pages and links for which mkdocs.yml has no setting (tools/site).

Some documents outside of docs/ become pages of the site. Links are written for a reader of the repository. A link out of docs/
leads to such a page, otherwise to the repository (repo_url), and becomes text without a repo_url. A link to a missing file
is a warning, and so an error of `mkdocs build --strict`. Doxygen's API reference gets its place in the navigation.
"""

import logging
import os
import posixpath
import re

from mkdocs.structure.files import File
from mkdocs.structure.nav import Link

log = logging.getLogger("mkdocs.hooks.site")

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Documents outside of docs/, and their pages on the site.
FROM_ROOT = {
    "README.md": "guide/overview.md",
    "bindings/README.md": "guide/bindings.md",
    "bindings/python/README.md": "guide/python_package.md",
    "integrations/vllm/README.md": "guide/vllm.md",
    "samples/README.md": "guide/samples.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}

FENCE = re.compile(r"^(```.*?^```|~~~.*?^~~~)", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def on_files(files, config):
    for source, page in FROM_ROOT.items():
        with open(os.path.join(ROOT, source), encoding="utf-8") as file:
            files.append(File.generated(config, page, content=file.read()))
    return files


def source_of(page):
    """The path of a page's source in the repository."""
    return next((source for source, name in FROM_ROOT.items() if name == page), posixpath.join("docs", page))


def page_of(source):
    """The page of a repository's file on the site, or None."""
    if source in FROM_ROOT:
        return FROM_ROOT[source]
    return posixpath.relpath(source, "docs") if source.startswith("docs/") else None


def rewritten(text, page, repository):
    """A page's Markdown with its links changed for the site."""
    source = source_of(page)

    def link(match):
        mark, words, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return match.group(0)
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not os.path.exists(os.path.join(ROOT, found)):
            log.warning("%s links to %s, which is not there", source, target)
            return words
        on_site = page_of(found)
        if on_site and os.path.isfile(os.path.join(ROOT, found)):
            place = posixpath.relpath(on_site, posixpath.dirname(page) or ".")
            return f"{mark}[{words}]({place}{'#' + anchor if anchor else ''})"
        if repository:
            kind = "tree" if os.path.isdir(os.path.join(ROOT, found)) else "blob"
            return f"{mark}[{words}]({repository.rstrip('/')}/{kind}/main/{found}{'#' + anchor if anchor else ''})"
        return words

    parts = FENCE.split(text)
    return "".join(part if FENCE.match(part) else LINK.sub(link, part) for part in parts)


def on_page_markdown(markdown, page, config, files):
    # MkDocs takes a page's title from its heading only if the heading comes first.
    markdown = re.sub(r"\A\s*<!--.*?-->\s*", "", markdown, flags=re.S)
    return rewritten(markdown, page.file.src_uri, config.repo_url)


def on_nav(nav, config, files):
    nav.items.append(Link("API", "api/index.html"))
    return nav
