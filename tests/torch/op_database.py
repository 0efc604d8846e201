"""PyTorch's operator database through AOTAutograd and Tenon, against eager mode.

    python3 op_database.py --state FILE [--per-entry N] [--dtypes float32,int64,bool,gradient] [NAME...]

Each sample has one verdict: `tenon` (all of it ran in Tenon), `mixed`, `torch` (nothing did), or a
failure: `wrong`, `error`, `crash`. What eager refuses, and what AOTAutograd cannot trace, is told
apart (`refused`, `untraced`). The state is a file of lines; a run that is cut goes on behind the last
one, and a sample that ended the process counts as `crash`. Ends with 1 if there is a failure that
`op_database_known.txt` does not name.
"""

from __future__ import annotations

import argparse
import collections
import logging
import pathlib
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from tenon.torch._backend import watch
from tenon.torch._decompositions import table
from tenon.torch._options import Options
from tenon.torch._split import compile_graph

HERE = pathlib.Path(__file__).resolve().parent
FAILURES = ("wrong", "error", "crash")
# "gradient" is float32 with a backward pass.
DTYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool, "gradient": torch.float32}
# Their values are random, or whatever was in memory.
RANDOM = ("bernoulli", "rand", "normal", "uniform", "dropout", "multinomial", "empty", "cauchy", "exponential",
          "geometric", "log_normal", "multi_head_attention", "rrelu", "fractional_max_pool", "svd_lowrank", "pca_lowrank", "resize_")  # fmt: skip

# Which of equal elements they name is open; only the elements count.
UNSTABLE = ("sort", "topk", "msort", "kthvalue")


def entries(names: list[str]) -> dict[str, object]:
    """Entries by name, with their variant."""
    found = {(f"{o.name}.{o.variant_test_name}" if o.variant_test_name else o.name): o for o in op_db}
    return {n: o for n, o in found.items() if not names or n in names or o.name in names}


def samples(op, code: str, most: int):
    torch.manual_seed(0)
    for i, sample in enumerate(op.sample_inputs("cpu", DTYPES[code], requires_grad=code == "gradient")):
        if i >= most:
            return
        yield i, sample


def verdict(op, sample) -> tuple[str, str]:
    """What became of a sample, and why."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    tensors = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]

    def fresh():
        return [leaves[i].detach().clone().requires_grad_(leaves[i].requires_grad) for i in tensors]

    def run(*given):
        whole = list(leaves)
        for i, v in zip(tensors, given):
            whole[i] = v
        args, kwargs = pytree.tree_unflatten(whole, spec)
        return op.op(*args, **kwargs)

    try:
        torch.manual_seed(1)
        expected = with_gradients(run, fresh())
    except Exception as error:
        return "refused", _first(error)
    made = []

    def compiler(graph, inputs):
        compiled = compile_graph(graph, Options(), "inference")
        made.append(compiled)
        return compiled.call

    from torch._functorch.aot_autograd import aot_function

    f = aot_function(run, fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler, decompositions=table())
    try:
        torch.manual_seed(1)
        got = with_gradients(f, fresh())
    except Exception as error:
        return ("error" if made else "untraced"), _first(error)
    why = "; ".join(f"{k}: {v[0]}" for c in made for k, v in c.refused.items())
    if op.name in UNSTABLE:
        got, expected = pytree.tree_leaves(got)[0], pytree.tree_leaves(expected)[0]
    if not any(word in op.name for word in RANDOM) and not sample.kwargs.get("dropout_p"):
        problem = difference(got, expected)
        if problem:
            return "wrong", f"{problem} {why}".strip()
    return ("torch" if why and not any(c.parts for c in made) else "mixed" if why else "tenon"), why


def with_gradients(f, given):
    """The results, and the gradients of inputs that want one, for the same weights each time."""
    result = f(*given)
    wanted = [v for v in given if v.requires_grad]
    made = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not wanted or not made:
        return result
    weights = [torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).view(t.shape) for t in made]
    grads = torch.autograd.grad(made, wanted, weights, allow_unused=True)
    return pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, result), grads


def difference(got, expected) -> str:
    """What differs, or nothing. Floats agree to 1e-4 of the largest."""
    mine, theirs = pytree.tree_leaves(got), pytree.tree_leaves(expected)
    if len(mine) != len(theirs):
        return f"{len(mine)} results, not {len(theirs)}"
    for a, b in zip(mine, theirs):
        problem = _differs(a, b)
        if problem:
            return problem
    return ""


def _differs(a, b) -> str:
    if not isinstance(b, torch.Tensor):
        return "" if a == b or a != a and b != b else f"{a} instead of {b}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{tuple(a.shape)} instead of {b.dtype}{tuple(b.shape)}"
    if b.is_sparse or not b.numel():
        return ""
    if not b.is_floating_point() and not b.is_complex():
        return "" if torch.equal(a, b) else "other numbers"
    wide = torch.complex128 if b.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    finite = b.isfinite()
    if not torch.equal(a.isfinite(), finite) or not torch.equal(a.isnan(), b.isnan()):
        return "other numbers that are not finite"
    if not b.is_complex() and not torch.equal(a[b.isinf()], b[b.isinf()]):
        return "another infinity"
    if not finite.any():
        return ""
    largest = b[finite].abs().max().item()
    worst = (a[finite] - b[finite]).abs().max().item()
    return "" if worst <= 1e-4 * largest + 1e-6 else f"differs by {worst:.3g} of {largest:.3g}"


def _first(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:200]


def known() -> set[str]:
    """Failures that are known: `ENTRY DTYPE` at the beginning of a line."""
    path = HERE / "op_database_known.txt"
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {" ".join(line.split()[:2]) for line in lines}


def read_state(path: pathlib.Path) -> dict[tuple[str, str, int], tuple[str, str]]:
    state = {}
    if path.exists():
        for line in path.read_text().splitlines():
            parts = line.split("\t")
            if len(parts) == 5:
                state[parts[0], parts[1], int(parts[2])] = (parts[3], parts[4])
    return {k: ("crash", "the process ended") if v[0] == "begun" else v for k, v in state.items()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=pathlib.Path, required=True)
    parser.add_argument("--per-entry", type=int, default=1 << 30)
    parser.add_argument("--dtypes", default="float32,int64,bool")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    state = read_state(given.state)
    with given.state.open("a") as out:
        for name, op in entries(given.names).items():
            for code in given.dtypes.split(","):
                known_type = DTYPES[code] in op.supported_dtypes("cpu")
                if known_type and (code != "gradient" or op.supports_autograd):
                    run_entry(name, op, code, given.per_entry, state, out)
    return report(state)


def run_entry(name, op, code, most, state, out) -> None:
    try:
        for i, sample in samples(op, code, most):
            key = name, code, i
            if key in state:
                continue
            print(*key, "begun", "", sep="\t", file=out, flush=True)
            state[key] = verdict(op, sample)
            print(*key, *(v.replace("\t", " ").replace("\n", " ") for v in state[key]), sep="\t", file=out, flush=True)
    except Exception as error:  # a database that cannot make samples here
        state[name, code, -1] = ("refused", _first(error))
    watch.lists.clear()
    torch._dynamo.reset()


def report(state) -> int:
    counts = collections.Counter(v for v, _ in state.values())
    print(", ".join(f"{n} {v}" for v, n in counts.most_common()))
    whole = collections.defaultdict(set)
    for (name, _, _), (v, _) in state.items():
        if v != "refused":
            whole[name].add(v)
    print(f"{sum(v == {'tenon'} for v in whole.values())} of {len(whole)} entries are wholly in Tenon")
    new = sorted({f"{k[0]} {k[1]} {v[0]}: {v[1]}" for k, v in state.items() if v[0] in FAILURES})
    unknown = [line for line in new if " ".join(line.split()[:2]) not in known()]
    print(*unknown, sep="\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
