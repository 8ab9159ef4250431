"""A small engine in PyTorch: reads an NVFP4 or bf16 cache of layout hnd and attends to it.

`Engine` is right. `WrongEngine` has one line wrong, as a kernel might: the block scales of the row's next block."""

import math

import torch

VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


class Engine:
    def __init__(self, heads, dim, page, window=0, softcap=0.0):
        self.heads, self.dim, self.page, self.window, self.softcap = heads, dim, page, window, softcap

    def scales_of_elements(self, scales):
        """One number per element from E4M3 bytes [..., dim / 16]."""
        return scales.view(torch.float8_e4m3fn).float().repeat_interleave(16, -1)

    def numbers(self, codes, scales, tensor_scale):
        """The numbers of rows [..., bytes]: bf16, or E2M1 with the even element in the low nibble."""
        if scales is None:
            return codes.view(torch.bfloat16).float()
        nibbles = torch.stack([codes & 15, codes >> 4], -1).flatten(-2).long()
        values = VALUES.to(codes.device)[nibbles & 7] * torch.where(nibbles >= 8, -1.0, 1.0)
        return values * self.scales_of_elements(scales) * tensor_scale

    def gather(self, pool, pages, length):
        """The rows of a sequence, [length, heads, bytes], from a layer's pages [pages, heads, page, bytes]."""
        return pool[pages].transpose(1, 2).flatten(0, 1)[:length]

    def attend(self, q, k, v):
        """Queries [n, query heads, dim], the last n tokens of the sequence, over k, v [tokens, heads, dim]."""
        group = q.shape[1] // self.heads
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
        scores = torch.einsum("ihd,khd->ihk", q.float(), k) / math.sqrt(self.dim)
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        here = len(k) - len(q) + torch.arange(len(q), device=q.device)
        behind = here.unsqueeze(1) - torch.arange(len(k), device=q.device)
        hidden = (behind < 0) | (behind >= self.window) if self.window else behind < 0
        scores = scores.masked_fill(hidden.unsqueeze(1), -math.inf)
        lse = torch.logsumexp(scores, -1)
        return torch.einsum("ihk,khd->ihd", torch.exp(scores - lse.unsqueeze(-1)), v), lse


class WrongEngine(Engine):
    def scales_of_elements(self, scales):
        return super().scales_of_elements(scales.roll(-1, -1))
