"""Dataclasses as arguments and results: nodes whose fields are arrays or nested values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import xp


def f64(*values: float) -> Any:
    return xp.asarray(np.array(values))


@dataclass
class Layer:
    w: Any
    b: Any
    axis: int = field(default=0, metadata={"static": True})


@dataclass(frozen=True)
class Net:
    layers: list[Layer]
    scale: Any
    name: str = "net"


class Counted:
    """How often __init__ of Point ran."""

    count = 0


@dataclass(eq=False)
class Point:
    x: Any
    y: Any = None

    def __post_init__(self) -> None:
        Counted.count += 1

    @tenon.compile
    def length(self) -> Any:
        return xp.sqrt(self.x * self.x + self.y * self.y)


@dataclass
class Slotted:
    __slots__ = ("x", "_cache")
    x: Any


def apply(net: Net, x: Any) -> Any:
    for layer in net.layers:
        x = xp.tanh(x * layer.w + xp.sum(layer.b, axis=layer.axis))
    return xp.sum(x) * net.scale


def net() -> Net:
    layers = [Layer(f64(0.5, -0.3), f64(0.1, 0.2)), Layer(f64(1.5, 0.7), f64(0.3))]
    return Net(layers, f64(2.0)[0])


X = f64(0.4, -1.1)


def test_a_gradient_is_the_same_dataclass() -> None:
    value, g = tenon.value_and_grad(apply)(net(), X)
    assert type(g) is Net and type(g.layers) is list and type(g.layers[0]) is Layer
    assert (g.name, g.layers[0].axis) == ("net", 0)
    assert g.layers[0].w.shape == (2,) and g.layers[1].b.shape == (1,)
    step = 1e-6

    def shifted(by: float) -> float:
        moved = net()
        moved.layers[0].w = moved.layers[0].w + f64(by, 0.0)
        return float(apply(moved, X))

    slope = (shifted(step) - shifted(-step)) / (2 * step)
    assert float(g.layers[0].w[0]) == pytest.approx(slope, rel=1e-8)
    assert float(g.scale) == pytest.approx(float(value) / 2)


def test_all_transforms_take_and_give_them() -> None:
    n = net()
    value, along = tenon.jvp(apply, (n, X), (n, X))
    again, push = tenon.linearize(apply, n, X)
    assert float(value) == float(again) and float(push(n, X)) == pytest.approx(float(along))
    pulled, of_x = tenon.vjp(apply, n, X)[1](f64(1.0)[0])
    assert type(pulled) is Net and of_x.shape == (2,)
    doubled = tenon.compile(lambda n: dataclasses.replace(n, scale=n.scale * 2))(n)
    assert type(doubled) is Net and float(doubled.scale) == 4 and doubled.name == "net"


def test_samples() -> None:
    def rotated(p: Point, k: Any) -> Point:
        return Point(p.y * k, -p.x)

    many = Point(f64(1.0, 2.0, 3.0), f64(4.0, 5.0, 6.0))
    made = tenon.vmap(rotated, in_axes=(0, None))(many, 2.0)
    assert (
        type(made) is Point and made.x.tolist() == [8, 10, 12] and made.y.tolist() == [-1, -2, -3]
    )
    made = tenon.vmap(rotated, in_axes=(Point(0, None), None))(Point(many.x, f64(4.0)[0]), 2.0)
    assert made.x.tolist() == [8, 8, 8]
    with pytest.raises(tenon.UsageError, match="T0663"):
        tenon.vmap(rotated, in_axes=(Layer(0, 0), None))(many, 2.0)


def test_control_flow_and_rules() -> None:
    last, xs = tenon.scan(lambda p, x: (Point(p.y, p.x + x), p), Point(f64(0.0)[0], f64(1.0)[0]), X)
    assert type(last) is Point and type(xs) is Point and xs.x.tolist() == [0, 1]
    chosen = tenon.cond(xp.asarray(True), lambda p: p, lambda p: Point(p.y, p.x), last)
    assert float(chosen.x) == float(last.x)
    with pytest.raises(tenon.UsageError, match=r"T0664.*carry\.y begins as float64\(\)"):
        tenon.scan(lambda p, x: (Point(p.x, X), None), last, X)
    with pytest.raises(
        tenon.UsageError, match=r"T0664.*Layer\(w=\*, b=\*, axis=0\).*Point\(x=\*, y=\*\)"
    ):
        tenon.cond(xp.asarray(True), lambda p: p, lambda p: Layer(p.y, p.x), last)

    @tenon.custom_vjp
    def kept(p: Point) -> Any:
        return p.x * p.y

    kept.defvjp(lambda p: (p.x * p.y, p), lambda p, g: (Point(g, 3 * g),))
    g = tenon.grad(lambda p: kept(p))(Point(f64(2.0)[0], f64(5.0)[0]))
    assert (type(g), float(g.x), float(g.y)) == (Point, 1, 3)


def test_values_of_fields_do_not_compile_again_and_static_ones_do() -> None:
    @tenon.compile
    def total(layer: Layer) -> Any:
        return xp.sum(layer.w * layer.b, axis=layer.axis)

    a = np.ones((2, 3))
    assert total(Layer(a, a)).shape == (3,)
    assert total(Layer(2 * a, a)).tolist() == [4, 4, 4] and total.compilations == 1
    assert total(Layer(a, a, axis=1)).tolist() == [3, 3] and total.compilations == 2
    assert total(Layer(a, 2.0)).tolist() == [4, 4, 4]  # a number is an array without axes
    with pytest.raises(tenon.UsageError, match=r"T0601.*axis"):
        total(Layer(a, a, axis=[0]))  # type: ignore[arg-type]


def test_a_method_takes_the_fields_as_they_are() -> None:
    p = Point(np.float64(3.0), np.float64(4.0))
    before = Counted.count
    assert float(p.length()) == 5
    p.x = np.float64(0.0)
    assert float(p.length()) == 4  # arrays in fields are no constants
    assert Counted.count == before, "no instance was made by __init__"


def test_instances_with_slots() -> None:
    made = tenon.compile(lambda s: Slotted(s.x + 1))(Slotted(np.ones(2)))
    assert type(made) is Slotted and made.x.tolist() == [2, 2]


def test_frozen_ones_without_arrays_are_constants() -> None:
    @dataclass(frozen=True)
    class Shape:
        size: int
        inner: Any = None

    made = tenon.compile(lambda x, s: xp.reshape(x, (s.size, -1)))
    assert made(np.ones(6), Shape(2)).shape == (2, 3) and made(np.ones(6), Shape(3)).shape == (3, 2)
    with pytest.raises(tenon.UsageError, match="T0663.*no array in argument 0"):
        tenon.grad(lambda s: s.size)(Shape(2))
    inner = tenon.compile(lambda s: s.inner["a"] * s.inner["b"].size)  # with an array it is a node
    assert float(inner(Shape(1, {"a": np.full((), 2.0), "b": Shape(3)}))) == 6
