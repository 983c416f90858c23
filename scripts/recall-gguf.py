#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""recall-gguf.py DIR OUT.gguf [f32|f16]: the recall model (Hugging Face names, float32) as a GGUF.

The model has no tokenizer: prompts are token ids.  Its Q and K rows are laid out for a RoPE that
turns element i with element i + head_dim / 2; the llama architecture turns neighbours, so the rows
of each head are interleaved here.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    for name, t in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + o for o in t["data_offsets"])
            yield name, np.frombuffer(raw[begin:end], "<f4").reshape(t["shape"])


def interleave(rows, n_heads):
    halves = rows.reshape(n_heads, 2, -1, rows.shape[1])
    return np.ascontiguousarray(halves.transpose(0, 2, 1, 3)).reshape(rows.shape)


def gguf_tensor(name, data, cfg):
    if name == "model.embed_tokens.weight":
        return "token_embd.weight", data
    if name == "model.norm.weight":
        return "output_norm.weight", data
    layer, part = name.removeprefix("model.layers.").split(".", 1)
    part = LAYER[part.removesuffix(".weight")]
    if part == "attn_q":
        data = interleave(data, cfg["num_attention_heads"])
    elif part == "attn_k":
        data = interleave(data, cfg["num_key_value_heads"])
    return f"blk.{layer}.{part}.weight", data


def main(directory, out, dtype="f32"):
    cfg = json.loads((directory / "config.json").read_text())
    w = gguf.GGUFWriter(out, "llama")
    w.add_name("recall")
    w.add_vocab_size(cfg["vocab_size"])
    w.add_context_length(cfg["max_position_embeddings"])
    w.add_embedding_length(cfg["hidden_size"])
    w.add_block_count(cfg["num_hidden_layers"])
    w.add_feed_forward_length(cfg["intermediate_size"])
    w.add_head_count(cfg["num_attention_heads"])
    w.add_head_count_kv(cfg["num_key_value_heads"])
    w.add_key_length(cfg["head_dim"])
    w.add_value_length(cfg["head_dim"])
    w.add_rope_dimension_count(cfg["head_dim"])
    w.add_rope_freq_base(cfg["rope_theta"])
    w.add_layer_norm_rms_eps(cfg["rms_norm_eps"])
    w.add_tokenizer_model("no_vocab")
    for name, data in read_safetensors(directory / "model.safetensors"):
        name, data = gguf_tensor(name, data, cfg)
        w.add_tensor(name, data.astype(np.float16) if dtype == "f16" and data.ndim > 1 else data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["f32"], ["f16"]):
        print(__doc__.splitlines()[0], file=sys.stderr)
        sys.exit(2)
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
