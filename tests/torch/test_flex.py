"""flex_attention: score and mask functions in one program with what is around them, against eager mode."""

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

ROWS = 40
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
DOCUMENTS = torch.tensor([0] * 13 + [1] * 20 + [2] * 7)


def alibi(score, b, h, q, k):
    return score + SLOPES[h] * (k - q)


def capped(score, b, h, q, k):
    return 5 * torch.tanh(score / 5)


def causal(b, h, q, k):
    return q >= k


def window(b, h, q, k):
    return (q >= k) & (q - k < 9)


def documents(b, h, q, k):
    return DOCUMENTS[q] == DOCUMENTS[k]


def blind(b, h, q, k):
    return (k < q) & (h != 1)


SCORES = {"plain": None, "alibi": alibi, "capped": capped}
MASKS = {"none": None, "causal": causal, "window": window, "documents": documents, "blind": blind}
PAIRS = [
    ("plain", "none"),
    ("plain", "window"),
    ("plain", "blind"),
    ("alibi", "causal"),
    ("capped", "documents"),
]


def given(heads=4, dtype=torch.float32):
    return [torch.randn(2, n, ROWS, 8, dtype=dtype) for n in (4, heads, heads)]


def compared(graphs, f, *args, **options):
    with torch.no_grad():
        close(torch.compile(f, backend="tenon", **options)(*args), f(*args))
    assert [len(g.partitions) for g in graphs] == [1] and not graphs[0].unsupported


@pytest.mark.parametrize("score, mask", PAIRS)
def test_scores_and_masks(score, mask, graphs):
    block = MASKS[mask] and create_block_mask(
        MASKS[mask], None, None, ROWS, ROWS, device="cpu", BLOCK_SIZE=16
    )
    compared(
        graphs, lambda q, k, v: flex_attention(q * 2, k, v, SCORES[score], block) + 1, *given()
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_grouped_heads_and_log_sum_exp(dtype, graphs):
    block = create_block_mask(causal, None, None, ROWS, ROWS, device="cpu")

    def f(q, k, v):
        return flex_attention(q, k, v, alibi, block, scale=0.3, enable_gqa=True, return_lse=True)

    q, k, v = given(2, dtype)
    with torch.no_grad():
        mine, theirs = torch.compile(f, backend="tenon")(q, k, v), f(q, k, v)
    close(mine, theirs, 1e-4 if dtype is torch.float64 else 1e-2)
    assert not graphs[0].unsupported


def test_the_mask_function_decides_as_in_eager_mode(graphs):
    """And not the table of blocks, which may even contradict it."""
    block = BlockMask.from_kv_blocks(
        torch.ones(1, 1, 3, dtype=torch.int32), torch.zeros(1, 1, 3, 1, dtype=torch.int32),
        BLOCK_SIZE=16, mask_mod=window, seq_lengths=(ROWS, ROWS),
    )  # fmt: skip
    compared(graphs, lambda q, k, v: flex_attention(q, k, v, block_mask=block), *given())


def test_captured_parameters_and_permuted_queries(graphs):
    bias = torch.randn(4, 2 * ROWS)

    def f(q, k, v, bias):
        def relative(score, b, h, i, j):
            return score + bias[h, i - j + ROWS]

        return flex_attention(q.transpose(1, 2), k, v, relative).transpose(1, 2)

    q, k, v = given()
    compared(graphs, f, q.transpose(1, 2).contiguous(), k, v, bias)


def test_rows_of_any_number(graphs):
    run = torch.compile(
        lambda q, k, v: flex_attention(q, k, v, alibi), backend="tenon", dynamic=True
    )
    with torch.no_grad():
        for rows in (40, 24, 7):
            q, k, v = (t[:, :, :rows].contiguous() for t in given())
            close(run(q, k, v), flex_attention(q, k, v, alibi))
    assert len(graphs) <= 2 and not any(g.unsupported for g in graphs)


def test_a_gradient_is_refused_as_in_eager_mode():
    """torch has none on this device."""
    q, k, v = (t.requires_grad_() for t in given())
    for run in (flex_attention, torch.compile(flex_attention, backend="tenon")):
        with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
            run(q, k, v)
