#!/usr/bin/env python3
"""Collect the training and held-out text from Debian main documentation packages.

What it does
  1. Downloads the packages named below with `apt-get download` (Debian 12 bookworm,
     component main only; checked) unless their .deb files are in WORK/debs already.
  2. Unpacks them under WORK/x. Nothing is installed.
  3. Turns manual pages (groff), HTML, reStructuredText, Markdown, POD and AsciiDoc
     files into plain UTF-8 text, cleans it and drops what is not English prose.
  4. Splits by WHOLE PACKAGES: a package is either training or held-out.
  5. Drops near-duplicates of held-out text from training (see `shingles`).
  6. Writes WORK/train.bin.xz, WORK/heldout.bin.xz (documents separated by one NUL
     byte), corpus.json (packages, versions, licences, sizes, hashes; every file
     used) and heldout.txt (the 64 KiB excerpt).

Command:  python3 make_corpus.py WORK        (a Debian 12 machine with apt, groff, col)
The same .deb files and the same groff give the same bytes; corpus.json has each
.deb's sha256, and snapshot.debian.org keeps old versions.
"""
import collections
import gzip
import hashlib
import html.parser
import json
import lzma
import os
import re
import subprocess
import sys
import textwrap
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))

# Package -> licence of its documentation where the Debian copyright file is not
# machine-readable (None: take the `Files: *` stanza of that file).
TRAIN = {
    "apache2-doc": None, "bash-doc": None, "bind9-doc": None, "cinder-doc": None,
    "clang-14-doc": None, "cmake-doc": None, "debian-policy": "GPL-2+",
    "erlang-manpages": None, "freebsd-manpages": None, "git-doc": None,
    "haproxy-doc": None, "keystone-doc": None, "libssl-doc": None,
    "llvm-14-doc": None, "manpages": None, "manpages-dev": None, "nim-doc": None,
    "nodejs-doc": None, "nova-doc": None, "perl-doc": None,
    "postfix-doc": "IPL-1.0 or EPL-2.0", "postgresql-doc-15": None,
    "python-celery-doc": None, "python-cryptography-doc": None,
    "python-django-doc": None, "python-sqlalchemy-doc": None,
    "python3.11-doc": "PSF-2.0", "rust-doc": "MIT or Apache-2.0", "sphinx-doc": None,
    "swi-prolog-doc": None, "tcl8.6-doc": "TCL", "tk8.6-doc": "TCL", "zsh-doc": None,
}
HELDOUT = {
    "sqlite3-doc": None, "libcurl4-doc": None, "openssh-client": None,
    "python-tornado-doc": None, "tmux": None, "varnish-doc": None,
}
# These packages keep their copyright file in a sibling package.
COPYRIGHT_IN = {"cmake-doc": "cmake-data", "zsh-doc": "zsh-common",
                "manpages-dev": "manpages"}
# rust-doc holds half a gigabyte of generated API pages: take the books only.
ONLY = {"rust-doc": re.compile(r"/html/(book|reference|nomicon|rust-by-example|rustc|"
                               r"rustdoc|edition-guide|embedded-book|unstable-book)/"),
        # documentation only, not the programs' message catalogues
        "openssh-client": re.compile(r"/man/"), "tmux": re.compile(r"/man/"),
        # one page per GPU register operand: tables, not text
        "llvm-14-doc": re.compile(r"^(?!.*/AMDGPU/).*")}
# heldout.txt: these pages of sqlite3-doc (public domain), in this order, cut at the
# last line end before 64 KiB.
HELDOUT_TXT = ["whentouse", "atomiccommit", "queryplanner", "faq"]
HELDOUT_TXT_BYTES = 65536
PER_PACKAGE_CAP = 4_000_000   # bytes of text, so that no single package dominates


class HtmlText(html.parser.HTMLParser):
    """HTML to plain text: paragraphs filled to 78 columns, <pre> kept as it is."""
    SKIP = {"script", "style", "head", "nav", "footer", "svg", "button", "form", "noscript"}
    BLOCK = {"p", "div", "section", "article", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol",
             "dl", "dt", "dd", "li", "table", "tr", "blockquote", "br", "hr", "body", "main"}
    # navigation of Sphinx, DocBook, mdBook and Apache pages
    SKIP_CLASS = re.compile(r"sphinxsidebar|related|headerlink|navheader|navfooter|\btoc\b|"
                            r"sidebar|navigation|topnav|toplang|bottomlang|footer|breadcrumb|"
                            r"wy-nav-side|wy-nav-top|searchbox|searchmenu|mobilemenu|menubar")

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.out, self.line, self.pre, self.skip, self.stack = [], [], 0, 0, []

    def flush(self):
        text = " ".join("".join(self.line).split())
        self.line = []
        if text == "*":                            # the item's text is in a block of its own
            self.line = ["* "]
        elif text:
            self.out.append(textwrap.fill(text, 78, break_long_words=False,
                                          break_on_hyphens=False) + "\n\n")

    def handle_starttag(self, tag, attrs):
        if tag in ("br", "hr", "img", "input", "meta", "link", "wbr", "col", "area", "source"):
            if tag == "br":
                self.line.append("\n") if self.pre else self.flush()
            return
        a = dict(attrs)
        marks = " ".join(filter(None, (a.get("class"), a.get("id"), a.get("role"))))
        hide = tag in self.SKIP or (tag not in ("body", "html", "main")
                                    and bool(self.SKIP_CLASS.search(marks)))
        self.stack.append((tag, hide))
        self.skip += hide
        if tag == "pre":
            self.flush()
            self.pre += 1
        elif tag in self.BLOCK and not self.pre:
            self.flush()
            if tag == "li":
                self.line.append("* ")
        elif tag in ("td", "th"):
            self.line.append(" ")

    def handle_endtag(self, tag):
        if tag not in [t for t, _ in self.stack]:
            return
        while self.stack:                      # also closes what was left open inside
            t, hide = self.stack.pop()
            self.skip -= hide
            if t == "pre":
                text = "".join(self.line).strip("\n")
                self.line = []
                self.pre -= 1
                if text.strip():
                    self.out.append(textwrap.indent(text, "    ") + "\n\n")
            elif t in self.BLOCK and not self.pre:
                self.flush()
            if t == tag:
                break

    def handle_data(self, data):
        if not self.skip:
            self.line.append(data)


def from_html(raw):
    p = HtmlText()
    p.feed(raw)
    p.close()
    p.flush()
    return "".join(p.out)


def from_man(path_bytes):
    """Render with groff (no escapes: -c), then strip backspaces as `col -b` does."""
    env = dict(os.environ, LC_ALL="C.UTF-8", GROFF_NO_SGR="1")
    pre = subprocess.run(["groff", "-K", "utf8", "-t", "-T", "utf8", "-mandoc", "-rLL=78n",
                          "-P-c", "-P-b", "-P-u"], input=path_bytes, capture_output=True, env=env)
    return pre.stdout.decode("utf-8", "ignore")


PUNCT = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"',
                       "\u2010": "-", "\u2011": "-", "\u2013": "-", "\u2014": "--",
                       "\u2212": "-", "\u2026": "...", "\u00a0": " ", "\u2022": "*",
                       "\u00b7": "*", "\u00b6": "", "\u200b": "", "\ufeff": "",
                       "\u00ad": "", "\u2500": "-", "\u2502": "|"})
WORDS = re.compile(r"\b(the|of|to|and|is|a|in|for|that|this|it|be|are|or|with)\b", re.I)


def clean(text):
    text = unicodedata.normalize("NFC", text).translate(PUNCT)
    text = re.sub(r".\x08", "", text)                       # overstrikes
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text.expandtabs(8))
    text = re.sub(r"[ ]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text)
    return text.strip("\n") + "\n"


def is_english(text):
    ascii_share = sum(c < "\x80" for c in text) / len(text)
    words = len(re.findall(r"\b[A-Za-z]+\b", text))
    return ascii_share > 0.98 and words > 60 and len(WORDS.findall(text)) > 0.08 * words


MAN = re.compile(r"/man[1-9][a-z]*/[^/]+\.[0-9][a-z]*(?:freebsd)?$")


def read_text(path):
    """Plain text of one file, or None when it is not a document we use."""
    name = path[:-3] if path.endswith(".gz") else path
    base = os.path.basename(name).lower()
    if re.search(r"/man/(?!man[1-9])", name) or re.search(r"/(lintian|examples|_modules)/", name):
        return None                                        # translated manual pages and code
    is_man = bool(MAN.search(name))
    ok = (".txt", ".rst", ".md", ".pod", ".html")
    if not is_man and not base.endswith(ok):
        return None
    if re.search(r"(genindex|py-modindex|searchindex|^search\.|^index-|-all\.html$|"
                 r"^requirements|^copyright|license|^all\.(md|html)|print\.html|toc\.html|"
                 r"bookindex|doc-0-)", base):
        return None
    if re.search(r"\.html\.(de|es|fr|ja|ko|pt-br|tr|zh-cn|da|ru|ro)\b", name):
        return None
    raw = open(path, "rb").read()
    if path.endswith(".gz"):
        raw = gzip.decompress(raw)
    if is_man:
        if raw.lstrip()[:3] == b".so" or len(raw) > 2_000_000:
            return None                                    # a link to another page
        return from_man(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return from_html(text) if base.endswith(".html") else text


def files_of(root, package):
    """Files of one package in a fixed order: the source form where there is one."""
    found = []
    for folder, dirs, names in os.walk(root):
        dirs.sort()
        found += [os.path.join(folder, n) for n in sorted(names)
                  if not os.path.islink(os.path.join(folder, n))]
    only = ONLY.get(package)
    found = [f for f in found if not only or only.search(f[len(root):])]
    rel = {f[len(root):] for f in found}
    keep = []
    for f in found:
        r = f[len(root):]
        # Skip HTML when the same page is there as text (Sphinx _sources, .md, .txt, rst/).
        stem = r[:-5] if r.endswith(".html") else None
        if stem is not None:
            top = re.sub(r"/html/.*", "/html", r)
            inner = stem[len(top):]
            if any(x in rel or x + ".gz" in rel for x in (
                    f"{top}/_sources{inner}.rst.txt", f"{top}/_sources{inner}.txt", f"{stem}.md",
                    f"{stem}.txt", f"{os.path.dirname(top)}/rst{inner}.rst")):
                continue
        # perl-doc has each page as POD and as a manual page: take the POD.
        if package == "perl-doc" and "/man1/" in r:
            continue
        keep.append(f)
    return keep


def deb_field(deb, field):
    return subprocess.run(["dpkg-deb", "-f", deb, field], capture_output=True,
                          text=True, check=True).stdout.strip()


def licence_of(work, package):
    """(licence of the `Files: *` stanza, all License fields) of a copyright file."""
    for p in (package, COPYRIGHT_IN.get(package, "")):
        folder = os.path.join(work, "x", p, "usr/share/doc", p)
        path = os.path.join(folder, "copyright")
        if p and os.path.isfile(path):
            text = open(path, encoding="utf-8", errors="replace").read()
            fields = sorted({x.strip() for x in re.findall(r"^License:[ ]*(\S.*)$", text, re.M)})
            star = re.search(r"^Files:[ ]*\*[ ]*\n(?:.+\n)*?License:[ ]*(.+)$", text, re.M)
            dep5 = "copyright-format" in text.split("\n", 1)[0] or "Format:" in text[:400]
            return (star.group(1).strip() if star and dep5 else None), fields if dep5 else []
    return None, []


def shingles(text, n=12):
    """Hashes of all runs of n words; two documents that share many are near-duplicates."""
    w = re.findall(r"[A-Za-z0-9_]+", text)
    return {hashlib.blake2b(" ".join(w[i:i + n]).encode(), digest_size=8).digest()
            for i in range(len(w) - n + 1)}


def main():
    work = os.path.abspath(sys.argv[1])
    debs = os.path.join(work, "debs")
    os.makedirs(debs, exist_ok=True)
    have = {f.split("_")[0]: f for f in sorted(os.listdir(debs)) if f.endswith(".deb")}
    need = sorted((set(TRAIN) | set(HELDOUT) | {"cmake-data", "zsh-common"}) - set(have))
    if need:
        subprocess.run(["apt-get", "download", "-q", *need], cwd=debs, check=True)
        have = {f.split("_")[0]: f for f in sorted(os.listdir(debs)) if f.endswith(".deb")}

    packages, docs, seen_par = {}, {}, set()
    for package in sorted(HELDOUT) + sorted(TRAIN):        # held-out first: it keeps its text
        deb = os.path.join(debs, have[package])
        # The section of a package outside main is written component/section.
        assert "/" not in deb_field(deb, "Section"), f"{package} is not in Debian main"
        for p in {package, COPYRIGHT_IN.get(package, package)}:
            root = os.path.join(work, "x", p)
            if not os.path.isdir(root):
                os.makedirs(root)
                subprocess.run(["dpkg-deb", "-x", os.path.join(debs, have[p]), root], check=True)
        root = os.path.join(work, "x", package)
        total = 0
        texts = [(path, clean(text)) for path, text in
                 ((path, read_text(path)) for path in files_of(root, package)) if text]
        # Navigation: a paragraph found in more than a tenth of a package's pages.
        count = collections.Counter(par for _, text in texts for par in set(text.split("\n\n")))
        common = {par for par, n in count.items() if n > max(5, len(texts) / 10)}
        for path, text in texts:
            # Paragraphs seen before (licence texts, navigation, repeated notes) go.
            kept = []
            for par in text.split("\n\n"):
                if par.strip("\n") in common or par in common:
                    continue
                h = hashlib.blake2b(" ".join(par.split()).encode(), digest_size=8).digest()
                if len(par) > 60 and h in seen_par:
                    continue
                seen_par.add(h)
                kept.append(par)
            text = clean("\n\n".join(kept))
            if len(text) < 400 or not is_english(text) or total > PER_PACKAGE_CAP:
                continue
            total += len(text.encode())
            docs[package, path[len(root):].lstrip("/")] = text
        text, fields = licence_of(work, package)
        raw = open(deb, "rb").read()
        packages[package] = {
            "split": "held-out" if package in HELDOUT else "train",
            "version": deb_field(deb, "Version"), "section": deb_field(deb, "Section"),
            "component": "main", "deb": os.path.basename(deb),
            "deb_sha256": hashlib.sha256(raw).hexdigest(),
            "licence": (TRAIN | HELDOUT)[package] or text, "copyright_file_licences": fields}
        print(f"{package}: {total} bytes", file=sys.stderr)

    # Near-duplicates: a training document sharing more than 2% of its 12-word runs with
    # the held-out text is dropped. What overlap is left is measured and written down.
    held = set()
    for (package, _), text in docs.items():
        if package in HELDOUT:
            held |= shingles(text)
    dropped, left, held_seen = [], {}, set()
    for key in [k for k in docs if k[0] in TRAIN]:
        s = shingles(docs[key])
        common = s & held
        if len(common) > 0.02 * max(len(s), 1):
            dropped.append("/".join(key))
            del docs[key]
        else:
            held_seen |= common

    out = {"train": [], "held-out": []}
    listing = []
    for (package, path), text in docs.items():
        data = text.encode()
        split = packages[package]["split"]
        out[split].append(data)
        p = packages[package]
        p["files"] = p.get("files", 0) + 1
        p["bytes"] = p.get("bytes", 0) + len(data)
        listing.append([package, path, len(data), hashlib.sha256(data).hexdigest()[:16]])
    # The long listing is only hashed (its order and content are fixed by the packages).
    blob = {k: b"\0".join(v) + b"\0" for k, v in out.items()}
    for split, name in (("train", "train"), ("held-out", "heldout")):
        with open(os.path.join(work, name + ".bin.xz"), "wb") as f:
            f.write(lzma.compress(blob[split], preset=6))
    with open(os.path.join(work, "files.json"), "w") as f:
        json.dump(listing, f, indent=0)

    parts = [docs["sqlite3-doc", next(p for (k, p) in docs if k == "sqlite3-doc"
                                      and p.endswith(f"/{n}.html"))] for n in HELDOUT_TXT]
    text = "\n".join(parts).encode()
    assert len(text) >= HELDOUT_TXT_BYTES, len(text)
    text = text[:HELDOUT_TXT_BYTES]
    text = text[:text.rfind(b"\n") + 1]
    with open(os.path.join(HERE, "heldout.txt"), "wb") as f:
        f.write(text)
    report = {
        "comment": "Written by make_corpus.py; licence is that of the `Files: *` stanza of "
                   "the package's Debian copyright file, or as named in make_corpus.py.",
        "distribution": "Debian 12 (bookworm), component main",
        "train": {"bytes": len(blob["train"]), "documents": len(out["train"]),
                  "sha256": hashlib.sha256(blob["train"]).hexdigest()},
        "heldout": {"bytes": len(blob["held-out"]), "documents": len(out["held-out"]),
                    "sha256": hashlib.sha256(blob["held-out"]).hexdigest()},
        "heldout_txt": {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest(),
                        "package": "sqlite3-doc", "pages": HELDOUT_TXT},
        "near_duplicates": {"rule": "training files sharing > 2% of their 12-word runs with "
                                    "held-out text are dropped", "dropped": dropped,
                            "heldout_runs": len(held), "heldout_runs_still_in_train":
                            len(held_seen)},
        "listing_sha256": hashlib.sha256(json.dumps(listing).encode()).hexdigest(),
        "packages": packages}
    with open(os.path.join(HERE, "corpus.json"), "w") as f:
        json.dump(report, f, indent=1)
        f.write("\n")
    print(json.dumps({k: report[k] for k in ("train", "heldout", "heldout_txt")}, indent=1))
    print(f"near-duplicates dropped: {len(dropped)}, runs left: {len(held_seen)} of {len(held)}")


if __name__ == "__main__":
    main()
