#!/usr/bin/env python3
"""usage: make_files.py DIR           makes the files that tests read and that follow from scripts, below DIR
       make_files.py --check DIR   whether DIR has them, unchanged, and no others
       make_files.py --pin         writes files.sha256, after a change that is meant

Scripts give bad files of golden/bad, bad configs, and seeds of the fuzz targets. They lie below DIR as the scripts' sets
are called, with a link to golden/data beside them, which configs name. files.sha256 pins the bytes of each: a line reads
SHA-256, two spaces, path; of a link the digest is of what it holds, and its path ends in @. Exit status: 0, 1 they are
not as pinned."""

import hashlib
import importlib.util
import os
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_name("files.sha256")
SETS = {
    "golden/bad": "golden/bad/make_bad.py",
    "golden/bad/packs": "golden/bad/packs/make_bad_packs.py",
    "tests/fuzz/seeds": "tests/fuzz/make_seeds.py",
    "tests/harness/bad_configs": "tests/harness/config/make_bad_configs.py",
}


def files_of(script):
    spec = importlib.util.spec_from_file_location(pathlib.Path(script).stem, ROOT / script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.files()


def pins(files):
    """The lines of the list, for {path: bytes, or the str that a link holds}."""
    lines = {f"{path}@" if isinstance(content, str) else path: content for path, content in files.items()}
    return {path: hashlib.sha256(c.encode() if isinstance(c, str) else c).hexdigest() for path, c in lines.items()}


def pinned():
    return {path: digest for digest, path in (line.split("  ", 1) for line in LIST.read_text().splitlines())}


def differ(found, wanted, what):
    """Prints what differs from the list; whether anything does."""
    wrong = sorted(path for path in found.keys() | wanted.keys() if found.get(path) != wanted.get(path))
    for path in wrong:
        why = "is missing" if path not in found else "is not listed" if path not in wanted else "has other bytes"
        print(f"{what}: {path} {why}")
    return bool(wrong)


def write(folder, files):
    if folder.exists():
        if not (folder / "golden/data").is_symlink():
            raise SystemExit(f"make_files.py: {folder} is not a folder that this script made: give another")
        shutil.rmtree(folder)
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            place.symlink_to(content)
        else:
            place.write_bytes(content)
    (folder / "golden/data").symlink_to(ROOT / "golden/data")


def there(folder):
    """{path: content} of what lies below the folder, but for the link to golden/data."""
    found = {}
    for above, folders, names in os.walk(folder):
        for name in names + [name for name in folders if os.path.islink(os.path.join(above, name))]:
            path = pathlib.Path(above, name)
            found[path.relative_to(folder).as_posix()] = os.readlink(path) if path.is_symlink() else path.read_bytes()
    found.pop("golden/data", None)
    return found


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "--check":
        return differ(pins(there(pathlib.Path(arguments[1]))), pinned(), arguments[1])
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 2
    sys.dont_write_bytecode = True
    made = {f"{folder}/{name}": content for folder, script in SETS.items() for name, content in files_of(script).items()}
    if arguments[0] == "--pin":
        LIST.write_text("".join(f"{digest}  {path}\n" for path, digest in sorted(pins(made).items())))
        return 0
    if differ(pins(made), pinned(), "tests/made/files.sha256, against what the scripts give"):
        return 1
    write(pathlib.Path(arguments[0]), made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
