"""Adapters: put an implementation to a pack over the file protocol. prompt.safetensors in, an answer file out, nothing
linked; `kvgold compare PACK ANSWER.safetensors` judges. docs/guide/adapters.md."""
