// The views of one run, and the page around them.

function kernelRows(run) {
  const most = run.kernels[0]?.us ?? 0;
  const known = run.kernels.some((l) => l.bound > 0);
  const row = (launch) => {
    const width = most > 0 ? 100 * launch.us / most : 0, bound = launch.us > 0 ? Math.min(1, launch.bound / launch.us) : 0;
    const button = el("button", {class: "row", "aria-expanded": "false", onclick: () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) button.nextSibling.remove();
      else button.after(el("div", {style: "padding: 4px 0 16px"}, launchFacts(run, launch, (n) => showNode(n))));
    }},
      el("span", {class: "name", title: launch.name}, dot(launch.device), launch.home && launch.home !== run.root
        ? el("span", {class: "soft"}, short(launch.home.path.slice(1), 28) + "  ") : null, launch.name),
      el("span", {class: "track opt"}, el("i", {style: `width: ${width}%`}), el("b", {style: `width: ${width * bound}%`})),
      el("span", {class: "n"}, launch.us > 0 ? timeText(launch.us) : "–"),
      el("span", {class: "n soft opt"}, run.totalUs > 0 ? percent(launch.us / run.totalUs) : ""),
      el("span", {class: "n soft opt"}, bound > 0 ? percent(bound) : "–"));
    return button;
  };
  return card(el("h2", {}, "Time of each kernel"),
    el("p", {class: "note"}, run.totalUs > 0
      ? `Mean of ${run.runs} run${run.runs === 1 ? "" : "s"}. The dark part is the bound: the shortest time in which this machine could do the work of the kernel${known ? "." : ", which is not known here."} Click a kernel for its nodes and its code.`
      : "Nothing was measured. Click a kernel for its nodes and its code."),
    el("div", {class: "row head"}, el("span", {}, "kernel"), el("span", {class: "opt"}, ""), el("span", {class: "n"}, "time"),
      el("span", {class: "n opt"}, "share"), el("span", {class: "n opt"}, "of bound")),
    paged(run.kernels, row));
}

// ---- Flame graph by module ----

function flame(run, zoom, redraw) {
  if (run.totalUs === 0) return card(el("p", {class: "note"}, "Nothing was measured."));
  const frames = [];
  let depth = 0;
  const place = (module, left, row) => {
    depth = Math.max(depth, row);
    frames.push({module, left, us: module.us, row, label: module.label});
    let at = left;
    for (const item of module.items) {
      if (item.op === undefined && item.us > 0) {
        place(item, at, row + 1);
        at += item.us;
      }
    }
    for (const launch of run.kernels.filter((l) => l.home === module && l.us > 0)) {
      depth = Math.max(depth, row + 1);
      frames.push({launch, left: at, us: launch.us, row: row + 1, label: launch.name});
      at += launch.us;
    }
  };
  place(zoom, 0, 0);
  const box = el("div", {class: "flame", style: `height: ${(depth + 1) * 23}px`});
  for (const f of frames) {
    const width = 100 * f.us / zoom.us;
    if (width < 0.08) continue;
    box.append(el("button", {class: f.launch ? "leaf" : undefined, title: `${f.label}: ${timeText(f.us)}, ${percent(f.us / run.totalUs)}`,
      style: `left: ${100 * f.left / zoom.us}%; width: ${width}%; top: ${f.row * 23}px`,
      onclick: () => f.launch ? f.launch.nodes.length && showNode(run.nodeByNumber.get(f.launch.nodes[0])) : redraw(f.module)}, width > 3 ? f.label : ""));
  }
  return card(el("h2", {}, "Time by module"),
    el("p", {class: "note"}, "A frame is a module of the model; its width is the time of its kernels. A kernel fused from several modules belongs to the one around them. Click a module to enlarge it."),
    zoom.parent ? el("p", {class: "crumbs"}, crumbs(zoom, redraw)) : null, box);
}

const crumbs = (module, go) => chain(module).flatMap((m, i, all) =>
  [i ? " / " : "", m === all[all.length - 1] ? m.label : el("button", {onclick: () => go(m)}, m.label)]);

// ---- Memory ----

function memory(run) {
  const plans = memoryOf(run);
  const info = run.info ?? {};
  const cards = plans.map((plan) => {
    const peak = Math.max(1, ...plan.steps.map((s) => s.live)), at = plan.steps.findIndex((s) => s.live === peak);
    const width = 1100, height = 180, w = width / plan.steps.length;
    const svg = el("svg", {viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": "Live memory by step"});
    plan.steps.forEach((step, i) => {
      const h = (height - 4) * step.live / peak;
      const bar = el("rect", {x: i * w, y: height - h, width: Math.max(w - (w > 4 ? 1 : 0), 0.5), height: h},
        el("title", {}, `step ${i}, ${short(step.name, 80)}: ${bytesText(step.live)}`));
      bar.style.cssText = `fill: var(${i === at ? "--bound" : "--bar"})`;
      svg.append(bar);
    });
    const top = [...(plan.steps[at]?.buffers ?? [])].sort((a, b) => b.bytes - a.bytes).slice(0, 12);
    return card(el("h2", {}, dot(plan.device), `Live bytes at each of ${plan.steps.length} steps on ${plan.device}`),
      el("p", {class: "note"}, `At most ${bytesText(peak)}, at step ${at}` + (info.arena_bytes ? `; ${bytesText(info.arena_bytes)} were allotted in all.` : ".")
        + ` ${bytesText(plan.fixed)} of constants are held all the time.` + (plan.unknown ? ` ${plan.unknown} buffers have sizes that follow from inputs; fix the sizes of the model to see them.` : "")),
      svg, el("h2", {style: "margin-top: 16px"}, `The largest at step ${at}`),
      table(["buffer", "kind", ">size"], top.map((b) => [`${b.number}`, b.kind, bytesText(b.bytes)])));
  });
  return cards.length ? cards : card(el("p", {class: "note"}, "No device reported how it uses memory."));
}

// ---- Placement ----

function placement(run) {
  const devices = new Map();
  for (const node of run.nodes) {
    if (!node.device) continue;
    const row = devices.get(node.device) ?? {nodes: 0, ops: new Map()};
    ++row.nodes;
    row.ops.set(node.op, (row.ops.get(node.op) ?? 0) + 1);
    devices.set(node.device, row);
  }
  const refused = new Map();
  for (const node of run.nodes) {
    for (const r of node.refusals ?? []) {
      if (!r.reason) continue;
      const key = `${r.device}\n${node.op}\n${r.reason}`;
      refused.set(key, {device: r.device, op: node.op, reason: r.reason, count: (refused.get(key)?.count ?? 0) + 1, node});
    }
  }
  const ops = (map) => [...map].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([op, n]) => `${op} ${n}`).join(", ");
  const time = (device) => run.kernels.filter((l) => l.device === device).reduce((sum, l) => sum + l.us, 0);
  return [card(el("h2", {}, "Which device runs what"), table(["device", ">nodes", ">time", "operators"],
      [...devices].map(([name, row]) => [el("span", {}, dot(name), name), String(row.nodes), time(name) ? timeText(time(name)) : "–", ops(row.ops)]))),
    refused.size ? card(el("h2", {}, "What was refused, and why"), table(["device", "operator", ">nodes", "reason"],
      [...refused.values()].slice(0, 200).map((r) => [el("span", {}, dot(r.device), r.device),
        el("button", {class: "link", onclick: () => showNode(r.node)}, r.op), String(r.count), r.reason]))) : null,
    (run.placement?.copies ?? []).length ? card(el("h2", {}, "Copies between devices"), table(["from", "to", ">size"],
      run.placement.copies.slice(0, 200).map((c) => [c.from, c.to, bytesText(c.bytes)]))) : null];
}

// ---- Graph ----

function graph(run, state, redraw) {
  const choose = (item) => item.op === undefined ? redraw({module: item, node: null}) : redraw({module: item.module, node: item});
  const canvas = el("div", {class: "card canvas"}), {svg, outside} = drawModule(run, state.module, state.node, choose);
  canvas.append(svg);
  const hits = el("div", {class: "results"});
  const search = el("input", {type: "search", placeholder: "Search names, operators, types", "aria-label": "Search"});
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    hits.replaceChildren();
    if (wanted === "") return;
    const found = run.nodes.filter((n) => [n.name, n.op, nodeLine(n), n.attributes, run.values.get(n.results[0])?.type].some((t) => t?.toLowerCase().includes(wanted)));
    hits.append(card(el("p", {class: "note"}, `${found.length} of ${run.nodes.length} nodes`),
      paged(found, (n) => el("button", {onclick: () => choose(n)}, dot(n.device ?? ""), n.op, "  ", el("span", {class: "soft"}, [n.name, nodeLine(n)].filter((t) => t).join("  "))), 40)));
  });
  const side = state.node ? nodeFacts(run, state.node, choose) : [el("h2", {}, state.module.label),
    el("p", {class: "note"}, `${state.module.count} nodes` + (run.totalUs ? `, ${timeText(state.module.us)} or ${percent(state.module.us / run.totalUs)} of the time` : "") + ". "
      + (outside ? `${outside} values come from other modules. ` : "") + "Click a box: a module opens, a node shows what became of it.")];
  const view = el("div", {}, el("div", {class: "tools"}, search, el("div", {class: "crumbs"}, crumbs(state.module, (m) => redraw({module: m, node: null}))),
    el("div", {class: "legend"}, DEVICES.map((d) => el("span", {}, dot(d), d)))), hits, el("div", {class: "split"}, canvas, card(...side)));
  requestAnimationFrame(() => {
    canvas.scrollLeft = (canvas.scrollWidth - canvas.clientWidth) / 2;
    canvas.querySelector(".on")?.scrollIntoView({block: "center", inline: "center"});
  });
  return view;
}

function code(run) {
  const texts = Object.entries(run.source ?? {}).filter(([, text]) => text !== "");
  if (texts.length === 0) return card(el("p", {class: "note"}, "No device shows its code."));
  return texts.map(([device, text]) => card(el("h2", {}, dot(device), `Generated for ${device}`), el("pre", {}, text)));
}

// Operators of the graph that no program has.
function inTorch(run) {
  const rows = [...run.torch].sort((a, b) => b.us - a.us);
  return card(el("h2", {}, "Operators that stay in torch"),
    el("p", {class: "note"}, "Those of the whole graph that this program is a part of, each with the time of its first call."),
    table(["operator", "line", ">time"], rows.map((r) => [r.op, r.place, timeText(r.us)])));
}

// ---- Comparison ----

function compare(a, b) {
  const sums = (run) => {
    const map = new Map();
    for (const l of run.kernels) {
      const row = map.get(l.name) ?? {us: 0, count: 0};
      row.us += l.us;
      ++row.count;
      map.set(l.name, row);
    }
    return map;
  };
  const ofA = sums(a), ofB = sums(b);
  const rows = [...new Set([...ofA.keys(), ...ofB.keys()])].map((name) => ({name, a: ofA.get(name), b: ofB.get(name)}));
  rows.sort((x, y) => Math.abs((y.b?.us ?? 0) - (y.a?.us ?? 0)) - Math.abs((x.b?.us ?? 0) - (x.a?.us ?? 0)));
  const cell = (row) => row ? `${row.us ? timeText(row.us) : "–"}${row.count > 1 ? ` (${row.count})` : ""}` : "–";
  const change = (from, to, text) => el("span", {class: to < from ? "good" : to > from ? "bad" : "faint"}, to === from ? "same" : (to > from ? "+" : "−") + text(Math.abs(to - from)));
  const figure = (name, from, to, text) => [name, from ? text(from) : "–", to ? text(to) : "–", from && to ? change(from, to, text) : ""];
  const count = (n) => String(n);
  const ops = (run) => run.nodes.reduce((map, n) => map.set(n.op, (map.get(n.op) ?? 0) + 1), new Map());
  const opsA = ops(a), opsB = ops(b);
  const differing = [...new Set([...opsA.keys(), ...opsB.keys()])].filter((op) => opsA.get(op) !== opsB.get(op)).sort();
  const devices = (run) => run.nodes.reduce((map, n) => n.device ? map.set(n.device, (map.get(n.device) ?? 0) + 1) : map, new Map());
  const onA = devices(a), onB = devices(b);
  return [card(el("h2", {}, "A against B"), el("p", {class: "note"}, `A is ${a.label}. B is ${b.label}.`), table(["", ">A", ">B", ">change"], [
      figure("time of kernels", a.totalUs, b.totalUs, timeText), figure("compilation", (a.info?.compile_ms ?? 0) * 1e3, (b.info?.compile_ms ?? 0) * 1e3, timeText),
      figure("kernels", a.kernels.length, b.kernels.length, count), figure("nodes", a.nodes.length, b.nodes.length, count),
      figure("memory of a run", a.info?.arena_bytes, b.info?.arena_bytes, bytesText),
      ...[...new Set([...onA.keys(), ...onB.keys()])].map((d) => figure(`nodes on ${d}`, onA.get(d) ?? 0, onB.get(d) ?? 0, count))])),
    card(el("h2", {}, "Kernels, the largest change first"), el("p", {class: "note"}, "Kernels are matched by what they were made of; in brackets, how many there are."),
      el("div", {class: "row head"}, "kernel", el("span", {class: "opt"}), el("span", {class: "n"}, "A"), el("span", {class: "n opt"}, "B"), el("span", {class: "n opt"}, "change")),
      paged(rows, (r) => el("div", {class: "row"}, el("span", {class: "name", title: r.name}, r.name), el("span", {class: "opt"}), el("span", {class: "n"}, cell(r.a)),
        el("span", {class: "n opt"}, cell(r.b)), el("span", {class: "n opt"}, change(r.a?.us ?? 0, r.b?.us ?? 0, timeText))))),
    differing.length ? card(el("h2", {}, "Operators after the passes that differ in number"), table(["operator", ">A", ">B"],
      differing.map((op) => [op, String(opsA.get(op) ?? 0), String(opsB.get(op) ?? 0)]))) : null];
}

// ---- The page ----

const RUNS = DATA.runs.map(prepare);
const state = {run: 0, view: "", graph: RUNS.map((run) => ({module: run.root, node: null})), flame: RUNS.map((run) => run.root)};

function showNode(node) {
  state.view = "graph";
  state.graph[state.run] = {module: node.module, node};
  draw();
  scrollTo({top: 0});
}

const VIEWS = {
  kernels: ["Kernels", (run) => kernelRows(run)],
  modules: ["Modules", (run) => flame(run, state.flame[state.run], (m) => { state.flame[state.run] = m; draw(); })],
  graph: ["Graph", (run) => graph(run, state.graph[state.run], (to) => { state.graph[state.run] = to; draw(); })],
  placement: ["Placement", (run) => placement(run)],
  memory: ["Memory", (run) => memory(run)],
  code: ["Code", (run) => code(run)],
  torch: ["In torch", (run) => inTorch(run)],
};

function figures(run) {
  const info = run.info ?? {}, all = [];
  if (run.totalUs) all.push(["Kernels per run", timeText(run.totalUs), ""]);
  if (run.torch?.length) all.push(["In torch", timeText(run.torch.reduce((sum, r) => sum + r.us, 0)), `${run.torch.length} operators`]);
  if (info.run_ms) all.push(["Median of a run", timeText(info.run_ms * 1e3), ""]);
  if (info.compile_ms) all.push(["Compilation", timeText(info.compile_ms * 1e3), info.kernels_compiled !== undefined ? `${info.kernels_compiled} compiled, ${info.kernels_from_cache} cached` : ""]);
  all.push(["Nodes", String(run.nodes.length), run.failure ? "as loaded" : "after the passes"]);
  const kernels = run.launches.filter((l) => !l.atLoad).length;
  if (kernels) all.push(["Kernels", String(kernels), ""]);
  if (info.arena_bytes) all.push(["Memory of a run", bytesText(info.arena_bytes), ""]);
  if (info.constant_bytes) all.push(["Constants", bytesText(info.constant_bytes), ""]);
  return el("dl", {class: "figures"}, all.map(([name, value, more]) => el("div", {}, el("dt", {}, name), el("dd", {}, value, more ? el("small", {}, " " + more) : null))));
}

function failure(run) {
  if (!run.failure) return null;
  const f = run.failure;
  return el("section", {class: "card failure", role: "alert"}, el("h2", {}, `This model failed: ${f.stage}`), el("pre", {}, `${f.code ? f.code + ": " : ""}${f.message}${f.details ? "\n" + f.details : ""}`),
    run.nodes.length ? el("p", {class: "note", style: "margin: 10px 0 0"}, "The graph below is the model as it was loaded.") : null);
}

// A node whose name or line the message of a failure quotes.
function culprit(run) {
  const text = run.failure ? run.failure.message + run.failure.details : "";
  return text === "" ? null : run.nodes.find((n) => n.name && text.includes("`" + n.name + "`")) ?? run.nodes.find((n) => n.line && text.includes(`${n.source}:${n.line}`)) ?? null;
}

function draw() {
  const run = RUNS[state.run];
  const views = run.failure ? (run.nodes.length ? ["graph"] : []) : Object.keys(VIEWS).filter((v) => v !== "torch" || run.torch?.length);
  if (!DATA.parts && RUNS.length === 2 && RUNS.every((r) => !r.failure)) views.unshift("compare");
  if (!views.includes(state.view)) state.view = views[0];
  const title = (v) => v === "compare" ? "Comparison" : VIEWS[v][0];
  const body = state.view === undefined ? null : state.view === "compare" ? compare(...RUNS) : VIEWS[state.view][1](run);
  const page = el("div", {class: "page"},
    el("header", {}, el("h1", {}, run.title), el("p", {}, [run.device, run.options, `Tenon ${DATA.tenon}`, DATA.made].filter((t) => t).join("  ·  ")),
      RUNS.length > 1 ? el("div", {class: "pick"}, RUNS.map((r, i) => el("button", {"aria-pressed": String(i === state.run), title: r.label,
        onclick: () => { state.run = i; draw(); }}, DATA.parts ? r.label : `${"AB"[i]}  ${r.label}`))) : null),
    failure(run), run.nodes.length ? figures(run) : null,
    el("nav", {role: "tablist"}, views.map((v) => el("button", {role: "tab", "aria-selected": String(v === state.view), onclick: () => { state.view = v; draw(); }}, title(v)))),
    el("main", {}, body));
  const top = scrollY;
  document.querySelector(".page")?.remove();
  document.body.append(page);
  scrollTo({top});
  document.documentElement.dataset.view = state.view ?? "none";
}

document.title = `${RUNS[0].title}: Tenon report`;
RUNS.forEach((run, i) => {
  const node = culprit(run);
  if (node) state.graph[i] = {module: node.module, node};
});
state.view = new URLSearchParams(location.hash.slice(1)).get("view") ?? "";
draw();
