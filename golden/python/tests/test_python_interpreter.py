"""Triton's interpreter as kvgold.adapters.interpreter mends it, where PyTorch and Triton are installed: all 65,536
inputs of both 16-bit types against PyTorch's own conversions and sums."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

KERNEL = """
import sys, torch, triton, triton.language as tl
from kvgold.adapters import interpreter

@triton.jit
def kernel(x, fp8, wide, sums, least, bounded, n: tl.constexpr):
    i = tl.arange(0, n)
    a = tl.load(x + i)
    tl.store(fp8 + i, a.to(fp8.dtype.element_ty))
    tl.store(wide + i, a.to(tl.float32))
    tl.store(sums + i, a + tl.load(x + (i + 12345) % n))
    tl.store(least + i, tl.minimum(a.to(tl.float32), 1.0))
    tl.store(bounded + i, tl.clamp(a.to(tl.float32), -2.0, 3.0))

def same(what, ours, theirs):
    wrong = ~((ours == theirs) & (torch.signbit(ours) == torch.signbit(theirs)) | ours.isnan() & theirs.isnan())
    print(what, int(wrong.sum()), "of", len(wrong), "differ")

if sys.argv[1] == "mended":
    interpreter.mend()
for name in ("float16", "bfloat16"):
    x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(getattr(torch, name))
    for fp8 in (torch.float8_e4m3fn, torch.float8_e5m2):
        given, wide, least, bounded = torch.empty_like(x, dtype=fp8), *(torch.empty(1 << 16) for _ in range(3))
        sums = torch.empty_like(x)
        kernel[(1,)](x, given, wide, sums, least, bounded, 1 << 16)
        largest, f = torch.finfo(fp8).max, x.float()
        same(f"{name} to {fp8}", given.float(), f.clamp(-largest, largest).to(fp8).float())
    same(f"{name} to f32", wide, f)
    same(f"{name} sums", sums.float(), (x + x.roll(-12345)).float())
    same(f"{name} minimum", least, torch.where(f.isnan(), 1.0, f.clamp(max=1)))
    same(f"{name} clamp", bounded, torch.where(f.isnan(), 3.0, f.clamp(-2, 3)))
"""


@pytest.mark.parametrize("state", ["plain", "mended"])
def test_conversions(state, tmp_path):
    """Mended nothing differs, and the check sees what Triton 3.6 does by itself."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    done = subprocess.run([sys.executable, tmp_path / "kernel.py", state], capture_output=True, text=True, check=False,
                          env={**os.environ, "TRITON_INTERPRET": "1"})
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 12, done.stderr
    assert any(" 0 of " not in line for line in lines) == (state == "plain"), done.stdout
