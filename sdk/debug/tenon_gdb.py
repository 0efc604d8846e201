"""Pretty printers of Tenon for gdb: graphs, dims and kernels as people write them.

    (gdb) source sdk/debug/tenon_gdb.py
    (gdb) print graph
    (gdb) print node          # handles of the SDK show what they stand for
    (gdb) tenon-dump graph    # the whole text, written by the program itself

Printers read memory only, so that they work on a core file and while the program is in the middle
of something. What belongs to core (graphs, and what a handle of the SDK stands for) needs a
libtenon with debug information; without it a handle shows its number. `tenon-dump` calls the
program, and needs none.
"""

import gdb
import gdb.printing
import gdb.types

NONE = 0xFFFFFFFF  # TENON_NONE
# Names by TENON_<NAME> of tenon/abi/base.h; a test compares the two.
DTYPES = (
    "none",
    "pred",
    "i4",
    "u4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f8e4m3fn",
    "f8e5m2",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
)


# ---- Containers of libstdc++ ----


class vector:
    """A std::vector as a sequence, read where it is looked at."""

    def __init__(self, value):
        self.begin = value["_M_impl"]["_M_start"]
        self.count = int(value["_M_impl"]["_M_finish"] - self.begin)
        if not 0 <= self.count <= 1 << 28:
            raise gdb.MemoryError("this is not initialised")

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.begin[index]


def deque_at(value, index):
    """One element of a std::deque."""
    start = value["_M_impl"]["_M_start"]
    size = start["_M_cur"].type.target().sizeof
    per_block = 512 // size if size < 512 else 1
    index += int(start["_M_cur"] - start["_M_first"])
    return start["_M_node"][index // per_block][index % per_block]


def string(value):
    return value["_M_dataplus"]["_M_p"].string(length=int(value["_M_string_length"]))


def sym_text(symbol):
    """The text of a tenon_sym_t; its number where core/base/intern.cpp has no debug information."""
    if int(symbol) == 0:
        return ""
    try:
        names = gdb.parse_and_eval("'tenon::(anonymous namespace)::interner()'::instance")
        block = names.dereference()["blocks"][int(symbol) >> 12]["_M_b"]["_M_p"]
        text = block[int(symbol) & 4095]["_M_b"]["_M_p"]["text"]
        return text["_M_str"].string(length=int(text["_M_len"]))
    except (gdb.error, gdb.MemoryError):
        return f"sym{int(symbol)}"


def enumerator(value):
    """`kMap` of an enumeration as `Map`."""
    return str(value).rpartition("::")[2].removeprefix("k")


# ---- core: dims and graphs ----


class DimTable:
    """Reads a tenon::ir::DimTable. Texts are those of DimTable::text."""

    def __init__(self, value):
        self.entries = vector(value["entries_"])
        self.atoms = vector(value["atoms_"])
        self.symbols = vector(value["symbols_"])

    def symbol(self, index):
        return sym_text(self.symbols[index]["name"])

    def text(self, dim, precedence=0):
        dim = int(dim)
        if dim >= 0:
            return str(dim)
        if ~dim >= len(self.entries):
            return "?"
        return self.poly(self.entries[~dim]["poly"], precedence)

    def atom(self, index):
        atom = self.atoms[index]
        kind, arguments = enumerator(atom["kind"]), vector(atom["args"])
        if kind == "Symbol":
            return self.symbol(int(atom["symbol"]))
        if kind in ("FloorDiv", "Mod"):
            return f"({self.text(arguments[0], 2)} {kind.lower()} {self.text(arguments[1], 2)})"
        return f"{kind.lower()}({', '.join(sorted(self.text(dim) for dim in arguments))})"

    def poly(self, poly, precedence):
        terms = []
        for term in vector(poly["terms"]):
            atoms = sorted(self.atom(int(atom)) for atom in vector(term["atoms"]))
            terms.append((-len(atoms), "*".join(atoms), int(term["coeff"])))
        constant = int(poly["constant"])
        if not terms:
            return str(constant)
        out = ""
        for _, product, coeff in sorted(terms):
            factor = "" if abs(coeff) == 1 else f"{abs(coeff)}*"
            sign = (" - " if coeff < 0 else " + ") if out else ("-" if coeff < 0 else "")
            out += sign + factor + product
        if constant != 0:
            out += f" {'-' if constant < 0 else '+'} {abs(constant)}"
        alone = len(terms) == 1 and constant == 0
        is_atom = alone and terms[0][2] == 1 and terms[0][0] == -1
        if precedence == 0 and is_atom and out[0] == "(" and out[-1] == ")":
            return out[1:-1]
        return out if precedence == 0 or is_atom or (precedence == 1 and alone) else f"({out})"


class Graph:
    """Reads a tenon::ir::Graph. A value without a name has its number: v12."""

    def __init__(self, value):
        self.value = value
        self.dims = DimTable(value["dims_"])
        self.nodes = vector(value["nodes_"])

    def name(self):
        return string(self.value["name_"])

    def value_name(self, index):
        if int(index) == NONE:
            return "_"
        name = sym_text(deque_at(self.value["values_"], int(index))["name"])
        return f"%{name}" if name else f"v{int(index)}"

    def type(self, index):
        kind = int(deque_at(self.value["values_"], int(index))["type"])
        return self.type_text(vector(self.value["types_"])[kind].dereference())

    def type_text(self, type_):
        if int(type_["kind"]) != 0:
            return "token" if int(type_["kind"]) == 1 else f'object "{sym_text(type_["object"])}"'
        dims = (self.dims.text(type_["dims"][i]) for i in range(int(type_["rank"])))
        return f"{DTYPES[int(type_['dtype'])]}[{', '.join(dims)}]"

    def results(self, index):
        node = self.nodes[index]
        return [int(node["results"][i]) for i in range(int(node["result_count"]))]

    def node_text(self, index):
        node = self.nodes[index]
        operands = (node["operands"][i] for i in range(int(node["operand_count"])))
        text = f"{sym_text(node['op'])}({', '.join(self.value_name(v) for v in operands)})"
        types = ", ".join(self.type(result) for result in self.results(index))
        if types:
            text += f" : {types}"
        if int(node["region_count"]) != 0:
            text += f", regions: {int(node['region_count'])}"
        return text

    def main_nodes(self):
        at = int(deque_at(self.value["regions_"], 0)["first"])
        for _ in range(len(self.nodes)):
            if at == NONE:
                return
            yield at
            at = int(self.nodes[at]["next"])


class GraphPrinter:
    def __init__(self, value):
        self.graph = Graph(value)

    def to_string(self):
        symbols = ", ".join(self.graph.dims.symbol(i) for i in range(len(self.graph.dims.symbols)))
        count = int(self.graph.value["live_nodes_"])
        return f"graph @{self.graph.name()}{f'<{symbols}>' if symbols else ''}, {count} nodes"

    def children(self):
        """The nodes of the main region; those in regions of nodes are counted only."""
        for node in self.graph.main_nodes():
            results = ", ".join(self.graph.value_name(v) for v in self.graph.results(node))
            text = self.graph.node_text(node)
            yield f"node {node}", f"{results} = {text}" if results else text
        yields = vector(deque_at(self.graph.value["regions_"], 0)["yields"])
        yield "yield", ", ".join(self.graph.value_name(value) for value in yields)


class DimTablePrinter:
    def __init__(self, value):
        self.table = DimTable(value)

    def to_string(self):
        return f"{len(self.table.symbols)} symbols, {len(self.table.entries)} expressions"

    def children(self):
        for i in range(len(self.table.entries)):
            yield f"dim {~i}", self.table.text(~i)


# ---- The SDK: handles of a graph ----


def graph_behind(handle):
    """The graph of a tenon_graph_t*, or None where core has no debug information."""
    try:
        pointer = gdb.lookup_type("tenon::ir::Graph").pointer()
        return Graph(handle.cast(pointer).dereference()) if int(handle) != 0 else None
    except gdb.error:
        return None


class SdkDimPrinter:
    def __init__(self, value):
        self.raw, self.graph = int(value["raw_"]), value["graph_"]

    def to_string(self):
        if self.raw >= 0:
            return str(self.raw)
        if self.raw == -(1 << 63):
            return "invalid dim"
        graph = graph_behind(self.graph)
        return graph.dims.text(self.raw) if graph else f"dim {self.raw} of {self.graph}"


class SdkHandlePrinter:
    """Value and Node of the SDK."""

    def __init__(self, value):
        self.index, self.graph = int(value["id_"]), value["graph_"]
        self.kind = gdb.types.get_basic_type(value.type).name.rpartition("::")[2].lower()

    def to_string(self):
        if self.index == NONE:
            return f"no {self.kind}"
        graph = graph_behind(self.graph)
        if not graph:
            return f"{self.kind} {self.index} of {self.graph}"
        if self.kind == "node":
            return f"node {self.index}: {graph.node_text(self.index)}"
        return f"{graph.value_name(self.index)} : {graph.type(self.index)}"


# ---- kernelgen ----


class KernelPrinter:
    # What sizes are made of: TENON_S_ADD, SUB, MUL, and the two of kernelgen/ir/ir.h.
    INFIX = {64: " + ", 65: " - ", 66: "*", 240: " // ", 241: " % "}

    def __init__(self, value):
        self.value = value
        pool = value["pool"]
        self.expressions, self.arguments = vector(pool["exprs_"]), vector(pool["args_"])
        self.axes = vector(pool["axes_"])
        self.buffers, self.stages = vector(value["buffers"]), vector(value["stages"])

    def size(self, index):
        """A size as Kernel's text writes it; anything else stays its number."""
        x = self.expressions[int(index)]
        kind = enumerator(x["kind"])
        if kind == "Const":
            return str(int(x["bits"]))
        if kind == "Extent":
            return f"n{int(x['ref'])}"
        if kind == "Op" and int(x["op"]) in self.INFIX and int(x["args_count"]) == 2:
            first = int(x["args_begin"])
            a, b = (self.size(self.arguments[first + i]) for i in (0, 1))
            return f"({a}{self.INFIX[int(x['op'])]}{b})"
        return f"expression {int(index)}"

    def to_string(self):
        return f"kernel, {len(self.buffers)} buffers, {len(self.stages)} stages"

    def children(self):
        for i, buffer in enumerate(self.buffers):
            dims = ", ".join(self.size(dim) for dim in vector(buffer["dims"]))
            role = enumerator(buffer["role"]).lower()
            yield f"b{i}", f"{DTYPES[int(buffer['type'])]}[{dims}] {role}"
        for i, stage in enumerate(self.stages):
            text = enumerator(stage["kind"])
            for word, name in (("over", "space"), ("reduce", "reduce"), ("fill", "fill")):
                axes = [
                    f"i{int(a)} < {self.size(self.axes[int(a)]['extent'])}"
                    for a in vector(stage[name])
                ]
                if axes or name == "space":
                    text += f" {word} [{', '.join(axes)}]"
            stores = ", ".join(f"b{int(view['buffer'])}" for view in vector(stage["store"]))
            yield f"stage {i}", f"{text} into {stores}"


# ---- tenon-dump ----


class Dump(gdb.Command):
    """tenon-dump EXPRESSION: the whole text of a graph, of a handle's graph, or of a kernel.
    The program, which has to be running, writes it to stderr. libtenon needs no debug information."""

    def __init__(self):
        super().__init__("tenon-dump", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        value = gdb.parse_and_eval(argument)
        if value.type.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
            value = value.referenced_value()
        type_ = value.type.strip_typedefs()
        if type_.code == gdb.TYPE_CODE_STRUCT and "graph_" in (f.name for f in type_.fields()):
            value, type_ = value["graph_"], value["graph_"].type
        if type_.code != gdb.TYPE_CODE_PTR:
            value, type_ = value.address, value.address.type
        what = str(type_.target().unqualified().strip_typedefs())
        owner = {"tenon_graph_t": "tenon::ir::Graph"}.get(what, what)
        if owner not in ("tenon::kernelgen::Kernel", "tenon::ir::Graph"):
            raise gdb.GdbError(
                f"tenon-dump takes a graph, a handle of the SDK or a kernel, not {what}"
            )
        function = f"((void (*)(const void*)) '{owner}::dump() const')"
        gdb.execute(f"call {function}((const void*) {int(value)})")


def register():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("tenon")
    printers.add_printer("Graph", "^tenon::ir::Graph$", GraphPrinter)
    printers.add_printer("DimTable", "^tenon::ir::DimTable$", DimTablePrinter)
    printers.add_printer("sdk::Dim", "^tenon::sdk::Dim$", SdkDimPrinter)
    printers.add_printer("sdk::Value", "^tenon::sdk::(Value|Node)$", SdkHandlePrinter)
    printers.add_printer("Kernel", "^tenon::kernelgen::Kernel$", KernelPrinter)
    gdb.printing.register_pretty_printer(None, printers, replace=True)
    Dump()


register()
