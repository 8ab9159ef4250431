"""A hook of MkDocs (ci/mkdocs.yml): makes a site of pages that are written for GitHub.

README.md is the home page. The order of the pages is that of the lists in docs/README.md, so a page that they lack is a
warning. A link to a public header leads to its page of Doxygen, and one to another file or folder without a page
becomes its text.
"""
import os
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from mkdocs.structure.nav import Link

MOVED = {"README.md": "index.md", "docs/README.md": "pages.md", "CONTRIBUTING.md": "contributing.md"}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = os.environ["KVGOLD_SITE_HEADERS"].split()  # those that ci/site gives to Doxygen
# [text](target#anchor), or the target alone where the text is a picture or has brackets.
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)|(?<=\]\()(?![^)\s]*:)([^)#\s]+)")
ITEM = re.compile(r"( *)(?:[*-]|(\d+)\.) ")


def on_config(config):
    with open(os.path.join(ROOT, "docs/README.md"), encoding="utf-8") as file:
        rooms = re.findall(r"^\*\*(\w+)\*\*:(.*?)\n(?:\n|\Z)", file.read(), re.M | re.S)
    if not rooms:
        raise PluginError("docs/README.md has no lists of pages")
    config.nav = ["index.md"]
    config.nav += [{room.capitalize(): re.findall(r"\]\(([^)]*)\)", pages)} for room, pages in rooms]
    config.nav += ["contributing.md", "pages.md"]


def on_files(files, config):
    files.remove(files.get_file_from_path("README.md"))
    for source, page in MOVED.items():
        files.append(File.generated(config, page, abs_src_path=os.path.join(ROOT, source)))


def on_nav(nav, config, files):
    nav.items.append(Link("Public headers", "api/index.html"))


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    source = {moved: name for name, moved in MOVED.items()}.get(here, "docs/" + here)

    def link(match):
        text, target, anchor, alone = match.groups()
        target, anchor = target or alone, anchor or ""
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))
        there = MOVED.get(path, path[len("docs/"):] if path.startswith("docs/") else None)
        if there and files.get_file_from_path(there):
            new = os.path.relpath(there, os.path.dirname(here) or ".") + anchor
            return new if alone else f"[{text}]({new})"
        if alone or not os.path.exists(os.path.join(ROOT, path)):
            return match.group()  # leads elsewhere or nowhere: MkDocs tells
        if path in HEADERS:
            up = "../" * here.count("/")
            return f'<a href="{up}api/{doxygen_page(path)}">{text}</a>'
        return text

    return "\n".join(as_python_markdown(LINK.sub(link, markdown).split("\n")))


def doxygen_page(header):
    return os.path.basename(header).replace("_", "__").replace(".", "_8") + ".html"


def as_python_markdown(lines):
    """The lines with what Python-Markdown wants: a blank line before a list, and items of items four columns in."""
    fenced = in_list = False
    for number, line in enumerate(lines):
        fenced ^= line.startswith("```")
        item = None if fenced else ITEM.match(line)
        if item and in_list and 2 <= len(item.group(1)) <= 3:
            line = "    " + line.lstrip()
        elif item and not item.group(1) and not in_list and item.group(2) in (None, "1"):
            if number and lines[number - 1]:
                yield ""
            in_list = True
        elif in_list and not line.startswith(" ") and lines[number - 1] == "" and line:
            in_list = bool(item)
        yield line
