"""Calls of torch for every operator that tenon.torch maps: a table for torch_ops.py.

A case has a name, the shapes of its tensors, and a function of them. Shapes are text, with a space
between tensors: `n,768 768` is a matrix of n elements in rows of 768, and a line of 768. A letter
before a colon says what the elements are: `p:` positive, `u:` between -0.9 and 0.9, `i50:` integers
from 0 to 49, `b:` booleans, none: normal numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import linalg, special

aten = torch.ops.aten


@dataclasses.dataclass
class Case:
    name: str
    shapes: str
    call: Callable
    # Products wait for other work, and are counted apart; results of "random" are not compared.
    kind: str = ""
    most: int = 1 << 24


CASES: list[Case] = []


def case(name: str, shapes: str, call: Callable, kind: str = "", most: int = 1 << 24) -> None:
    CASES.append(Case(name, shapes, call, kind, most))


def elementwise() -> None:
    normal = "abs ceil floor trunc round exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf"
    normal += (
        " erfc neg relu sigmoid square sign sgn isnan isinf isfinite signbit logical_not positive"
    )
    for name in normal.split():
        case(name, "n", getattr(torch, name))
    for name in "sqrt rsqrt log log1p log2 log10 reciprocal lgamma digamma".split():
        case(name, "p:n", getattr(torch, name))
    for name in "asin acos atanh erfinv".split():
        case(name, "u:n", getattr(torch, name))
    case("acosh", "p:n", lambda x: torch.acosh(x + 1))
    layers = "silu mish hardswish hardsigmoid hardtanh leaky_relu elu selu celu"
    layers += " softplus relu6 logsigmoid softsign tanhshrink hardshrink softshrink"
    for name in layers.split():
        case(name, "n", getattr(F, name))
    case("gelu", "n", F.gelu)
    case("gelu, tanh", "n", lambda x: F.gelu(x, approximate="tanh"))
    case("prelu", "n,64,256 64", F.prelu)
    case("glu", "n,1024", F.glu)
    case("threshold", "n", lambda x: F.threshold(x, 0.1, 2.0))
    for name in "add sub mul maximum minimum fmax fmin atan2 hypot copysign eq lt ge logaddexp logaddexp2".split():
        case(name, "n n", getattr(torch, name))
    case("div", "n p:n", torch.div)
    case("div, floor", "n p:n", lambda x, y: torch.div(x, y, rounding_mode="floor"))
    case("div, trunc", "n p:n", lambda x, y: torch.div(x, y, rounding_mode="trunc"))
    case("fmod", "n p:n", torch.fmod)
    case("remainder", "n p:n", torch.remainder)
    case("nextafter", "n n", torch.nextafter)
    case("ldexp", "n i8:n", torch.ldexp)
    case("xlogy", "n p:n", torch.xlogy)
    case("xlog1py", "n p:n", special.xlog1py)
    case("pow 2", "n", lambda x: x**2)
    case("pow 3.5", "p:n", lambda x: x**3.5)
    case("pow", "p:n n", torch.pow)
    case("pow of a number", "n", lambda x: 2.5**x)
    case("add of a row", "n,1024 1024", torch.add)
    case("add of a column", "n,64,256 64,1", torch.add)
    case("mul of a number", "n", lambda x: x * 1.5)
    case("lerp", "n n", lambda x, y: torch.lerp(x, y, 0.3))
    case("lerp of a tensor", "n n p:n", torch.lerp)
    case("addcmul", "n n n", lambda x, y, z: torch.addcmul(x, y, z, value=0.5))
    case("addcdiv", "n n p:n", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5))
    case("where", "b:n n n", torch.where)
    case("masked_fill", "n b:n", lambda x, m: x.masked_fill(m, -1.0))
    case("clamp", "n", lambda x: x.clamp(-0.5, 0.5))
    case("clamp_min", "n", lambda x: x.clamp_min(0.1))
    case("round to decimals", "n", lambda x: torch.round(x, decimals=2))
    case("logit", "p:n", lambda x: torch.logit(x * 0.5, 1e-4))
    case("sinc", "n", torch.sinc)
    case("i0", "n", torch.i0)
    case("bitwise and", "i1000:n i1000:n", torch.bitwise_and)
    case("bitwise xor", "i1000:n i1000:n", torch.bitwise_xor)
    case("bitwise not", "i1000:n", torch.bitwise_not)
    case("shift left", "i1000:n i8:n", torch.bitwise_left_shift)
    case("shift right", "i1000:n i8:n", torch.bitwise_right_shift)
    case("integer add", "i1000:n i1000:n", torch.add)
    case("integer mul", "i1000:n i1000:n", torch.mul)
    case("integer floor div", "i1000:n i1000:n", lambda x, y: x // (y + 1))
    case("integer remainder", "i1000:n i1000:n", lambda x, y: x % (y + 1))
    case("gcd", "i1000:n i1000:n", torch.gcd, most=1 << 22)
    case("logical and", "b:n b:n", torch.logical_and)
    case("to float64", "n", lambda x: x.double())
    case("to int64", "n", lambda x: x.long())
    case("int64 to float", "i1000:n", lambda x: x.float())
    case("to bool", "n", lambda x: x.bool())


def reductions() -> None:
    rows = "n,1024"
    for name in "sum mean amax amin prod var std logsumexp argmax argmin".split():
        f = getattr(torch, name)
        case(f"{name} of rows", rows, lambda x, f=f: f(x, 1))
        case(f"{name} of columns", rows, lambda x, f=f: f(x, 0))
    for name in "sum mean max min var norm argmax".split():
        case(f"{name} of all", "n", getattr(torch, name))
    case("prod of all", "p:n", lambda x: torch.prod(x * 0.01 + 0.99))
    case("sum of short rows", "n,8", lambda x: x.sum(1))
    case("sum of channels", "n,4,64,64", lambda x: x.sum((0, 2, 3)), most=1 << 24)
    case("max of rows", rows, lambda x: torch.max(x, 1))
    case("max of columns", rows, lambda x: torch.max(x, 0))
    case("min of rows", rows, lambda x: torch.min(x, 1))
    case("var_mean of rows", rows, lambda x: torch.var_mean(x, 1))
    case("std_mean of columns", rows, lambda x: torch.std_mean(x, 0))
    for order in (1, 2, 3, "inf"):
        case(f"norm {order} of rows", rows, lambda x, o=order: linalg.vector_norm(x, float(o), 1))
    case("normalize", rows, lambda x: F.normalize(x, dim=1))
    case("any of rows", "b:n,1024", lambda x: x.any(1))
    case("all of columns", "b:n,1024", lambda x: x.all(0))
    case("count_nonzero of rows", rows, lambda x: x.count_nonzero(1))
    case("histc", "u:n", lambda x: torch.histc(x, 100, -1.0, 1.0))
    case("integer sum of rows", "i1000:n,1024", lambda x: x.sum(1))
    case("bincount", "i1000:n", lambda x: torch.bincount(x, minlength=1000))
    for name in "cumsum cumprod cummax cummin logcumsumexp".split():
        f = getattr(torch, name)
        case(f"{name} of rows", rows, lambda x, f=f: f(x, 1))
        case(f"{name} of columns", rows, lambda x, f=f: f(x, 0))
    case("cosine_similarity", f"{rows} {rows}", lambda x, y: F.cosine_similarity(x, y))
    case("pairwise_distance", f"{rows} {rows}", lambda x, y: F.pairwise_distance(x, y))
    case("median of rows", "n,256", lambda x: torch.median(x, 1))
    case("kthvalue of rows", "n,256", lambda x: torch.kthvalue(x, 7, 1))
    case("sort of rows", "n,256", lambda x: torch.sort(x, stable=True, dim=1))
    case("argsort of rows", "n,256", lambda x: torch.argsort(x, 1))
    case("sort of all", "n", lambda x: torch.sort(x, stable=True))
    case("topk of rows", "n,1024", lambda x: torch.topk(x, 8, 1))
    case("searchsorted", "n", lambda x: torch.searchsorted(torch.linspace(-2, 2, 1000), x))
    case("bucketize", "n", lambda x: torch.bucketize(x, torch.linspace(-2, 2, 20)))


def movement() -> None:
    image = "n,64,32,32"
    case("clone", "n", torch.clone)
    case("transpose", "n,1024", lambda x: x.t().contiguous())
    case("transpose of heads", "n,128,12,64", lambda x: x.transpose(1, 2).contiguous())
    case("channels last", image, lambda x: x.permute(0, 2, 3, 1).contiguous())
    case("expand", "n", lambda x: x.view(-1, 1).expand(-1, 8).contiguous(), most=1 << 22)
    case("slice of columns", "n,1024", lambda x: x[:, 100:900].contiguous())
    case("slice with a step", "n,1024", lambda x: x[:, ::2].contiguous())
    case("select of a column", "n,8", lambda x: x[:, 3].contiguous())
    case("split and cat", "n,1024", lambda x: torch.cat(x.split(256, 1)[::-1], 1))
    case("cat of rows", "n,1024 n,1024", lambda x, y: torch.cat([x, y], 0))
    case("cat of columns", "n,512 n,512", lambda x, y: torch.cat([x, y], 1))
    case("cat of channels", f"{image} {image}", lambda x, y: torch.cat([x, y], 1))
    case("stack of last", "n n", lambda x, y: torch.stack([x, y], -1))
    case("chunk of last", "n,1024", lambda x: [p.contiguous() for p in x.chunk(3, -1)])
    case("flip", "n,1024", lambda x: x.flip(1))
    case("roll", "n,1024", lambda x: x.roll(100, 1))
    case("repeat", "n,1024", lambda x: x.repeat(2, 2), most=1 << 23)
    case("repeat_interleave", "n,64", lambda x: x.repeat_interleave(4, 0), most=1 << 23)
    case("tril", "n,512,512", torch.tril)
    case("triu", "n,512,512", torch.triu)
    case("diagonal", "n,64,64", lambda x: x.diagonal(dim1=1, dim2=2).contiguous())
    case("diag_embed", "n,64", torch.diag_embed, most=1 << 20)
    case("pad", image, lambda x: F.pad(x, (1, 1, 1, 1)))
    case("pad, reflect", image, lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"))
    case("pad, replicate", image, lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"))
    case("pad, circular", image, lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"))
    case(
        "slice_scatter", "n,1024 n,256", lambda x, y: x.slice_scatter(y[: x.shape[0]], 1, 100, 356)
    )
    case("select_scatter", "n,8 n,1", lambda x, y: x.select_scatter(y[: x.shape[0], 0], 1, 3))
    case("unfold", "n,1024", lambda x: x.unfold(1, 4, 2).contiguous(), most=1 << 23)
    case("im2col", "n,16,32,32", lambda x: F.unfold(x, 3, padding=1), most=1 << 21)
    case("pixel_shuffle", image, lambda x: F.pixel_shuffle(x, 2))
    case("pixel_unshuffle", image, lambda x: F.pixel_unshuffle(x, 2))
    case("channel_shuffle", image, lambda x: F.channel_shuffle(x, 4))
    case("meshgrid", "n", lambda x: torch.meshgrid(x[:256], x[256:], indexing="ij")[0] + 1)


def places() -> None:
    table = "10000,64"
    case("embedding", f"i10000:n {table}", lambda i, w: F.embedding(i, w), most=1 << 19)
    case("embedding_bag", f"i10000:n,8 {table}", lambda i, w: F.embedding_bag(i, w, mode="sum"))
    case(
        "index_select of rows", f"i10000:n {table}", lambda i, x: x.index_select(0, i), most=1 << 19
    )
    case("index_select of columns", "i64:64 n,64", lambda i, x: x.index_select(1, i))
    case("index", f"i10000:n {table}", lambda i, x: x[i], most=1 << 19)
    case("index of two", f"i10000:n i64:n {table}", lambda i, j, x: x[i, j])
    case("gather of rows", "n,256 i256:n,256", lambda x, i: x.gather(1, i))
    case("take", "i65536:n 65536", lambda i, x: x.take(i))
    case("take_along_dim", "n,256 i256:n,256", lambda x, i: torch.take_along_dim(x, i, 1))
    case("index_fill", "n,64 i64:8", lambda x, i: x.index_fill(1, i, 2.0))
    case(
        "index_copy",
        f"i10000:1000 {table} 1000,64",
        lambda i, x, y: x.index_copy(0, i.unique()[:9], y[:9]),
    )
    case(
        "index_put", f"i10000:n {table} 64", lambda i, x, y: x.index_put((i,), y), "places", 1 << 19
    )
    case(
        "index_put, summed",
        f"i10000:n {table}",
        lambda i, x: x.index_put((i,), x[i], accumulate=True),
        "places",
        1 << 19,
    )
    case(
        "index_add",
        f"i10000:n {table}",
        lambda i, x: torch.zeros_like(x).index_add(0, i, x[i]),
        "places",
        1 << 19,
    )
    case("scatter", "n,256 i256:n,256 n,256", lambda x, i, y: x.scatter(1, i, y), "places")
    case("scatter_add", "n,256 i256:n,256 n,256", lambda x, i, y: x.scatter_add(1, i, y), "places")
    case(
        "scatter_reduce amax",
        "n,256 i256:n,256 n,256",
        lambda x, i, y: x.scatter_reduce(1, i, y, "amax"),
        "places",
    )
    case("masked_scatter", "n b:n n", lambda x, m, y: x.masked_scatter(m, y), "places")
    case("one_hot", "i100:n", lambda i: F.one_hot(i, 100), most=1 << 18)


def random() -> None:
    case("dropout", "n", lambda x: F.dropout(x, 0.1), "random")
    case("rand_like", "n", lambda x: torch.rand_like(x), "random")
    case("randn_like", "n", lambda x: torch.randn_like(x), "random")
    case("bernoulli", "p:n", lambda x: torch.bernoulli(x * 0.5), "random")
    case("randint_like", "n", lambda x: torch.randint_like(x, 100), "random")


def layers() -> None:
    image, line = "n,64,32,32", "n,768"
    case("softmax", line, lambda x: F.softmax(x, 1))
    case("softmax of columns", line, lambda x: F.softmax(x, 0))
    case("softmax of channels", image, lambda x: F.softmax(x, 1))
    case("log_softmax", line, lambda x: F.log_softmax(x, 1))
    case("softmin", line, lambda x: F.softmin(x, 1))
    case("layer_norm", f"{line} 768 768", lambda x, w, b: F.layer_norm(x, (768,), w, b))
    case("layer_norm of 64", "n,64 64 64", lambda x, w, b: F.layer_norm(x, (64,), w, b))
    case("layer_norm, plain", line, lambda x: F.layer_norm(x, (768,)))
    case("rms_norm", f"{line} 768", lambda x, w: F.rms_norm(x, (768,), w))
    case("group_norm", f"{image} 64 64", lambda x, w, b: F.group_norm(x, 8, w, b))
    case("instance_norm", image, lambda x: F.instance_norm(x))
    case(
        "batch_norm, training",
        f"{image} 64 64",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    )
    case(
        "batch_norm 1d, training",
        "n,256 256 256",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    )
    case(
        "batch_norm, inference",
        f"{image} 64 p:64",
        lambda x, m, v: F.batch_norm(x, m.detach(), v.detach()),
    )
    case("local_response_norm", image, lambda x: F.local_response_norm(x, 5))
    case("max_pool1d", "n,64,256", lambda x: F.max_pool1d(x, 2))
    case("max_pool2d 2", image, lambda x: F.max_pool2d(x, 2))
    case("max_pool2d 3 s2", image, lambda x: F.max_pool2d(x, 3, 2, 1))
    case("max_pool2d 3 s1", image, lambda x: F.max_pool2d(x, 3, 1, 1))
    case("max_pool3d 2", "n,16,16,16,16", lambda x: F.max_pool3d(x, 2))
    case("avg_pool1d", "n,64,256", lambda x: F.avg_pool1d(x, 2))
    case("avg_pool2d 2", image, lambda x: F.avg_pool2d(x, 2))
    case("avg_pool2d 3 s2", image, lambda x: F.avg_pool2d(x, 3, 2, 1))
    case("avg_pool2d 3 s1", image, lambda x: F.avg_pool2d(x, 3, 1, 1))
    case("avg_pool3d 2", "n,16,16,16,16", lambda x: F.avg_pool3d(x, 2))
    case("adaptive_avg_pool2d 1", image, lambda x: F.adaptive_avg_pool2d(x, 1))
    case("adaptive_avg_pool2d 7", image, lambda x: F.adaptive_avg_pool2d(x, 7))
    case("adaptive_max_pool2d 7", image, lambda x: F.adaptive_max_pool2d(x, 7))
    case("lp_pool2d", image, lambda x: F.lp_pool2d(x, 2.0, 2))
    case("nearest x2", image, lambda x: F.interpolate(x, scale_factor=2.0), "places")
    for mode in ("bilinear", "bicubic"):
        case(
            f"{mode} x2",
            image,
            lambda x, m=mode: F.interpolate(x, scale_factor=2.0, mode=m),
            "places",
            1 << 22,
        )
    case(
        "bilinear, antialias",
        image,
        lambda x: F.interpolate(x, (24, 24), mode="bilinear", antialias=True),
        "places",
    )
    case(
        "trilinear x2",
        "n,8,8,16,16",
        lambda x: F.interpolate(x, scale_factor=2.0, mode="trilinear"),
        "places",
        1 << 22,
    )
    case(
        "linear x2",
        "n,64,256",
        lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"),
        "places",
    )
    case("grid_sample", "n,32,32,16 u:n,32,32,2", grids, "places")
    case("weight_norm", "n,256", lambda v: torch._weight_norm(v, v[:, :1], 0))


def grids(x, grid):
    return F.grid_sample(x.view(-1, 16, 32, 32), grid[: x.shape[0]], align_corners=False)


def losses() -> None:
    line = "n,1000"
    case("cross_entropy", f"{line} i1000:n", lambda x, t: F.cross_entropy(x, t[: x.shape[0]]))
    case(
        "cross_entropy, smoothed",
        f"{line} i1000:n",
        lambda x, t: F.cross_entropy(x, t[: x.shape[0]], label_smoothing=0.1),
    )
    case("nll_loss", f"{line} i1000:n", lambda x, t: F.nll_loss(x, t[: x.shape[0]]))
    for name in "mse_loss l1_loss smooth_l1_loss huber_loss".split():
        case(name, "n n", getattr(F, name))
    case("soft_margin_loss", "n n", lambda x, y: F.soft_margin_loss(x, y.detach().sign()))
    case(
        "binary_cross_entropy",
        "p:n p:n",
        lambda x, y: F.binary_cross_entropy(x * 0.9, (y * 0.9).detach()),
    )
    case("bce with logits", "n p:n", lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach()))
    case("kl_div", "n p:n", lambda x, y: F.kl_div(x, y.detach(), reduction="batchmean"))
    case("poisson_nll_loss", "n p:n", F.poisson_nll_loss)
    case("gaussian_nll_loss", "n n p:n", F.gaussian_nll_loss)
    case(
        "cosine_embedding_loss",
        "n,256 n,256 256",
        lambda x, y, t: F.cosine_embedding_loss(x, y, torch.ones(x.shape[0])),
    )
    case("triplet_margin_loss", "n,256 n,256 n,256", F.triplet_margin_loss)
    case("hinge_embedding_loss", "n n", lambda x, y: F.hinge_embedding_loss(x, y.detach().sign()))
    case(
        "margin_ranking_loss",
        "n n n",
        lambda x, y, t: F.margin_ranking_loss(x, y, t.detach().sign()),
    )
    case(
        "multi_margin_loss", f"{line} i1000:n", lambda x, t: F.multi_margin_loss(x, t[: x.shape[0]])
    )


def products() -> None:
    case("linear", "n,256 256,256 256", F.linear, "product", 1 << 22)
    case("mm", "n,256 256,256", torch.mm, "product", 1 << 22)
    case("bmm", "n,64,64 n,64,64", torch.bmm, "product", 1 << 22)
    case("mv", "n,1024 1024", torch.mv, "product")
    case("dot", "n n", torch.dot, "product")
    case("outer", "1024 n", lambda x, y: torch.outer(x, y[: 1 << 16]), "product", 1 << 16)
    case("cdist", "n,64 256,64", torch.cdist, "product", 1 << 20)
    case("conv1d", "n,16,256 16,16,3", lambda x, w: F.conv1d(x, w, padding=1), "product", 1 << 22)
    case(
        "conv2d 3",
        "n,16,32,32 16,16,3,3",
        lambda x, w: F.conv2d(x, w, padding=1),
        "product",
        1 << 22,
    )
    case("conv2d 1", "n,16,32,32 16,16,1,1", F.conv2d, "product", 1 << 22)
    case(
        "conv2d, depthwise",
        "n,16,32,32 16,1,3,3",
        lambda x, w: F.conv2d(x, w, padding=1, groups=16),
        "product",
        1 << 22,
    )
    case(
        "conv2d, 4 groups",
        "n,16,32,32 16,4,3,3",
        lambda x, w: F.conv2d(x, w, padding=1, groups=4),
        "product",
        1 << 22,
    )
    case(
        "conv3d",
        "n,8,8,16,16 8,8,3,3,3",
        lambda x, w: F.conv3d(x, w, padding=1),
        "product",
        1 << 20,
    )
    case(
        "conv_transpose2d",
        "n,16,32,32 16,16,2,2",
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        "product",
        1 << 22,
    )
    case(
        "attention",
        "n,4,128,64 n,4,128,64 n,4,128,64",
        F.scaled_dot_product_attention,
        "product",
        1 << 22,
    )
    case(
        "attention, causal",
        "n,4,128,64 n,4,128,64 n,4,128,64",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "product",
        1 << 22,
    )
    case(
        "cholesky",
        "n,16,16",
        lambda x: linalg.cholesky(x @ x.mT + torch.eye(16)),
        "product",
        1 << 20,
    )
    case("inv", "n,16,16", lambda x: linalg.inv(x @ x.mT + torch.eye(16)), "product", 1 << 20)
    case(
        "solve",
        "n,16,16 n,16,4",
        lambda x, y: linalg.solve(
            x + 20 * torch.eye(16), y.view(-1, 16, 4)[: x.shape[0]].expand(x.shape[0], 16, 4)
        ),
        "product",
        1 << 18,
    )
    case(
        "solve_triangular",
        "n,16,16",
        lambda x: linalg.solve_triangular(x.tril() + 20 * torch.eye(16), x, upper=False),
        "product",
        1 << 20,
    )
    case("det", "n,8,8", linalg.det, "product", 1 << 20)
    case("qr", "n,16,16", linalg.qr, "product", 1 << 18)
    case("fft", "n,256", lambda x: torch.view_as_real(torch.fft.rfft(x)), "product", 1 << 22)


for group in (elementwise, reductions, movement, places, random, layers, losses, products):
    group()
