"""Values are rounded where eager mode rounds them."""

import tenon.torch  # noqa: F401
import torch


def compiled(function, *arguments):
    return torch.compile(function, backend="tenon")(*arguments)


def test_opposite_products_add_up_to_nothing():
    one, x = torch.full((64,), 1e20), torch.full((64,), 1e10)
    assert compiled(lambda a, b, x: a * x + b * x, one, -one, x).abs().max() == 0


def test_equal_products_differ_by_nothing():
    v = torch.randn(100, generator=torch.Generator().manual_seed(0))
    assert compiled(lambda a, b: a * b - b * a, v, v.flip(0)).abs().max() == 0
    matrices = v[:, None].expand(100, 4).contiguous()
    assert compiled(lambda a: a[:, 0] * a[:, 3] - a[:, 1] * a[:, 2], matrices).abs().max() == 0


def test_softmax_of_large_products_is_that_of_eager():
    x = torch.randn(64, 50, generator=torch.Generator().manual_seed(0))
    for softmax in (torch.softmax, torch.log_softmax):
        for factor in (1e14, 1e4, 7.3):
            expected = softmax(x * factor, -1)
            torch.testing.assert_close(compiled(lambda x: softmax(x * factor, -1), x), expected)


def test_bytes_are_resized_in_the_steps_of_eager():
    x = torch.randint(
        0, 256, (1, 3, 33, 47), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    for mode, size in (("bilinear", (12, 61)), ("bicubic", (70, 20))):

        def resized(x, mode=mode, size=size):
            return torch.nn.functional.interpolate(x, size=size, mode=mode, antialias=True)

        torch.testing.assert_close(compiled(resized, x), resized(x), rtol=0, atol=0)
