"""What makes a configuration small, and where a model type needs its own word.

Sizes are chosen so that a mix-up shows: width 32, 4 heads of 8, 48 inner, windows of 8 below the
24 positions of a probe, 113 words.
"""

from typing import Any

VOCABULARY, POSITIONS, WIDTH, HEADS, HEAD, INNER, WINDOW = 113, 128, 32, 4, 8, 48, 8


def _named(size: Any, names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), size)


SIZES: dict[str, Any] = {
    **_named(VOCABULARY, "vocab_size decoder_vocab_size vocab_size_per_layer_input"),
    **_named(
        POSITIONS,
        "max_position_embeddings n_positions n_ctx max_seq_len context_length max_target_positions"
        " model_max_length max_source_positions",
    ),
    **_named(
        WIDTH,
        "hidden_size d_model n_embd emb_dim embedding_size word_embed_proj_dim lru_width"
        " input_embedding_size output_embedding_size embedding_dim dim_model hidden_size_global",
    ),
    **_named(
        HEADS,
        "num_attention_heads n_head n_heads decoder_attention_heads encoder_attention_heads"
        " num_decoder_attention_heads num_encoder_attention_heads num_heads attention_heads"
        " linear_num_value_heads linear_num_heads swa_num_attention_heads index_n_heads"
        " num_experts num_local_experts n_routed_experts moe_num_experts",
    ),
    **_named(
        2, "n_group num_expert_group linear_num_key_heads swa_num_key_value_heads num_kv_heads"
    ),
    **_named(2, "kv_n_heads"),
    **_named(
        HEAD,
        "head_dim global_head_dim attention_head_dim attention_head_size d_head dim_head"
        " index_head_dim linear_head_dim linear_key_head_dim linear_value_head_dim kv_channels"
        " qk_nope_head_dim v_head_dim swa_head_dim mamba_d_head mamba_head_dim mamba_headdim d_kv",
    ),
    **_named(4, "qk_rope_head_dim rotary_dim"),
    **_named(
        16,
        "q_lora_rank kv_lora_rank o_lora_rank router_hidden_size ssm_state_size state_size"
        " mamba_d_state adapter_rank laurel_rank hc_lowrank gated_norm_rank"
        " hidden_size_per_layer_input",
    ),
    **_named(64, "mamba_d_ssm"),  # the inner width of a state-space layer: 2 · WIDTH
    **_named(8, "mamba_n_heads mamba_num_heads"),  # 8 heads of 8
    **_named(2, "mamba_n_groups mamba_ngroups n_groups o_groups time_step_rank mamba_dt_rank"),
    **_named(
        INNER,
        "intermediate_size d_inner dff dim_ff d_ff n_inner feed_forward_size ffn_dim"
        " decoder_ffn_dim encoder_ffn_dim ffn_hidden_size dense_intermediate_size mlp_dim"
        " intermediate_size_mlp moe_intermediate_size expert_ffn_hidden_size"
        " shared_expert_intermediate_size moe_shared_expert_intermediate_size",
    ),
    **_named(2, "num_experts_per_tok num_experts_per_token moe_k moe_top_k moe_topk top_k_experts"),
    **_named(1, "topk_group first_k_dense_replace num_dense_layers max_window_layers"),
    **_named(
        WINDOW,
        "sliding_window sliding_window_size window_size attention_window_size local_attention"
        " attention_chunk_size keep_window_size chunk_size mamba_chunk_size"
        " local_attn_chunk_length lsh_attn_chunk_length index_topk block_size",
    ),
    # hashed byte groups, towers for sound
    **_named(97, "encoder_hash_byte_group_vocab"),
    **_named(WIDTH, "ext_pw_out_channel nemo_conv_channels depthwise_separable_out_channel"),
    **_named(2, "zero_expert_num"),
    # 1/√32: at the usual 0.02 a width of 32 hardly passes anything on, and a leak stays below noise
    **_named(0.18, "initializer_range init_std"),
}

LAYER_COUNTS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    *("decoder_layers", "encoder_layers", "num_decoder_layers", "num_encoder_layers"),
)

_TWO_WINDOWS = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}
_QWEN_WINDOWS = {"use_sliding_window": True, "sliding_window": WINDOW, **_TWO_WINDOWS}
_GEMMA4 = {"global_head_dim": 16, "rope_parameters": None}
_NO_LAYER_INPUT = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
_QWEN4 = {
    # the default leaves the indexer unset, and the layer then divides None by None
    **{"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 8},
    **{"indexer_budget": 8, "indexer_compress_ratio": 4},
    # n-gram embeddings are off by default and 20 million rows when on
    **{"ple_layer_ids": [1], "ple_embed_dim": WIDTH, "heads_per_ngram": 2, "eos_token_id": 0},
    **{"ngram_vocab_size_base": 101, "split_ngram_parts": 1},
}

OVERRIDES: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},  # all layers are state-space by default
    "granitemoehybrid": {  # likewise
        "num_hidden_layers": 3,
        "layer_types": ["mamba", "attention", "mamba"],
    },
    "dbrx": {  # read by the class, missing in its default
        "attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0}
    },
    "cohere_compass_text": {  # no rotation is set by default, and the class asks for it
        "rope_parameters": {
            "full_attention": {
                "rope_type": "default",
                "mrope_section": [2, 1, 1],
                "rope_theta": 1e4,
            },
            "sliding_attention": None,
        },
        **_TWO_WINDOWS,
    },
    # the last layers reuse keys of the last layer of their kind that has its own
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "activation_sparsity_pattern": [0.5, 0.0, 0.5, 0.0],
        "num_kv_shared_layers": 2,
        "intermediate_size": INNER,
    },
    # full-attention layers have wider heads, passed under a name that the default does not show
    "gemma4": {"text_config": _GEMMA4},
    "gemma4_text": _GEMMA4,
    "gemma4_unified": {"text_config": _GEMMA4},
    "gemma4_unified_text": _GEMMA4,
    # the default text configuration is refused by the drafter's own check
    "gemma4_assistant": {
        "_default": {"text_config": _NO_LAYER_INPUT},
        "text_config": _GEMMA4 | _NO_LAYER_INPUT | {"num_kv_shared_layers": 2},
    },
    # all layers are full attention by default; both kinds are wanted
    "qwen2": _QWEN_WINDOWS,
    "qwen2_moe": _QWEN_WINDOWS,
    "qwen3": _QWEN_WINDOWS,
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, **_TWO_WINDOWS},  # experts unset
    "smollm3": _QWEN_WINDOWS | {"no_rope_layers": [0, 1]},
    # no convolution in the default of the first, no layers named in that of the second
    "lfm2": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
    "ministral": _TWO_WINDOWS,  # all sliding by default
    "blt": {
        "num_hidden_layers": 3,  # its cache asks for it, its default has none
        "patching_threshold": 4.3,  # near the entropy of random logits: patches of several lengths
    },
    # heads are a list, one number a layer; the rule would keep 48
    "laguna": {"num_attention_heads_per_layer": [2, 4], **_TWO_WINDOWS},
    "mellum": _TWO_WINDOWS,  # all full attention by default
    "zaya": {
        "num_experts_per_tok": 1,  # the class takes no other
        "layer_types": ["hybrid", "hybrid_sliding"],
        "sliding_window": WINDOW,
    },
    "qwen4_exp": {"text_config": _QWEN4},
    "qwen4_exp_text": _QWEN4,
    # at the default 128 a summary never closes within a probe
    "deepseek_v4": {
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}
    },
    "jamba": {"attn_layer_period": 3, "attn_layer_offset": 1},  # else no attention in 3 layers
    # the shared transformer is tied between hybrid layers: two are needed
    "zamba": {
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
    },
    # all full attention and all experts by default; blocks of 128 are longer than a probe
    "minimax_m3_vl_text": {
        "num_hidden_layers": 3,
        "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        **{"index_block_size": 4, "index_topk_blocks": 2, "shared_intermediate_size": INNER},
    },
    "mamba2": {"num_heads": 8},  # heads · head_dim must be expand · width
    "xlstm": {"hidden_size": 128, "embedding_dim": 128, "num_blocks": 3},  # widths round up to 64
    "reformer": {
        # 16 · 8 = positions, 8 + 24 = width
        "axial_pos_shape": [16, 8],
        "axial_pos_embds_dim": [8, 24],
        "hash_seed": 3,  # else each forward draws other buckets
    },
    # blocks of 2: eleven of them fit below 24 positions, or the sparse pattern is never used
    "big_bird": {"block_size": 2},
    "bigbird_pegasus": {"block_size": 2},
    "xlm": {"causal": True},  # what is_decoder is elsewhere
    "xmod": {"default_language": "en_XX"},  # forward asks for a language
    # two more vocabularies, of sounds and of shapes: 13 million weights as they come
    "roc_bert": {
        **{"pronunciation_vocab_size": 23, "shape_vocab_size": 29},
        **{"pronunciation_embed_dim": WIDTH, "shape_embed_dim": WIDTH},
    },
    # one codebook, or rows of a batch are codebooks of one sound
    "musicgen": {"decoder": {"num_codebooks": 1}},
    "musicgen_melody": {"decoder": {"num_codebooks": 1}},
}

PARTS = {"musicgen": "decoder", "musicgen_melody": "decoder"}

WHY_NOT: dict[str, str] = {
    "gemma3n": "its vision tower needs the timm package, which is not installed",
    "gemma4_assistant": "a drafter: runs on hidden states and keys of the model it drafts for",
    "gemma4_unified_assistant": (
        "a drafter: runs on hidden states and keys of the model it drafts for"
    ),
}

NOT_CAUSAL: dict[str, str] = {
    "cpmant": "a prefix LM: all of the input is context, and context is read in both directions",
    "reformer": "hashed attention sorts all positions by bucket: later tokens move chunk borders",
    "xlnet": "a permutation LM: reads in both directions unless perm_mask or attn_type='uni'",
}

# What each failure of benchmarks/audit_zoo.py was found to be: model type -> audit -> finding.
# Line numbers are those of modeling_<model type>.py in transformers 5.22.2.
_COUNTED = (  # decoders that count positions from the first pad, and the line that does
    "bart:648 bigbird_pegasus:1781 blenderbot:612 blenderbot-small:578 marian:596 mbart:725"
    " musicgen:522 musicgen_melody:509 mvp:805 pegasus:673 plbart:580 trocr:541 whisper:785"
)
_LEFT = "limitation: takes no position_ids, so pads on the left shift all positions (line {})"
_STATE = "limitation: a later piece of several tokens is scanned from an empty state (line {})"
_STEP = "defect: the step size is clipped in reading (line {}) and not in decoding (line {})"
_TIES = "by design: scores of the sparse index tie at 0, topk takes any of the tied keys (line {})"

KNOWN: dict[str, dict[str, str]] = {
    **{
        kind: {"padding": _LEFT.format(line)}
        for kind, line in (pair.split(":") for pair in _COUNTED.split())
    },
    **{
        kind: dict.fromkeys(("causality", "padding", "cache-parity"), _TIES.format(line))
        for kind, line in (
            ("axk2", 277),
            ("deepseek_v32", 241),
            ("glm_moe_dsa", 242),
            ("hy_v4", 258),
        )
    },
    "falcon_mamba": {"cache-parity": _STATE.format(497)},
    "jamba": {"cache-parity": _STATE.format(598)},
    "mamba": {"cache-parity": _STATE.format(459)},
    "zamba": {"cache-parity": _STATE.format(583)},
    "nemotron_h": {"cache-parity": _STEP.format(595, 564)},
    "zamba2": {"cache-parity": _STEP.format(850, 819)},
    "bamba": {"cache-parity": "defect: without position_ids every piece starts at 0 (line 966)"},
    "big_bird": {
        "causality": "defect: the block-sparse path has no causal mask (line 1620)",
        "padding": "defect: as causality; a short text takes the full path, which is causal",
        "cache-parity": "defect: as causality; a piece takes the full path, which is causal",
    },
    "blt": {
        "padding": "limitation: the patcher is given no mask and makes patches of pads (line 1209)",
        "cache-parity": "defect: patcher, global transformer see new bytes only (lines 1209, 1269)",
    },
    "cpmant": {
        "causality": "by design: " + NOT_CAUSAL["cpmant"],
        "padding": "limitation: the mask is a dummy (line 713); id 0 is a pad, on the left only",
        "coverage": "by design: an id 0 anywhere hides one token at the left end (line 566)",
        "cache-parity": "by design: what is kept was read without the tokens that came later",
    },
    "deepseek_v4": {
        "causality": _TIES.format(583),
        "padding": "limitation: summaries are made of columns, pads too (line 404)",
    },
    "minimax_m3_vl_text": {
        "causality": "defect: a query that may see no chosen block attends to all keys (line 623)",
        "padding": "limitation: blocks are counted in columns; the class says so (line 481)",
    },
    "moshi": {"cache-parity": "defect: the cache has a window, the mask has none (line 775)"},
    "prophetnet": {
        "causality": "defect: wrong permute of the relative bias (line 805)",
        "padding": "defect: the same; and positions are not given the mask (line 1144)",
        "cache-parity": "defect: as causality; one token at a time the permute does no harm",
    },
    "recurrent_gemma": {
        "padding": "defect: the convolution reads pads, no mask is used (line 454)"
    },
    "reformer": {"causality": "by design: " + NOT_CAUSAL["reformer"]},
    "rwkv": {"padding": "limitation: attention_mask is not used, and it says so (line 548)"},
    "xlm": {"padding": "defect: the causal mask leaves pads visible (line 71)"},
    "xlnet": {
        "causality": "by design: " + NOT_CAUSAL["xlnet"],
        "mask-strength": "by design: without perm_mask no position is masked",
    },
}
KNOWN["bigbird_pegasus"]["tying-and-save"] = (
    "defect: the settings ask for a tie, and the class names no weights to tie (line 2291)"
)
