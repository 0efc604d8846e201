"""Models: loading, calling, and what can be asked of them."""

from __future__ import annotations

import os

from tenon import _host, _native
from tenon._devices import device_text, thread_number
from tenon._errors import Error, UnsupportedError, UsageError, flag
from tenon._files import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Literal, TypeAlias

    Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview
    Values: TypeAlias = Mapping[str, int | float | str | Sequence[int | float]]
    Results: TypeAlias = Literal["same", "numpy", "tensor", "device"]
    Device: TypeAlias = str | Sequence[str] | None

_PACKAGE_MAGIC = b"\x89TPK\r\n\x1a\n"
# What loads exported programs. It needs PyTorch, and is imported when such a file comes.
_EXPORTED = "tenon.torch.capture.export"
_OF_TORCH = (".pt", ".pth", ".ckpt", ".safetensors")


class Port:
    """An input or a result of a model: `name`, `dtype` ("f32"), and `shape`.

    A symbolic size in `shape` is its text ("batch", "2*n"), a known one a number.
    """

    __slots__ = ("name", "dtype", "shape")

    def __init__(self, name: str, dtype: str, shape: tuple[int | str, ...]):
        self.name = name
        self.dtype = dtype
        self.shape = shape

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Port) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class LastRun:
    """What the last call of a model did: `ms` in the host, and bytes that were copied.

    `repacked_bytes`: strided inputs that were made dense, and new values of inputs that rarely
    change, which were packed. `transferred_bytes`: between host and devices. `copied_out_bytes`:
    results that were copied once more. With threads, of whichever call ended last.
    """

    __slots__ = ("ms", "repacked_bytes", "transferred_bytes", "copied_out_bytes")

    def __init__(self, ms: float, repacked: int, transferred: int, copied_out: int):
        self.ms = ms
        self.repacked_bytes = repacked
        self.transferred_bytes = transferred
        self.copied_out_bytes = copied_out

    @property
    def copied_bytes(self) -> int:
        """All of them together."""
        return self.repacked_bytes + self.transferred_bytes + self.copied_out_bytes

    def __repr__(self) -> str:
        return (
            f"LastRun(ms={self.ms:.3f}, repacked_bytes={self.repacked_bytes}, "
            f"transferred_bytes={self.transferred_bytes}, copied_out_bytes={self.copied_out_bytes})"
        )


class Explanation:
    """Which node runs where and why. Prints as a table; `data` is all of it, as a dictionary."""

    def __init__(self, data: dict[str, Any], summary: str):
        self.data = data
        self.summary = summary
        """One line about what was not placed where it was asked; empty if there is nothing to say."""

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        for node in self.data.get("nodes", []):
            why = "; ".join(f"not {r['device']}: {r['reason']}" for r in node.get("refusals", []))
            yield str(node["op"]), str(node["device"]), why

    def __str__(self) -> str:
        lines = [f"{op:<24} {device:<12} {why}".rstrip() for op, device, why in self._rows()]
        return "\n".join(([self.summary] if self.summary else []) + lines)

    def _repr_html_(self) -> str:
        return _table(("op", "device", "why not elsewhere"), list(self._rows()))


class Profile:
    """The times of one run."""

    def __init__(self, trace: str, table: dict[str, Any]):
        self.trace = trace
        """Trace events as JSON, for ui.perfetto.dev and chrome://tracing."""
        self.table = table
        """The costliest kernels with their share, times, operations and bytes."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace. The file appears whole or not at all."""
        write(path, self.trace.encode())


class Run:
    """A call in the background, made by `Model.start`.

    `await` gives its results in a coroutine. If the coroutine is cancelled meanwhile, so is the call.
    """

    def __init__(self, run: _native.Run):
        self._run = run

    def result(self, timeout: float | None = None) -> _native.Results:
        """The results, once the call has ended.

        Raises what the call raises, or TimeoutError after `timeout` seconds; the call goes on then.
        """
        if timeout is not None and timeout != timeout:
            raise UsageError(f"timeout={timeout!r} is not a number of seconds", "T0004")
        return self._run.result(-1.0 if timeout is None else max(timeout, 0.0))

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._run.done()

    def cancel(self) -> None:
        """Asks the call to stop; `result` then raises `tenon.Cancelled`, unless it had ended."""
        self._run.cancel()

    def __await__(self) -> Generator[Any, None, _native.Results]:
        import asyncio

        waiting = asyncio.get_running_loop().run_in_executor(None, self.result)
        try:
            return (yield from waiting.__await__())
        except asyncio.CancelledError:
            self._run.cancel()
            raise
        finally:
            del waiting  # its exception has this frame


class Model(_native.Program):
    """A compiled model. Made by `tenon.load`.

    `model(x, ...)` runs it: inputs by position, in the order of `inputs`, or by name. Arrays are
    those of NumPy, torch, or any library with DLPack, the buffer protocol or `__array__`; numbers
    may stand for inputs without axes. Element types are not converted. The results are arrays of
    the kind that was given, in a `tenon.Results`: `y[0]`, `y["logits"]`, `a, b = y`. Results keep
    their memory when the model is gone.

    A model is immutable. Any number of threads may call it at the same time; the GIL is given back
    while it works. Ctrl-C ends a call on the main thread. Not for use in a process that was forked
    after the first use (T0625).
    """

    inputs: list[Port]
    """The inputs, in the order of a call."""
    outputs: list[Port]
    """The results, in the order of `Results`."""

    def __init__(self, recipe: _Recipe):
        self._recipe = recipe
        if recipe.package is not None:
            super().__init__(recipe.package, recipe.sizes)
        else:
            from tenon._progress import watched

            with watched(os.path.basename(recipe.name) or "a model") as progress:
                progress.stage = "it is read"
                graph = recipe.graph()
                progress.stage = progress.kernels
                super().__init__(graph, *recipe.options(), recipe.sizes)
        self.limit_threads(recipe.threads)
        self.inputs = [Port(*port) for port in self.input_ports()]
        self.outputs = [Port(*port) for port in self.output_ports()]

    def run(
        self,
        inputs: Sequence[object] | Mapping[str, object],
        *others: object,
        results: Results = "same",
        out: Sequence[object] | Mapping[str, object] | None = None,
    ) -> _native.Results:
        """Runs the model with a sequence of inputs, or with a mapping by name.

        `results` says what to make of them: "same" as the inputs, "numpy", "tensor"
        (`tenon.Tensor`), or "device" (`tenon.Tensor` left on the device that made it). `out` is
        writable memory for results, in their order or by name; None leaves one out. T0620 if it
        does not fit, and then nothing is written.
        """
        if others:
            raise UsageError(
                "run takes the inputs alone, as in run(feed): all results come back, by name too",
                "T0004",
            )
        if results not in ("same", "numpy", "tensor", "device"):
            raise UsageError(
                f"results={results!r} is not one of 'same', 'numpy', 'tensor', 'device'", "T0004"
            )
        values, names = _split(inputs)
        return self.run_as(values, names, results, self._given(out))

    def _given(self, out: Sequence[object] | Mapping[str, object] | None) -> list[object]:
        if out is None:
            return []
        if not hasattr(out, "keys"):
            return list(out)
        given: dict[str, object] = dict(out)  # type: ignore[arg-type]
        listed = [given.pop(port.name, None) for port in self.outputs]
        if given:
            known = ", ".join(port.name for port in self.outputs)
            raise UsageError(f"there is no result {min(given)!r} (results: {known})", "T0602")
        return listed

    def start(self, *args: object, **kwargs: object) -> Run:
        """Begins a call on a thread of its own, and returns. `await` it, or ask for its result."""
        return Run(_native.start(self, *args, **kwargs))

    @property
    def last_run(self) -> LastRun:
        """What the last call did, and what it copied."""
        return LastRun(*self.last_counts())

    @property
    def device(self) -> str:
        """The devices that compute it, with commas between them: "cpu"."""
        import json

        rows = json.loads(self.placement()).get("devices", [])
        return ", ".join(row["device"] for row in rows if row["nodes"]) or self._recipe.device

    @property
    def source(self) -> str:
        """The file that it was loaded from; "" for a model that was made in this process."""
        return self._recipe.name

    @property
    def metadata(self) -> dict[str, Any]:
        """What the file says of itself: "format", and for .onnx files "producer", "version",
        "description", "opsets", and the author's own "properties"; for packages their record."""
        return self._recipe.metadata()

    @property
    def threads(self) -> int | None:
        """How many threads compute a call at most; None: all."""
        return self.thread_limit() or None

    @property
    def info(self) -> dict[str, float]:
        """Numbers of the compiled program: "compile_ms", "kernels", "code_bytes" and others."""
        return self.counts()

    def explain(self) -> Explanation:
        """Which node runs where and why."""
        import json

        return Explanation(json.loads(self.placement()), self.summary())

    def dump(self, what: str) -> str:
        """The text of a stage: "graph", "partition", "cpu/stages". T0508 lists the others."""
        return self.dump_text(what)

    def profile(self, *args: object, **kwargs: object) -> Profile:
        """Runs the model twice with these inputs, and measures the second run."""
        import json

        trace, table = self.profile_texts(*args, **kwargs)
        return Profile(trace, json.loads(table))

    def report(self, path: str | os.PathLike[str], *args: object, **kwargs: object) -> None:
        """Writes a page about the model: one HTML file, for a browser, without a network.

        It shows the graph, the kernels and what was fused into them, memory and generated code.
        With inputs, it runs the model and shows the time of each kernel too. T0508 for a package,
        which has no graph. The file appears whole or not at all.
        """
        from tenon.report import page

        self._check_page(path)
        name = os.path.splitext(os.path.basename(os.fspath(path)))[0]
        write(path, page(self, name, args, kwargs))

    def _check_page(self, path: str | os.PathLike[str]) -> None:
        from tenon.report import check_name

        given = os.fspath(path)
        source = self._recipe.path or self._recipe.package
        if source and os.path.exists(source) and os.path.exists(given):
            if os.path.samefile(source, given):
                raise UsageError(f"{given!r} is the model itself", "T0004")
        check_name(path)

    def save(self, path: str | os.PathLike[str], *, target: str = "") -> None:
        """Writes the compiled program into one file, a package, which `tenon.load` reads again.

        It runs without the model, a frontend or a compiler. `target` is what the code is for, as
        the device calls it ("cpu isa=avx2"); empty: this machine. The file appears whole or not at
        all.
        """
        if not os.fspath(path).endswith(".tpk"):
            raise UsageError(
                f"{os.fspath(path)!r} does not end in .tpk, by which packages are known", "T0004"
            )
        if self._recipe.package is not None:
            if target:
                raise UnsupportedError(
                    "a package is compiled for one target: load the model", "T0520"
                )
            write(path, self._recipe.package_bytes())
        else:
            self._recipe.graph().save(os.fspath(path), *self._recipe.options(), target)

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __copy__(self) -> Model:
        return self

    def __deepcopy__(self, memo: object) -> Model:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        by_value = '"by_value"' in self.placement() if not self.closed() else False
        return _restore, (self._recipe.portable(by_value),)

    def __repr__(self) -> str:
        inputs = ", ".join(map(repr, self.inputs))
        outputs = ", ".join(map(repr, self.outputs))
        name = os.path.basename(self.source)
        try:
            where = " on ".join(part for part in (name, self.device) if part)
        except Error:  # it is closed
            where = f"{name} (closed)"
        return f"<tenon.Model {where}: ({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
        rows = [("input", p.name, p.dtype, _shape(p)) for p in self.inputs]
        rows += [("result", p.name, p.dtype, _shape(p)) for p in self.outputs]
        return _table(("", "name", "type", "shape"), rows)


class _Recipe:
    """How a model is made: where its graph or its package comes from, and the options."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.data: bytes | None = None  # of a graph
        self.package: str | None = None  # the path of a package
        self.package_data: bytes | None = None  # of one whose file is gone
        self.load_options: list[tuple[str, str]] = []
        self.sizes: list[tuple[str, int]] = []
        self.device = ""
        self.no_fallback = False
        self.deterministic = False
        self.device_options: list[tuple[str, str]] = []
        self.threads = 0  # at most so many; 0: all
        self.name = ""  # of the file
        self.known: dict[str, Any] | None = None  # of metadata, once asked for
        self._graph: _native.Graph | None = None

    def graph(self) -> _native.Graph:
        if self._graph is None:
            if self.path is not None:
                self._graph = _read(self.path, self.load_options)
            else:
                assert self.data is not None
                self._graph = _native.Graph.of_bytes(self.data, _name_for(self.data))
        return self._graph

    def options(self) -> tuple[str, bool, bool, list[tuple[str, str]]]:
        return self.device, self.no_fallback, self.deterministic, self.device_options

    def package_bytes(self) -> bytes:
        if self.package_data is not None:
            return self.package_data
        assert self.package is not None
        with open(self.package, "rb") as file:
            return file.read()

    def metadata(self) -> dict[str, Any]:
        if self.known is None:
            from tenon._metadata import metadata_of

            self.known = metadata_of(self.path or self.package or "")
        return dict(self.known)

    def portable(self, by_value: bool) -> dict[str, Any]:
        """What another process needs. A model that is compiled by value needs its own file."""
        self.metadata()
        state = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        if self.package is not None:
            state["package_data"] = self.package_bytes()
        elif not by_value:
            state["path"], state["data"], state["load_options"] = None, self.graph().write(), []
        return state


def _read(path: str, options: list[tuple[str, str]]) -> _native.Graph:
    try:
        return _native.Graph.load(path, options)
    except UsageError as error:
        if error.code != "T0791" or not path.endswith(_OF_TORCH):
            raise
        raise UsageError(
            f"{error}. Such files of PyTorch have weights, or Python objects: export the network to "
            "ONNX with torch.onnx.export, or to a .pt2 file with torch.export.save",
            "T0791",
        ) from None


def _restore(state: dict[str, Any]) -> Model:
    _host.open()
    recipe = _Recipe()
    vars(recipe).update(state)
    if recipe.package is None:
        return Model(recipe)
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".tpk") as file:  # it stays mapped
        file.write(recipe.package_bytes())
        file.flush()
        recipe.package = file.name
        return Model(recipe)


def model_of(
    graph: _native.Graph,
    device: Device = None,
    *,
    options: Mapping[str, object] | None = None,
    fallback: bool = True,
    deterministic: bool = False,
    threads: int | None = None,
) -> Model:
    """Makes a model of a graph that was built (`tenon.builder`). The arguments are those of `load`."""
    recipe = _Recipe()
    recipe.device = device_text(device)
    recipe.no_fallback = not fallback
    recipe.deterministic = deterministic
    recipe.threads = 0 if threads is None else thread_number("threads", threads)
    recipe.device_options = [(key, str(value)) for key, value in (options or {}).items()]
    recipe._graph = graph
    return Model(recipe)


def load(
    source: Source,
    device: Device = None,
    dims: Mapping[str, int] | None = None,
    *,
    values: Values | None = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    fallback: bool = True,
    deterministic: bool = False,
    threads: int | None = None,
) -> Model:
    """Loads a model and compiles it.

    `source` is a path: a model that a frontend reads (.onnx), Tenon's own form (.tir), a file of
    torch.export.save (.pt2, where PyTorch is installed), or a package (.tpk, which holds native
    code: load only what you trust). Or it is the content of a model.

    `device` is where it runs: "cpu", "sim:1", or several that share the nodes in order of preference,
    "sim,cpu". A list is of alternatives: the first that this machine has is used, and a line of the
    log says which. None: where it costs least. `threads`: at most so many compute a call.

    `dims` gives values of symbolic sizes that follow from no input. `values` makes inputs constants
    ({"axes": [1]}). `overrides` names initializers of an ONNX file that are inputs, too, and are then
    given as such. `options` are the devices' ({"cpu.opt": 2}).
    `fallback=False` forbids nodes on other devices than the named ones. `deterministic=True` gives
    the same bits on every instruction set.

    Raises `tenon.Error`: `NotFoundError` for files (T0101), devices (T0502) and unknown operators
    (T0308, T0704), `UsageError` with all else that is wrong in a model, `UnsupportedError` for what
    has no implementation. Ctrl-C ends it with KeyboardInterrupt and leaves nothing.
    """
    if not isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)):
        raise _not_a_source(source)
    if isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(".pt2"):
        if dims or values or overrides:
            raise UsageError(
                "a .pt2 file takes no dims=, values= or overrides=: export it with them", "T0793"
            )
        return _load_exported(
            os.fspath(source), device=device, options=options, fallback=fallback,
            deterministic=deterministic, threads=threads,
        )  # fmt: skip
    _host.open()
    recipe = _Recipe()
    recipe.threads = 0 if threads is None else thread_number("threads", threads)
    recipe.device = device_text(device)
    recipe.no_fallback = not flag("fallback", fallback)
    recipe.deterministic = flag("deterministic", deterministic)
    recipe.sizes = [(name, _size(name, value)) for name, value in (dims or {}).items()]
    recipe.load_options = [(f"value.{name}", _listed(v)) for name, v in (values or {}).items()]
    recipe.load_options += [(f"override.{name}", "") for name in overrides]
    recipe.device_options = [(key, str(value)) for key, value in (options or {}).items()]
    _set_source(recipe, source)
    return Model(recipe)


def _load_exported(path: str, **given: Any) -> Model:
    try:
        import importlib

        module = importlib.import_module(_EXPORTED)
    except ImportError as error:
        raise UnsupportedError(f"a .pt2 file is read by PyTorch: {error}", "T0640") from None
    model: Model = module.load(path, **given)
    model._recipe.name = os.path.abspath(path)
    model._recipe.known = {"format": "pt2"}
    return model


def _not_a_source(given: object) -> UsageError:
    """What to do with an object that is a model, but of another library. None of these is imported."""
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(given).__mro__}
    name = type(given).__name__
    if "torch.nn.modules.module.Module" in kinds:
        text = (
            f"{name} is a network of PyTorch: compile it in place with torch.compile(net, "
            'backend="tenon"), or make a model of it with '
            "tenon.from_exported(torch.export.export(net, (x,)))"
        )
    elif "torch.export.exported_program.ExportedProgram" in kinds:
        text = f"{name} is an exported program: tenon.from_exported(program)"
    elif name == "ModelProto" and hasattr(given, "SerializeToString"):
        text = "an ONNX model in memory is loaded as its bytes: model.SerializeToString()"
    else:
        text = f"load takes a path or the content of a model, and not {name}"
    return UsageError(text, "T0004")


def _set_source(recipe: _Recipe, source: Source) -> None:
    if isinstance(source, (bytes, bytearray, memoryview)):
        recipe.data = bytes(source)
        if recipe.data.startswith(_PACKAGE_MAGIC):
            raise UsageError(
                "packages hold native code and are loaded from files: write it to a .tpk", "T0793"
            )
        if recipe.load_options:
            raise UsageError("values= and overrides= need a model in a file", "T0793")
        return
    path = os.path.abspath(os.fspath(source))
    recipe.name = path
    if not path.endswith(".tpk"):
        recipe.path = path
        return
    _refuse_for_package(recipe)
    recipe.package = path


def _refuse_for_package(recipe: _Recipe) -> None:
    asked = recipe.device, recipe.device_options, recipe.load_options
    if any(asked) or recipe.no_fallback or recipe.deterministic:
        raise UsageError(
            "a package is compiled already: it takes dims= only, not device=, values=, overrides=, "
            "options=, fallback= or deterministic=",
            "T0520",
        )


def _name_for(data: bytes) -> str:
    """Tenon's text is known by its name; all else is offered to every frontend."""
    for line in data[:65536].splitlines():
        if line.strip() and not line.lstrip().startswith(b"//"):
            return "model.tir" if line.lstrip().startswith(b"tenon.tir") else "model"
    return "model"


def _split(
    inputs: Sequence[object] | Mapping[str, object],
) -> tuple[tuple[object, ...], dict[str, object]]:
    if hasattr(inputs, "keys"):  # also a mapping that is not registered as one
        named: Any = inputs
        return (), dict(named)
    if hasattr(inputs, "shape") or isinstance(inputs, (str, bytes)):
        raise UsageError("run() takes a list or a mapping of inputs: run([x])", "T0601")
    return tuple(inputs), {}


def _size(name: str, value: int) -> int:
    try:
        size = value.__index__()
    except AttributeError:
        raise UsageError(f"dims: {name!r} is {value!r}, which is not an integer", "T0608") from None
    if not 0 <= size < 1 << 63:
        raise UsageError(f"dims: {name!r} is {size}, which is not a size", "T0608")
    return size


def _listed(value: int | float | str | Sequence[int | float]) -> str:
    if isinstance(value, (str, int, float)):
        return str(value)
    return ",".join(str(v) for v in value)


def _shape(port: Port) -> str:
    return "[" + ", ".join(map(str, port.shape)) + "]"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    import html

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    return "<table>" + line("th", head) + "".join(line("td", row) for row in rows) + "</table>"
