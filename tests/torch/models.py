"""Small configurations of transformers with random weights: one of each kind of network."""

from __future__ import annotations

import torch
import transformers as T

MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


def ids(batch=2, length=16):
    return torch.randint(3, 100, (batch, length))


def pixels(size=32):
    return torch.randn(2, 3, size, size)


SMALL = dict(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    vocab_size=100,
)
VISION = dict(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    image_size=32,
    patch_size=8,
)
HALVES = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
              encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=100)  # fmt: skip


def tensors(result):
    """All tensors in a result."""
    if isinstance(result, torch.Tensor):
        return [result]
    if hasattr(result, "items"):
        return [t for v in result.values() for t in tensors(v)]
    return [t for v in result for t in tensors(v)] if isinstance(result, (tuple, list)) else []


def without_chance(net):
    """The network with nothing at random, so that two runs agree."""
    for module in net.modules():
        for name in (
            "p",
            "dropout",
            "attention_dropout",
            "attn_dropout",
            "activation_dropout",
            "dropout_p",
        ):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return net


@model
def bert():
    config = T.BertConfig(**SMALL)
    return T.BertModel(config), dict(input_ids=ids())


@model
def distilbert():
    config = T.DistilBertConfig(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=100)
    return T.DistilBertModel(config), dict(input_ids=ids())


@model
def roberta():
    config = T.RobertaConfig(**SMALL)
    return T.RobertaModel(config), dict(input_ids=ids())


@model
def albert():
    config = T.AlbertConfig(embedding_size=32, **SMALL)
    return T.AlbertModel(config), dict(input_ids=ids())


@model
def electra():
    config = T.ElectraConfig(embedding_size=32, **SMALL)
    return T.ElectraModel(config), dict(input_ids=ids())


@model
def deberta():
    config = T.DebertaV2Config(
        **SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"], max_relative_positions=64
    )
    return T.DebertaV2Model(config), dict(input_ids=ids())


@model
def gpt2():
    config = T.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100)
    return T.GPT2LMHeadModel(config), dict(input_ids=ids(), use_cache=False)


@model
def gpt_neox():
    config = T.GPTNeoXConfig(**SMALL)
    return T.GPTNeoXForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def llama():
    config = T.LlamaConfig(num_key_value_heads=2, **SMALL)
    return T.LlamaForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def mistral():
    config = T.MistralConfig(num_key_value_heads=2, **SMALL, head_dim=16)
    return T.MistralForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def qwen2():
    config = T.Qwen2Config(num_key_value_heads=2, **SMALL)
    return T.Qwen2ForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def gemma():
    config = T.GemmaConfig(num_key_value_heads=2, head_dim=16, **SMALL)
    return T.GemmaForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def phi():
    config = T.PhiConfig(**SMALL)
    return T.PhiForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def opt():
    config = T.OPTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=128,
        vocab_size=100,
        word_embed_proj_dim=64,
    )
    return T.OPTForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def bloom():
    config = T.BloomConfig(hidden_size=64, n_layer=2, n_head=4, vocab_size=100)
    return T.BloomForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def mixtral():
    config = T.MixtralConfig(num_key_value_heads=2, num_local_experts=4, **SMALL)
    return T.MixtralForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def mamba():
    config = T.MambaConfig(hidden_size=64, num_hidden_layers=2, vocab_size=100, state_size=8)
    return T.MambaForCausalLM(config), dict(input_ids=ids(), use_cache=False)


@model
def t5():
    config = T.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100)
    return T.T5ForConditionalGeneration(config), dict(
        input_ids=ids(), decoder_input_ids=ids(2, 8), use_cache=False
    )


@model
def bart():
    config = T.BartConfig(**HALVES)
    return T.BartForConditionalGeneration(config), dict(
        input_ids=ids(), decoder_input_ids=ids(2, 8), use_cache=False
    )


@model
def vit():
    config = T.ViTConfig(**VISION)
    return T.ViTModel(config), dict(pixel_values=pixels())


@model
def swin():
    config = T.SwinConfig(
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
    )
    return T.SwinModel(config), dict(pixel_values=pixels())


@model
def convnext():
    config = T.ConvNextConfig(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1])
    return T.ConvNextModel(config), dict(pixel_values=pixels(64))


@model
def resnet():
    config = T.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1])
    return T.ResNetModel(config), dict(pixel_values=pixels(64))


@model
def clip():
    config = T.CLIPConfig(
        text_config=dict(
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            vocab_size=100,
            eos_token_id=2,
        ),
        vision_config=dict(**VISION),
        projection_dim=32,
    )
    return T.CLIPModel(config), dict(input_ids=ids(), pixel_values=pixels())


@model
def whisper():
    config = T.WhisperConfig(
        **HALVES,
        num_mel_bins=16,
        max_source_positions=32,
        pad_token_id=0,
        decoder_start_token_id=1,
        bos_token_id=1,
        eos_token_id=2,
    )
    return T.WhisperModel(config), dict(
        input_features=torch.randn(2, 16, 64), decoder_input_ids=ids(2, 8), use_cache=False
    )


@model
def wav2vec2():
    config = T.Wav2Vec2Config(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        conv_dim=(16, 16),
        conv_stride=(4, 4),
        conv_kernel=(8, 4),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        mask_time_prob=0.0,
        layerdrop=0.0,
        apply_spec_augment=False,
    )
    return T.Wav2Vec2Model(config), dict(input_values=torch.randn(2, 800))


@model
def segformer():
    config = T.SegformerConfig(
        hidden_sizes=[16, 32],
        num_encoder_blocks=2,
        depths=[1, 1],
        num_attention_heads=[1, 2],
        sr_ratios=[2, 1],
        patch_sizes=[7, 3],
        strides=[4, 2],
        mlp_ratios=[2, 2],
    )
    return T.SegformerModel(config), dict(pixel_values=pixels())


@model
def mobilenet_v2():
    config = T.MobileNetV2Config(image_size=64, depth_multiplier=0.35)
    return T.MobileNetV2Model(config), dict(pixel_values=pixels(64))


@model
def deit():
    config = T.DeiTConfig(**VISION)
    return T.DeiTModel(config), dict(pixel_values=pixels())


@model
def falcon():
    config = T.FalconConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=100
    )
    return T.FalconForCausalLM(config), dict(input_ids=ids(), use_cache=False)
