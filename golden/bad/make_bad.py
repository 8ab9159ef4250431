"""Bad files, one per reason to refuse a file, and expect.txt: FILE<TAB>what the error text must contain. The same bytes
every time. tests/made/make_files.py writes them into a build folder."""

import json
import struct

JSON = {
    "array-no-comma": (b"[1 2]", "line 1, column 4: expected ',' or ']', found '2'"),
    "array-open": (b"[1,", "line 1, column 4: expected a value, found the end of the text"),
    "array-trailing-comma": (b'{"cases": [1, 2,]}', "column 17: expected a value, found ']' (no comma after the last"),
    "bom": (b'\xef\xbb\xbf{}', "byte order mark"),
    "bracket-mismatch": (b'{"a": [1}', "expected ',' or ']', found '}'"),
    "comment": (b'{\n  // seed\n  "seed": 1\n}', "line 2, column 3: expected a key in double quotes, found '/' (JSON"),
    "control-byte": (b'{"a": "x\ny"}', "control byte 0x0a in a string"),
    "depth-33": (b"[" * 33 + b"]" * 33, "column 33: nested deeper than 32"),
    "duplicate-key": (b'{"seed": "0x1", "seed": "0x2"}', "$: duplicate key 'seed'"),
    "duplicate-key-escaped": (b'{"seed": 1, "s\\u0065ed": 2}', "$: duplicate key 'seed'"),
    "duplicate-key-inner": (b'{"cases": [{}, {"a": 1, "b": 2, "a": 1}]}', "$.cases[1]: duplicate key 'a'"),
    "empty": (b"", "is empty"),
    "escape-hex": (b'["\\u00g0"]', "\\u takes four hex digits"),
    "escape-nul": (b'["a\\u0000b"]', "\\u0000 cannot be part of a string"),
    "escape-unknown": (b'["\\x41"]', "column 3: unknown escape"),
    "infinity": (b"[-Infinity]", "column 3: expected a digit, found 'I' (JSON has no NaN or Infinity)"),
    "key-single-quotes": (b"{'a': 1}", "expected a key in double quotes, found ''' (strings take double quotes)"),
    "key-unquoted": (b"{seed: 1}", "expected a key in double quotes, found 's'"),
    "nan": (b'{"x": NaN}', "column 7: expected a value, found 'N' (JSON has no NaN or Infinity)"),
    "nul-after": (b"{}\0", "column 3: expected the end of the text after the value, found byte 0x00"),
    "nul-in-string": (b'{"a": "x\0y"}', "byte 0x00 in a string: the file is not text"),
    "number-dot-begins": (b"[.5]", "expected a value, found '.' (a number begins with a digit)"),
    "number-dot-ends": (b"[1.]", "expected a digit, found ']'"),
    "number-exponent": (b"[1e]", "expected a digit, found ']'"),
    "number-hex": (b"[0x10]", "expected ',' or ']', found 'x' (write hex numbers as strings)"),
    "number-leading-zero": (b"[01]", "leading 0"),
    "number-long": (b"[0." + b"1" * 62 + b"]", "longer than 63 characters"),
    "number-minus": (b"[-]", "expected a digit, found ']'"),
    "number-overflow": (b'{"a": [1e400]}', "$.a[0]: 1e400 is too large for a double"),
    "number-plus": (b"[+1]", "expected a value, found '+' (numbers take no '+')"),
    "number-underflow": (b"[1e-400]", "$[0]: 1e-400 is too small for a double"),
    "object-no-colon": (b'{"a" 1}', "expected ':', found '1'"),
    "object-no-value": (b'{"a":}', "expected a value, found '}'"),
    "object-trailing-comma": (b'{"a": 1,}', "expected a key in double quotes, found '}' (no comma after"),
    "space-only": (b" \n\t ", "line 2, column 3: expected a value, found the end of the text"),
    "string-open": (b'{"a": "b}', "column 7: a string has no end"),
    "surrogate-first": (b'["\\ud83d"]', "\\ud83d is half a surrogate pair"),
    "surrogate-pair": (b'["\\ud83d\\u0041"]', "\\ud83d is half a surrogate pair"),
    "surrogate-second": (b'["\\ude00"]', "\\ude00 is half a surrogate pair"),
    "surrogate-two-seconds": (b'["\\ude00\\ude00"]', "\\ude00 is half a surrogate pair"),
    "two-values": (b"{} {}", "column 4: expected the end of the text after the value, found '{'"),
    "utf8-bare-continuation": (b'["\x80"]', "byte 0x80 is not UTF-8"),
    "utf8-cut": (b'["\xe2\x82"]', "byte 0xe2 is not UTF-8"),
    "utf8-column": ("[\"\u00e9\u20ac\U0001f600\" x]".encode(), "column 8: expected ',' or ']', found 'x'"),
    "utf8-lead-f5": (b'["\xf5\x80\x80\x80"]', "byte 0xf5 is not UTF-8"),
    "utf8-lead-ff": (b'["\xff\x80\x80\x80"]', "byte 0xff is not UTF-8"),
    "utf8-latin1": (b'["caf\xe9"]', "column 6: byte 0xe9 is not UTF-8"),
    "utf8-overlong": (b'["\xc0\xaf"]', "byte 0xc0 is not UTF-8"),
    "utf8-overlong-3": (b'["\xe0\x80\xaf"]', "byte 0xe0 is not UTF-8"),
    "utf8-overlong-4": (b'["\xf0\x80\x80\xaf"]', "byte 0xf0 is not UTF-8"),
    "utf8-surrogate": (b'["\xed\xa0\x80"]', "byte 0xed is not UTF-8"),
    "utf8-too-high": (b'["\xf4\x90\x80\x80"]', "byte 0xf4 is not UTF-8"),
    "word-case": (b"[True]", "expected a value, found 'T'"),
    "word-cut": (b"[tru]", "expected a value, found 't'"),
    "word-long": (b"[truer]", "expected ',' or ']', found 'r'"),
}


def st(header, data=b"", length=None):
    """A safetensors file; the header is an object or bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(begin, end, dtype="U8", shape=None):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def without(key):
    return {k: v for k, v in tensor(0, 4).items() if k != key}


def changed(**values):
    return st({"a": {**tensor(0, 4), **values}}, bytes(4))


BIG = 2**53
SAFETENSORS = {
    "begin-after-end": (changed(data_offsets=[4, 0]), "$.a.data_offsets: begin 4 is after end 0"),
    "bytes-few": (changed(dtype="F32", shape=[2]), "$.a: dtype and shape take 8 bytes, the offsets hold 4"),
    "bytes-many": (changed(shape=[3]), "$.a: dtype and shape take 3 bytes, the offsets hold 4"),
    "bytes-scalar": (changed(shape=[]), "$.a: dtype and shape take 1 bytes, the offsets hold 4"),
    "data-after": (st({"a": tensor(0, 4)}, bytes(5)), "1 bytes after the last tensor belong to no tensor"),
    "data-cut": (st({"a": tensor(0, 4)}, bytes(3)), "$.a.data_offsets: end 4 is past the 3 bytes of data"),
    "data-no-tensor": (st({}, bytes(1)), "1 bytes after the last tensor belong to no tensor"),
    "dtype-case": (changed(dtype="u8"), "$.a.dtype: unknown dtype 'u8' (did you mean 'U8'?)"),
    "dtype-number": (changed(dtype=1), "$.a.dtype: expected a string, got a number"),
    "dtype-unknown": (changed(dtype="COMPLEX"), "unknown dtype 'COMPLEX'; known: BOOL, U8"),
    "duplicate-metadata": (st(b'{"__metadata__":{"k":"1","k":"2"}}'), "$.__metadata__: duplicate key 'k'"),
    "duplicate-name": (st(b'{"a":%s,"a":%s}' % ((json.dumps(tensor(0, 0)).encode(),) * 2)), "$: duplicate key 'a'"),
    "empty": (b"", "is empty"),
    "header-array": (st(b"[]"), "the header is not '{...}'"),
    "header-depth": (st(b'{"a":' + b"[" * 32 + b"]" * 32 + b"}"), "header: line 1, column 37: nested deeper than 32"),
    "header-json": (st(b'{"a":}'), "header: line 1, column 6: expected a value, found '}'"),
    "header-leading-space": (st(b" {}"), "the header is not '{...}'"),
    "header-long": (st({}, length=3), "header of 3 bytes, but only 2 follow"),
    "header-long-max": (st({}, length=2**64 - 1), "header of 18446744073709551615 bytes, but only 2 follow"),
    "header-nul-padding": (st(b"{}\0\0"), "the header is not '{...}'"),
    "header-short": (st({"a": tensor(0, 0)}, length=9), "the header is not '{...}'"),
    "header-spaces": (st(b"   "), "the header is not '{...}'"),
    "header-tab-padding": (st(b"{}\t"), "the header is not '{...}'"),
    "header-utf8": (st(b'{"\xff":1}'), "byte 0xff is not UTF-8"),
    "header-zero": (st(b""), "the header is not '{...}'"),
    "hole-first": (st({"a": tensor(1, 4)}, bytes(4)), "hole before tensor 'a': data bytes 0 to 0 belong to no tensor"),
    "hole-middle": (st({"a": tensor(0, 2), "b": tensor(3, 4)}, bytes(4)), "hole before tensor 'b': data bytes 2 to 2"),
    "key-case": (st({"a": {**without("shape"), "Shape": [4]}}, bytes(4)), "unknown key 'Shape' (did you mean 'shape'"),
    "key-unknown": (changed(strides=[1]), "$.a: unknown key 'strides'; known: dtype, shape, data_offsets"),
    "length-cut": (bytes(7), "7 bytes cannot hold the header's length"),
    "metadata-array": (st({"__metadata__": []}), "$.__metadata__: expected an object of strings"),
    "metadata-number": (st({"__metadata__": {"k": 1}}), "$.__metadata__.k: expected a string, got a number"),
    "missing-dtype": (st({"a": without("dtype")}, bytes(4)), "$.a: missing key 'dtype'"),
    "missing-offsets": (st({"a": without("data_offsets")}, bytes(4)), "$.a: missing key 'data_offsets'"),
    "missing-shape": (st({"a": without("shape")}, bytes(4)), "$.a: missing key 'shape'"),
    "offset-fraction": (changed(data_offsets=[0, 4.0]), "$.a.data_offsets[1]: expected an integer"),
    "offset-huge": (st(b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,4]}}', bytes(4)),
                    "$.a.data_offsets[0]: expected an integer"),
    "offset-negative": (changed(data_offsets=[-4, 0]), "$.a.data_offsets[0]: expected an integer"),
    "offset-past": (changed(data_offsets=[0, 5], shape=[5]), "$.a.data_offsets: end 5 is past the 4 bytes of data"),
    "offsets-object": (changed(data_offsets={"a": 0, "b": 4}), "$.a.data_offsets: expected an array of two offsets"),
    "offsets-one": (changed(data_offsets=[4]), "$.a.data_offsets: expected an array of two offsets"),
    "offsets-three": (changed(data_offsets=[0, 4, 4]), "$.a.data_offsets: expected an array of two offsets"),
    "overlap": (st({"a": tensor(0, 3), "b": tensor(2, 4)}, bytes(4)), "tensors 'a' and 'b' overlap: data byte 2"),
    "overlap-empty": (st({"a": tensor(0, 4), "b": tensor(2, 2)}, bytes(4)), "tensors 'a' and 'b' overlap"),
    "overlap-same": (st({"a": tensor(0, 4), "b": tensor(0, 4)}, bytes(4)), "tensors 'a' and 'b' overlap: data byte 0"),
    "rank-9": (st({"a": tensor(0, 1, shape=[1] * 9)}, bytes(1)), "$.a.shape: rank 9 is over the limit of 8"),
    "shape-huge": (changed(shape=[BIG + 1]), "$.a.shape[0]: expected an integer from 0 to 9007199254740992"),
    "shape-negative": (changed(shape=[-1, -4]), "$.a.shape[0]: expected an integer"),
    "shape-number": (changed(shape=4), "$.a.shape: expected an array of sizes"),
    "shape-overflow": (changed(shape=[BIG, BIG]), "$.a.shape: the product of the shape overflows"),
    # 2^32 * 2^32 is 0 in 64 bits, and 2^62 elements of 4 bytes are: without the check both would pass as empty.
    "shape-overflow-to-0": (st({"a": tensor(0, 0, shape=[2**32, 2**32])}), "the product of the shape overflows"),
    "shape-overflow-bytes": (st({"a": tensor(0, 0, dtype="F32", shape=[2**31, 2**31])}), "of the shape overflows"),
    "tensor-number": (st({"a": 1}), "$.a: expected an object, got a number"),
}


def files():
    """Name to bytes, the list included."""
    cases = {f"{name}.json": case for name, case in JSON.items()}
    cases.update({f"{name}.safetensors": case for name, case in SAFETENSORS.items()})
    expect = "".join(f"{name}\t{cases[name][1]}\n" for name in sorted(cases))
    return {name: case[0] for name, case in cases.items()} | {"expect.txt": expect.encode()}
