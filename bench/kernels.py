#!/usr/bin/env python3
"""Single kernels against the bound of this machine: kernel, size, time, share of the bound.

  bench/kernels.py [--tenon build/bin/tenon] [--threads N] [--only NAME,...] [--against TENON] [--peers] [--json FILE]

Each row is a small graph that `tenon bench` runs; the time is the least of many runs, measured in
turn with the other build where --against names one. The bound is the larger of two times: that of
moving inputs and outputs once at the rate at which this machine streams so many bytes, and that of
the arithmetic at its peak of f32 multiply-adds (four times that for bytes). `tenon bench` measures
both in the same process. Rows of bytes need the package onnx. With --peers, rows that torch or, for
bytes, ONNX Runtime can run are measured there, too; without the package, a row has no peer.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

BYTES = {"f32": 4, "i32": 4, "u32": 4, "i64": 8, "u8": 1, "i8": 1, "pred": 1}


@dataclasses.dataclass
class Row:
    name: str
    size: str
    model: str  # a graph as text, or the name of a function that writes ONNX
    gflop: float = 0.0  # of f32 multiply-adds and additions
    mbytes: float = 0.0  # moved at least


def mbytes(*tensors: tuple[str, int]) -> float:
    return sum(BYTES[dtype] * count for dtype, count in tensors) / 1e6


def graph(inputs: str, outputs: str, *lines: str) -> str:
    body = "\n".join("  " + line for line in lines)
    return f"tenon.tir 1\ngraph @kernel({inputs}) -> ({outputs}) {{\n{body}\n}}\n"


def lanes(name: str, op: str, constant: bool = False) -> Row:
    n = 1 << 20
    t = f"i32[{n}]"
    first = [f"%y = const {t} splat 7"] if constant else []
    inputs = f"%x: {t}" + ("" if constant else f", %y: {t}")
    text = graph(inputs, f"z: {t}", *first, f"%z = {op} : {t}", "yield %z")
    return Row(name, f"{n} i32", text, 0, mbytes(*[("i32", n)] * (2 if constant else 3)))


def softmax(masked: bool) -> Row:
    t = "f32[1536, 512]"
    keep = [f"%low = const {t} splat -1e9", f"%zero = const {t} splat 0.0",
            "%above = compare(%x, %zero) {direction = 4} : pred[1536, 512]",
            f"%s = select(%above, %x, %low) : {t}"] if masked else [f"%s = neg(%x) : {t}"]
    text = graph(f"%x: {t}", f"y: {t}", *keep, f"%y = softmax(%s) {{dim = 1}} : {t}", "yield %y")
    return Row("softmax, half of it masked" if masked else "softmax", "1536 x 512", text, 0.02,
               mbytes(("f32", 2 * 1536 * 512)))


def attention(name: str, heads: int, queries: int, keys: int, size: int, causal: bool) -> Row:
    q, k = f"f32[1, {heads}, {queries}, {size}]", f"f32[1, {heads}, {keys}, {size}]"
    text = graph(f"%q: {q}, %k: {k}, %v: {k}", f"y: {q}",
                 f"%y = sdpa(%q, %k, %v) {{causal = \"{'first' if causal else 'none'}\", scale = 0.125}} : {q}", "yield %y")
    products = 4e-9 * heads * queries * keys * size * (0.5 if causal else 1)
    return Row(name, f"{heads} heads, {queries} of {keys}, {size}", text, products,
               mbytes(("f32", heads * size * 2 * (queries + keys))))


def one(name: str, size: str, given: str, result: str, op: str, moved: float, extra: str = "") -> Row:
    outputs, left = f"y: {result}" + extra, "%y" + (", %i" if extra else "")
    types = result + (", " + extra.split(": ")[1] if extra else "")
    return Row(name, size, graph(f"%x: {given}", outputs, f"{left} = {op} : {types}", f"yield {left}"), 0, moved)


def channels_last_norm(points: int, groups: int, channels: int) -> Row:
    """A norm over groups of channels that are innermost, as after a convolution."""
    t, few = f"f32[{points}, {groups}, {channels}]", f"f32[{groups}]"
    spread = f"{{shape = dims [{points}, {groups}, {channels}], dims = [1]}} : {t}"
    text = graph(f"%x: {t}", f"y: {t}", f"%m = mean(%x) {{dims = [0, 2]}} : {few}", f"%mw = broadcast(%m) {spread}",
                 f"%d = sub(%x, %mw) : {t}", f"%q = mul(%d, %d) : {t}", f"%v = mean(%q) {{dims = [0, 2]}} : {few}",
                 f"%r = rsqrt(%v) : {few}", f"%rw = broadcast(%r) {spread}", f"%y = mul(%d, %rw) : {t}", "yield %y")
    return Row("norm of inner groups", f"{points} x {groups} x {channels}", text, 0.001,
               mbytes(("f32", 2 * points * groups * channels)))


def stack(operands: int) -> Row:
    n = 1 << 17
    inputs = ", ".join(f"%x{i}: f32[{n}]" for i in range(operands))
    tall = [f"%r{i} = reshape(%x{i}) {{shape = dims [{n}, 1]}} : f32[{n}, 1]" for i in range(operands)]
    text = graph(inputs, f"y: f32[{n}, {operands}]", *tall,
                 f"%y = concat({', '.join(f'%r{i}' for i in range(operands))}) {{dim = 1}} : f32[{n}, {operands}]", "yield %y")
    return Row(f"stack of {operands}", f"{n} each", text, 0, mbytes(("f32", 2 * operands * n)))


ROWS = [
    Row("product of bytes", "128 x 768 x 768", "product", 2e-9 * 128 * 768 * 768 / 4, mbytes(("u8", 2 * 128 * 768 + 768 * 768))),
    Row("convolution of bytes", "256 channels, 3 x 3, 14 x 14", "convolution", 2e-9 * 256 * 256 * 9 * 196 / 4,
        mbytes(("u8", 2 * 256 * 196 + 256 * 256 * 9))),
    Row("depthwise of bytes", "96 channels, 3 x 3, 56 x 56", "depthwise", 2e-9 * 96 * 9 * 3136, mbytes(("u8", 2 * 96 * 3136))),
    lanes("division by a number", "div(%x, %y)", True),
    lanes("division", "div(%x, %y)"),
    lanes("remainder by a number", "rem(%x, %y)", True),
    lanes("shift", "shl(%x, %y)"),
    lanes("popcount", "popcount(%x)", True),
    softmax(False),
    softmax(True),
    attention("attention", 12, 512, 512, 64, False),
    attention("attention, causal", 12, 512, 512, 64, True),
    attention("attention of one query", 12, 1, 2048, 64, False),
    Row("group norm", "8 groups of 8 x 64 x 64",
        graph("%x: f32[1, 64, 64, 64], %s: f32[64], %b: f32[64]", "y: f32[1, 64, 64, 64]",
              "%y = group_norm(%x, %s, %b) {dim = 1, epsilon = 1e-5, groups = 8} : f32[1, 64, 64, 64]", "yield %y"),
        0.001, mbytes(("f32", 2 << 18))),
    channels_last_norm(4096, 32, 5),
    channels_last_norm(1024, 32, 20),
    one("sum over dims 0 and 2, short", "4096 x 32 x 5", "f32[4096, 32, 5]", "f32[32]", "reduce_sum(%x) {dims = [0, 2]}",
        mbytes(("f32", 4096 * 160))),
    one("sum over outer dims", "64 x 256 x 64 of axes 0, 1", "f32[64, 256, 64]", "f32[64]", "reduce_sum(%x) {dims = [0, 1]}",
        mbytes(("f32", 1 << 20))),
    one("sum over dims 0 and 2", "64 x 64 x 256", "f32[64, 64, 256]", "f32[64]", "reduce_sum(%x) {dims = [0, 2]}",
        mbytes(("f32", 1 << 20))),
    one("cumsum along the last dim", "1024 x 1024", "f32[1024, 1024]", "f32[1024, 1024]", "cumsum(%x) {dim = 1}",
        mbytes(("f32", 2 << 20))),
    one("running maximum, reversed", "1024 x 1024", "f32[1024, 1024]", "f32[1024, 1024]", "cummax(%x) {dim = 1, reverse = 1}",
        mbytes(("f32", 2 << 20))),
    one("sum from the end", "1024 x 1024", "f32[1024, 1024]", "f32[1024, 1024]", "cumsum(%x) {dim = 1, reverse = 1}",
        mbytes(("f32", 2 << 20))),
    one("reversed lines", "1024 x 1024", "f32[1024, 1024]", "f32[1024, 1024]", "reverse(%x) {dims = [1]}", mbytes(("f32", 2 << 20))),
    stack(6),
    stack(8),
    one("bytes turned", "256 x 4096", "u8[256, 4096]", "u8[4096, 256]", "transpose(%x) {perm = [1, 0]}", mbytes(("u8", 2 << 20))),
    one("sort", "256 x 1024", "f32[256, 1024]", "f32[256, 1024]", "sort(%x) {dim = 1}", mbytes(("f32", 2 << 18))),
    one("sort of one line", "262144", "f32[262144]", "f32[262144]", "sort(%x) {dim = 0}", mbytes(("f32", 2 << 18))),
    one("nearest upsampling", "64 x 64 x 64 twice", "f32[1, 64, 64, 64]", "f32[1, 64, 128, 128]",
        'resize(%x) {sizes = dims [1, 64, 128, 128], mode = "nearest", coordinates = "asymmetric", nearest = "floor"}',
        mbytes(("f32", 5 << 18))),
    one("pixel shuffle", "64 x 128 x 128 by 2", "f32[16, 2, 2, 128, 128]", "f32[16, 128, 2, 128, 2]",
        "transpose(%x) {perm = [0, 3, 1, 4, 2]}", mbytes(("f32", 2 << 20))),
    Row("elements taken", "1048576 of 65536", graph(f"%x: f32[65536], %i: i32[{1 << 20}]", f"y: f32[{1 << 20}]",
        f"%b = const i32[{1 << 20}] splat 65535", f"%j = and(%i, %b) : i32[{1 << 20}]",
        f"%y = take(%x, %j) : f32[{1 << 20}]", "yield %y"), 0, mbytes(("f32", 2 << 20))),
    Row("random bits", "1048576 u32", graph("%k: u32[2], %c: u64[]", f"y: u32[{1 << 20}]",
        f"%y = rng_bits(%k, %c) {{shape = dims [{1 << 20}]}} : u32[{1 << 20}]", "yield %y"), 0, mbytes(("u32", 1 << 20))),
    one("top 50", "of 50257", "f32[1, 50257]", "f32[1, 50]", "top_k(%x) {dim = 1, k = [50]}", mbytes(("f32", 50257)),
        ", i: i64[1, 50]"),
]


def write_onnx(kind: str, path: pathlib.Path) -> None:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    shapes = {"product": ([128, 768], [768, 768], [128, 768]),
              "convolution": ([1, 256, 14, 14], [256, 256, 3, 3], [1, 256, 14, 14]),
              "depthwise": ([1, 96, 56, 56], [96, 1, 3, 3], [1, 96, 56, 56])}
    x, w, y = shapes[kind]
    parameters = {"xs": np.float32(0.02), "xz": np.uint8(128), "w": rng.integers(-128, 128, w).astype(np.int8),
                  "ws": np.float32(0.01), "wz": np.int8(0), "ys": np.float32(0.5), "yz": np.uint8(120)}
    op, attributes = ("QLinearMatMul", {}) if kind == "product" else \
        ("QLinearConv", {"pads": [1, 1, 1, 1], "group": 96 if kind == "depthwise" else 1})
    node = helper.make_node(op, ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], **attributes)
    value = helper.make_tensor_value_info
    made = helper.make_graph([node], kind, [value("x", TensorProto.UINT8, x)], [value("y", TensorProto.UINT8, y)],
                             [numpy_helper.from_array(np.asarray(v), k) for k, v in parameters.items()])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def peers_of(name: str):
    """What torch does in place of the row; None: torch has nothing like it."""
    import torch

    functional, size = torch.nn.functional, {"attention": 512, "attention, causal": 512, "attention of one query": 1}.get(name)
    if size:
        q, k = torch.randn(1, 12, size, 64), torch.randn(1, 12, max(size, 2048 if size == 1 else 0), 64)
        return lambda: functional.scaled_dot_product_attention(q, k, k, is_causal="causal" in name)
    square, flat, few = torch.randn(1024, 1024), torch.randn(1 << 20), torch.randn(1536, 512)
    image, ones, words = torch.randn(1, 64, 64, 64), torch.ones(64), torch.randn(1, 50257)
    short, line, table = torch.randn(256, 1024), torch.randn(262144), torch.randn(65536)
    places, pixels, data = torch.randint(0, 65536, (1 << 20,)), torch.randn(16, 2, 2, 128, 128), torch.randint(0, 256, (256, 4096), dtype=torch.uint8)
    parts = [flat[:1 << 17].clone() for _ in range(8)]
    return {
        "softmax": lambda: torch.softmax(-few, 1), "softmax, half of it masked": lambda: torch.softmax(torch.where(few > 0, few, -1e9), 1),
        "group norm": lambda: functional.group_norm(image, 8, ones, ones), "cumsum along the last dim": lambda: square.cumsum(1),
        "running maximum, reversed": lambda: square.flip(1).cummax(1)[0].flip(1), "sum from the end": lambda: square.flip(1).cumsum(1).flip(1),
        "reversed lines": lambda: square.flip(1), "stack of 6": lambda: torch.stack(parts[:6], 1), "stack of 8": lambda: torch.stack(parts, 1),
        "bytes turned": lambda: data.t().contiguous(), "sort": lambda: short.sort(1)[0], "sort of one line": lambda: line.sort()[0],
        "nearest upsampling": lambda: functional.interpolate(image, scale_factor=2), "elements taken": lambda: table[places],
        "pixel shuffle": lambda: pixels.permute(0, 3, 1, 4, 2).contiguous(), "top 50": lambda: words.topk(50),
        "random bits": lambda: torch.randint(0, 1 << 31, (1 << 20,), dtype=torch.int32),
    }.get(name)


def peer_ms(row: Row, model: pathlib.Path, threads: int) -> float | None:
    """The least of a second of calls."""
    try:
        if model.suffix == ".onnx":
            import numpy as np
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            feed = {i.name: np.random.default_rng(0).integers(0, 256, i.shape, dtype=np.uint8) for i in session.get_inputs()}
            call = lambda: session.run(None, feed)  # noqa: E731
        else:
            import torch

            torch.set_num_threads(threads)
            call = peers_of(row.name)
    except ImportError:
        return None
    times, end = [], time.perf_counter() + 1
    while call and (len(times) < 3 or time.perf_counter() < end):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times) if times else None


def model_of(row: Row, folder: pathlib.Path) -> pathlib.Path:
    if row.model.startswith("tenon.tir"):
        path = folder / f"{ROWS.index(row)}.tir"
        path.write_text(row.model)
    else:
        path = folder / f"{row.model}.onnx"
        write_onnx(row.model, path)
    return path


def measure(tenon: str, model: pathlib.Path, threads: int, peaks: bool) -> dict:
    command = [tenon, "bench", str(model), "--device", "cpu", "--json", "--threads", str(threads)]
    done = subprocess.run(command + (["--top", "1"] if peaks else []), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    return json.loads(done.stdout)


def bound_ms(row: Row, peaks: dict) -> float:
    streams = sorted(peaks["streams"], key=lambda s: s["bytes"])
    nearest = min(streams, key=lambda s: abs(math.log(s["bytes"] / (row.mbytes * 1e6))))
    rate = nearest["gigabytes_per_second"]
    return max(row.mbytes / rate, row.gflop / peaks["gflops"] * 1e3)


def measured(row: Row, folder: pathlib.Path, arguments: argparse.Namespace) -> dict:
    model = model_of(row, folder)
    first = measure(arguments.tenon, model, arguments.threads, True)
    times, others = [first["min_ms"]], []
    for _ in range(2):
        if arguments.against:
            others.append(measure(arguments.against, model, arguments.threads, False)["min_ms"])
        times.append(measure(arguments.tenon, model, arguments.threads, False)["min_ms"])
    bound = bound_ms(row, first["peaks"])
    peer = peer_ms(row, model, arguments.threads) if arguments.peers else None
    out = {"kernel": row.name, "size": row.size, "ms": min(times), "bound_ms": bound, "of_bound": bound / min(times)}
    return out | ({"against_ms": min(others)} if others else {}) | ({"peer_ms": peer} if peer else {})


def line_of(result: dict) -> str:
    if "why" in result:
        return f"{result['kernel']:28} {result['size']:30} not run: {result['why']}"
    against = f"  {result['against_ms']:9.3f} ms {result['against_ms'] / result['ms']:6.2f}x" if "against_ms" in result else ""
    peer = f"  peer {result['peer_ms']:9.3f} ms {result['peer_ms'] / result['ms']:6.2f}x" if "peer_ms" in result else ""
    return f"{result['kernel']:28} {result['size']:30} {result['ms']:9.3f} ms {100 * result['of_bound']:5.0f} %{against}{peer}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/bin/tenon")
    parser.add_argument("--against", help="another build, for the column beside")
    parser.add_argument("--peers", action="store_true", help="torch or ONNX Runtime, for a column beside")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help="parts of names, separated by commas")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else [""]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            if not any(part in row.name for part in wanted):
                continue
            try:
                results.append(measured(row, pathlib.Path(folder), arguments))
            except (RuntimeError, ImportError) as why:
                results.append({"kernel": row.name, "size": row.size, "why": str(why)})
            print(line_of(results[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any("why" in r for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
