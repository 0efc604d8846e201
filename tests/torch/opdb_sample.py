"""One sample of the operator database: through Tenon, and compared with eager mode.

Verdicts: `tenon` (all of it ran there, and is right), `mixed` (right, a part stayed in torch),
`torch` (right, all stayed there); `wrong`, `error` (an exception where eager mode works); `refused`
(eager mode refuses it), `untraced` (AOTAutograd fails or differs without Tenon as well).
"""

from __future__ import annotations

import logging
import warnings

import torch
from opdb_compare import as_close, difference, is_random_difference, svd_difference, tie_difference
from tenon.torch.decompositions.table import table
from tenon.torch.program.options import Options
from tenon.torch.program.partitioner import compile_graph
from torch._functorch.aot_autograd import aot_function
from torch._functorch.compilers import nop
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.testing._internal import common_methods_invocations as definitions
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

ENTRIES = {(f"{o.name}/{o.variant_test_name}" if o.variant_test_name else o.name): o for o in op_db}
DTYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool}
# The same numbers in every call, by a seed of the database's own, would hide that they are random.
definitions.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
# Their values are whatever was in memory.
UNDEFINED = (
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
)
# Of equal elements, any may be meant.
TIES = ("sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode")
# Their vectors have free signs, on which gradients depend. The database has a function of the results
# that does not, such as magnitudes of u, or the product of u and v.
FREE_SIGNS = ("svd", "linalg.svd")
OPTIONS = Options()


def supports(op, dtype: str) -> bool:
    return DTYPES[dtype] in op.supported_dtypes("cpu")


def has_gradient(entry: str, dtype: str) -> bool:
    op = ENTRIES[entry]
    return (
        op.supports_autograd
        and dtype == "float32"
        and DTYPES[dtype] in op.supported_backward_dtypes("cpu")
    )


def samples(entry: str, dtype: str, most: int):
    """The first samples of an entry, with their numbers. The same in every run."""
    torch.manual_seed(0)
    made = ENTRIES[entry].sample_inputs("cpu", DTYPES[dtype], requires_grad=False)
    i = 0
    while i < most:
        state = torch.get_rng_state()
        try:
            sample = next(made)
        except StopIteration:
            return
        yield i, sample
        torch.set_rng_state(state)
        torch.manual_seed(i + 1)
        i += 1


class _Warnings(logging.Handler):
    """Calls that stayed in torch, as the package logs them."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record):
        self.lines.append(record.getMessage())


_warnings = _Warnings()


def quiet() -> None:
    """For a child process: no text, one thread."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    log = logging.getLogger("tenon.torch")
    log.setLevel(logging.WARNING)
    log.propagate = False
    log.addHandler(_warnings)


def forget() -> None:
    """What torch keeps of earlier graphs."""
    torch._dynamo.reset()


def verdict(entry: str, sample, way: str) -> tuple[str, str]:
    """What becomes of a sample, and why."""
    call = _Call(entry, sample, way)
    try:
        expected, random = call.eager()
    except Exception as error:
        return "refused", _first(error)
    random = random or ENTRIES[entry].name in UNDEFINED
    made: list = []
    _warnings.lines.clear()
    try:
        got = call.traced(lambda kind: _compiler(made, kind), table())
    except Exception as error:
        if call.plain_problem(expected, random):
            return "untraced", _first(error)
        return "error", _first(error)
    why = [f"{op}: {reasons[0]}" for c in made for op, reasons in c.unsupported.items()]
    why += [line.split("\n")[0] for line in _warnings.lines]
    problem = _judged(got, expected, random, ENTRIES[entry].name)
    if problem and ENTRIES[entry].name in TIES:
        problem = tie_difference(sample.input, got, expected)
    if problem and entry in FREE_SIGNS and way == "forward":
        problem = svd_difference(sample.input, *(_with_v(entry, list(r)) for r in (got, expected)))
    if problem and not random and call.is_as_close(got, expected):
        problem = ""
    if problem and not call.plain_problem(expected, random):
        return "wrong", " | ".join([problem, *why])
    if problem:
        return "untraced", problem
    if not why:
        return "tenon", ""
    return (
        "mixed" if any(c.partitions for c in made) and not _warnings.lines else "torch"
    ), " | ".join(why)


def _with_v(entry: str, results: list) -> list:
    """`linalg.svd` gives v transposed and conjugated."""
    return [*results[:2], results[2].mH, *results[3:]] if entry == "linalg.svd" else results


def _judged(got, expected, random: bool, name: str) -> str:
    if random:
        return is_random_difference(got, expected, name in UNDEFINED)
    return difference(got, expected)


def _compiler(made: list, kind: str):
    def compile(graph, inputs):
        compiled = compile_graph(graph, OPTIONS, kind)
        made.append(compiled)
        return compiled.call

    return compile


class _Call:
    """A sample as a function of its tensors. Results are leaves, and the inputs after the call."""

    def __init__(self, entry: str, sample, way: str):
        self.op = ENTRIES[entry]
        self.backward = way == "backward"
        self.dynamic = False
        free = self.backward and self.op.name in FREE_SIGNS
        self.of_results = sample.output_process_fn_grad if free else lambda results: results
        given = (sample.input, tuple(sample.args), dict(sample.kwargs))
        self.leaves, self.spec = pytree.tree_flatten(given)
        self.at = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

    def _function(self, *tensors):
        leaves = list(self.leaves)
        for i, tensor in zip(self.at, tensors):
            leaves[i] = tensor
        x, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op.op(x, *args, **kwargs)

    def _tensors(self):
        """Copies with the same strides."""
        made = []
        for i in self.at:
            tensor = _copy(self.leaves[i].detach())
            if self.backward and (tensor.is_floating_point() or tensor.is_complex()):
                tensor.requires_grad_()
            made.append(tensor)
        return made

    def _run(self, function):
        tensors = self._tensors()
        torch.manual_seed(1)
        results = [
            r for r in pytree.tree_leaves(self.of_results(function(*tensors))) if r is not None
        ]
        if not self.backward:
            return [*results, *tensors]
        return [*(_detached(r) for r in results), *self._gradients(results, tensors)]

    def _gradients(self, results, tensors):
        outs = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        if not outs:
            raise RuntimeError("no result has a gradient")
        torch.manual_seed(7)
        given = [torch.rand(o.shape, dtype=o.dtype) + 0.5 for o in outs]
        return list(torch.autograd.grad(outs, wanted, given, allow_unused=True))

    def eager(self):
        """The results, and whether random numbers were drawn for them."""
        drawn = False

        def watched(*tensors):
            nonlocal drawn
            before = torch.get_rng_state()
            results = self._function(*tensors)
            drawn = not torch.equal(before, torch.get_rng_state())
            return results

        return self._run(watched), drawn

    def is_as_close(self, got, expected) -> bool:
        """Whether the results are about as near to those of double precision as eager mode's."""
        narrow = self.leaves
        try:
            self.leaves = [_wide(leaf) for leaf in narrow]
            exact, _ = self.eager()
            return as_close(got, expected, exact)
        except Exception:
            return False
        finally:
            self.leaves = narrow

    def traced(self, compiler, decompositions):
        """The results, with sizes as symbols where data decides some."""
        try:
            return self.compiled(compiler, decompositions)
        except (DataDependentOutputException, DynamicOutputShapeException):
            self.dynamic = True
            return self.compiled(compiler, decompositions)

    def compiled(self, compiler, decompositions):
        function = aot_function(
            self._function, fw_compiler=compiler("forward"), bw_compiler=compiler("backward"),
            inference_compiler=compiler("inference"), decompositions=decompositions,
            partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True,
            dynamic=self.dynamic,
        )  # fmt: skip
        if self.backward:
            return self._run(function)
        with torch.no_grad():
            return self._run(function)

    def plain_problem(self, expected, random: bool) -> str:
        """What is wrong without Tenon: AOTAutograd with torch's own execution of its graphs."""
        try:
            return _judged(self.compiled(lambda kind: nop, {}), expected, random, self.op.name)
        except Exception as error:
            return _first(error)


def _copy(tensor):
    if tensor.layout is not torch.strided:
        return tensor.clone()
    if tensor.numel() == 0 or any(st == 0 for st in tensor.stride()):
        return tensor.clone()
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    made.copy_(tensor)
    return made


def _wide(leaf):
    return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32 else leaf


def _detached(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def _first(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:200]
