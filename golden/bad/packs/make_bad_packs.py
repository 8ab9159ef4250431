"""Packs that must be refused, one folder per reason, and expect_packs.txt: NAME<TAB>WHO<TAB>TEXT, where WHO is `open`
(every reader must refuse it) or `verify` (its hashes hold together; only who computes the pack again can tell), and TEXT
is in kvgold's error. All come from the folder `good` beside this script, which

    kvgold golden make golden/bad/packs/pack_good.json -o golden/bad/packs/good

makes. The same bytes every time. tests/made/make_files.py writes them, and `good`, into a build folder."""

import copy
import hashlib
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
MANIFEST, PROMPT, EXPECTED, PROVENANCE = "manifest.json", "prompt.safetensors", "expected.safetensors", "provenance.json"
SUMS = {MANIFEST: "manifest.sha256", PROVENANCE: "provenance.sha256"}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def dump(value):
    return json.dumps(value, ensure_ascii=False)


def dump_case(case):
    """As docs/spec/golden-pack.md section 9 has it, whatever keys there are."""
    text = ""
    for key, value in case.items():
        text += (",\n   " if key in ("case", "layer", "prompt", "answer", "expected") else ", ") if text else "  {"
        listed = isinstance(value, list) and value and isinstance(value[0], dict)
        text += dump(key) + ": " + ("[\n    " + ",\n    ".join(map(dump, value)) + "]" if listed else dump(value))
    return text + "}"


def dump_manifest(manifest):
    members = [f" {dump(key)}: " + ("[\n" + ",\n".join(map(dump_case, value)) + "\n ]" if key == "cases" else dump(value))
               for key, value in manifest.items()]
    return ("{\n" + ",\n".join(members) + "\n}\n").encode()


class Tensors:
    """A safetensors file of a pack: metadata and [name, dtype, shape, bytes], without padding."""

    def __init__(self, data):
        length, = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        self.metadata = header.pop("__metadata__")
        self.list = []
        for name, t in header.items():
            begin, end = t["data_offsets"]
            if not name.startswith("_pad."):
                self.list.append([name, t["dtype"], t["shape"], data[8 + length + begin:8 + length + end]])
        self.edit_header = lambda header: None  # on the built header
        self.pad = True     # fill up to multiples of 256
        self.tail = b""     # after the last tensor
        self.edit_text = lambda text: text

    def bytes(self):
        header, data, pads = {"__metadata__": self.metadata}, b"", 0
        for name, dtype, shape, payload in self.list:
            if len(data) % 256 and self.pad:
                end = len(data) + 256 - len(data) % 256
                header[f"_pad.{pads}"] = {"dtype": "U8", "shape": [end - len(data)], "data_offsets": [len(data), end]}
                data, pads = data.ljust(end, b"\0"), pads + 1
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
            data += payload
        self.edit_header(header)
        text = self.edit_text(json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode())
        text += b" " * (-(8 + len(text)) % 256)
        return struct.pack("<Q", len(text)) + text + data + self.tail


class Pack:
    """A pack to be spoilt. What is set here comes out with hashes that hold together, but for `after`."""

    def __init__(self, folder):
        read = {name: (folder / name).read_bytes() for name in (MANIFEST, PROMPT, EXPECTED, PROVENANCE)}
        self.manifest = json.loads(read[MANIFEST])
        self.prompt, self.expected, self.provenance = Tensors(read[PROMPT]), Tensors(read[EXPECTED]), read[PROVENANCE]
        self.before = {}  # file: bytes -> bytes, before its hash is taken
        self.after = {}   # file: bytes -> bytes, when all is done; None: no such file
        self.links = {}   # file: what it links to
        cases = self.manifest["cases"]
        self.bits = next(c for c in cases if c["stored"] and c["answer"][0]["compare"] == "bits")
        self.bound = next(c for c in cases if c["stored"] and c["answer"][0]["compare"] == "bound")
        self.recipe = next(c for c in cases if not c["stored"])

    def entry(self, tensor):
        """Makes the manifest say of a tensor of a file what the file holds."""
        for c in self.manifest["cases"]:
            for e in c["prompt"] + c["expected"]:
                if e["name"] == tensor[0]:
                    e.update(dtype=tensor[1], shape=tensor[2], bytes=len(tensor[3]), sha256=sha256(tensor[3]))

    def card(self, case):
        """Makes the prompt's metadata say of a case what the manifest says."""
        self.prompt.metadata[f"case.{case['key']}"] = json.dumps({
            "id": case["id"], "case": case["case"], "layer": case["layer"],
            "answer": [{k: a[k] for k in ("name", "dtype", "shape")} for a in case["answer"]]})

    def files(self):
        same = lambda data: data
        files = {PROMPT: self.before.get(PROMPT, same)(self.prompt.bytes()),
                 EXPECTED: self.before.get(EXPECTED, same)(self.expected.bytes())}
        for name, data in files.items():
            if name in self.manifest["files"] and self.before.get("files") is None:
                self.manifest["files"][name] = {"bytes": len(data), "sha256": sha256(data)}
        files[MANIFEST] = self.before.get(MANIFEST, same)(dump_manifest(self.manifest))
        files[PROVENANCE] = self.before.get(PROVENANCE, same)(self.provenance)
        for name, sum_name in SUMS.items():
            files[sum_name] = f"{sha256(files[name])}  {name}\n".encode()
        for name, edit in self.after.items():
            files[name] = edit(files[name]) if edit else None
        return {name: data for name, data in files.items() if data is not None and name not in self.links}


REASONS = {}  # name: (who, text, function)


def bad(name, text, who="open"):
    def add(function):
        assert name not in REASONS, name
        REASONS[name] = (who, text, function)
        return function
    return add


def flip(at, bit=0):
    """Bytes with one bit of byte `at` turned over."""
    def edit(data):
        changed = bytearray(data)
        changed[at] ^= 1 << bit
        return bytes(changed)
    return edit


def replaced(old, new):
    def edit(data):
        assert data.count(old) >= 1, old
        return data.replace(old, new, 1)
    return edit


def set_f64(p, tensor, index, value):
    data = bytearray(tensor[3])
    struct.pack_into("<d", data, 8 * index, value)
    tensor[3] = bytes(data)
    p.entry(tensor)


def find(tensors, name):
    return next(t for t in tensors.list if t[0] == name)


# --- files that were changed after their hash was taken ---------------------------------------------------------------

bad("tampered-manifest", "not what manifest.sha256 says")(
    lambda p: p.after.update({MANIFEST: replaced(b'"case_count": 3', b'"case_count": 2')}))
bad("tampered-prompt", "prompt.safetensors: its SHA-256 is not what the manifest says")(
    lambda p: p.after.update({PROMPT: flip(-1)}))
bad("tampered-expected", "expected.safetensors: its SHA-256 is not what the manifest says")(
    lambda p: p.after.update({EXPECTED: flip(-1, 7)}))
bad("tampered-provenance", "not what provenance.sha256 says")(lambda p: p.after.update({PROVENANCE: flip(-3)}))
bad("tampered-sum", "not what manifest.sha256 says")(
    lambda p: p.after.update({SUMS[MANIFEST]: lambda d: (b"0" if d[:1] != b"0" else b"1") + d[1:]}))
bad("truncated-prompt", "cut short or written over")(lambda p: p.after.update({PROMPT: lambda d: d[:-1]}))
bad("truncated-expected", "cut short or written over")(lambda p: p.after.update({EXPECTED: lambda d: d[:8]}))
bad("truncated-manifest", "not what manifest.sha256 says")(lambda p: p.after.update({MANIFEST: lambda d: d[:-2]}))
bad("oversized-prompt", "cut short or written over")(lambda p: p.after.update({PROMPT: lambda d: d + bytes(256)}))
bad("swapped-files", "cut short or written over")(
    lambda p: p.after.update({PROMPT: lambda d: p.expected.bytes(), EXPECTED: lambda d: p.prompt.bytes()}))

# --- files that are not there, or not files ---------------------------------------------------------------------------

for _name in (MANIFEST, SUMS[MANIFEST], PROMPT, EXPECTED, PROVENANCE, SUMS[PROVENANCE]):
    _stem = _name.replace(".", "-")
    bad(f"missing-{_stem}", f"{_name}: cannot open: No such file")(lambda p, n=_name: p.after.update({n: None}))
    bad(f"link-{_stem}", f"{_name}: is a symbolic link")(lambda p, n=_name: p.links.update({n: f"../good/{n}"}))
bad("link-dangling", "is a symbolic link")(lambda p: p.links.update({PROMPT: "nowhere"}))
bad("empty-manifest", "manifest.json: is empty")(lambda p: p.before.update({MANIFEST: lambda d: b""}))
bad("empty-prompt", "prompt.safetensors: is empty")(lambda p: p.after.update({PROMPT: lambda d: b""}))
bad("empty-sum", "manifest.sha256: is empty")(lambda p: p.after.update({SUMS[MANIFEST]: lambda d: b""}))

# --- the two lines for sha256sum --------------------------------------------------------------------------------------

bad("sum-upper-case", "manifest.sha256: is not one line")(
    lambda p: p.after.update({SUMS[MANIFEST]: lambda d: d[:64].upper() + d[64:]}))
bad("sum-crlf", "manifest.sha256: is not one line")(
    lambda p: p.after.update({SUMS[MANIFEST]: lambda d: d[:-1] + b"\r\n"}))
bad("sum-no-newline", "manifest.sha256: is not one line")(
    lambda p: p.after.update({SUMS[MANIFEST]: lambda d: d[:-1]}))
bad("sum-two-lines", "manifest.sha256: 160 bytes are over")(lambda p: p.after.update({SUMS[MANIFEST]: lambda d: d + d}))
bad("sum-of-a-path", "manifest.sha256: is not one line")(
    lambda p: p.after.update({SUMS[MANIFEST]: replaced(b"manifest", b"../manifest")}))
bad("sum-binary-mark", "provenance.sha256: is not one line")(
    lambda p: p.after.update({SUMS[PROVENANCE]: replaced(b"  p", b" *p")}))
bad("sum-missing-provenance", "provenance.sha256: is not one line")(
    lambda p: p.after.update({SUMS[PROVENANCE]: lambda d: b"\n"}))

# --- JSON ---------------------------------------------------------------------------------------------------------------


def manifest_text(name, text, edit, who="open"):
    bad(name, text, who)(lambda p: p.before.update({MANIFEST: edit}))


manifest_text("json-trailing-text", "expected the end of the text after the value", lambda d: d + b"{}")
manifest_text("json-bom", "byte order mark", lambda d: b"\xef\xbb\xbf" + d)
manifest_text("json-utf8", "is not UTF-8", replaced(b'"licence": "', b'"licence": "\xff'))
manifest_text("json-nul", "found byte 0x00", lambda d: d[:-1] + b"\0")
manifest_text("json-comma", "expected a key in double quotes", replaced(b'"case_count"', b',"case_count"'))
manifest_text("json-nan", "JSON has no NaN", replaced(b'"case_count": 3', b'"case_count": NaN'))


@bad("json-deep", "nested deeper than 32")
def _(p):
    deep = []
    for _ in range(31):
        deep = [deep]
    p.bits["case"]["deep"] = deep  # level 36 of the manifest, 34 of the card
    p.card(p.bits)


manifest_text("json-array", "expected a manifest", lambda d: b"[" + d.strip() + b"]")
manifest_text("duplicate-key", "duplicate key 'name'", replaced(b'"name": ', b'"name": "other", "name": '))
manifest_text("duplicate-key-escaped", "duplicate key 'name'", replaced(b'"name": ', b'"n\\u0061me": "other", "name": '))
manifest_text("duplicate-key-case", "duplicate key 'layer'", replaced(b'"layer": ', b'"layer": 1, "layer": '))
manifest_text("duplicate-key-tensor", "duplicate key 'bytes'", replaced(b'"bytes": ', b'"bytes": 1, "bytes": '))
bad("provenance-not-json", "expected a value")(lambda p: p.before.update({PROVENANCE: lambda d: b"made by hand\n"}))
bad("provenance-array", "expected an object")(lambda p: p.before.update({PROVENANCE: lambda d: b"[]\n"}))
bad("provenance-duplicate-key", "duplicate key 'kvgold'")(
    lambda p: p.before.update({PROVENANCE: lambda d: b'{"kvgold": "0.1.0", "kvgold": "0.1.0"}\n'}))


# --- keys, types, ranges of the manifest --------------------------------------------------------------------------------


def manifest(name, text, who="open"):
    """A function of the manifest alone."""
    def add(edit):
        bad(name, text, who)(lambda p: edit(p.manifest, p))
        return edit
    return add


def put(name, text, path, value, who="open"):
    """One value of the manifest, or of the case that `path` begins with."""
    def edit(p):
        at = p.manifest
        steps = list(path)
        if steps[0] in ("bits", "bound", "recipe"):
            at = getattr(p, steps.pop(0))
        for step in steps[:-1]:
            at = at[step]
        at[steps[-1]] = value(at[steps[-1]]) if callable(value) else value
    bad(name, text, who)(edit)




def everywhere(name, text, key, value):
    """One of the two values that the manifest and both files have."""
    @bad(name, text)
    def _(p):
        p.manifest[key] = p.prompt.metadata[key] = p.expected.metadata[key] = value


everywhere("version-minor", "is not 1.0.x", "kvgold_pack", "1.2.0")
everywhere("version-major", "is not 1.0.x", "kvgold_pack", "2.0.0")
everywhere("version-short", "is not 1.0.x", "kvgold_pack", "1.0")
everywhere("version-text", "is not 1.0.x", "kvgold_pack", "1.0.x")
put("version-text-layout", "a pack of version 1.0 has no layout of a text", ["cases", 0, "case", "layout"],
    {"name": "mine", "text": "[L B N H]{ K.codes V.codes }"})
put("version-number", "$.kvgold_pack: expected a string", ["kvgold_pack"], 1)
put("pack-version", "is not MAJOR.MINOR.PATCH", ["version"], "1")
everywhere("name-path", "is not 1 to 64 of", "name", "../good")
everywhere("name-upper-case", "is not 1 to 64 of", "name", "Good")
everywhere("name-long", "is not 1 to 64 of", "name", "g" * 65)
everywhere("name-empty", "is not 1 to 64 of", "name", "")
put("seed-number", "$.seed: expected a string of", ["seed"], 7)
put("seed-long", "$.seed: expected a string of", ["seed"], "0x" + "1" * 17)
put("licence-list", "$.licence", ["licence"], [])
put("superseded-by-path", "$.superseded_by", ["superseded_by"], "../other")
bad("unknown-key", "unknown key 'comment'")(lambda p: p.manifest.update(comment="x"))
bad("unknown-key-case", "unknown key 'note'")(lambda p: p.bits.update(note="x"))
bad("unknown-key-tensor", "unknown key 'offset'")(lambda p: p.bits["prompt"][0].update(offset=0))
bad("unknown-key-answer", "unknown key 'tolerance'")(lambda p: p.bound["answer"][0].update(tolerance=0.01))
bad("erratum-no-text", "empty")(
    lambda p: p.manifest["errata"].append({"id": "E", "date": "2026-11-21", "text": "", "cases": ["0000"]}))
bad("unknown-key-erratum", "unknown key 'by'")(
    lambda p: p.manifest["errata"].append({"id": "E", "date": "2026-11-21", "text": "t", "cases": ["0000"], "by": "x"}))
bad("missing-key", "missing key 'licence'")(lambda p: p.manifest.pop("licence"))
bad("missing-key-case", "missing key 'layer'")(lambda p: p.bits.pop("layer"))
bad("missing-key-tensor", "missing key 'sha256'")(lambda p: p.bits["prompt"][0].pop("sha256"))
bad("missing-key-bound", "missing key 'bound'")(lambda p: p.bound["answer"][0].pop("bound"))
put("layer-negative", "layer: expected an integer", ["bits", "layer"], -1)
bad("layer-huge", "layer: expected an integer")(lambda p: (p.bits.update(layer=2**32), p.card(p.bits)))
put("layer-fraction", "layer: expected an integer", ["bits", "layer"], 0.5)
put("stored-number", "stored: expected true or false", ["bits", "stored"], 1)
put("case-text", "expected a case group", ["bits", "case"], "quantise")

# --- files ------------------------------------------------------------------------------------------------------------

bad("path-relative", "is a path")(lambda p: p.manifest["files"].update({"../prompt.safetensors": {
    "bytes": 1, "sha256": "0" * 64}}))
bad("path-absolute", "is a path")(lambda p: p.manifest["files"].update({"/etc/passwd": {"bytes": 1, "sha256": "0" * 64}}))
bad("files-another", "unknown key 'more.safetensors'")(
    lambda p: p.manifest["files"].update({"more.safetensors": {"bytes": 1, "sha256": "0" * 64}}))
bad("files-one", "missing key 'expected.safetensors'")(lambda p: p.manifest["files"].pop(EXPECTED))


@bad("wrong-hash", "prompt.safetensors: its SHA-256 is not what the manifest says")
def _(p):
    p.before["files"] = True
    p.manifest["files"][PROMPT]["sha256"] = "0" * 64
    p.manifest["files"][PROMPT]["bytes"] = len(p.prompt.bytes())
    p.manifest["files"][EXPECTED] = {"bytes": len(p.expected.bytes()), "sha256": sha256(p.expected.bytes())}


@bad("wrong-size", "prompt.safetensors: has ")
def _(p):
    p.before["files"] = True
    for name, t in ((PROMPT, p.prompt), (EXPECTED, p.expected)):
        p.manifest["files"][name] = {"bytes": len(t.bytes()) + (name == PROMPT), "sha256": sha256(t.bytes())}


@bad("wrong-hash-upper-case", "is not 64 lower-case hex digits")
def _(p):
    p.before["files"] = True
    for name, t in ((PROMPT, p.prompt), (EXPECTED, p.expected)):
        p.manifest["files"][name] = {"bytes": len(t.bytes()), "sha256": sha256(t.bytes()).upper()}


@bad("files-huge", "bytes: expected an integer")
def _(p):
    p.before["files"] = True
    p.manifest["files"][PROMPT]["bytes"] = 2**36 + 1


# --- cases --------------------------------------------------------------------------------------------------------------

put("case-count-more", "is 4, but there are 3 cases", ["case_count"], 4)
put("case-count-0", "$.case_count", ["case_count"], 0)
bad("key-order", "has the key '0001', not '0000'")(
    lambda p: p.manifest["cases"].__setitem__(slice(0, 2), p.manifest["cases"][1::-1]))


@bad("key-gap", "has the key '0003', not '0002'")
def _(p):
    p.prompt.metadata.pop("case.0002")
    p.recipe["key"] = "0003"
    for t in p.recipe["prompt"] + p.recipe["answer"] + p.recipe["expected"]:
        t["name"] = "0003" + t["name"][4:]
    p.card(p.recipe)


put("key-long", "has the key '00002'", ["recipe", "key"], "00002")
bad("id-twice", "have the same id")(lambda p: (p.recipe.update(id=p.bits["id"]), p.card(p.recipe)))
put("flag-without-note", "has no note", ["bits", "flags"], ["unheard_of"])
bad("flags-order", "is out of order, or comes twice")(
    lambda p: (p.manifest["notes"].update(a="x", b="x"), p.bits.update(flags=["b", "a"])))
bad("flag-twice", "is out of order, or comes twice")(lambda p: (p.manifest["notes"].update(a="x"), p.bits.update(flags=["a", "a"])))
bad("erratum-of-no-case", "no case has the key '0009'")(
    lambda p: p.manifest["errata"].append({"id": "E", "date": "2026-11-21", "text": "t", "cases": ["0009"]}))
bad("erratum-date", "is not YYYY-MM-DD")(
    lambda p: p.manifest["errata"].append({"id": "E", "date": "yesterday", "text": "t", "cases": ["0000"]}))
bad("erratum-empty", "names no case")(
    lambda p: p.manifest["errata"].append({"id": "E", "date": "2026-11-21", "text": "t", "cases": []}))
put("profiles-missing", "lacks '", ["profiles"], [])
put("profiles-more", "which no answer does", ["profiles"], lambda list: list + ["zz.v1"])

# --- tensors of the manifest ----------------------------------------------------------------------------------------------



@bad("tensor-dtype-unknown", "I8")
def _(p):
    t = find(p.expected, p.bits["expected"][0]["name"])
    t[1] = p.bits["answer"][0]["dtype"] = "I8"
    p.entry(t)
    p.card(p.bits)


put("tensor-dtype-other", "has another dtype or shape than in the manifest", ["bits", "prompt", 0, "dtype"], "F16")
put("tensor-shape-other", "has another dtype or shape than in the manifest", ["bits", "prompt", 0, "shape"], lambda s: [1] + s)
put("tensor-shape-zero", "expected an integer from 1", ["recipe", "prompt", 0, "shape"], lambda s: s + [0])
put("tensor-rank-5", "shape", ["recipe", "prompt", 0, "shape"], lambda s: ([1] * 5 + s)[-5:])
bad("tensor-shape-overflow", "shape: takes more than")(  # 2^64 is 0
    lambda p: p.recipe["prompt"][0].update(dtype="U8", shape=[2**32, 2**32], bytes=0))
put("tensor-bytes-other", "dtype and shape take", ["recipe", "prompt", 0, "bytes"], lambda n: n + 1)
put("tensor-hash-other", "the SHA-256 of tensor", ["bits", "prompt", 0, "sha256"], "0" * 64)
put("tensor-hash-short", "is not 64 lower-case hex digits", ["recipe", "prompt", 0, "sha256"], "0" * 63)
put("tensor-hash-upper-case", "is not 64 lower-case hex digits", ["recipe", "prompt", 0, "sha256"], "A" * 64)
put("tensor-of-another-case", "is no tensor of case 0002", ["recipe", "prompt", 0, "name"], lambda n: "0000" + n[4:])
put("tensor-name-path", "a-z 0-9 _ .", ["recipe", "prompt", 0, "name"], lambda n: n[:5] + "../k")
put("tensor-name-upper-case", "a-z 0-9 _ .", ["recipe", "prompt", 0, "name"], lambda n: n.upper())
put("tensor-name-empty", "is no tensor of case 0002", ["recipe", "prompt", 0, "name"], lambda n: n[:5])
bad("tensor-twice", "comes twice")(lambda p: p.recipe["prompt"].append(copy.deepcopy(p.recipe["prompt"][0])))
bad("tensor-order", "stands where the manifest has tensor")(lambda p: p.bits["prompt"].reverse())


@bad("tensor-names-swapped", "stands where the manifest has tensor")
def _(p):
    names = [e["name"] for e in p.bits["prompt"][:2]]
    first, second = find(p.prompt, names[0]), find(p.prompt, names[1])
    first[0], second[0] = names[1], names[0]


bad("tensor-missing", "stands where the manifest has tensor")(lambda p: p.prompt.list.pop())
bad("tensor-more", "is not in the manifest")(
    lambda p: p.prompt.list.append(["0000.more", "U8", [4], b"more"]))
bad("tensor-33", "33 elements are over the limit of 32")(lambda p: p.recipe["prompt"].extend(
    dict(copy.deepcopy(p.recipe["prompt"][0]), name=f"{p.recipe['key']}.x{i}") for i in range(33 - len(p.recipe["prompt"]))))
put("packing-unknown", "unknown packing 'high_first'", ["bits", "expected", 0, "packing"], {"k": "high_first"})
put("packing-empty", "says nothing", ["bits", "expected", 0, "packing"], {})


@bad("recipe-in-file", "prompt.safetensors")
def _(p):
    tensor = [p.recipe["prompt"][0]["name"], "U8", [4], b"data"]
    p.prompt.list.append(tensor)
    p.entry(tensor)


# --- answers ----------------------------------------------------------------------------------------------------------

put("answer-compare", "unknown compare", ["bits", "answer", 0, "compare"], "close")
put("answer-of-nothing", "is not among the expected tensors", ["bits", "answer", 0, "name"], lambda n: n[:5] + "nothing")
bad("answer-dtype", "has another dtype or shape than it must have here")(
    lambda p: (p.bits["answer"][0].update(dtype="I64"), p.card(p.bits)))
bad("answer-shape", "has another dtype or shape than it must have here")(
    lambda p: (p.bits["answer"][0].update(shape=[1] + p.bits["answer"][0]["shape"]), p.card(p.bits)))
bad("answer-bound-of-expected", "with .exact and .bound")(
    lambda p: p.bound["answer"][0].update(exact=p.bound["answer"][0]["bound"]))
bad("answer-none", "judges nothing")(lambda p: (p.bits.update(answer=[]), p.card(p.bits)))
put("answer-bound-of-another", "with .exact and .bound", ["bound", "answer", 0, "bound"], lambda n: n.replace("out", "lse"))
put("answer-bound-missing", "with .exact and .bound", ["bound", "answer", 0, "bound"], lambda n: n + "s")
bad("answer-twice", "comes twice")(lambda p: (p.bits["answer"].append(p.bits["answer"][0]), p.card(p.bits)))


def bound_extent(name, which, edit):
    @bad(name, "has another dtype or shape than it must have here")
    def _(p):
        t = find(p.expected, p.bound["answer"][0][which])
        edit(t)
        p.entry(t)


bound_extent("answer-exact-f32", "exact", lambda t: t.__setitem__(slice(1, 3), ["F32", t[2][:-1] + [2 * t[2][-1]]]))
bound_extent("answer-bound-shape", "bound", lambda t: t.__setitem__(2, [1] + t[2]))
bound_extent("answer-bound-short", "bound", lambda t: t.__setitem__(slice(2, 4), [[1], t[3][:8]]))
bad("answer-bits-with-bound", "it has neither exact nor bound")(
    lambda p: p.bits["answer"][0].update(exact=p.bits["expected"][0]["name"], bound=p.bits["expected"][0]["name"]))


def bound_number(name, which, value):
    @bad(name, "expected.safetensors")
    def _(p):
        set_f64(p, find(p.expected, p.bound["answer"][0][which]), 0, value)


bound_number("bound-nan", "bound", float("nan"))
bound_number("bound-negative", "bound", -1.0)
bound_number("bound-minus-infinity", "bound", float("-inf"))
bound_number("exact-nan", "exact", float("nan"))

# --- the two safetensors files ------------------------------------------------------------------------------------------


def header(name, text, edit, file="prompt"):
    bad(name, text)(lambda p: setattr(getattr(p, file), "edit_header", edit))


def last(header):
    return list(header)[-1]


bad("unaligned", "no multiple of 256")(lambda p: setattr(p.prompt, "pad", False))
bad("unaligned-header", "no multiple of 256")(lambda p: p.before.update({PROMPT: lambda d: struct.pack(
    "<Q", struct.unpack_from("<Q", d)[0] + 8) + d[8:8 + struct.unpack_from("<Q", d)[0]] + b" " * 8 +
    d[8 + struct.unpack_from("<Q", d)[0]:]}))
bad("data-after", "belong to no tensor")(lambda p: setattr(p.prompt, "tail", b"\0"))
bad("header-cut", "cut short or not safetensors")(lambda p: p.before.update({PROMPT: lambda d: d[:200]}))
bad("header-long", "header of 18446744073709551615 bytes")(lambda p: p.before.update({PROMPT: lambda d: b"\xff" * 8 + d[8:]}))
bad("header-json", "expected ':'")(lambda p: setattr(p.prompt, "edit_text", replaced(b'"dtype":', b'"dtype"')))
bad("header-duplicate-name", "duplicate key")(
    lambda p: setattr(p.prompt, "edit_text", lambda d: d[:-1] + d[d.rindex(b',"0'):]))
header("offset-past", "is past the", lambda h: h[last(h)]["data_offsets"].__setitem__(1, 2**20))
header("offset-back", "is after end", lambda h: h[last(h)]["data_offsets"].reverse())
header("size-of-shape", "dtype and shape take", lambda h: h[last(h)]["shape"].append(2))
header("header-dtype", "unknown dtype 'F8'", lambda h: h[last(h)].update(dtype="F8"))
header("header-unknown-key", "unknown key", lambda h: h[last(h)].update(strides=[1]))


@bad("overlap", "overlap")
def _(p):
    first, second = (find(p.prompt, e["name"]) for e in p.bits["prompt"][:2])
    second[1:] = first[1:]  # the same bytes: no hash tells
    p.entry(second)

    def edit(h):
        h[second[0]]["data_offsets"] = list(h[first[0]]["data_offsets"])
    p.prompt.edit_header = edit


@bad("hole", "hole before tensor")
def _(p):
    p.prompt.edit_header = lambda h: h.pop([n for n in h if n.startswith("_pad.")][-1])


@bad("size-of-both", "dtype and shape take")
def _(p):
    t = find(p.prompt, p.bits["prompt"][0]["name"])
    entry = p.bits["prompt"][0]
    entry["shape"] = [2] + entry["shape"]
    entry["bytes"] *= 2
    entry["sha256"] = sha256(t[3].ljust(2 * len(t[3]), b"\0"))  # what follows is padding
    p.prompt.edit_header = lambda h: h[t[0]].update(shape=entry["shape"])


@bad("data-cut", "is past the")
def _(p):
    p.before[PROMPT] = lambda d: d[:-1]


@bad("pad-not-0", "is not 0")
def _(p):
    def edit(data):
        length, = struct.unpack_from("<Q", data)
        at = 8 + length + json.loads(data[8:8 + length])["_pad.0"]["data_offsets"][0]
        return data[:at] + b"x" + data[at + 1:]
    p.before[PROMPT] = edit


header("pad-dtype", "is not the padding", lambda h: h["_pad.0"].update(dtype="BOOL"))
header("pad-rank", "is not the padding", lambda h: h["_pad.0"].update(shape=[1] + h["_pad.0"]["shape"]))
bad("pad-number", "is not the padding")(
    lambda p: setattr(p.prompt, "edit_text", replaced(b'"_pad.0"', b'"_pad.7"')))
bad("pad-name", "is not the padding")(
    lambda p: setattr(p.prompt, "edit_text", replaced(b'"_pad.0"', b'"_hidden"')))


@bad("pad-last", "no tensor follows padding")
def _(p):
    def edit(h):
        end = h[last(h)]["data_offsets"][1]
        pads = sum(n.startswith("_pad.") for n in h)
        h[f"_pad.{pads}"] = {"dtype": "U8", "shape": [-end % 256], "data_offsets": [end, end + -end % 256]}
    p.prompt.edit_header = edit
    p.prompt.tail = bytes(-len(p.prompt.list[-1][3]) % 256)


@bad("pad-needless", "is not the padding")
def _(p):
    def edit(h):
        names = [n for n in h if n != "__metadata__"]
        pads = {n: h[n] for n in names if n.startswith("_pad.")}
        for n in names:
            h[n]["data_offsets"] = [x + 256 for x in h[n]["data_offsets"]]
        rest = {n: h.pop(n) for n in names}
        h["_pad.0"] = {"dtype": "U8", "shape": [256], "data_offsets": [0, 256]}
        for n, t in rest.items():
            h[f"_pad.{int(n[5:]) + 1}" if n in pads else n] = t
    p.prompt.edit_header = edit
    p.before[PROMPT] = lambda d: d[:8 + struct.unpack_from("<Q", d)[0]] + bytes(256) + d[8 + struct.unpack_from("<Q", d)[0]:]


# --- __metadata__ -------------------------------------------------------------------------------------------------------

bad("metadata-version", "__metadata__ has")(lambda p: p.prompt.metadata.update(kvgold_pack="1.0.1"))
bad("metadata-name", "__metadata__ has")(lambda p: p.expected.metadata.update(name="another"))
bad("metadata-none", "__metadata__ has")(
    lambda p: setattr(p.expected, "edit_header", lambda h: h.pop("__metadata__")))
bad("metadata-number", "__metadata__.name: expected a string")(lambda p: p.expected.metadata.update(name=1))
bad("metadata-more", "prompt.safetensors")(lambda p: p.prompt.metadata.update(path="/home/somebody"))
bad("metadata-answer", "expected.safetensors")(lambda p: p.expected.metadata.update({"case.0000": "{}"}))
bad("card-missing", "__metadata__ lacks")(lambda p: p.prompt.metadata.pop(f"case.{p.recipe['key']}"))
bad("card-not-json", "case.0000: line 1, column 2")(lambda p: p.prompt.metadata.update({"case.0000": "{"}))


def card(name, edit):
    @bad(name, "prompt.safetensors")
    def _(p):
        key = f"case.{p.bits['key']}"
        value = json.loads(p.prompt.metadata[key])
        edit(value)
        p.prompt.metadata[key] = json.dumps(value)


card("card-id", lambda c: c.update(id=c["id"] + "x"))
card("card-layer", lambda c: c.update(layer=c["layer"] + 1))
card("card-answer", lambda c: c["answer"].pop())
card("card-answer-name", lambda c: c["answer"][0].update(name=c["answer"][1]["name"]))
card("card-answer-shape", lambda c: c["answer"][0].update(shape=[1] + c["answer"][0]["shape"]))
card("card-answer-dtype", lambda c: c["answer"][0].update(dtype="I64"))
card("card-case", lambda c: c["case"].update(tokens=2))
card("card-unknown-key", lambda c: c.update(expected=[]))

# --- hashes hold together; what was computed does not ------------------------------------------------------------------


def computed(name, text):
    return bad(name, text, "verify")


def flip_first(p, file, name):
    t = find(file, name)
    t[3] = flip(0)(t[3])
    p.entry(t)


computed("wrong-prompt", "0000.k differs when computed")(
    lambda p: flip_first(p, p.prompt, p.bits["prompt"][0]["name"]))
computed("wrong-expected", "0000.k_codes differs when computed")(
    lambda p: flip_first(p, p.expected, p.bits["expected"][0]["name"]))
computed("wrong-exact", "0001.out.exact differs when computed")(
    lambda p: flip_first(p, p.expected, p.bound["answer"][0]["exact"]))


@computed("wrong-bound", "0001.out.bound differs when computed")
def _(p):
    t = find(p.expected, p.bound["answer"][0]["bound"])
    set_f64(p, t, 0, 2 * struct.unpack_from("<d", t[3])[0])


@computed("wrong-case-id", "its config line gives")
def _(p):
    p.bits["id"] += "x"
    p.card(p.bits)


computed("wrong-seed", "0000.k differs when computed")(lambda p: p.manifest.update(seed="0x1"))
computed("wrong-recipe", "another SHA-256 when computed")(lambda p: p.recipe["expected"][0].update(sha256="0" * 64))
computed("wrong-config-key", "unknown key 'colour'")(lambda p: (p.bits["case"].update(colour="red"), p.card(p.bits)))
computed("wrong-config-value", "unknown fill 'easy'")(lambda p: (p.bits["case"].update(fill="easy"), p.card(p.bits)))
computed("wrong-layer", "layer 1 is none of its 1")(lambda p: (p.bound.update(layer=p.bound["layer"] + 1), p.card(p.bound)))
computed("wrong-packing", "manifest.json")(lambda p: p.bits["expected"][0].update(packing={"k": "halves"}))
computed("wrong-compare", "manifest.json")(lambda p: p.bits["answer"][0].update(compare="rule"))
computed("wrong-white-space", "manifest.json")(lambda p: p.before.update({MANIFEST: lambda d: d + b"\n"}))


def expect():
    lines = {name: f"{name}\t{who}\t{text}\n" for name, (who, text, _) in REASONS.items()}
    lines["link-folder"] = "link-folder\topen\tis a symbolic link\n"
    return "".join(lines[name] for name in sorted(lines)).encode()


def files():
    """Path to bytes, or to the str that a link holds; the list and the good pack included."""
    good = {path.name: path.read_bytes() for path in (HERE / "good").iterdir()}
    unspoilt = Pack(HERE / "good").files()  # what is bad must be bad for its own reason
    for name, data in unspoilt.items():
        if good[name] != data:
            raise SystemExit(f"make_bad_packs.py does not write good/{name} as it is")
    made = {"link-folder": "good", "expect_packs.txt": expect()} | {f"good/{name}": data for name, data in good.items()}
    for name, (_, _, spoil) in REASONS.items():
        p = Pack(HERE / "good")
        spoil(p)
        made |= {f"{name}/{file}": content for file, content in (p.files() | p.links).items()}
    return made
