"""Networks of diffusers, tiny, with random weights: forward, wholly in Tenon."""

import pytest
import torch

diffusers = pytest.importorskip("diffusers")

import tenon.torch  # noqa: E402, F401
from conftest import close  # noqa: E402
from models import tensors  # noqa: E402


def unet():
    net = diffusers.UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, attention_head_dim=8,
    )  # fmt: skip
    return net, dict(
        sample=torch.randn(2, 4, 16, 16),
        timestep=torch.tensor([3, 7]),
        encoder_hidden_states=torch.randn(2, 5, 32),
        return_dict=False,
    )


def autoencoder():
    net = diffusers.AutoencoderKL(
        block_out_channels=(32, 64), latent_channels=4, down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=32,
    )  # fmt: skip
    return net, dict(sample=torch.randn(1, 3, 32, 32), return_dict=False)


def transformer():
    net = diffusers.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=16, in_channels=4, num_layers=2, sample_size=8, patch_size=2,
        num_embeds_ada_norm=10,
    )  # fmt: skip
    return net, dict(
        hidden_states=torch.randn(2, 4, 8, 8),
        timestep=torch.tensor([3, 7]),
        class_labels=torch.tensor([1, 2]),
        return_dict=False,
    )


@pytest.mark.parametrize("make", [unet, autoencoder, transformer])
def test_forward(make, graphs):
    net, inputs = make()
    net.eval()
    with torch.no_grad():
        mine, theirs = torch.compile(net, backend="tenon")(**inputs), net(**inputs)
    # Eager mode's convolutions may give strides that torch's own fake tensors do not.
    close(*([t.contiguous() for t in tensors(result)] for result in (mine, theirs)))
    assert graphs and not any(g.unsupported for g in graphs)
