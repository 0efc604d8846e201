"""Runs cases of ATen operators: many in one compiled function, each with a result of its own.

A group runs in two processes that share the caches on disk. The first compiles it (`cold`), calls it,
with numbers and data that change if it is a group of those, and compiles it again from the caches
(`warm`). The second begins with other numbers (`second`).
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import aten_cases
import judge
import numpy as np
import tenon.torch  # noqa: F401, which registers the backend
import torch
from aten_cases import CALLS, Case, Maker, Template, widened
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree


class Ready(NamedTuple):
    """A case that eager mode takes, with its template in the size of the case."""

    case: Case
    template: Template

    def arguments(self, call: int) -> tuple[list[Any], dict[str, Any]]:
        return Maker(self.case, self.template).arguments(call)

    @property
    def numbers(self) -> list[int | str]:
        """Where arguments are numbers that change."""
        return Maker(self.case, self.template).numbers


class Verdict(NamedTuple):
    case: str
    when: str
    problem: str


_REFUSED = re.compile(r"graph: (\S+) stays in torch: (.*)")
_CALL = re.compile(r"a call (?:stays|ran) in torch: (.*)")


class _Logged(logging.Handler):
    """What the package says: operators and calls that ran in torch, graphs from the cache."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.refused: dict[str, str] = {}
        self.calls: list[str] = []
        self.from_cache = 0

    def clear(self) -> None:
        self.refused, self.calls = {}, []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if found := _REFUSED.search(text):
            self.refused[found[1]] = found[2]
        elif found := _CALL.search(text):
            self.calls.append(found[1])
        self.from_cache += "comes from torch's cache" in text


logged = _Logged()


def set_up() -> None:
    warnings.simplefilter("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    log = logging.getLogger("tenon.torch")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(logged)
    cache = logging.getLogger("tenon.cache")
    cache.setLevel(logging.INFO)
    cache.propagate = False
    cache.addHandler(logged)
    tenon.set_logs("cache")
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    torch._dynamo.config.capture_scalar_outputs = True
    torch._dynamo.config.recompile_limit = 16


def eager(made: Ready, args: Any, kwargs: Any) -> list[Any]:
    """The results. A number that changes is a factor of the first tensor, too, as in `source`."""
    with torch.no_grad():
        results = pytree.tree_leaves(made.template.operator(*args, **kwargs))
        tensor = next(
            (v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)), None
        )
        numbers = made.numbers if tensor is not None else []
        return results + [tensor * (args[n] if isinstance(n, int) else kwargs[n]) for n in numbers]


def ready(case: Case) -> Ready | None:
    """The case, if eager mode takes it in every call."""
    own = aten_cases.templates()[case.call]
    if case.size != "own" and "pool" in case.call and "backward" in case.call:
        return None  # places of another size are outside of what eager mode writes to
    if case.size == "70000" and any(word in case.call for word in ("split", "unbind", "chunk")):
        return None  # as many results
    pairs = aten_cases.substitutions(own, case.size)
    choices = [own] if case.size == "own" else [aten_cases.resized(own, d, n) for d, n in pairs]
    for template in choices:
        made = Ready(case, template)
        with contextlib.suppress(Exception):
            if case.size == "70000" and not _is_small(made):
                continue
            for call in range(CALLS if case.numbers == "five" else 1):
                eager(made, *made.arguments(call))
            return made
    return None


def _is_small(made: Ready) -> bool:
    """Whether results have no more elements than a case may have."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        args, kwargs = pytree.tree_map_only(torch.Tensor, mode.from_tensor, made.arguments(0))
        try:
            results = eager(made, args, kwargs)
        except NotImplementedError:
            return True  # data decides its sizes, which are at most those of its inputs
        except Exception as error:
            return (
                "DataDependent" in type(error).__name__ or "DynamicOutput" in type(error).__name__
            )
    return sum(r.numel() for r in results if isinstance(r, torch.Tensor)) <= aten_cases.MOST


def _text(x: Any, name: str, parameters: list[str], is_number: bool) -> str:
    """An argument in the source of a group."""
    if isinstance(x, torch.Tensor) or is_number:
        parameters.append(name)
        return name
    if isinstance(x, (list, tuple)):
        return (
            "["
            + ", ".join(_text(v, f"{name}_{i}", parameters, False) for i, v in enumerate(x))
            + "]"
        )
    return repr(x)


def source(group: list[Ready]) -> str:
    """A function of all tensors and changing numbers of a group. It returns a list with the results of each case.

    A number that changes has a second use, as a factor: of the two, torch makes one a constant. Every
    other number is computed from what the function is given.
    """
    parameters: list[str] = []
    lines = []
    for i, made in enumerate(group):
        args, kwargs = made.arguments(0)
        begin, texts = len(parameters), {}
        for where, value in [*enumerate(args), *kwargs.items()]:
            texts[where] = _text(value, f"a{i}_{where}", parameters, where in made.numbers)
            if where in made.numbers and is_derived(made, value):
                texts[where] = f"({texts[where]} * 2.0)"
        tensor = next(
            (
                name
                for name in parameters[begin:]
                if name not in {f"a{i}_{n}" for n in made.numbers}
            ),
            "",
        )
        given = ", ".join(
            text if isinstance(where, int) else f"{where}={text}" for where, text in texts.items()
        )
        factors = (
            ", ".join(f"{tensor} * {texts[where]}" for where in made.numbers) if tensor else ""
        )
        lines.append(f"    r{i} = [torch.ops.{made.template.overload}({given}), {factors}]")
    results = ", ".join(f"r{i}" for i in range(len(group)))
    return (
        f"def group({', '.join(parameters)}):\n" + "\n".join(lines) + f"\n    return [{results}]\n"
    )


def is_derived(made: Ready, number: Any) -> bool:
    """Whether the function of a group is given half of the number."""
    return isinstance(number, float) and made.case.seed % 2 == 0


def leaves(group: list[Ready], call: int) -> list[Any]:
    """What the function of a group is given."""
    out: list[Any] = []
    for made in group:
        args, kwargs = made.arguments(call)
        for where, value in [*enumerate(args), *kwargs.items()]:
            if where in made.numbers:
                out.append(value / 2 if is_derived(made, value) else value)
            else:
                out += [v for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]
    return out


def compiled(group: list[Ready], **options: str) -> Any:
    names: dict[str, Any] = {
        "torch": torch,
        "device": torch.device,
        "inf": math.inf,
        "nan": math.nan,
    }
    exec(source(group), names)  # noqa: S102, our own text
    return torch.compile(names["group"], backend="tenon", options=options or None)


def is_rounding(case: Case) -> bool:
    """Whether so many elements have a narrow type that some result is small next to what it is the sum of."""
    return case.type in ("f16", "bf16") and case.size == "70000" and case.numbers == "fixed"


def run_rounded(group: list[Ready]) -> Iterator[Verdict]:
    """On the device that rounds each step to its type.

    The others keep steps of an operator in float32, unless another output of the graph is such a step.
    """
    yield from _judged(group, compiled(group, device="reference"), 0, "rounded")
    torch._dynamo.reset()


def run_first(group: list[Ready]) -> Iterator[Verdict]:
    changing = any(made.case.numbers == "five" for made in group)
    function = compiled(group)
    for call in range(CALLS if changing else 1):
        yield from _judged(group, function, call, "cold" if call == 0 else f"call {call}")
    torch._dynamo.reset()
    yield from _judged(group, compiled(group), 0, "warm")
    torch._dynamo.reset()


def run_second(group: list[Ready]) -> Iterator[Verdict]:
    changing = any(made.case.numbers == "five" for made in group)
    function = compiled(group)
    for call in (2, 3, 4, 0, 1) if changing else (0,):
        yield from _judged(
            group, function, call, "second" if call in (0, 2) else f"second, call {call}"
        )
    torch._dynamo.reset()


def _judged(group: list[Ready], function: Any, call: int, when: str) -> Iterator[Verdict]:
    logged.clear()
    try:
        with torch.no_grad():
            results = function(*leaves(group, call))
    except Exception as error:
        if len(group) == 1:
            kind = (
                "refused" if "making fake tensor call" in str(error) else "error"
            )  # torch's own limit
            yield Verdict(str(group[0].case), when, _first(kind, error))
            return
        raise
    for made, result in zip(group, results, strict=True):
        problem = compare(made, call, pytree.tree_leaves(result))
        if problem:
            yield Verdict(str(made.case), when, problem)
    for operator, reason in logged.refused.items():
        yield Verdict("", when, f"refused: {operator}: {reason}")
    if logged.calls:
        yield Verdict("", when, f"ran in torch: {logged.calls[0]}")


def _first(kind: str, error: BaseException) -> str:
    return f"{kind}: {type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"[:240]


# Each result is a sum of elements that may cancel.
MIXES = (
    "_fft_",
    ".std",
    ".var",
    ".cumsum",
    "linalg_",
    ".mm.",
    ".bmm.",
    ".addmm.",
    ".baddbmm.",
    "triangular",
)


class _Exact:
    """A case in double precision, by the number of the change of its inputs."""

    def __init__(self, made: Ready, call: int):
        self.made, self.call = made, call
        self.known: dict[int, list[Any] | None] = {}
        self.mixes = any(word in made.template.overload for word in MIXES)

    def results(self, move: int) -> list[Any] | None:
        if move not in self.known:
            random = np.random.default_rng([self.made.case.seed, self.call, move])
            try:
                args, kwargs = self.made.arguments(self.call)
                args, kwargs = (
                    widened(args, move, random),
                    {k: widened(v, move, random) for k, v in kwargs.items()},
                )
                self.known[move] = eager(self.made, args, kwargs)
            except Exception:
                self.known[move] = None
        return self.known[move]


def compare(made: Ready, call: int, ours: list[Any]) -> str:
    """What is wrong with the results of a case, or nothing."""
    args, kwargs = made.arguments(call)
    theirs = eager(made, args, kwargs)
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    exact = _Exact(made, call)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        problem = _compare(a, b, i, exact)
        if problem.startswith("strides") and a.stride() in _strides_of_torch(made, call, i):
            continue
        if problem and not is_tie(made, args, kwargs, ours, theirs, i):
            return f"result {i}: {problem}"
    return ""


def _compare(a: Any, b: Any, i: int, exact: _Exact) -> str:
    if not isinstance(b, torch.Tensor):
        return (
            ""
            if a == b or a is b or isinstance(b, float) and math.isclose(a, b, rel_tol=1e-5)
            else f"{a} instead of {b}"
        )
    if type(a) is not torch.Tensor:
        return f"a {type(a).__name__} instead of a tensor"
    if a.dtype != b.dtype:
        return f"{a.dtype} instead of {b.dtype}"
    if a.shape != b.shape:
        return f"shape {tuple(a.shape)} instead of {tuple(b.shape)}"

    def of(move: int) -> np.ndarray | None:
        results = exact.results(move)
        return (
            array_of(results[i])
            if results is not None and isinstance(results[i], torch.Tensor)
            else None
        )

    kind = str((torch.view_as_real(b.resolve_conj()) if b.is_complex() else b).dtype)[6:]
    problem = judge.problem(array_of(a), array_of(b), kind, of, exact.mixes)
    return problem or _strides(a, b)


def _strides(a: torch.Tensor, b: torch.Tensor) -> str:
    of = [(x, y) for x, y, d in zip(a.stride(), b.stride(), b.shape) if d > 1] if b.numel() else []
    return (
        f"strides: {a.stride()} instead of {b.stride()} for {tuple(b.shape)}"
        if any(x != y for x, y in of)
        else ""
    )


def _strides_of_torch(made: Ready, call: int, i: int) -> list[tuple[int, ...]]:
    """The strides of a result by torch's fake tensors, and by its own trace without a compiler.

    Some are not those of eager mode, and a backend sees no other.
    """
    args, kwargs = made.arguments(call)
    found = []
    with contextlib.suppress(Exception), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        given = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
        found.append(eager(made, *given)[i].stride())
    with contextlib.suppress(Exception):
        traced = torch.compile(lambda a, k: eager(made, a, k), backend="aot_eager")
        found.append(traced(args, kwargs)[i].stride())
    return found


def array_of(x: torch.Tensor) -> np.ndarray:
    x = x.detach().resolve_conj().resolve_neg()
    if x.is_complex():
        x = torch.view_as_real(x)
    return (x.double() if x.is_floating_point() else x).numpy().copy()


# Results that are places of elements: of equal elements any may be meant.
PLACES = {"sort": 1, "topk": 1, "kthvalue": 1, "median": 1, "nanmedian": 1, "mode": 1, "argsort": 0}


def is_tie(made: Ready, args: Any, kwargs: Any, ours: list[Any], theirs: list[Any], i: int) -> bool:
    name = made.template.overload.split(".")[1]
    if (
        PLACES.get(name) != i
        or made.template.overload.endswith(("sort.stable",))
        and kwargs.get("stable")
    ):
        return False
    x, dim = args[0], _dim(made.template, args, kwargs)
    if not x.dim():
        return True

    def taken(index: torch.Tensor) -> torch.Tensor:
        full = index if index.dim() == x.dim() else index.unsqueeze(dim)
        return x.gather(dim, full)

    with contextlib.suppress(Exception):
        return bool(torch.equal(taken(ours[i]).nan_to_num(), taken(theirs[i]).nan_to_num()))
    return False


def _dim(template: Template, args: Any, kwargs: Any) -> int:
    for i, argument in enumerate(template.operator._schema.arguments):
        if argument.name == "dim":
            return args[i] if i < len(args) else kwargs.get("dim", argument.default_value)
    return -1
