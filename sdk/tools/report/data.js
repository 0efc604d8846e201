// What the page computes from the raw data: launches with their nodes and times, modules, memory.

const DATA = JSON.parse(document.getElementById("data").textContent);

// The devices of all runs, in order of appearance: one colour each.
const DEVICES = [];
function deviceIndex(name) {
  if (!DEVICES.includes(name)) DEVICES.push(name);
  return DEVICES.indexOf(name);
}
const deviceColour = (name) => `var(--d${deviceIndex(name) % 6})`;

// Launches of a segment. A device that does not list them counts as one launch of all its nodes.
function launchesOf(segment, index, nodeByNumber) {
  const common = {segment: index, device: segment.device};
  const lines = segment.kernels.split("\n").filter((line) => line !== "");
  if (lines.length === 0) {
    const ops = segment.nodes.map((n) => nodeByNumber.get(n)?.op ?? "?");
    return [{...common, kernel: "", name: ops.slice(0, 6).join("+") + (ops.length > 6 ? "+…" : ""),
             nodes: segment.nodes, opaque: segment.why_not, by: segment.by}];
  }
  // Parts of control flow number the nodes of their own graphs, which are not shown.
  const whole = lines.length === 1;
  const launches = [];
  for (const line of lines) {
    const part = JSON.parse(line);
    for (const [steps, atLoad] of [[part.load_steps, true], [part.steps, false]]) {
      for (const step of steps) {
        const nodes = whole ? step.nodes.map((n) => segment.numbers[n] ?? -1).filter((n) => n >= 0) : [];
        launches.push({...common, kernel: step.kernel, name: step.name, nodes, atLoad, part, step});
      }
    }
  }
  return launches;
}

// Gives each launch its events. Events say the name of a kernel only; launches of one name run in
// their order, so the k-th event of a run belongs to the k-th launch.
function matchEvents(run) {
  const groups = new Map();
  for (const event of run.events?.traceEvents ?? []) {
    if (event.ph !== "X" || event.cat !== "kernel") continue;
    const device = run.processes.get(event.pid);
    const key = device + "\n" + event.name;
    if (!groups.has(key)) groups.set(key, {device, name: event.name, events: []});
    groups.get(key).events.push(event);
  }
  const rest = [];
  for (const {device, name, events} of groups.values()) {
    events.sort((a, b) => a.ts - b.ts);
    const launches = run.launches.filter((l) => !l.atLoad && l.device === device && l.name === name);
    const perRun = events.length / run.runs;
    if (launches.length === 0 || perRun % launches.length !== 0) {
      rest.push({device, name, events});
      continue;
    }
    events.forEach((event, i) => addEvent(launches[Math.floor((i % perRun) * launches.length / perRun)], event));
  }
  return rest;
}

function addEvent(launch, event) {
  launch.us = (launch.us ?? 0) + event.dur;
  launch.flops = (launch.flops ?? 0) + event.args.flops;
  launch.bytes = (launch.bytes ?? 0) + event.args.bytes;
  launch.calls = (launch.calls ?? 0) + 1;
}

// Shortest possible time of one call, in us; 0 where the peaks are not known.
function boundOf(launch, peaks) {
  if (!peaks || !launch.calls) return 0;
  const flops = launch.flops / launch.calls, bytes = launch.bytes / launch.calls;
  const stream = peaks.streams.find((s) => bytes <= s.bytes) ?? peaks.streams[peaks.streams.length - 1];
  return launch.calls * Math.max(flops / peaks.gflops, bytes / stream.gigabytes_per_second) / 1e3;
}

// ---- Modules: the tree of names that users gave ----

const DEEPEST = 64;

// "/encoder/layer.0/MatMul" is in encoder, layer.0. Names without slashes are split at dots. What
// is deeper than any model that a person nests stays in the last module.
function pathOf(node) {
  if (node.name) {
    const parts = (node.name.includes("/") ? node.name.split("/") : node.name.split(".")).filter((p) => p !== "");
    return parts.slice(0, Math.min(parts.length - 1, DEEPEST));
  }
  return [];
}

const MOST_CHILDREN = 120, GROUP = 40;

function moduleTree(run) {
  const root = {label: run.title, path: "", modules: new Map(), items: [], parent: null, us: 0, count: 0};
  for (const node of run.nodes) {
    let at = root;
    for (const part of pathOf(node)) {
      if (!at.modules.has(part)) {
        const made = {label: part, path: at.path + "/" + part, modules: new Map(), items: [], parent: at, us: 0, count: 0};
        at.modules.set(part, made);
        at.items.push(made);
      }
      at = at.modules.get(part);
    }
    at.items.push(node);
    node.module = at;
    for (let m = at; m; m = m.parent) ++m.count;
  }
  groupLong(root);
  return root;
}

// A module with very many parts shows runs of them, so that every drawing stays readable.
function groupLong(module) {
  for (const child of module.modules.values()) groupLong(child);
  if (module.items.length <= MOST_CHILDREN) return;
  const groups = [];
  for (let i = 0; i < module.items.length; i += GROUP) {
    const items = module.items.slice(i, i + GROUP);
    const count = items.reduce((sum, item) => sum + (item.count ?? 1), 0);
    const group = {label: `parts ${i + 1} to ${i + items.length}`, path: `${module.path}/#${i}`, modules: new Map(), items,
                   parent: module, us: 0, count};
    for (const item of items) item.op === undefined ? item.parent = group : item.module = group;
    groups.push(group);
  }
  module.items = groups;
  groupLong(module);
}

function chain(module) {
  const all = [];
  for (let m = module; m; m = m.parent) all.unshift(m);
  return all;
}

// The innermost module that holds all nodes of a launch: its time is that module's.
function homeOf(launch, run) {
  let common = null;
  for (const number of launch.nodes) {
    const mine = chain(run.nodeByNumber.get(number).module);
    if (common === null) common = mine;
    let same = 0;
    while (same < common.length && common[same] === mine[same]) ++same;
    common = common.slice(0, same);
  }
  return common?.length ? common[common.length - 1] : run.root;
}

// ---- Memory: live bytes of each step of the plan ----

function memoryOf(run) {
  const plans = [];
  for (const part of new Set(run.launches.map((l) => l.part).filter((p) => p))) {
    const first = [], last = [];
    part.steps.forEach((step, at) => {
      for (const b of step.buffers) {
        first[b] ??= at;
        last[b] = at;
      }
    });
    const steps = part.steps.map((step) => ({name: step.name, live: 0, buffers: []}));
    let unknown = 0, fixed = 0;
    part.buffers.forEach((buffer, b) => {
      if (buffer.kind === "constant" || buffer.kind === "persistent") fixed += first[b] === undefined ? 0 : buffer.bytes ?? 0;
      if (buffer.kind !== "temp" && buffer.kind !== "output" && buffer.kind !== "input") return;
      if (first[b] === undefined) return;
      if (buffer.bytes === undefined) return void ++unknown;
      const to = buffer.kind === "output" ? steps.length - 1 : last[b];
      const from = buffer.kind === "input" ? 0 : first[b];
      for (let at = from; at <= to; ++at) {
        steps[at].live += buffer.bytes;
        steps[at].buffers.push({number: b, kind: buffer.kind, bytes: buffer.bytes});
      }
    });
    if (steps.length > 0) plans.push({steps, unknown, fixed, device: run.launches.find((l) => l.part === part).device});
  }
  return plans;
}

// "k_12…" to its text: a kernel's function, as the device printed it.
function codeOf(run, launch) {
  const text = run.source?.[launch.device];
  if (!text || !launch.kernel) return "";
  const at = text.search(new RegExp(`[^\\n]*\\b${launch.kernel}\\([^;\\n]*\\{`));
  if (at < 0) return "";
  const end = text.indexOf("\n}", at);
  return text.slice(at, end < 0 ? undefined : end + 2);
}

function prepare(raw) {
  const run = {...raw, nodes: raw.program?.graph?.nodes ?? [], values: new Map(), nodeByNumber: new Map(), users: new Map()};
  run.title = raw.model.split("/").pop();
  for (const value of raw.program?.graph?.values ?? []) run.values.set(value.value, value);
  for (const node of run.nodes) {
    run.nodeByNumber.set(node.node, node);
    node.launches = [];
    for (const v of node.results) run.values.get(v).node = node;
    for (const v of node.operands) {
      if (!run.users.has(v)) run.users.set(v, []);
      run.users.get(v).push(node);
    }
  }
  const segments = raw.program?.segments ?? [];
  for (const segment of segments) {
    deviceIndex(segment.device);
    for (const n of segment.nodes) {
      const node = run.nodeByNumber.get(n);
      if (node) node.device = segment.device;
    }
  }
  for (const row of raw.placement?.nodes ?? []) {
    const node = run.nodeByNumber.get(row.node);
    if (node) node.refusals = row.refusals;
  }
  run.launches = segments.flatMap((segment, i) => launchesOf(segment, i, run.nodeByNumber));
  run.processes = new Map((raw.events?.traceEvents ?? []).filter((e) => e.ph === "M").map((e) => [e.pid, e.args.name]));
  const rest = matchEvents(run);
  // Events that no launch explains, such as kernels of a set, are rows of their own.
  for (const {device, name, events} of rest) {
    const idle = run.launches.filter((l) => l.opaque !== undefined && l.device === device && !l.calls);
    const launch = {device, name, nodes: idle.length === 1 && rest.length === 1 ? idle[0].nodes : [], kernel: ""};
    events.forEach((event) => addEvent(launch, event));
    run.launches.push(launch);
  }
  run.root = moduleTree(run);
  for (const launch of run.launches) {
    launch.us = (launch.us ?? 0) / (raw.runs || 1);
    launch.bound = boundOf(launch, raw.peaks) / (raw.runs || 1);
    for (const n of launch.nodes) run.nodeByNumber.get(n)?.launches.push(launch);
    if (launch.atLoad) continue;
    launch.home = homeOf(launch, run);
    for (let m = launch.home; m; m = m.parent) m.us += launch.us;
  }
  run.kernels = run.launches.filter((l) => !l.atLoad && (l.us > 0 || l.opaque === undefined)).sort((a, b) => b.us - a.us);
  run.totalUs = run.kernels.reduce((sum, l) => sum + l.us, 0);
  return run;
}
