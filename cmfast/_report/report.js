"use strict";
// The matrix of a report: drawn on a canvas, walked with arrow keys, zoomed by dragging; and tables that sort.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const names = data.labels, C = names.length, get = (id) => document.getElementById(id);
  const canvas = get("canvas"), pen = canvas.getContext("2d"), cell = get("cell"), off = document.createElement("canvas");
  const make = (tag, facts, ...inside) => {
    const node = Object.assign(document.createElement(tag), facts);
    node.append(...inside);
    return node;
  };
  // Names of the user reorder nothing around them: in elements, and by marks where there can be none.
  const name = (text) => make("bdi", { textContent: text });
  const isolated = (text) => `\u2068${text}\u2069`;

  async function unpacked({ kind, cells }) {
    const bytes = Uint8Array.from(atob(cells), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const kinds = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
    return new kinds[kind](await new Response(stream).arrayBuffer());
  }

  const sums = (m) => {
    const rows = new Float64Array(C), cols = new Float64Array(C);
    for (let i = 0, k = 0; i < C; i++) for (let j = 0; j < C; j++, k++) { rows[i] += m[k]; cols[j] += m[k]; }
    return { rows, cols, all: rows.reduce((a, b) => a + b, 0) };
  };

  // What is shown: a function of a model and a cell.
  const KINDS = {
    count: ["Counts", (a, i, j) => a.m[i * C + j]],
    row: ["Rows", (a, i, j) => ratio(a.m[i * C + j], a.rows[i])],
    col: ["Columns", (a, i, j) => ratio(a.m[i * C + j], a.cols[j])],
    bi: ["Balanced", (a, i, j) => a.r[i] * (a.m[i * C + j] + a.smoothing) * a.c[j]],
    geometric: ["Geometric", (a, i, j) => data.g[i * C + j]],
  };
  const ratio = (x, of) => (of ? x / of : 0);
  const state = { kind: "count", model: 0, order: "given", filter: "", log: C > 100, at: null, view: null };
  let models, shown, values, top; // all cells of what is shown, and the ends of its scales
  const value = (i, j) => values[i * C + j];
  const signed = () => state.model >= models.length && state.kind !== "geometric";
  const percent = (v) => (100 * v).toFixed(Math.abs(v) < 0.0995 ? 1 : 0);
  const short = (v) => {
    const a = Math.abs(v);
    if (state.kind !== "count") return a < 0.0005 ? "" : percent(v);
    if (!v) return "";
    return a < 1e4 ? String(+v.toPrecision(4)) : a < 1e6 ? Math.round(v / 1e3) + "k" : (v / 1e6).toFixed(1) + "M";
  };

  function arrange() {
    const a = models[Math.min(state.model, models.length - 1)], all = [...Array(C).keys()];
    const recall = (i) => (a.rows[i] ? a.m[i * C + i] / a.rows[i] : 2);
    const orders = {
      given: () => all,
      support: () => all.sort((i, j) => a.rows[j] - a.rows[i]),
      recall: () => all.sort((i, j) => recall(i) - recall(j)),
      name: () => all.sort((i, j) => names[i].localeCompare(names[j], undefined, { numeric: true })),
      clustered: () => data.clustered,
    };
    const wanted = state.filter.toLowerCase();
    shown = orders[state.order]().filter((i) => names[i].toLowerCase().includes(wanted));
    state.view = { r: 0, c: 0, h: shown.length, w: shown.length };
    state.at = null;
    draw();
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const rgb = (name) => {
    pen.fillStyle = css(name);
    return [1, 3, 5].map((k) => parseInt(pen.fillStyle.slice(k, k + 2), 16));
  };
  const mix = (a, b, t) => a.map((x, k) => Math.round(x + (b[k] - x) * t));
  const luminance = (c) => {
    const [r, g, b] = c.map((x) => ((x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };

  // Scales end at the largest cell of the whole matrix, beside the diagonal and on it: colours keep their meaning on the way in.
  function prepare() {
    const f = KINDS[state.kind][1], [a, b] = signed() ? models : [models[Math.min(state.model, models.length - 1)]];
    let beside = 0, on = 0;
    values = new Float64Array(C * C);
    for (let i = 0, k = 0; i < C; i++) for (let j = 0; j < C; j++, k++) {
      const v = (values[k] = b ? f(a, i, j) - f(b, i, j) : f(a, i, j));
      if (i === j && !b) on = Math.max(on, v);
      else beside = Math.max(beside, Math.abs(v));
    }
    const shares = state.kind !== "count" && state.kind !== "geometric";
    top = { beside: beside || 1, on: shares ? 1 : on || 1 };
  }

  function painter() {
    const ground = rgb("--card"), ends = ["--off", "--diagonal", "--less", "--more"].map(rgb);
    const part = (v, most) => (state.log ? Math.log1p((99 * v) / most) / Math.log(100) : v / most);
    const colour = (v, same) => {
      if (!v) return null;
      const end = signed() ? ends[v < 0 ? 2 : 3] : ends[same ? 1 : 0];
      const t = part(Math.abs(v), same && !signed() ? top.on : top.beside);
      return mix(ground, end, Math.min(1, 0.08 + 0.92 * t));
    };
    return { ground, colour };
  }

  let place = null; // where the cells are, in pixels of the screen
  function draw(again) { // the same cells: only what lies over them is new
    if (!shown) return;
    const same = again === "again";
    const { r, c, h, w } = state.view, width = canvas.clientWidth || 600, dense = devicePixelRatio || 1;
    pen.font = "12px system-ui, sans-serif";
    const rows = shown.slice(r, r + h), cols = shown.slice(c, c + w);
    const reach = (list) => Math.min(0.24 * width, Math.max(24, ...list.slice(0, 400).map((i) => pen.measureText(names[i]).width + 10)));
    const left = reach(rows), side = width - left - 4;
    const head = cols.every((j) => pen.measureText(names[j]).width < side / w - 4) ? 22 : reach(cols);
    Object.assign(canvas, { width: width * dense, height: (head + side + 4) * dense });
    canvas.style.height = `${head + side + 4}px`;
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    place = { left, top: head, side, x: side / (w || 1), y: side / (h || 1) };
    const paint = painter();
    fill(rows, cols, paint, side * dense, same);
    pen.strokeStyle = css("--line");
    pen.strokeRect(left, head, side, side);
    texts(rows, cols, paint);
    if (state.at) outline();
    if (same) return;
    legend();
    largest(rows, cols);
  }

  // Of cells that are smaller than two pixels several become one, which shows the largest of them.
  function fill(rows, cols, paint, pixels, same) {
    const step = (n) => Math.max(1, Math.ceil((2 * n) / pixels));
    const [a, b] = [step(rows.length), step(cols.length)];
    const [high, wide] = [Math.ceil(rows.length / a) || 1, Math.ceil(cols.length / b) || 1];
    if (!same) dots(rows, cols, paint, a, b, high, wide);
    pen.imageSmoothingEnabled = false;
    pen.fillStyle = css("--card");
    pen.fillRect(place.left, place.top, place.side, place.side);
    pen.save();
    pen.beginPath();
    pen.rect(place.left, place.top, place.side, place.side);
    pen.clip();
    pen.drawImage(off, place.left, place.top, place.x * wide * b, place.y * high * a);
    pen.restore();
  }

  function dots(rows, cols, paint, a, b, high, wide) {
    const best = new Float64Array(high * wide), same = new Uint8Array(high * wide);
    rows.forEach((i, y) => cols.forEach((j, x) => {
      const k = Math.floor(y / a) * wide + Math.floor(x / b), v = value(i, j);
      if (i === j && a * b > 1 && best[k]) return;
      if (Math.abs(v) > Math.abs(best[k]) || (same[k] && v && i !== j)) { best[k] = v; same[k] = i === j; }
    }));
    const image = new ImageData(wide, high);
    best.forEach((v, k) => {
      const colour = paint.colour(v, same[k]);
      if (colour) image.data.set([...colour, 255], 4 * k);
    });
    Object.assign(off, { width: wide, height: high });
    off.getContext("2d").putImageData(image, 0, 0);
  }

  function texts(rows, cols, paint) {
    const { left, top, x, y } = place, size = Math.min(15, 0.3 * Math.min(x, y) + 3);
    if (Math.min(x, y) >= 21) {
      pen.font = `${size}px system-ui, sans-serif`;
      pen.textAlign = "center";
      rows.forEach((i, k) => cols.forEach((j, l) => {
        const v = value(i, j), text = short(v);
        if (!text || pen.measureText(text).width > x - 2) return;
        const dark = (luminance(paint.colour(v, i === j) || paint.ground) + 0.05) ** 2 < 1.05 * 0.05;
        pen.fillStyle = dark ? "#fff" : "#000";
        pen.fillText(text, left + (l + 0.5) * x, top + (k + 0.5) * y + size / 3);
      }));
    }
    const fit = (text, room) => {
      while (text.length > 1 && pen.measureText(text).width > room) text = text.length > 8 ? text.slice(0, -3) + "…" : text.slice(0, -1);
      return text;
    };
    pen.fillStyle = css("--ink");
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "right";
    const every = (n, room) => [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((s) => s * room >= 14) || n || 1;
    const [a, b] = [every(rows.length, y), every(cols.length, x)];
    rows.forEach((i, k) => k % a || pen.fillText(isolated(fit(names[i], left - 8)), left - 6, top + (k + 0.5) * y + 4));
    const flat = cols.every((j) => pen.measureText(names[j]).width < b * x - 4);
    cols.forEach((j, l) => {
      if (l % b) return;
      pen.save();
      pen.translate(left + (l + 0.5) * x, top - 6);
      pen.textAlign = flat ? "center" : "left";
      if (!flat) { pen.translate(4, 0); pen.rotate(-Math.PI / 2); }
      pen.fillText(isolated(fit(names[j], flat ? b * x : top - 8)), 0, 0);
      pen.restore();
    });
  }

  function outline() {
    const { r, c, h, w } = state.view, [k, l] = state.at;
    if (k < r || l < c || k >= r + h || l >= c + w) return;
    pen.lineWidth = 2.5;
    pen.strokeStyle = css("--ink");
    const [x, y] = [Math.max(place.x, 5), Math.max(place.y, 5)];
    pen.strokeRect(place.left + (l - c) * place.x, place.top + (k - r) * place.y, x, y);
    pen.lineWidth = 1;
  }

  function legend() {
    const end = (v) => (state.kind === "count" ? Math.round(v).toLocaleString("en") : `${percent(v)} %`);
    const bar = (from, to) => make("i", { style: `background:linear-gradient(90deg,var(${from}),var(${to}))` });
    const parts = signed()
      ? [[`second more −${end(top.beside)}`, "--less", "--card", ""], ["", "--card", "--more", `${end(top.beside)} first more`]]
      : [["right 0", "--card", "--diagonal", end(top.on)], ["confused 0", "--card", "--off", end(top.beside)]];
    const one = signed() ? 0 : state.kind === "geometric" ? 0 : state.model;
    const of = [name(models[one].name), ...(signed() ? [" less ", name(models[1].name)] : []), ", "];
    const said = [KINDS[state.kind][0].toLowerCase(), state.log ? "by the logarithm" : ""];
    get("legend").replaceChildren(make("span", { id: "what" }, ...(models.length > 1 ? of : []), said.filter(Boolean).join(", ")), ...parts.map(([a, from, to, b]) => make("span", {}, a, bar(from, to), b)));
  }

  // The same in words: a table for who does not see the picture, and for who wants it in order.
  function largest(rows, cols) {
    const found = [];
    let least = 0;
    for (const i of rows) for (const j of cols) {
      const v = i === j ? 0 : Math.abs(value(i, j));
      if (v <= least) continue;
      found.push([v, i, j]);
      if (found.length > 400) { found.sort((a, b) => b[0] - a[0]); found.length = 10; least = found[9][0]; }
    }
    found.sort((a, b) => b[0] - a[0]);
    const lines = found.slice(0, 10).map(([, i, j]) => make("tr", {}, make("th", { scope: "row" }, name(names[i])),
      make("td", {}, name(names[j])), ...numbers(i, j).map(([, text]) => make("td", { textContent: text }))));
    const heads = [["truth"], ["prediction"], ...numbers(0, 0).map(([what]) => what)];
    get("inview").replaceChildren(make("thead", {}, make("tr", {}, ...heads.map((what) => make("th", { scope: "col" }, ...what)))),
      make("tbody", {}, ...lines));
  }

  function numbers(i, j) {
    const both = signed() ? models : [models[Math.min(state.model, models.length - 1)]];
    return both.flatMap((a) => {
      const what = (text) => (both.length > 1 ? [name(a.name), `: ${text}`] : [text]);
      const of = (kind) => `${percent(KINDS[kind][1](a, i, j))} %`;
      return [[what("count"), a.m[i * C + j].toLocaleString("en")], [what("of the truth"), of("row")],
        [what("of the prediction"), of("col")], [what("balanced"), of("bi")]];
    });
  }

  function say() {
    if (!state.at) { cell.textContent = ""; return; }
    const [i, j] = state.at.map((k) => shown[k]);
    const what = i === j ? [name(names[i]), ", recognised"] : [name(names[i]), " taken for ", name(names[j])];
    cell.replaceChildren(...what, ...numbers(i, j).flatMap(([of, text], k) => [k ? ", " : " — ", ...of, ` ${text}`]));
  }

  function move(k, l) {
    const n = shown.length - 1, v = state.view, clamp = (x, low, high) => Math.max(low, Math.min(high, x));
    if (n < 0) return;
    state.at = [clamp(k, 0, n), clamp(l, 0, n)];
    const [r, c] = [clamp(v.r, state.at[0] - v.h + 1, state.at[0]), clamp(v.c, state.at[1] - v.w + 1, state.at[1])];
    state.view = { ...v, r, c };
    say();
    draw(r === v.r && c === v.c ? "again" : "");
  }

  function zoom(factor) {
    const n = shown.length, v = state.view, [k, l] = state.at || [v.r + v.h / 2, v.c + v.w / 2];
    const [h, w] = [v.h, v.w].map((x) => Math.max(Math.min(3, n), Math.min(n, factor < 1 ? Math.floor(x * factor) : Math.ceil(x * factor))));
    const start = (at, size) => Math.max(0, Math.min(n - size, Math.round(at - size / 2)));
    state.view = { r: start(k, h), c: start(l, w), h, w };
    draw();
  }

  const whole = () => { state.view = { r: 0, c: 0, h: shown.length, w: shown.length }; draw(); };
  const KEYS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  function controls() {
    const choice = (kind, [name]) => make("label", {}, make("input", {
      type: "radio", name: "kind", value: kind, checked: kind === state.kind, onchange: () => { state.kind = kind; prepare(); draw(); say(); },
    }), name);
    const kinds = Object.entries(KINDS).filter(([kind]) => kind !== "geometric" || data.g);
    const select = (title, options, changed) => make("label", {}, make("span", { textContent: title }),
      make("select", { onchange: (e) => changed(e.target.value), id: `by-${title.toLowerCase()}` },
        ...options.map(([value, text]) => make("option", { value, textContent: text }))));
    const button = (text, title, act) => make("button", { type: "button", textContent: text, title, ariaLabel: title, onclick: act });
    const orders = [["given", "as given"], ["name", "by name"], ["support", "most samples first"], ["recall", "least recall first"], ["clustered", "blocks of confusion"]];
    const parts = [make("fieldset", {}, make("legend", { textContent: "Show" }), make("div", { className: "choices" }, ...kinds.map((one) => choice(...one))))];
    if (models.length > 1) {
      const which = [...models.map((a, k) => [k, isolated(a.name)]), [models.length, models.slice(0, 2).map((a) => isolated(a.name)).join(" less ")]];
      parts.push(select("Model", which, (k) => { state.model = +k; prepare(); arrange(); say(); }));
    }
    parts.push(select("Order", orders, (name) => { state.order = name; arrange(); say(); }));
    parts.push(make("label", {}, make("span", { textContent: "Filter classes" }), make("input", {
      type: "search", id: "filter", oninput: (e) => { state.filter = e.target.value; arrange(); say(); },
    })));
    parts.push(make("label", {}, make("input", { type: "checkbox", id: "log", checked: state.log, onchange: (e) => { state.log = e.target.checked; draw(); } }), " small ones too"));
    parts.push(make("span", {}, button("+", "Zoom in", () => zoom(0.5)), " ", button("−", "Zoom out", () => zoom(2)), " ", button("All", "Show all", whole)));
    get("controls").append(...parts);
  }

  function pointers() {
    let from = null;
    const at = (e) => {
      const box = canvas.getBoundingClientRect(), [x, y] = [e.clientX - box.left - place.left, e.clientY - box.top - place.top];
      const inside = x >= 0 && y >= 0 && x < place.side && y < place.side;
      return inside || from ? [Math.floor(y / place.y) + state.view.r, Math.floor(x / place.x) + state.view.c] : null;
    };
    const limits = ([k, l]) => {
      const { r, c, h, w } = state.view;
      return [Math.max(r, Math.min(r + h - 1, k)), Math.max(c, Math.min(c + w - 1, l))];
    };
    canvas.addEventListener("pointerdown", (e) => {
      const found = at(e);
      if (!found || e.button) return;
      state.at = found;
      if (e.pointerType !== "touch") { from = found; canvas.setPointerCapture(e.pointerId); }
      say();
    });
    let next = null;
    canvas.addEventListener("pointermove", (e) => {
      const found = at(e);
      if (!found) return;
      if (from) { next = limits(found); frame(); return; }
      if (e.pointerType === "touch" || document.activeElement === canvas && e.movementX === 0 && e.movementY === 0) return;
      if (state.at && found[0] === state.at[0] && found[1] === state.at[1]) return;
      state.at = found;
      say();
    });
    const frame = () => {
      draw("again");
      const [r, c] = [Math.min(from[0], next[0]), Math.min(from[1], next[1])];
      pen.fillStyle = "rgba(120,120,120,.35)";
      pen.fillRect(place.left + (c - state.view.c) * place.x, place.top + (r - state.view.r) * place.y,
        (Math.abs(from[1] - next[1]) + 1) * place.x, (Math.abs(from[0] - next[0]) + 1) * place.y);
    };
    canvas.addEventListener("pointerup", () => {
      let moved = false;
      if (from && next && (from[0] !== next[0] || from[1] !== next[1])) {
        const [h, w] = [0, 1].map((k) => Math.abs(from[k] - next[k]) + 1);
        state.view = { r: Math.min(from[0], next[0]), c: Math.min(from[1], next[1]), h, w };
        state.at = null;
        moved = true;
        say();
      }
      from = next = null;
      draw(moved ? "" : "again");
    });
    canvas.addEventListener("dblclick", whole);
    canvas.addEventListener("keydown", (e) => {
      const [k, l] = state.at || [state.view.r, state.view.c];
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      if (KEYS[e.key]) state.at ? move(k + KEYS[e.key][0], l + KEYS[e.key][1]) : move(k, l);
      else if (e.key === "+" || e.key === "Enter") zoom(0.5);
      else if (e.key === "-") zoom(2);
      else if (e.key === "0" || e.key === "Escape") whole();
      else return;
      e.preventDefault();
    });
  }

  // Tables that sort by a click on a heading: numbers by their size, what is missing last.
  function sorting() {
    const key = (row, n) => row.cells[n].textContent.trim();
    const number = (text) => parseFloat(text.replaceAll(",", ""));
    for (const table of document.querySelectorAll("table.sorts")) {
      [...table.tHead.rows[0].cells].forEach((head, n) => {
        const button = make("button", { type: "button" }, ...head.childNodes);
        head.replaceChildren(button);
        button.addEventListener("click", () => {
          const up = n ? head.ariaSort === "descending" : head.ariaSort !== "ascending";
          for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
          head.setAttribute("aria-sort", up ? "ascending" : "descending");
          const sign = up ? 1 : -1, keyed = [...table.tBodies[0].rows].map((row) => [key(row, n), row]);
          const numeric = n && keyed.some(([text]) => !isNaN(number(text)));
          const order = numeric
            ? ([a], [b]) => (isNaN(number(a)) - isNaN(number(b))) || sign * (number(a) - number(b))
            : ([a], [b]) => sign * a.localeCompare(b, undefined, { numeric: true });
          table.tBodies[0].append(...keyed.sort(order).map(([, row]) => row));
        });
      });
    }
    for (const input of document.querySelectorAll("input.rows")) {
      input.hidden = false;
      input.addEventListener("input", () => {
        const wanted = input.value.toLowerCase();
        for (const row of input.parentNode.querySelectorAll("tbody tr")) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      });
    }
  }

  async function start() {
    models = await Promise.all(data.models.map(async (one) => {
      const m = await unpacked(one);
      const own = one.sums ? { rows: one.sums[0], cols: one.sums[1] } : {}; // where the page holds a part of the classes
      return { ...sums(m), ...own, m, name: one.name, r: one.rows, c: one.cols, smoothing: one.smoothing };
    }));
    if (data.geometric) data.g = await unpacked(data.geometric);
    get("viewer").hidden = false;
    get("stage").style.maxWidth = `${Math.min(820, 200 + 90 * C)}px`;
    controls();
    pointers();
    prepare();
    arrange();
    new ResizeObserver(draw).observe(get("stage"));
    for (const query of ["(prefers-color-scheme:dark)", "print"]) matchMedia(query).addEventListener("change", draw);
    for (const when of ["beforeprint", "afterprint"]) addEventListener(when, draw);
    document.documentElement.dataset.ready = "yes";
  }

  sorting();
  start().catch((error) => {
    get("viewer").hidden = false;
    cell.textContent = `The matrix cannot be drawn (${error}); all numbers are in the tables below.`;
  });
})();
