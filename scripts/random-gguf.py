#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a small GGUF with random weights, for shapes that no model at hand has.

The tokenizer has one token for each byte, so text prompts work; it means nothing.
Tensors and keys may be left out or given absurd values, to test what refuses them.
"""
import argparse

import gguf
import numpy as np

SPECIAL = ["<unk>", "<s>", "</s>"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("out")
    p.add_argument("--arch", default="llama", help="llama, qwen2, qwen3, gemma3, or any other name")
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--embd", type=int, default=0, help="0: heads * head_dim (qwen2 knows no other)")
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--kv-heads", type=int, default=2)
    p.add_argument("--head-dim", type=int, default=64)
    p.add_argument("--ff", type=int, default=256)
    p.add_argument("--vocab", type=int, default=320)
    p.add_argument("--ctx", type=int, default=4096)
    p.add_argument("--rope-base", type=float, default=10000.0)
    p.add_argument("--rope-scaling", choices=["none", "linear", "yarn"], default="none")
    p.add_argument("--rope-factor", type=float, default=4.0)
    p.add_argument("--rope-freqs", action="store_true", help="a rope_freqs tensor (llama)")
    p.add_argument("--bias", action="store_true", help="biases of Q, K, V (qwen2 always has them)")
    p.add_argument("--separate-output", action="store_true", help="output weights of their own")
    p.add_argument("--window", type=int, default=0, help="sliding window in tokens (gemma3)")
    p.add_argument("--pattern", type=int, default=6, help="every so many layers one is global (gemma3)")
    p.add_argument("--type", choices=["f32", "f16"], default="f32")
    p.add_argument("--drop", action="append", default=[], metavar="TENSOR", help="leave a tensor out")
    p.add_argument("--set", action="append", default=[], metavar="KEY=N", dest="override",
                   help="state this number for a key of the architecture, as in block_count=1099511627776")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def keys(a):
    """Keys of the architecture, without its prefix."""
    k = {
        "context_length": a.ctx,
        "embedding_length": a.embd,
        "block_count": a.layers,
        "feed_forward_length": a.ff,
        "attention.head_count": a.heads,
        "attention.head_count_kv": a.kv_heads,
        "attention.key_length": a.head_dim,
        "attention.value_length": a.head_dim,
        "rope.dimension_count": a.head_dim,
        "vocab_size": a.vocab,
        "rope.freq_base": a.rope_base,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    if a.rope_scaling != "none":
        k["rope.scaling.type"] = a.rope_scaling
        k["rope.scaling.factor"] = a.rope_factor
        k["rope.scaling.original_context_length"] = int(a.ctx / a.rope_factor)
    if a.arch == "gemma3" and a.window:
        k["attention.sliding_window"] = a.window
        k["attention.sliding_window_pattern"] = a.pattern
    for item in a.override:
        name, value = item.split("=")
        k[name] = float(value) if "." in value else int(value)
    return k


def add_key(w, name, value):
    if isinstance(value, str):
        w.add_string(name, value)
    elif isinstance(value, float):
        w.add_float32(name, value)
    elif value > 0xffffffff:
        w.add_uint64(name, value)
    else:
        w.add_uint32(name, value)


def add_tokenizer(w, a):
    tokens = SPECIAL + [f"<0x{i:02X}>" for i in range(256)]
    types = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
    spare = a.vocab - len(tokens)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens + [f"<spare{i}>" for i in range(spare)])
    w.add_token_scores([0.0] * a.vocab)
    w.add_token_types(types + [gguf.TokenType.UNUSED] * spare)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(True)


def layer_shapes(a):
    """name -> shape of one layer's tensors; one number: a norm or a bias."""
    q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
    s = {
        "attn_norm.weight": (a.embd,),
        "attn_q.weight": (q, a.embd),
        "attn_k.weight": (kv, a.embd),
        "attn_v.weight": (kv, a.embd),
        "attn_output.weight": (a.embd, q),
        "ffn_norm.weight": (a.embd,),
        "ffn_gate.weight": (a.ff, a.embd),
        "ffn_up.weight": (a.ff, a.embd),
        "ffn_down.weight": (a.embd, a.ff),
    }
    if a.bias or a.arch == "qwen2":
        s |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if a.arch in ("qwen3", "gemma3"):
        s |= {"attn_q_norm.weight": (a.head_dim,), "attn_k_norm.weight": (a.head_dim,)}
    if a.arch == "gemma3":
        s |= {"post_attention_norm.weight": (a.embd,), "post_ffw_norm.weight": (a.embd,)}
    return s


def shapes(a):
    s = {"token_embd.weight": (a.vocab, a.embd)}
    if a.rope_freqs:
        s["rope_freqs.weight"] = (a.head_dim // 2,)
    for i in range(a.layers):
        s |= {f"blk.{i}.{name}": shape for name, shape in layer_shapes(a).items()}
    s["output_norm.weight"] = (a.embd,)
    if a.separate_output:
        s["output.weight"] = (a.vocab, a.embd)
    return {name: shape for name, shape in s.items() if name not in a.drop}


def random_tensor(rng, name, shape, a):
    if name == "rope_freqs.weight":
        return np.linspace(1, 8, shape[0], dtype=np.float32)
    data = rng.standard_normal(shape, np.float32)
    if len(shape) == 1:
        return data * np.float32(0.1) + np.float32(name.endswith("norm.weight"))
    data /= np.sqrt(np.float32(shape[1]))
    return data.astype(np.float16) if a.type == "f16" else data


def main():
    a = arguments()
    a.embd = a.embd or a.heads * a.head_dim
    if a.vocab < len(SPECIAL) + 256:
        raise SystemExit(f"--vocab {a.vocab}: at least {len(SPECIAL) + 256}")
    rng = np.random.default_rng(a.seed)
    w = gguf.GGUFWriter(a.out, a.arch)
    w.add_name("random")
    for name, value in keys(a).items():
        add_key(w, f"{a.arch}.{name}", value)
    add_tokenizer(w, a)
    for name, shape in shapes(a).items():
        w.add_tensor(name, random_tensor(rng, name, shape, a))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
