"""Cases of ATen operators: templates of calls, with an axis each for types, sizes, strides and values."""

from __future__ import annotations

import functools
import json
import math
import pathlib
import zlib
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401, which defines operators

HERE = pathlib.Path(__file__).resolve().parent
TYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8,
    "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
        torch.complex64: torch.complex128}  # fmt: skip
SIZES = ("own", "0", "1", "7", "70000")
STRIDES = ("plain", "step", "turned", "spread")
VALUES = ("own", "wide", "few")
CALLS = 5
MOST = 500_000
"""Elements of a tensor."""


class Case(NamedTuple):
    """`call` is a template, "aten.add.Tensor#2". With `numbers` "five", its Python numbers change from call to call.

    A type of "f16+f32" is that of the first tensor whose type is open, and that of all others.
    """

    call: str
    type: str
    size: str = "own"
    strides: str = "plain"
    values: str = "own"
    numbers: str = "fixed"

    def __str__(self) -> str:
        return " ".join(
            (
                self.call,
                self.type,
                f"size={self.size}",
                f"strides={self.strides}",
                f"values={self.values}",
                f"numbers={self.numbers}",
            )
        )

    @classmethod
    def parse(cls, text: str) -> Case:
        call, kind, *rest = text.split()
        return cls(call, kind, *(word.split("=")[1] for word in rest))

    @property
    def seed(self) -> int:
        return zlib.crc32(str(self).encode())


class Template(NamedTuple):
    overload: str
    args: list[Any]
    kwargs: dict[str, Any]
    origin: str

    @property
    def operator(self) -> Any:
        found = torch.ops
        for part in self.overload.split("."):
            found = getattr(found, part)
        return found


@functools.cache
def templates() -> dict[str, Template]:
    """By name: the overload, and the number of the call."""
    found: dict[str, Template] = {}
    counts: dict[str, int] = {}
    for file in ("aten_more.jsonl", "aten_forms.jsonl"):
        for line in (HERE / file).read_text().splitlines():
            overload, args, kwargs, origin = json.loads(line)
            number = counts[overload] = counts.get(overload, -1) + 1
            found[f"{overload}#{number}"] = Template(overload, args, kwargs, origin)
    return found


def is_tensor(x: Any) -> bool:
    return isinstance(x, dict) and "t" in x


def tensors_in(x: Any) -> list[dict[str, Any]]:
    """All tensors of an argument as JSON."""
    if is_tensor(x):
        return [x]
    if isinstance(x, (list, tuple)):
        return [t for v in x for t in tensors_in(v)]
    return [t for v in x.values() for t in tensors_in(v)] if isinstance(x, dict) else []


def numbers_of(template: Template) -> list[int | str]:
    """Positions and names of Python numbers that may change: numbers and floats by the schema, no sizes."""
    found: list[int | str] = []
    for i, argument in enumerate(template.operator._schema.arguments):
        where: int | str = i if i < len(template.args) else argument.name
        value = template.args[i] if i < len(template.args) else template.kwargs.get(argument.name)
        kind = str(argument.real_type)
        if (
            ("float" in kind or "number" in kind or "Scalar" in kind)
            and "List" not in kind
            and _is_number(value)
        ):
            found.append(where)
    return found


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)


def substitutions(template: Template, size: str) -> list[tuple[int, int]]:
    """Pairs (d, n): that dims of d become n, in the order in which they are tried."""
    shapes = [t["s"] for t in tensors_in([template.args, template.kwargs])]
    if size == "own" or not shapes:
        return []
    found = []
    for d in sorted(
        {d for s in shapes for d in s}, key=lambda d: (-sum(d in s for s in shapes), -d)
    ):
        if size != "70000":
            if d != int(size):
                found.append((d, int(size)))
            continue
        largest = max((s for s in shapes if d in s), key=lambda s: (s.count(d), math.prod(s)))
        rest, power = math.prod(v for v in largest if v != d), largest.count(d)
        n = max(2, round((70000 / max(rest, 1)) ** (1 / power)))
        if all(math.prod(n if v == d else v for v in s) <= MOST for s in shapes):
            found.append((d, n))
    return found


def resized(template: Template, d: int, n: int) -> Template:
    """The template with n for each dim d, also in arguments that are sizes."""
    sizes = {
        i
        for i, a in enumerate(template.operator._schema.arguments)
        if "SymInt" in str(a.real_type) and a.name not in ("dim", "dims", "dim1", "dim2")
    }
    args = [_resized(v, d, n, i in sizes) for i, v in enumerate(template.args)]
    return template._replace(
        args=args,
        kwargs={k: _resized(v, d, n, k in ("size", "shape")) for k, v in template.kwargs.items()},
    )


def _resized(x: Any, d: int, n: int, is_size: bool) -> Any:
    if is_tensor(x):
        if d not in x["s"]:
            return x
        return {k: v for k, v in x.items() if k != "v"} | {
            "s": [n if v == d else v for v in x["s"]]
        }
    if isinstance(x, list):
        return [_resized(v, d, n, is_size) for v in x]
    return n if is_size and isinstance(x, int) and not isinstance(x, bool) and x == d else x


class Maker:
    """Makes the arguments of a case. `call` counts calls: numbers and data are others in each."""

    def __init__(self, case: Case, template: Template):
        self.case, self.template = case, template
        first, _, rest = case.type.partition("+")
        self.dtype, self.others = TYPES[first], TYPES[rest or first]
        self.numbers = numbers_of(template) if case.numbers == "five" else []

    def arguments(self, call: int) -> tuple[list[Any], dict[str, Any]]:
        self.random = np.random.default_rng([self.case.seed, call])
        self.is_first = True
        args = [self._made(v) for v in self.template.args]
        kwargs = {k: self._made(v) for k, v in self.template.kwargs.items()}
        for where in self.numbers:
            place: Any = args if isinstance(where, int) else kwargs
            place[where] = changed(place[where], call)
        return args, kwargs

    def _made(self, x: Any) -> Any:
        if is_tensor(x):
            return self._tensor(x)
        if isinstance(x, list):
            return [self._made(v) for v in x]
        if isinstance(x, dict):
            ((kind, name),) = x.items()
            if kind == "dtype":
                return self.dtype if name == "D" else getattr(torch, name)
            return getattr(torch, name) if kind == "format" else torch.device(name)
        return x

    def _tensor(self, spec: dict[str, Any]) -> torch.Tensor:
        if spec["t"] == "D":
            dtype, self.is_first = self.dtype if self.is_first else self.others, False
        else:
            dtype = getattr(torch, spec["t"])
        if self.template.origin == "complex64" and spec["t"] == "D":
            dtype = torch.complex128 if self.case.type == "f64" else torch.complex64
        values = self._values(spec, dtype)
        return laid_out(values, self.case.strides)

    def _values(self, spec: dict[str, Any], dtype: torch.dtype) -> torch.Tensor:
        shape, flags = tuple(spec["s"]), spec.get("f", "")
        if "v" in spec:
            return torch.tensor(spec["v"]).reshape(shape).to(dtype)
        low, high = spec.get("r", (-9, 9))
        if dtype.is_complex:
            return torch.complex(
                *(torch.from_numpy(self.random.uniform(-9, 9, shape)) for _ in range(2))
            ).to(dtype)
        if dtype.is_floating_point:
            made = self._floats(low, high, shape, dtype)
            if "p" in flags and shape[-1]:
                made = made.double() / made.double().abs().max().clamp(min=1e-9)
                made = (made @ made.mT / shape[-1] + torch.eye(shape[-1])).to(dtype)
        else:
            made = self._integers(
                math.floor(low), math.ceil(high), shape, dtype, spec["t"] == "D", "u" in flags
            )
        return made.sort(-1).values if "s" in flags and len(shape) else made

    def _floats(
        self, low: float, high: float, shape: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        if self.case.values == "wide":
            made = 10.0 ** self.random.uniform(-4, math.log10(6e4), shape)
            # Half of them so large that a few squares, or some added up, are beyond f16.
            large = self.random.uniform(2e4, 6e4, shape)
            made = np.where(self.random.random(shape) < 0.5, large, made)
            if low < 0:
                made = made * self.random.choice([-1.0, 1.0], shape)
        elif self.case.values == "few":
            made = self.random.choice(few_of(low, high), shape)
        else:
            made = self.random.uniform(low, high if high > low else low + 1, shape)
        return torch.from_numpy(np.asarray(made)).to(dtype)

    def _integers(
        self,
        low: int,
        high: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        is_data: bool,
        unique: bool,
    ) -> torch.Tensor:
        count = math.prod(shape)
        if dtype is torch.bool:
            return torch.from_numpy(np.asarray(self.random.integers(0, 2, shape))).bool()
        info = torch.iinfo(dtype)
        if is_data and 0 <= low and high <= 1:  # of floats between 0 and 1
            low, high = -9, 9
        if is_data and self.case.values == "wide":
            low, high = info.min, info.max
        elif is_data and self.case.values == "few":
            low, high = max(low, info.min, -2), min(high, info.max)
            high = max(low, min(high, low + 3))
        elif is_data:
            low, high = max(low, info.min), min(max(high, low + 1), info.max)
        elif unique and count > 1:
            made = low + self.random.permutation(max(count, high - low + 1))[:count]
            return torch.from_numpy(made.reshape(shape)).to(dtype)
        made = self.random.integers(low, high, shape, dtype=np.int64, endpoint=True)
        return torch.from_numpy(np.asarray(made)).to(dtype)


def few_of(low: float, high: float) -> list[float]:
    """Numbers of a range, so few that many are equal: halves next to zero where it has them."""
    least, most = math.ceil(2 * low), math.floor(2 * high)
    middle = min(max(0, least), most)
    near = [v / 2 for v in range(max(least, middle - 2), min(most, middle + 2) + 1)]
    return near if len(near) > 1 else [low + (high - low) * i / 4 for i in range(1, 4)]


def changed(x: float, call: int) -> float:
    """A number in call 0, 1, ...: all different, of the same sign and kind."""
    if isinstance(x, int):
        return x + (0, 2, 1, 4, 3)[call % CALLS]
    return (
        x * (1.0, 1.25, 0.75, 1.5, 0.5)[call % CALLS]
        if x
        else (0.0, 0.25, 0.5, 0.125, 0.75)[call % CALLS]
    )


def laid_out(x: torch.Tensor, strides: str) -> torch.Tensor:
    """The same values with other strides."""
    if not x.dim() or strides == "plain" or not x.numel():
        return x
    if strides == "step":
        base = torch.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), dtype=x.dtype)
        base[..., 1::2] = x
        return base[..., 1::2]
    if strides == "turned":
        order = list(range(x.dim()))[::-1]
        return x.permute(order).contiguous().permute(order)
    i = next((i for i, d in enumerate(x.shape) if d > 1), 0)
    return x.narrow(i, 0, 1).expand(x.shape)


def widened(x: Any, move: int, random: np.random.Generator) -> Any:
    """An argument in double precision; with `move`, floats change by a rounding of what is computed in."""
    if isinstance(x, torch.dtype):
        return WIDE.get(x, x)
    if isinstance(x, (list, tuple)):
        return type(x)(widened(v, move, random) for v in x)
    if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
        return x
    step = 2.0**-52 if x.dtype in (torch.float64, torch.complex128) else 2.0**-24
    out = x.to(WIDE.get(x.dtype, x.dtype))
    if move:
        out = out * torch.from_numpy(1 + step * random.choice([-1.0, 1.0], tuple(x.shape)))
    return out
