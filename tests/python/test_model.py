"""Models: loading, files, pickles, reports, the end of a model."""

import gc
import json
import logging
import multiprocessing
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tenon
from conftest import MODELS, ROOT, TEXT_ADD


def test_sources(tmp_path, add):
    x = np.ones(2, np.float32)
    path = tmp_path / "add.tir"
    path.write_bytes(TEXT_ADD)
    for source in (path, str(path), TEXT_ADD, bytearray(TEXT_ADD), memoryview(TEXT_ADD)):
        assert tenon.load(source)(x, x)[0].tolist() == [2, 2]
    data = (MODELS / "mlp.onnx").read_bytes()
    assert tenon.load(data).inputs == tenon.load(MODELS / "mlp.onnx").inputs
    assert [(p.name, p.dtype, p.shape) for p in add.inputs] == [
        ("a", "f32", ("n",)), ("b", "f32", ("n",))]  # fmt: skip
    assert repr(add) == "<tenon.Model cpu: (a: f32[n], b: f32[n]) -> (c: f32[n])>"
    assert "<td>a</td><td>f32</td><td>[n]</td>" in add._repr_html_()


def test_packages(tmp_path, mlp):
    x = np.load(MODELS / "mlp.in.x.npy")
    path = tmp_path / "m.tpk"
    mlp.save(path)
    package = tenon.load(path)
    np.testing.assert_array_equal(package(x)[0], mlp(x)[0])
    again = pickle.loads(pickle.dumps(package))
    package.save(tmp_path / "n.tpk")
    assert (tmp_path / "n.tpk").read_bytes() == path.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.tpk", "n.tpk"]
    path.unlink()
    np.testing.assert_array_equal(again(x)[0], mlp(x)[0])
    with pytest.raises(tenon.UsageError, match="compiled already"):
        tenon.load(tmp_path / "n.tpk", "cpu")
    with pytest.raises(tenon.UsageError, match="T0520.*deterministic="):
        tenon.load(tmp_path / "n.tpk", deterministic=True)
    with pytest.raises(tenon.UsageError, match="loaded from files"):
        tenon.load((tmp_path / "n.tpk").read_bytes())
    (tmp_path / "bad.tpk").write_bytes((tmp_path / "n.tpk").read_bytes()[:-100])
    with pytest.raises(tenon.DataError) as e:
        tenon.load(tmp_path / "bad.tpk")
    assert e.value.code == "T0521"
    with pytest.raises(tenon.Error) as e:
        mlp.save("/nowhere/m.tpk")
    assert e.value.code == "T0107"
    with pytest.raises(tenon.UsageError, match="T0004.*m.onnx' does not end in .tpk"):
        mlp.save(tmp_path / "m.onnx")
    with pytest.raises(tenon.UnsupportedError):
        package.save(path, target="cpu isa=avx2")


def test_pickles(mlp):
    x = np.load(MODELS / "mlp.in.x.npy")
    again = pickle.loads(pickle.dumps(mlp))
    np.testing.assert_array_equal(again(x)[0], mlp(x)[0])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(_call, (mlp, x)), mlp(x)[0])


def _call(model, x):
    return model(x)[0]


def cumsum_model(path):
    """The axis is an input, which cannot become a symbolic size."""
    import onnx
    from onnx import TensorProto as T
    from onnx import helper as h

    graph = h.make_graph(
        [h.make_node("CumSum", ["x", "axis"], ["y"])],
        "g",
        [
            h.make_tensor_value_info("x", T.FLOAT, [2, 3]),
            h.make_tensor_value_info("axis", T.INT64, []),
        ],
        [h.make_tensor_value_info("y", T.FLOAT, [2, 3])],
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def test_inputs_by_value(tmp_path):
    path = tmp_path / "cumsum.onnx"
    cumsum_model(path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    model = tenon.load(path, "cpu")
    for m in (model, pickle.loads(pickle.dumps(model))):
        for axis in (0, 1):
            np.testing.assert_array_equal(m(x, axis)[0], np.cumsum(x, axis))
    fixed = tenon.load(path, "cpu", values={"axis": 1})
    assert [p.name for p in fixed.inputs] == ["x"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fixed))(x)[0], np.cumsum(x, 1))
    with pytest.raises(tenon.Error):
        tenon.load(path, "cpu", values={"axes": 1})
    with pytest.raises(tenon.Error):
        tenon.load(path, "cpu", values={"axis": 1.5})
    with pytest.raises(tenon.Error) as e:
        model.save(tmp_path / "m.tpk")
    assert e.value.code == "T0520"
    with pytest.raises(tenon.UsageError, match="file"):
        tenon.load(path.read_bytes(), values={"axis": 1})


def test_initializers_that_are_inputs(tmp_path):
    """A caller could not give an initializer that is an input of the file, too (T0602)."""
    h, onnx = pytest.importorskip("onnx.helper"), pytest.importorskip("onnx")
    x, w = (h.make_tensor_value_info(k, onnx.TensorProto.FLOAT, [2]) for k in "xw")
    y = h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    graph = h.make_graph(
        [h.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [x, w],
        [y],
        [h.make_tensor("w", 1, [2], [3, 4])],
    )
    onnx.save(
        h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    one, two = np.ones(2, np.float32), np.full(2, 2, np.float32)
    assert tenon.load(tmp_path / "m.onnx", "cpu")(one)[0].tolist() == [3, 4]
    model = tenon.load(tmp_path / "m.onnx", "cpu", overrides=["w"])
    for m in (model, pickle.loads(pickle.dumps(model))):
        assert [p.name for p in m.inputs] == ["x", "w"]
        assert m(one, two)[0].tolist() == [2, 2]
    with pytest.raises(tenon.UsageError, match="T0793.*not an initializer"):
        tenon.load(tmp_path / "m.onnx", overrides=["x"])
    with pytest.raises(tenon.UsageError, match="file"):
        tenon.load((tmp_path / "m.onnx").read_bytes(), overrides=["w"])


def test_names_that_are_no_identifiers():
    model = tenon.load(
        b'tenon.tir 1\ngraph @g(%a: f32[2]) -> ("out.0": f32[2]) {\n  yield %a\n}\n', "cpu"
    )
    assert model(np.ones(2, np.float32))["out.0"].tolist() == [1, 1]


def test_other_devices():
    x = np.load(MODELS / "mlp.in.x.npy")
    want = np.load(MODELS / "mlp.out.y.npy")
    for device in ("sim", "reference", "sim,cpu"):
        model = tenon.load(MODELS / "mlp.onnx", device)
        np.testing.assert_allclose(model(x)[0], want, 1e-4, 1e-4)
        assert device.split(",")[0] in str(model.explain())
        if device == "sim":
            assert model.last_run.transferred_bytes > 0


def test_remedies_are_about_python():
    """None of them names an option of the command line."""
    sources = [path.read_text() for path in (ROOT / "frontends").glob("*/**/*.py")]
    codes = {code for text in sources for code in re.findall(r'"(T\d{4})"', text)}
    assert len(codes) > 20
    for code in sorted(codes):
        remedy = tenon.Error("text", code).remedy
        assert remedy and "--" not in remedy and "COMMAND" not in remedy, (code, remedy)


def test_errors_of_models(tmp_path):
    with pytest.raises(tenon.NotFoundError) as e:
        tenon.load(tmp_path / "none.onnx")
    assert e.value.code == "T0101" and "none.onnx" in str(e.value)
    with pytest.raises(tenon.NotFoundError, match="did you mean `cpu`") as e:
        tenon.load(TEXT_ADD, "cpuu")
    assert e.value.code == "T0502"
    for wrong in (5, [], ["sim,cpu"], ["sim", 3]):
        with pytest.raises(tenon.UsageError, match="device=") as usage:
            tenon.load(TEXT_ADD, wrong)
        assert usage.value.code == "T0004"
        with pytest.raises(tenon.UsageError, match="device="):
            tenon.compile(lambda x: x, device=wrong)
    (tmp_path / "net.pth").write_bytes(b"PK\x03\x04 weights")
    with pytest.raises(tenon.UsageError, match=r"T0791.*net\.pth.*torch\.onnx\.export"):
        tenon.load(tmp_path / "net.pth")
    assert f"{type(e.value).__module__}.{type(e.value).__name__}" == "tenon.NotFoundError"
    wrong = TEXT_ADD.replace(b"add(%a", b"ad(%a")
    (tmp_path / "wrong.tir").write_bytes(wrong)
    with pytest.raises(tenon.Error) as e:
        tenon.load(tmp_path / "wrong.tir")
    assert e.value.location.endswith("wrong.tir:3:8") and "add" in str(e.value)
    for bad in (b"", b"\0" * 100, b"tenon.tir 1", TEXT_ADD[:40]):
        with pytest.raises(tenon.Error) as e:
            tenon.load(bad)
        assert re.match(r"T0\d{3}$", e.value.code) and e.value.remedy
    for bad in (5, None, ["x"]):
        with pytest.raises(tenon.UsageError, match="a path or the content of a model"):
            tenon.load(bad)
    with pytest.raises(tenon.Error):
        tenon.load(TEXT_ADD, "cpu", options={"cpu.optt": 1})
    for options in (
        {"cpu.opt": "high"},
        {"cpu:0.opt": 1},
        {"sim.opt": 1},
        {"reference.x": 1},
        {"cpu.ops": "ad"},
        {"sim.ops": "add"},
        {"opt": 1},
        {"cpu.": 1},
    ):
        with pytest.raises(tenon.UsageError, match="T0513"):
            tenon.load(TEXT_ADD, "cpu", options=options)
    with pytest.raises(tenon.UsageError, match="T0513.*cpu.optt"):
        tenon.load(TEXT_ADD, "reference", options={"cpu.optt": 1})
    for wrong_flag in ({"fallback": "no"}, {"deterministic": 1}, {"deterministic": None}):
        with pytest.raises(tenon.UsageError, match="T0004: .* is True or False"):
            tenon.load(TEXT_ADD, "cpu", **wrong_flag)
    with pytest.raises(tenon.UsageError, match="T0004: fallback= is True or False, not 'no'"):
        tenon.compile(lambda x: x, fallback="no")
    with pytest.raises(tenon.Error):
        tenon.load(MODELS / "mlp.onnx", "null", fallback=False)


def test_all_errors_pickle():
    e = pickle.loads(pickle.dumps(tenon.UsageError("x.tir:1:2: no", "T0201", {"a": "b"})))
    assert (e.code, e.details, e.location) == ("T0201", {"a": "b"}, "x.tir:1:2")
    assert isinstance(e, ValueError) and isinstance(e, tenon.Error)
    assert str(e) == "T0201: x.tir:1:2: no"


def test_reports(mlp, tmp_path):
    x = np.load(MODELS / "mlp.in.x.npy")
    mlp(x)
    explanation = mlp.explain()
    assert "dot_general" in str(explanation) and explanation.data["nodes"]
    assert "<table>" in explanation._repr_html_()
    profile = mlp.profile(x)
    profile.save(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text()) and profile.table["kernels"]
    assert mlp.info["kernels"] > 0 and mlp.last_run.ms > 0
    assert "dot_general" in mlp.dump("graph")
    with pytest.raises(tenon.Error) as e:
        mlp.dump("nothing")
    assert e.value.code == "T0508"
    with pytest.raises(
        tenon.UsageError, match="T0107: '/nowhere/x.json' cannot be written: No such"
    ):
        profile.save("/nowhere/x.json")
    with pytest.raises(tenon.UsageError):
        mlp.profile(x[0])


def test_profiles_by_name_leave_nothing(mlp):
    x = np.load(MODELS / "mlp.in.x.npy")
    mlp.profile(x=x)
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(mlp)
    for _ in range(20):
        assert mlp.profile(x=x).table["kernels"]
        with pytest.raises(tenon.UsageError):
            mlp.profile(x=x[0])
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(mlp)) == before


def test_report_page(mlp, tmp_path):
    x = np.load(MODELS / "mlp.in.x.npy")
    mlp.report(tmp_path / "mlp.html", x)
    page = (tmp_path / "mlp.html").read_text()
    begin = page.index('id="data">') + len('id="data">')
    run = json.loads(page[begin : page.index("</script>", begin)])["runs"][0]
    kernels = [e for e in run["events"]["traceEvents"] if e.get("cat") == "kernel"]
    assert (
        run["runs"] == 5 and run["program"]["graph"]["nodes"]
    )  # a single run may meet another process
    names = [e["name"] for e in sorted(kernels, key=lambda e: e["ts"])]
    assert names and names == names[: len(names) // 5] * 5, names
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    mlp.report(tmp_path / "without.html")  # compiled only
    assert "traceEvents" not in (tmp_path / "without.html").read_text().split('id="data">')[1][:200]
    with pytest.raises(
        tenon.UsageError, match="T0107: '/nowhere/x.html' cannot be written: No such"
    ):
        mlp.report("/nowhere/x.html", x)
    assert not os.path.exists("/nowhere")
    with pytest.raises(tenon.UsageError):
        mlp.report(tmp_path / "wrong.html", x[0])
    assert not (tmp_path / "wrong.html").exists()


def test_feeds_of_other_runtimes(mlp):
    feed = {"x": np.load(MODELS / "mlp.in.x.npy")}
    with pytest.raises(
        tenon.UsageError, match=r"dict is not an array.* model\(\*\*feed\) or model.run\(feed\)"
    ):
        mlp(feed)
    with pytest.raises(
        tenon.UsageError, match=r"T0004: run takes the inputs alone, as in run\(feed\)"
    ):
        mlp.run(None, feed)
    assert mlp.run(feed)[0].shape == mlp(**feed)[0].shape


def test_report_spares_other_files(tmp_path):
    own = tmp_path / "own.onnx"
    own.write_bytes((MODELS / "mlp.onnx").read_bytes())
    before = own.read_bytes()
    (tmp_path / "own.html").hardlink_to(own)
    model = tenon.load(own)
    with pytest.raises(tenon.UsageError, match="is the model itself"):
        model.report(tmp_path / "own.html")
    with pytest.raises(tenon.UsageError, match="does not end in .html"):
        model.report(tmp_path / "page.txt")
    assert own.read_bytes() == before and not (tmp_path / "page.txt").exists()


def test_devices_and_plugins():
    devices = {d["name"]: d for d in tenon.devices()}
    assert {"cpu", "reference"} <= set(devices)
    assert devices["cpu"]["exchange"] == {"memory": [], "streams": [], "fences": []}
    if "sim" in devices:
        assert devices["sim"]["exchange"] == {
            "memory": ["sim.handle"],
            "streams": ["sim.queue"],
            "fences": ["sim.fence"],
        }
    assert {"onnx", "ops"} <= {p["name"] for p in tenon.plugins()}


def test_the_end_of_a_model():
    x = np.ones(2, np.float32)
    with tenon.load(TEXT_ADD, "cpu") as model:
        y = model(x, x)[0]
    assert y.tolist() == [2, 2]
    with pytest.raises(tenon.UsageError) as e:
        model(x, x)
    assert e.value.code == "T0626"
    for ask in (
        lambda: model.info,
        model.explain,
        lambda: model.dump("graph"),
        lambda: model.profile(x, x),
        lambda: model.start(x, x),
    ):
        with pytest.raises(tenon.UsageError, match="was closed") as e:
            ask()
        assert e.value.code == "T0626"
    model.close()


def test_logs_go_to_logging(monkeypatch):
    script = (
        "import logging; logging.basicConfig(format='%(name)s %(levelname)s %(message)s');"
        "import tenon; tenon.load(b'x')"
    )
    done = run(script, TENON_LOGS="nonsense")
    assert re.search(r"^tenon\.\w+ WARNING .*TENON_LOGS", done.stderr, re.M), done.stderr
    assert logging.getLogger("tenon").level == logging.NOTSET


def test_import_is_quick_and_brings_nothing_along():
    script = (
        "import sys; before = set(sys.modules); import tenon\n"
        "new = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "assert new <= {'tenon', 'atexit', '__future__'}, new\n"
        "tenon.load(b'%s', 'cpu'); assert 'numpy' not in sys.modules"
    )
    done = run(script % TEXT_ADD.decode().replace("\n", "\\n"))
    assert done.returncode == 0 and not done.stdout and not done.stderr, done.stderr


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


PROGRAM = """\
import tenon
model = tenon.load('m.onnx', dims={'n': 1})
reveal_type(model(1, x=2))
reveal_type(model.inputs[0].shape)
reveal_type(model.start(1).result(timeout=1.0))
reveal_type(tenon.tensor(1).shape)
"""
SAMPLES = [
    "README.md",
    "docs/guide/python*.md",
    "docs/guide/arrays.md",
    "samples/notebooks/*.ipynb",
]


def sample_code() -> str:
    """What users copy, as one function for each page, since pages use the same names."""
    out = ["import typing"]
    pages = sorted(p for pattern in SAMPLES for p in ROOT.glob(pattern))
    for i, page in enumerate(pages):
        text = page.read_text()
        if page.suffix == ".ipynb":
            cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
            text = "\n".join("```python\n" + "".join(c["source"]) + "\n```" for c in cells)
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
        assert blocks, page
        out.append(f"def page{i}() -> None:  # {page.name}")
        out += ["    " + line for block in blocks for line in block.splitlines()]
    return "\n".join(out) + "\n"


def test_types_by_pyright(tmp_path):
    """pyright on the package, its stubs, what users copy, and a program."""
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed")
    # Without links, or each module has two names. PyTorch's own types are not complete.
    left_out = shutil.ignore_patterns("torch", "*.so")
    shutil.copytree(pathlib.Path(tenon.__file__).parent, tmp_path / "tenon", ignore=left_out)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "samples.py").write_text(sample_code())
    settings = {"include": ["tenon", "program.py", "samples.py"], "typeCheckingMode": "standard",
                "reportMissingImports": "none", "reportUnsupportedDunderAll": "none",
                # What a page shows on purpose: a definition made again, a result known to be there.
                "reportRedeclaration": "none", "reportOptionalMemberAccess": "none"}  # fmt: skip
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        ["pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'Type of "model(1, x=2)" is "Results"' in done.stdout


def test_types(tmp_path):
    """mypy --strict on the package, its stubs, what users copy, and a program."""
    package = pathlib.Path(tenon.__file__).parent
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = tmp_path / "mypy.ini"  # without PyTorch, whose types take a minute: all of it is Any
    settings.write_text(
        "[mypy]\n[mypy-torch.*,sympy.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
        "[mypy-tenon.torch.*]\ndisallow_subclassing_any = False\nwarn_return_any = False\n"
        "warn_unused_ignores = False\ndisallow_any_unimported = False\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"),
         "--config-file", str(settings), "-p", "tenon", "--python-executable", sys.executable],
        cwd=package.parent, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # Pages may leave annotations out, show a definition made again, and know that a result is there.
    settings.write_text(
        settings.read_text()
        + "[mypy-samples]\nallow_untyped_defs = True\nallow_incomplete_defs = True\n"
        "allow_untyped_calls = True\nallow_untyped_decorators = True\ndisallow_subclassing_any = False\n"
        "disable_error_code = union-attr, no-redef\n"
    )
    samples = tmp_path / "samples.py"
    samples.write_text(sample_code())
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"),
         "--config-file", str(settings), program, samples],
        env={**os.environ, "MYPYPATH": str(package.parent)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in ("Results", "tuple[int | str, ...]", "tuple[int, ...]"):
        assert kind.replace("int | str", "") and kind.split("[")[0] in done.stdout
