"""Bad configs and expect_configs.txt, whose lines read

    FILE | KIND | TEXT

TEXT is part of the error that the program must give. KIND says who can refuse the file: `text` is no strict JSON, `schema`
breaks configs/schema.json, `program` is right in form and wrong in what it says. tests/made/make_files.py writes them
into a build folder."""

import json

DROP = object()
# Every format that a tensor core has operands for.
OPERANDS = ["f16", "bf16", "e4m3", "e5m2", "int8", "int4", "rowint4", "rowfp4", "mx16", "mxfp4", "nvfp4"]
YARN = {"kind": "yarn", "theta": 150000, "factor": 32, "original_positions": 4096, "beta_fast": 32, "beta_slow": 1}


def changed(object, changes):
    result = {**object, **changes}
    return {key: value for key, value in result.items() if value is not DROP}


def root(**changes):
    base = {"kvgold": 1, "name": "bad", "seed": "0x1", "cases": [GROUP]}
    return json.dumps(changed(base, changes))


def group(**changes):
    return root(cases=[changed(GROUP, changes)])


def paged(**changes):
    """Op append on a layout that takes padding."""
    return group(**{"op": "append", "layout": "hnd", **changes})


def scaled(**scaling):
    """RoPE whose table follows from parameters."""
    return paged(rope={"dims": 64, "scaling": scaling})


def decode(**changes):
    """Op decode."""
    return paged(**{"op": "decode", **changes})


def policy(**changes):
    """A policy in place of the format."""
    return group(**{"format": DROP, "policy": {"number": 16, "sm": 90}, **changes})


def covering(covers, **changes):
    """A group that says what it covers."""
    base = {"strength": 2, "most_work": 1000, "values": {"tokens": [4, 8], "dtype": ["f16", "bf16"]}}
    return group(**{"tokens": 4, "dtype": "f16", "covers": changed(base, covers), **changes})


def tiles(**changes):
    """Op mma."""
    return root(cases=[changed({"op": "mma", "profile": "sm90.mma16816.v1", "fill": "random"}, changes)])


def generate(**changes):
    """Op generate, of a window of the carried model's text."""
    model = "../../../golden/data/model"
    base = {"op": "generate", "model": model, "text": f"{model}/heldout.txt", "calibration": f"{model}/README.md", "window": 64,
            "windows": 2, "bit_windows": 1, "format": "nvfp4"}
    return root(cases=[changed(base, changes)])


GROUP = {"op": "quantise", "format": "nvfp4", "kv_heads": 2, "head_dim": 64, "tokens": 4, "fill": "random"}
GOOD = root()
REQUIRED = "$.cases[0]: \"op\", \"format\" (or \"policy\") and \"fill\" are required"
POOL = root(scenarios=[], cases=DROP)
MINE = "[L B H N]{ K.codes K.scales V.codes V.scales }"
BOTH = "give \"format\" or \"policy\", not both"
CAPTURE = {"capture": "a.safetensors", "k": "k", "v": "v"}

TEXT = {
    "text_trailing": (GOOD + " x", "expected the end of the text after the value"),
    "text_two_values": (GOOD + GOOD, "expected the end of the text after the value"),
    "text_trailing_comma": (GOOD.replace('"0x1"', '"0x1",,'), "expected a key in double quotes"),
    "text_comment": ("// a config\n" + GOOD, "expected a value, found '/'"),
    "text_nan": (group(scale="?").replace('"?"', "NaN"), "JSON has no NaN or Infinity"),
    "text_infinity": (group(scale="?").replace('"?"', "Infinity"), "JSON has no NaN or Infinity"),
    "text_too_large": (group(scale="?").replace('"?"', "1e999"), "too large for a double"),
    "text_duplicate": (GOOD.replace('"seed"', '"seed": "0x2", "seed"'), "$: duplicate key 'seed'"),
    "text_duplicate_axis": (GOOD.replace('"op"', '"op": "quantise", "op"'), "$.cases[0]: duplicate key 'op'"),
    "text_deep": (group(op="?").replace('"?"', "[" * 40 + "]" * 40), "nested deeper than 32"),
    "text_open": (GOOD[:-1], "found the end of the text"),
}

SCHEMA = {
    "generate_key": (generate(tokens=4), "$.cases[0]: unknown key 'tokens'"),
    "generate_no_text": (generate(text=DROP), "$.cases[0]: missing key 'text'"),
    "generate_no_format": (generate(format=DROP), "$.cases[0]: \"format\" is required"),
    "generate_window": (generate(window=1), "$.cases[0].window: expected an integer from 2 to 1048576"),
    "generate_loss": (generate(max_loss=-1), "$.cases[0].max_loss: expected a number from 0 to 64"),
    "generate_layers": (generate(layers="slidin"), "$.cases[0].layers: unknown choice of layers 'slidin'"),
    "generate_rope": (generate(quantise_k=[]), "$.cases[0]: \"quantise_k\" is an empty list: the product has no case"),
    # a layout of one's own
    "layout_no_text": (paged(layout={"name": "mine"}), "$.cases[0].layout: missing key 'text'"),
    "layout_key": (paged(layout={"name": "mine", "text": MINE, "id": 1}), "$.cases[0].layout: unknown key 'id'"),
    "layout_name": (paged(layout={"name": "My one", "text": MINE}), "a name is 1 to 32 of a to z, 0 to 9 and _"),
    # the file as a whole
    "root_array": ("[]", "$: expected an object, got an array"),
    "root_key_unknown": (root(limit={}), "$: unknown key 'limit' (did you mean 'limits'?)"),
    "root_key_case": (root(Seed="0x1"), "$: unknown key 'Seed' (did you mean 'seed'?)"),
    "root_no_kvgold": (root(kvgold=DROP), "$: missing key 'kvgold'"),
    "root_no_name": (root(name=DROP), "$: missing key 'name'"),
    "root_no_seed": (root(seed=DROP), "$: missing key 'seed'"),
    "root_no_cases": (root(cases=DROP), "$: missing key 'cases'"),
    "root_version": (root(kvgold=2), "$.kvgold: expected an integer from 1 to 1, got 2"),
    "root_name_number": (root(name=3), "$.name: expected a string, got a number"),
    "root_comment_number": (root(comment=3), "$.comment: expected a string, got a number"),
    "seed_number": (root(seed=1), "$.seed: expected a string of \"0x\" and 1 to 16 hex digits, got a number"),
    "seed_decimal": (root(seed="12"), "$.seed: expected a string of \"0x\""),
    "seed_long": (root(seed="0x" + "1" * 17), "$.seed: expected a string of \"0x\""),
    "seed_empty": (root(seed="0x"), "$.seed: expected a string of \"0x\""),
    "limits_zero": (root(limits={"slow_seconds": 0}), "$.limits: 0 < slow_seconds <= hang_seconds is required"),
    "limits_negative": (root(limits={"hang_seconds": -1}), "0 < slow_seconds <= hang_seconds is required"),
    "limits_string": (root(limits={"slow_seconds": "1"}), "$.limits.slow_seconds: expected a number, got a string"),
    "limits_key": (root(limits={"slow": 1}), "$.limits: unknown key 'slow'"),
    "limits_endless": (root(limits={"hang_seconds": 1e6}), "0 < slow_seconds <= hang_seconds is required"),
    "cases_empty": (root(cases=[]), "selects no case: an empty run proves nothing"),
    "cases_object": (root(cases=GROUP), "$.cases: expected a list of case groups"),
    "group_string": (root(cases=["nvfp4"]), "$.cases[0]: expected an object, got a string"),
    # keys of a group
    "group_key_unknown": (group(formats="nvfp4"), "$.cases[0]: unknown key 'formats' (did you mean 'format'?)"),
    "group_key_case": (group(Tokens=4), "$.cases[0]: unknown key 'Tokens' (did you mean 'tokens'?)"),
    "group_no_op": (group(op=DROP), REQUIRED),
    "group_no_format": (group(format=DROP), REQUIRED),
    "group_no_fill": (group(fill=DROP), REQUIRED),
    "group_no_heads": (group(kv_heads=DROP), "give \"model\", or \"kv_heads\" and \"head_dim\""),
    "group_no_head_dim": (group(head_dim=DROP), "give \"model\", or \"kv_heads\" and \"head_dim\""),
    "group_comment": (group(comment=["x"]), "$.cases[0].comment: expected a string, got an array"),
    "mma_format": (tiles(format="bf16"), "$.cases[0]: op mma has no \"format\": its tiles follow from \"dtype\" and \"tokens\""),
    "mma_head_dim": (tiles(op=["mma"], head_dim=16), "$.cases[0]: op mma has no \"head_dim\""),
    "mma_no_profile": (tiles(profile=DROP), "$.cases[0]: op mma: \"profile\" is required"),
    # values
    "axis_empty": (group(format=[]), "\"format\" is an empty list: the product has no case"),
    "axis_nested": (group(tokens=[[1, 2]]), "$.cases[0].tokens[0]: expected an integer from 1 to 1048576, got an array"),
    "axis_null": (group(op=None), "$.cases[0].op: expected a string, got null"),
    "op_unknown": (group(op="quantize"), "$.cases[0].op: no op 'quantize' (did you mean 'quantise'?)"),
    "op_number": (group(op=1), "$.cases[0].op: expected a string, got a number"),
    "decode_group_zero": (decode(group=0), "$.cases[0].group: expected an integer from 1 to 128, got 0"),
    "decode_queries_large": (decode(queries=16385), "$.cases[0].queries: expected an integer from 1 to 16384, got 16385"),
    "decode_queries_word": (decode(queries="8 all"), "$.cases[0].queries: is '8 all': give a number, or one with 'each': \"8 each\""),
    "decode_queries_sign": (decode(queries="-4294967288 each"), "$.cases[0].queries: is '-4294967288 each': give a number"),
    "decode_queries_blanks": (decode(queries=" +8   each"), "$.cases[0].queries: is ' +8   each': give a number"),
    "decode_queries_none_each": (decode(queries="0 each"), "$.cases[0].queries: is '0 each': give a number, or one with 'each': \"8 each\""),
    "decode_window_negative": (decode(window=-1), "$.cases[0].window: expected an integer from 0 to 1048576, got -1"),
    "decode_softcap_negative": (decode(softcap=-30), "$.cases[0].softcap: expected an f32 above 0, or 0 for none"),
    "decode_softcap_string": (decode(softcap="30"), "$.cases[0].softcap: expected a number, got a string"),
    "decode_score_scale_huge": (decode(score_scale=1e39), "$.cases[0].score_scale: expected an f32 above 0, or 0 for none"),
    "decode_sinks_number": (decode(sinks=1), "$.cases[0].sinks: expected true or false"),
    "decode_operands_unknown": (decode(operands="fp16"), "$.cases[0].operands: unknown operands 'fp16' (did you mean 'f16'?)"),
    "decode_profile_unknown": (decode(profile="sm80"), "$.cases[0].profile: no profile 'sm80' (did you mean 'sm80.mma16816.v1'?)"),
    "decode_exclude_sinks": (decode(exclude=[{"sinks": "yes"}]), "$.cases[0].exclude[0]: excludes no case"),
    "profile_unknown": (tiles(profile="sm91"), "$.cases[0].profile: no profile 'sm91'"),
    "format_unknown": (group(format="nvfp8"), "$.cases[0].format: no format 'nvfp8'"),
    "format_case": (group(format=["nvfp4", "NVFP4"]), "$.cases[0].format[1]: no format 'NVFP4'"),
    "format_no_v": (group(format={"k": "e4m3"}), "$.cases[0].format: missing key 'v'"),
    "format_side": (group(format={"k": "e4m3", "q": "e4m3"}), "$.cases[0].format: unknown key 'q'"),
    "format_list_in_side": (group(format={"k": ["e4m3"], "v": "e4m3"}), "$.cases[0].format.k: expected a string"),
    "all_but_unknown": (group(format={"all_but": ["int5"]}), "$.cases[0].format.all_but[0]: unknown format 'int5' (did you mean 'int8'?)"),
    "all_but_string": (group(format={"all_but": "int4"}), "$.cases[0].format.all_but: expected a list of names that \"all\" is without"),
    "all_but_nothing": (group(format=["f16", {"all_but": []}]), "$.cases[0].format[1].all_but: an empty list leaves nothing out: write \"all\""),
    "all_but_twice": (group(format={"all_but": ["int4", "int4"]}), "$.cases[0].format.all_but[1]: 'int4' is left out already"),
    "all_but_side": (group(format={"all_but": ["int4"], "k": "f16"}), "$.cases[0].format: unknown key 'k'"),
    "all_but_dialect": (group(dialect={"all_but": ["seeds"]}), "$.cases[0].dialect.all_but[0]: unknown dialect 'seeds' (did you mean 'seed'?)"),
    "all_but_include": (group(include=[{"layout": {"all_but": ["paged"]}}]), "$.cases[0].include[0].layout.all_but[0]: unknown layout 'paged'"),
    "all_but_number": (group(tokens={"all_but": [4]}), "$.cases[0].tokens: expected an integer from 1 to 1048576, got an object"),
    "all_number": (group(kv_heads="all"), "$.cases[0].kv_heads: expected an integer from 1 to 1024, got a string"),
    "all_but_generate": (generate(format={"all_but": ["nvfp"]}), "$.cases[0].format.all_but[0]: unknown format 'nvfp' (did you mean 'nvfp4'?)"),
    "dialect_unknown": (group(dialect="cannonical"), "cannonical"),
    "dialect_all_per_side": (group(dialect={"k": "all", "v": "all"}), "$.cases[0].dialect.k"),
    "layout_unknown": (group(layout="paged"), "$.cases[0].layout: no layout 'paged'; known: rows, turbomind"),
    "dtype_unknown": (group(dtype="fp16"), "$.cases[0].dtype"),
    "dtype_u8": (group(dtype="u8"), "model type u8 cannot hold K and V: use f16, bf16 or f32"),
    "heads_zero": (group(kv_heads=0), "$.cases[0].kv_heads: expected an integer from 1 to 1024, got 0"),
    "heads_fraction": (group(kv_heads=1.5), "$.cases[0].kv_heads: expected an integer from 1 to 1024, got 1.5"),
    "head_dim_large": (group(head_dim=1040), "$.cases[0].head_dim: expected an integer from 1 to 1024, got 1040"),
    "tokens_negative": (group(tokens=-4), "$.cases[0].tokens: expected an integer from 1 to 1048576, got -4"),
    "tokens_string": (group(tokens="4"), "$.cases[0].tokens: expected an integer from 1 to 1048576, got a string"),
    "tokens_large": (group(tokens=2**20 + 1), "$.cases[0].tokens: expected an integer from 1 to 1048576, got 1048577"),
    "fill_unknown": (group(fill="randon"), "$.cases[0].fill: unknown fill 'randon' (did you mean 'random'?)"),
    "fill_capture_word": (group(fill="capture"), "$.cases[0].fill: a capture is written {\"capture\": FILE"),
    "capture_no_v": (group(fill={"capture": "a", "k": "k"}), "$.cases[0].fill: missing key 'v'"),
    "capture_key": (group(fill={**CAPTURE, "q": "q"}), "$.cases[0].fill: unknown key 'q'"),
    "capture_number": (group(fill={**CAPTURE, "v": 3}), "$.cases[0].fill.v: expected a string, got a number"),
    "scale_name": (group(scale="P5"), "$.cases[0].scale"),
    "scale_zero": (group(scale=0), "$.cases[0].scale: a tensor scale must be finite and above 0"),
    "scale_negative": (group(scale={"k": 1, "v": -1}), "$.cases[0].scale.v: a tensor scale must be finite and above 0"),
    "scale_huge": (group(scale={"k": 1e39, "v": 1}), "$.cases[0].scale.k: a tensor scale must be finite and above 0"),
    "scale_one_side": (group(scale={"k": 1}), "$.cases[0].scale: missing key 'v'"),
    "scale_bool": (group(scale=True), "$.cases[0].scale: expected a number, got true"),
    "backend_number": (group(backend=1), "$.cases[0].backend: expected a string, got a number"),
    "block_tokens_zero": (paged(block_tokens=0), "$.cases[0].block_tokens: expected an integer from 1 to 1048576, got 0"),
    "blocks_large": (paged(blocks=2**24 + 1), "$.cases[0].blocks: expected an integer from 1 to 16777216, got 16777217"),
    "layer_word": (paged(layer="last"), "$.cases[0].layer: is 'last': give a number or \"seed\""),
    "layers_zero": (paged(layers=0), "$.cases[0].layers: expected an integer from 1 to 1024, got 0"),
    "sequences_large": (paged(sequences=2**16 + 1), "$.cases[0].sequences: expected an integer from 1 to 65536, got 65537"),
    "padding_number": (paged(padding=3), "$.cases[0].padding: expected an object, got a number"),
    "padding_key": (paged(padding={"rows": 3}), "$.cases[0].padding: unknown key 'rows' (did you mean 'row'?)"),
    "padding_negative": (paged(padding={"data": -1}), "$.cases[0].padding.data: expected an integer from 0 to 16777216, got -1"),
    "swizzle_number": (paged(v_scale_swizzle=1), "$.cases[0].v_scale_swizzle: expected true or false"),
    "shared_kv_bool": (paged(shared_kv=True), "$.cases[0].shared_kv: expected an object, got true"),
    "shared_kv_key": (paged(shared_kv={"v_dims": 64}), "$.cases[0].shared_kv: unknown key 'v_dims' (did you mean 'v_dim'?)"),
    "shared_kv_no_dim": (paged(shared_kv={"v_first": 0}), "$.cases[0].shared_kv: missing key 'v_dim'"),
    "rope_key": (paged(rope={"dims": 64, "base": 10000}), "$.cases[0].rope: unknown key 'base'"),
    "rope_entries": (scaled(kind="default", theta=10000, entries="i32"), "rope entries of type i32: use f32, f16 or bf16"),
    "rope_factor_small": (scaled(kind="linear", theta=10000, factor=0.5), "rope kind linear needs factor from 1 to"),
    "rope_kind": (scaled(kind="ntk", theta=10000),
                  "$.cases[0].rope.scaling.kind: no rope kind 'ntk'; known: default, linear, dynamic, llama3, yarn"),
    "rope_kind_missing": (scaled(theta=10000), "$.cases[0].rope.scaling: missing key 'kind'"),
    "rope_scaling_key": (scaled(kind="default", theta=10000, base=1), "$.cases[0].rope.scaling: unknown key 'base'"),
    "rope_theta_missing": (scaled(kind="default"), "rope kind default needs theta from 2 to"),
    "rope_truncate_number": (scaled(**YARN, truncate=0), "$.cases[0].rope.scaling.truncate: expected true or false"),
    "rope_no_dims": (paged(rope={"pairing": "halves"}), "$.cases[0].rope: missing key 'dims'"),
    "rope_pairing": (paged(rope={"dims": 64, "pairing": "half"}), "$.cases[0].rope.pairing: unknown pairing 'half'; known: adjacent, halves"),
    "rope_pairing_number": (paged(rope={"dims": 64, "pairing": 2}), "$.cases[0].rope.pairing: expected a string, got a number"),
    "bias_string": (paged(bias="yes"), "$.cases[0].bias: expected true or false"),
    "policy_and_format": (policy(format="mx16"), "$.cases[0]: " + BOTH),
    "policy_number": (policy(policy=16), "$.cases[0].policy: expected an object, got a number"),
    "policy_no_number": (policy(policy={"sm": 90}), "$.cases[0].policy: missing key 'number'"),
    "policy_negative": (policy(policy={"number": -1}), "$.cases[0].policy.number: expected an integer from 0 to 4294967295, got -1"),
    "policy_key": (policy(policy={"number": 4, "on_unsuported": "fail"}), "$.cases[0].policy: unknown key 'on_unsuported' (did you mean 'on_unsupported'?)"),
    "policy_domain": (policy(policy={"number": 4, "domain": "lmdeploy"}), "$.cases[0].policy.domain: no policy domain 'lmdeploy'; known: turbomind, lmdeploy_2026"),
    "policy_sm_zero": (policy(policy={"number": 4, "sm": 0}), "$.cases[0].policy.sm: expected an integer from 1 to 999, got 0"),
    "policy_build": (policy(policy={"number": 4, "fp4_build": 1}), "$.cases[0].policy.fp4_build: expected true or false"),
    "policy_fallback": (policy(policy={"number": 4, "on_unsupported": "fall_back"}), "$.cases[0].policy.on_unsupported: unknown on_unsupported 'fall_back' (did you mean 'fallback'?)"),
    "policy_gating": (policy(policy={"number": 4, "gating": "none"}), "$.cases[0].policy.gating: unknown gating 'none'"),
    "include_policy_and_format": (group(include=[{"format": "mx16", "policy": {"number": 4}}]), "$.cases[0].include[0]: " + BOTH),
    "exclude_policy_number": (policy(exclude=[{"policy": 16}]), "$.cases[0].exclude[0]: excludes no case"),
    "pool": (POOL, "$: this is a config of `kvgold pool`"),
    "model_number": (group(kv_heads=DROP, head_dim=DROP, model=8), "$.cases[0].model: expected a string, got a number"),
    "model_and_heads": (group(model="llama-3-8b"), "give \"model\", or \"kv_heads\" and \"head_dim\", not both"),
    "model_and_one": (group(model="llama-3-8b", kv_heads=DROP), "give \"model\", or \"kv_heads\" and \"head_dim\", not both"),
    "backend_empty": (group(backend=""), "$.cases[0].backend"),
    # include and exclude
    "include_object": (group(include={"tokens": 8}), "$.cases[0].include: expected a list of objects"),
    "include_key": (group(include=[{"token": 8}]), "$.cases[0].include[0]: unknown key 'token' (did you mean 'tokens'?)"),
    "include_nested": (group(include=[{"include": []}]), "$.cases[0].include[0]: unknown key 'include'"),
    "include_empty": (group(include=[{}]), "$.cases[0].include[0]: an empty object means nothing here"),
    "include_both": (group(include=[{"model": "llama-3-8b", "kv_heads": 1}]), "$.cases[0].include[0]: give \"model\", or"),
    "include_empty_axis": (group(include=[{"tokens": []}]), "\"tokens\" is an empty list"),
    "exclude_object": (group(exclude={"tokens": 4}), "$.cases[0].exclude: expected a list of objects"),
    "exclude_key": (group(exclude=[{"token": 4}]), "$.cases[0].exclude[0]: unknown key 'token'"),
    "exclude_empty": (group(tokens=[4, 8], exclude=[{}]), "$.cases[0].exclude[0]: an empty object means nothing here"),
    "covers_list": (group(covers=[]), "$.cases[0].covers"),
    "covers_strength": (covering({"strength": 4}), "$.cases[0].covers.strength"),
    "covers_work": (covering({"most_work": DROP}), "$.cases[0].covers: missing key 'most_work'"),
    "covers_key": (covering({"without_": []}), "$.cases[0].covers: unknown key 'without_' (did you mean 'without'?)"),
    "covers_nothing": (covering({"values": {}}), "$.cases[0].covers.values: an empty object means nothing here"),
    "covers_axis": (covering({"values": {"token": [4]}}), "$.cases[0].covers.values: unknown key 'token' (did you mean 'tokens'?)"),
    "exclude_sides": (group(exclude=[{"format": {"k": "nvfp4", "v": "nvfp4"}}]), "$.cases[0].exclude[0]: excludes no case"),
}

PROGRAM = {
    "layout_taken": (paged(layout={"name": "hnd", "text": MINE}), "'hnd' is a layout of kvgold"),
    "layout_twice": (paged(layout=[{"name": "mine", "text": MINE}, {"name": "mine", "text": MINE + " +4"}]),
                     "'mine' is another text earlier in this config"),
    "layout_syntax": (paged(layout={"name": "mine", "text": "[L B H N]{ K.code"}),
                      "layout mine, column 12: a nest holds K.codes"),
    "layout_axis": (paged(layout={"name": "mine", "text": MINE.replace("N", "X")}), "column 8: an axis is L layer"),
    "layout_swizzle": (paged(layout={"name": "mine", "text": MINE}, v_scale_swizzle=True), "layout mine is a text: write V's groups into it, as [H N/4 G N%4] V.scales"),
    "layout_rows": (group(layout={"name": "mine", "text": MINE}), "op quantise works on layout rows, not on layout text"),
    "layer_missing": (paged(layers=3, layer=3), "$.cases[0].layer: is no layer of 3, which count from 0"),
    "dialect_of_another": (group(format="mxfp4", dialect="sglang"), "$.cases[0].dialect: no mxfp4 dialect 'sglang'"),
    "dialect_all_mixed": (group(format={"k": "e4m3", "v": "nvfp4"}, dialect="all"), "\"all\" needs one format for K and V"),
    "model_unknown": (group(kv_heads=DROP, head_dim=DROP, model="llama"), "$.cases[0].model: configs/models: no model 'llama'"),
    "head_dim_block": (group(head_dim=72), "head_dim 72 does not fit format nvfp4: use a multiple of 16"),
    "head_dim_mxfp4": (group(format="mxfp4", head_dim=80), "head_dim 80 does not fit format mxfp4: use a multiple of 32"),
    "head_dim_word": (group(format="int4", head_dim=12), "head_dim 12 does not fit format int4: use a multiple of 8"),
    "head_dim_small": (group(format="int8", head_dim=3, fill="exact"), "fill exact needs a head_dim of at least 4"),
    "head_dim_one": (group(format="int8", head_dim=1, fill="adversarial"), "fill adversarial needs a head_dim of at least 4"),
    "affine_f32": (group(format="int8", dtype="f32"), "format int8 keeps its parameters in a 16-bit model type"),
    "exact_no_power": (group(fill="exact", scale=0.3), "fill exact needs powers of two as tensor scales, or P4"),
    "exact_p2": (group(fill="exact", scale="P2"), "fill exact needs powers of two as tensor scales, or P4"),
    "exact_marlin": (group(format="rowfp4", dialect="marlin-linear", fill="exact"), "fill exact does not exist for rowfp4.marlin-linear"),
    "codes_quantise": (group(fill="codes"), "fill codes is for decoders: op quantise has no codes as input"),
    "scale_underflow": (group(scale=1e-60), "$.cases[0].scale: a tensor scale must be finite and above 0"),
    "all_twice": (group(format=["all", "f16", {"all_but": ["int4"]}]), "$.cases[0].format[2]: \"all\" or \"all_but\" stands in this list already"),
    "all_but_all": (group(dtype={"all_but": ["f16", "bf16", "f32"]}), "$.cases[0].dtype.all_but: leaves out every dtype: nothing is left"),
    "all_but_fits": (decode(profile="sm90.mma16816.v1", format={"all_but": OPERANDS}), "$.cases[0]: nothing of \"all\" fits head_dim, dtype and geometry"),
    "covers_exclude": (covering({}, exclude=[{"tokens": 4}], include=[{"tokens": 8}]), "$.cases[0]: \"exclude\" beside \"covers\""),
    "covers_list_of_rows": (covering({}, include=[{"tokens": [4, 8]}]), "$.cases[0].include[0]: \"tokens\" has several values: a row of a group that covers has one"),
    "covers_without_unlisted": (covering({"without": [{"tokens": 5}]}), "$.cases[0].covers.without[0].tokens: \"values\" does not list it"),
    "covers_work_above": (decode(tokens=64, covers={"strength": 1, "most_work": 1000, "values": {"tokens": [64]}}), "products, more than \"most_work\""),
    "covers_barred": (covering({"without": [{"tokens": 4}]}), "$.cases[0]: \"without\" says that this cannot be judged"),
    "exclude_nothing": (group(exclude=[{"tokens": 5}]), "$.cases[0].exclude[0]: excludes no case: remove it or correct it"),
    "exclude_twice": (group(tokens=[4, 8], exclude=[{"tokens": 4}, {"tokens": 4}]), "$.cases[0].exclude[1]: excludes no case"),
    "exclude_all": (group(exclude=[{"op": "quantise"}]), "selects no case: an empty run proves nothing"),
    "limits_order": (root(limits={"slow_seconds": 9, "hang_seconds": 3}), "0 < slow_seconds <= hang_seconds is required"),
    "limits_above_default": (root(limits={"slow_seconds": 90}), "0 < slow_seconds <= hang_seconds is required"),
    "too_many": (group(tokens=list(range(1, 331)), kv_heads=list(range(1, 331))), "more than 100000 combinations"),
    "too_many_in_all": (root(cases=[changed(GROUP, {"tokens": list(range(1, 301)), "kv_heads": list(range(1 + 300 * i, 301 + 300 * i))})
                                    for i in range(2)]), "more than 100000 cases: split the config"),
    "capture_same_id": (group(fill=[CAPTURE, {**CAPTURE, "capture": "b.safetensors"}]), "b.safetensors both have the tensors of case"),
    "exclude_one_side": (group(format={"k": "e4m3", "v": "nvfp4"}, exclude=[{"format": "e4m3"}]), "$.cases[0].exclude[0]: excludes no case"),
    "codes_append": (paged(fill="codes"), "fill codes is for decoders: op append has no codes as input"),
    "exact_rope": (paged(fill="exact", scale="P4", rope={"dims": 64}), "fill exact does not survive bias or rope: leave them out"),
    # op, layout and geometry
    "append_rows": (group(op="append"), "op append works on a paged layout, not on layout rows"),
    "quantise_paged": (group(layout="nhd"), "op quantise works on layout rows, not on layout nhd"),
    "rows_blocks": (group(blocks=8), "are for paged layouts: layout rows has none"),
    "rows_sequences": (group(sequences=1), "layout rows has none"),
    "padding_trtllm": (paged(layout="trtllm", padding={"data": 64}), "layout trtllm: data_padding is 64, but the text has no +data: [B L]{ [H N] K.codes"),
    "padding_vllm_rows": (paged(layout="vllm", padding={"row": 3}), "layout vllm: row_padding is 3, but the text has no +row: [L B]{ { [N H] K.codes"),
    "swizzle_layout": (paged(layout="turbomind", v_scale_swizzle=True), "layout turbomind keeps V scales linear"),
    "swizzle_format": (paged(format="e4m3", v_scale_swizzle=True), "v_scale_swizzle needs one scale byte per 16 elements; e4m3 has none"),
    "swizzle_head_dim": (paged(head_dim=32, v_scale_swizzle=True), "v_scale_swizzle needs block_tokens % 4 = 0 and head_dim % 64 = 0, not 16 and 32"),
    "swizzle_block": (paged(block_tokens=6, v_scale_swizzle=True), "head_dim % 64 = 0, not 6 and 64"),
    "mla_apart": (paged(layout="mla", kv_heads=1), "layout mla holds one row per token: set shared_kv and kv_heads 1"),
    "mla_heads": (paged(layout="mla", shared_kv={"v_dim": 64}), "layout mla holds one row per token: set shared_kv and kv_heads 1"),
    "shared_kv_layout": (paged(shared_kv={"v_dim": 64}), "layout hnd keeps K and V apart: no shared_kv"),
    "shared_kv_formats": (paged(layout="turbomind", format={"k": "mx16", "v": "int8"}, shared_kv={"v_dim": 64}), "shared_kv needs one format and dialect for K and V"),
    "shared_kv_outside": (paged(layout="turbomind", shared_kv={"v_first": 16, "v_dim": 64}), "v_first 16 and v_dim 64 do not lie in head_dim 64"),
    "shared_kv_nothing": (paged(layout="turbomind", shared_kv={"v_dim": 0}), "v_first 0 and v_dim 0 do not lie in head_dim 64"),
    "trtllm_block": (paged(layout="trtllm", block_tokens=24), "layout trtllm needs a power of two as block_tokens, not 24"),
    "rope_odd": (paged(rope={"dims": 7}), "rope turns 7 of 64 elements by a table of 256 rows: use an even number"),
    "rope_betas": (scaled(**{**YARN, "beta_fast": 1, "beta_slow": 32}), "rope kind yarn: beta_fast 1 must be above beta_slow 32"),
    "rope_llama3_order": (scaled(kind="llama3", theta=10000, factor=8, original_positions=8192, low_freq_factor=4, high_freq_factor=1),
                          "high_freq_factor 1 must be above low_freq_factor 4"),
    "rope_mscale": (scaled(**YARN, mscale=1), "from mscale and mscale_all_dim together, or from neither"),
    "rope_not_taken": (scaled(kind="linear", theta=10000, factor=2, beta_fast=32),
                       "$.cases[0].rope: rope kind linear takes no beta_fast, which is 32: leave it 0"),
    "rope_range": (scaled(**{**YARN, "original_positions": 4}), "rope kind yarn: its range would go from pair 0 to pair"),
    "rope_truncate": (scaled(kind="default", theta=10000, truncate=True), "rope kind default has no range to truncate"),
    "rope_wide": (paged(rope={"dims": 66}), "rope turns 66 of 64 elements"),
    "rope_empty": (paged(rope={"dims": 8, "positions": 0}), "rope turns 8 of 64 elements by a table of 0 rows"),
    "rope_flatten": (paged(op="flatten", rope={"dims": 8}), "rope and bias are for op append only"),
    "bias_probe": (paged(op="probe", bias=True), "rope and bias are for op append only"),
    "contiguous_capacity": (paged(layout="contiguous", tokens=50, sequences=3), "50 tokens in 3 sequences need 17 or more as capacity (block_tokens), not 16"),
    "blocks_append": (paged(tokens=40, blocks=5), "40 tokens in 3 sequences can need 6 blocks of 16 tokens: 5 are too few"),
    "blocks_flatten": (paged(op="flatten", tokens=40, blocks=5), "40 tokens in 3 sequences can need 6 blocks of 16 tokens: 5 are too few"),
    "blocks_ring": (paged(layout="ring", blocks=2), "4 tokens in 3 sequences can need 3 blocks of 16 tokens: 2 are too few"),
    "blocks_live": (paged(op="flatten", tokens=40, lengths="live", blocks=8), "40 tokens in 3 sequences can need 9 blocks of 16 tokens: 8 are too few"),
    "lengths_append": (paged(lengths="even"), "op append reads no sequences: leave out lengths"),
    "prefix_append": (paged(shared_prefix=2), "op append reads no sequences: leave out shared_prefix"),
    "prefix_rows": (group(shared_prefix=2), "op quantise reads no sequences: leave out shared_prefix"),
    "prefix_ring": (paged(op="flatten", layout="ring", shared_prefix=2), "layout ring has one block a sequence and none to share: leave out shared_prefix"),
    "prefix_contiguous": (decode(layout="contiguous", shared_prefix=2), "layout contiguous has one block a sequence and none to share: leave out shared_prefix"),
    "prefix_alone": (decode(sequences=1, shared_prefix=2), "one sequence shares nothing: use more sequences, or leave out shared_prefix"),
    "prefix_long": (decode(tokens=40, shared_prefix=40), "sequences of 40 tokens do not part behind a shared_prefix of 40: use less"),
    "prefix_codes": (paged(op="flatten", fill="codes", shared_prefix=2), "fill codes is what lies in the pools: leave out shared_prefix"),
    "prefix_blocks": (paged(op="flatten", tokens=40, lengths="live", shared_prefix=20, blocks=6), "40 tokens in 3 sequences can need 7 blocks of 16 tokens: 6 are too few"),
    "unowned_codes": (paged(op="flatten", fill="codes", unowned="zero"), "fill codes is what lies in the pools: leave out unowned"),
    "far_blocks_few": (paged(tokens=40, blocks=20, far_blocks=19), "the case has 20 blocks: 19 far_blocks are too few"),
    "far_blocks_near": (paged(tokens=40, blocks=20, far_blocks=400), "400 far_blocks make a pool of 819200 bytes, where no offset overflows 31 bits: use more"),
    "pool_large": (paged(layout="vllm", blocks=2**24, layers=1024, block_tokens=2**20, kv_heads=1024, head_dim=1024), "exceeds 2^63 - 1 bytes"),
    # op decode
    "decode_rows": (decode(layout="rows"), "op decode works on a paged layout, not on layout rows"),
    "decode_group_flatten": (paged(op="flatten", group=2), "group, queries, window, softcap, score_scale, sinks, operands, answers, relations and invariant are for op decode only: give op decode a group of its own"),
    "decode_window_append": (paged(window=4), "are for op decode only"),
    "decode_operands_quantise": (group(operands="f16"), "are for op decode only"),
    "decode_profile_probe": (paged(op="probe", profile="sm90.mma16816.v1"), "op probe gives the same bits on every chip: no profile"),
    "decode_profile_operands": (decode(profile="sm90.mma16816.v1", operands="f16"), "profile sm90.mma16816.v1 has operands of its own: leave out operands"),
    "decode_rope": (decode(rope={"dims": 8}), "rope and bias are for op append only"),
    "decode_scale_underflow": (decode(score_scale=1e-60), "$.cases[0].score_scale: expected an f32 above 0, or 0 for none"),
    "probe_op": (paged(op="flatten", fill="uniform", scale=1), "fill uniform is for op decode"),
    "probe_sinks": (decode(fill="cold", scale=1, sinks=True), "fill cold has no answer with sinks: leave them out"),
    "probe_softcap": (decode(fill="cold", scale=1, softcap=30), "fill cold has no answer with a softcap"),
    "probe_scale": (decode(fill="uniform"), "fill uniform needs powers of two as tensor scales, or P4"),
    "probe_marlin": (decode(format="rowfp4", dialect="marlin-linear", fill="ones"), "fill ones does not exist for rowfp4.marlin-linear"),
    "probe_needle_dim": (decode(format="f16", head_dim=4, tokens=40, fill="needle"), "fill needle cannot tell 40 tokens of 3 sequences apart with head_dim 4"),
    "probe_needle_scale": (decode(format="f16", score_scale=1e-6, fill="needle"), "fill needle needs q above 32768"),
    "expand_f32": (paged(op="expand", dtype="f32"), "op expand goes to E4M3 through a 16-bit model type"),
    "expand_rows": (group(op="expand"), "op expand works on a paged layout, not on layout rows"),
    "mma_exact": (tiles(profile="exact"), "op mma needs a profile of a tensor core"),
    "mma_simt": (tiles(profile="simt.fma.v1"), "op mma needs a profile of a tensor core"),
    "mma_f32": (tiles(dtype="f32"), "op mma has operands in f16 or bf16"),
    "mma_codes": (tiles(fill="codes"), "op mma has the fills random, adversarial and zero, not codes"),
    "mma_layout": (tiles(layout="hnd"), "op mma works on layout rows, not on layout hnd"),
    # policies
    "policy_sm": (policy(policy={"number": 16, "sm": 80}), "$.cases[0].policy: policy fp4 is not supported on SM 80"),
    "policy_no_sm": (policy(policy={"number": 16}), "$.cases[0].policy: policy fp4 is not supported on SM 0"),
    "policy_no_build": (policy(policy={"number": 16, "sm": 90, "fp4_build": False}), "$.cases[0].policy: policy fp4 needs a build with FP4"),
    "policy_bits": (policy(policy=[{"number": 4}, {"number": 12}]), "$.cases[0].policy[1]: policy 0x0c sets bits that exclude each other"),
    "policy_reserved": (policy(policy={"number": 2}), "$.cases[0].policy: policy 0x02 (reserved) has no format in kvgold"),
    "policy_turbo": (policy(policy={"number": 42, "domain": "lmdeploy_2026"}), "$.cases[0].policy: policy 42 (turbo_quant) has no format in kvgold"),
    "policy_f32": (policy(policy={"number": 0}, dtype="f32"), "$.cases[0].policy: mode none has no storage with model type f32: use f16 or bf16"),
    "policy_head_dim": (policy(head_dim=72), "$.cases[0].policy: head_dim 72 does not fit format mx16: use a multiple of 16"),
    "policy_kernels": (policy(policy={"number": 16, "domain": "lmdeploy_2026", "engine_kernels": True}), "$.cases[0].policy: TurboMind has no kernels for mode fp8_e4m3"),
    "policy_kernels_dim": (policy(policy={"number": 16, "sm": 90, "engine_kernels": True, "on_unsupported": "fallback"}, head_dim=80), "$.cases[0].policy: TurboMind has no kernels for head_dim 80"),
    "policy_mla": (policy(op="append", layout="turbomind", kv_heads=1, head_dim=576), "$.cases[0].policy: K and V share one row at head_dim 576: give \"shared_kv\""),
    "policy_dialect": (policy(dialect="vllm"), "$.cases[0].dialect: no mx16 dialect 'vllm'"),
    "exclude_policy": (policy(exclude=[{"policy": "policy16@sm100"}]), "$.cases[0].exclude[0]: excludes no case"),
    "exclude_policy_format": (policy(head_dim=72, exclude=[{"format": "mx16"}]), "$.cases[0].policy: head_dim 72 does not fit format mx16"),
    "capture_slash": (group(fill={**CAPTURE, "k": "a/k"}), "$.cases[0].fill.k: '/' and ',' separate the words of a case id"),
    "capture_comma": (group(fill={**CAPTURE, "v": "a,k"}), "$.cases[0].fill.v: '/' and ',' separate the words of a case id"),
    "generate_no_model": (generate(model="no-such"), "no-such/config.json: no such file"),
    "generate_dialect": (generate(dialect="ocp"), "$.cases[0].dialect: no nvfp4 dialect 'ocp'"),
    "generate_f32": (generate(dtype="f32"), "$.cases[0]: op generate has dtype f16 or bf16"),
    "generate_rows": (generate(layout="rows"), "$.cases[0]: op generate needs a paged layout, not rows"),
    "generate_scale": (generate(scale={"k": 1, "v": 1}), "$.cases[0]: op generate has a scale by layer: a convention, P1 to P4"),
    "generate_calibration": (generate(calibration=DROP), "$.cases[0]: a format with a tensor scale needs \"calibration\""),
    "generate_nothing": (generate(bit_windows=0), "$.cases[0]: nothing is judged: give bit_windows, max_loss, max_kl or min_top1"),
    "generate_bit_windows": (generate(bit_windows=3), "$.cases[0]: bit_windows 3 of 2 windows"),
    "generate_long": (generate(window=200000), "$.cases[0].window: 200000 tokens and 0 generated ones: the model has positions for 131072"),
    "generate_defect": (generate(defects=["window_shor"]), "$.cases[0].defects[0]: no defect 'window_shor'"),
    "generate_defects_unread": (generate(defects=["window_short"], bit_windows=0, max_kl=1), "$.cases[0]: defects are planted in bit_windows: give one"),
    "generate_all_pair": (generate(format={"k": "bf16", "v": "nvfp4"}, dialect="all"), "$.cases[0]: dialect \"all\" needs one format for K and V"),
    "id_long": (group(backend="b" * 300), "case id longer than 255 characters"),
}


def files():
    """Name to bytes, the list included."""
    result, lines = {}, []
    for kind, table in (("text", TEXT), ("schema", SCHEMA), ("program", PROGRAM)):
        for name, (text, expected) in table.items():
            assert text != GOOD, name
            result[f"config_{name}.json"] = text + "\n"
            lines.append(f"config_{name}.json | {kind} | {expected}\n")
    result["expect_configs.txt"] = "".join(sorted(lines))
    return {name: text.encode() for name, text in result.items()}
