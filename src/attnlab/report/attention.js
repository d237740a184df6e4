"use strict";
// The page is whole without this file. Here its maps become something to pick and to point at:
// weights come from the block #weights, tokens from the text of the page, and go back as text.
(async () => {
  const DARK_BELOW = 0.42; // white letters on the dark end of viridis, black on the other
  const byId = (id) => document.getElementById(id);
  const store = byId("weights");
  if (!("DecompressionStream" in window)) return;
  const [layers, heads, n] = ["layers", "heads", "tokens"].map((k) => Number(store.dataset[k]));
  const causal = store.dataset.causal === "1";
  const palette = store.dataset.palette.match(/../g).map((pair) => parseInt(pair, 16));
  const chips = [...document.querySelectorAll(".token")];
  const tokens = chips.map((chip) => chip.querySelector("bdi").textContent);
  const rows = [...byId("looks").rows];
  const columns = rows[0].cells.length - 2;
  const canvas = byId("map"), frame = byId("frame");
  const picture = document.createElement("canvas"); // the map, one pixel a cell
  const low = await unpack();
  let map = null, asked = -1, pointed = -1, place = null; // place: where the map lies on the canvas

  async function unpack() {
    const bytes = Uint8Array.from(atob(store.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // the mean over the layers and heads that are meant; "" means all of them
  function meanMap(layer, head) {
    const all = (picked, count) => (picked === "" ? [...Array(count).keys()] : [Number(picked)]);
    const sum = new Float64Array(n * n), half = low.length / 2;
    const chosen = all(layer, layers).flatMap((i) => all(head, heads).map((j) => i * heads + j));
    for (const which of chosen) {
      const start = which * n * n;
      for (let at = 0; at < n * n; at++) sum[at] += low[start + at] + 256 * low[half + start + at];
    }
    return sum.map((total) => total / (1000 * chosen.length));
  }

  const weight = (query, key) => map[query * n + key];
  const colour = (w) => palette.slice(3 * Math.round(255 * Math.min(1, w)), 3 * Math.round(255 * Math.min(1, w)) + 3);
  const looksAtNothing = (query) => map.subarray(query * n, query * n + n).every((w) => w === 0);
  const unseen = (query, key) => (causal && key > query) || looksAtNothing(query);
  const top = (query, count) =>
    [...Array(n).keys()].filter((key) => weight(query, key) > 0)
      .sort((a, b) => weight(query, b) - weight(query, a) || a - b).slice(0, count);
  const digits = (w) => (w >= 0.0005 ? w.toFixed(3) : "<0.001");

  function element(tag, text, name) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function pick(layer, head) {
    byId("layer").value = layer;
    byId("head").value = head;
    map = meanMap(layer, head);
    const one = layer !== "" && head !== "" ? `layer-${layer}-head-${head}` : "";
    for (const link of document.querySelectorAll(".heads a")) {
      const name = link.hash.slice(1);
      name === one ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
      byId(name).classList.toggle("picked", name === one);
    }
    const name = (what, picked) => (picked === "" ? `all ${what}s` : `${what} ${picked}`);
    const words = `${name("layer", layer)}, ${name("head", head)}`;
    byId("which").textContent = one ? words : `the mean of ${words.replace(",", " and")}`;
    byId("about").textContent = one ? `${words}: ${numbers(byId(one))}.` : "";
    remember(one ? `#map-${layer}-${head}` : location.pathname + location.search);
    paint();
    fillTable();
    show(asked);
  }

  // no element has the name #map-…, so that a link to a map does not scroll away from it
  function remember(address) {
    try {
      history.replaceState(null, "", address);
    } catch { /* a page without an address of its own: nothing to remember */ }
  }

  function numbers(row) {
    const titles = [...row.closest("table").tHead.rows[0].cells].map((cell) => cell.textContent);
    return [...row.cells].slice(1).map((cell, at) => `${titles[at + 1]} ${cell.textContent}`).join(", ");
  }

  function paint() {
    picture.width = picture.height = n;
    const pen = picture.getContext("2d"), cells = pen.createImageData(n, n);
    for (let query = 0; query < n; query++) {
      const nothing = looksAtNothing(query);
      for (let key = 0; key < n; key++) {
        if (nothing || (causal && key > query)) continue; // transparent: no weight to show
        cells.data.set([...colour(weight(query, key)), 255], 4 * (query * n + key));
      }
    }
    pen.putImageData(cells, 0, 0);
  }

  function fillTable() {
    rows.forEach((row, query) => {
      const found = top(query, columns);
      for (let at = 0; at < columns; at++) {
        const cell = element("td", found.length || at ? "–" : "nothing", "muted");
        if (at < found.length) {
          cell.className = "";
          const key = found[at];
          cell.replaceChildren(
            element("span", digits(weight(query, key)), "weight"), " ", element("bdi", tokens[key]), " ",
            element("small", key));
        }
        row.cells[at + 2].replaceWith(cell);
      }
    });
  }

  // `query` is asked where it looks; `key` is the one token pointed at in the map
  function show(query, key = -1) {
    asked = query;
    pointed = key;
    chips.forEach((chip, at) => {
      const hidden = query < 0 || unseen(query, at), w = query < 0 ? 0 : weight(query, at);
      chip.classList.toggle("asked", at === query);
      chip.classList.toggle("unseen", query >= 0 && hidden);
      chip.style.backgroundColor = hidden ? "" : `rgb(${colour(w)})`;
      chip.style.color = hidden ? "" : w < DARK_BELOW ? "#fff" : "#000";
      chip.querySelector("small").textContent = !hidden && w >= 0.005 ? w.toFixed(2) : "";
      rows[at].classList.toggle("asked", at === query);
    });
    if (query >= 0) say(query, key);
    draw();
  }

  function say(query, key) {
    const name = (at) => [element("bdi", tokens[at]), ` (${at})`];
    const found = top(query, 5);
    const parts = [element("bdi", tokens[query], "query"), ` (${query}) looks `];
    if (key >= 0 && !unseen(query, key)) parts.push("at ", ...name(key), ` with weight ${digits(weight(query, key))}; `);
    parts.push(found.length ? "most at " : "at nothing");
    found.forEach((at, rank) => parts.push(rank ? ", " : "", ...(at === query ? ["itself"] : name(at)), ` ${digits(weight(query, at))}`));
    byId("said").replaceChildren(...parts, ".");
  }

  function draw() {
    const width = frame.clientWidth, sharp = window.devicePixelRatio || 1;
    const pen = canvas.getContext("2d"), look = getComputedStyle(document.body);
    const size = 0.75 * parseFloat(look.fontSize);
    const font = `${size}px ${look.fontFamily}`;
    pen.font = font;
    const longest = 0.22 * width;
    const labels = tokens.map((text) => shortened(pen, text, longest));
    const margin = Math.ceil(Math.max(...labels.map((text) => pen.measureText(text).width))) + 8;
    const side = Math.max(1, width - margin - 2);
    const above = Math.ceil(0.6 * size); // half a label may stand out over the first row
    place = { left: margin, top: above, side };
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round((above + side + margin) * sharp);
    canvas.style.height = `${above + side + margin}px`;
    pen.scale(sharp, sharp);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(picture, margin, above, side, side);
    pen.strokeStyle = look.getPropertyValue("--muted");
    pen.strokeRect(margin, above, side, side);
    pen.font = font;
    drawLabels(pen, look, labels, size);
    if (asked >= 0) drawAsked(pen, look);
  }

  function shortened(pen, text, longest) {
    let shown = [...text];
    if (pen.measureText(text).width <= longest) return text;
    while (shown.length > 1 && pen.measureText(`${shown.join("")}…`).width > longest) shown.pop();
    return `${shown.join("")}…`;
  }

  function drawLabels(pen, look, labels, size) {
    const { left, top: above, side } = place, cell = side / n;
    const step = Math.ceil((1.3 * size) / cell); // a label for every token, or for every second …
    const near = (at, chosen) => at !== chosen && chosen >= 0 && Math.abs(at - chosen) < step;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (let at = 0; at < n; at++) {
      const middle = (at + 0.5) * cell;
      pen.fillStyle = look.color;
      if ((at % step === 0 && !near(at, asked)) || at === asked) pen.fillText(labels[at], left - 5, above + middle);
      if ((at % step !== 0 || near(at, pointed)) && at !== pointed) continue;
      pen.save();
      pen.translate(left + middle, above + side + 6);
      pen.rotate(-Math.PI / 2);
      pen.fillText(labels[at], 0, 0);
      pen.restore();
    }
  }

  function drawAsked(pen, look) {
    const { left, top: above, side } = place, cell = side / n;
    const out = cell < 12 ? 2 : 0; // around thin rows, not over them
    const outline = (x, y, width, height) => {
      for (const [colour, thick] of [[look.backgroundColor, 4], [look.color, 2]]) {
        pen.strokeStyle = colour;
        pen.lineWidth = thick;
        pen.strokeRect(
          left + x * cell - out, above + y * cell - out, width * cell + 2 * out, height * cell + 2 * out);
      }
    };
    outline(0, asked, causal ? asked + 1 : n, 1);
    if (pointed >= 0) outline(pointed, asked, 1, 1);
  }

  function cellAt(event) {
    const box = canvas.getBoundingClientRect();
    const at = (from, start) => Math.floor(((from - start) / place.side) * n);
    const key = at(event.clientX, box.left + place.left), query = at(event.clientY, box.top + place.top);
    return query >= 0 && query < n && key < n ? [query, Math.max(-1, key)] : null;
  }

  const checked = () => chips.findIndex((chip) => chip.querySelector("input").checked);
  const back = () => show(checked());
  const choose = (query) => { chips[query].querySelector("input").checked = true; };

  chips.forEach((chip, at) => {
    chip.addEventListener("pointerenter", () => show(at));
    chip.querySelector("input").addEventListener("change", () => show(at));
  });
  byId("text").addEventListener("pointerleave", back);
  canvas.addEventListener("pointermove", (event) => { const cell = cellAt(event); cell ? show(...cell) : back(); });
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") back(); });
  canvas.addEventListener("click", (event) => { const cell = cellAt(event); if (cell) { choose(cell[0]); show(...cell); } });
  for (const id of ["layer", "head"]) byId(id).addEventListener("change", () => pick(byId("layer").value, byId("head").value));

  const fromHash = (hash) => /^#(?:layer|map)-(\d+)-(?:head-)?(\d+)$/.exec(hash);
  document.querySelector(".heads").addEventListener("click", (event) => {
    const link = event.target.closest("a"), found = link && fromHash(link.hash);
    if (!found) return;
    event.preventDefault();
    pick(found[1], found[2]);
    byId("content").scrollIntoView();
    byId("head").focus({ preventScroll: true });
  });

  document.documentElement.classList.add("live");
  byId("live").hidden = canvas.hidden = false;
  byId("still").hidden = byId("mean").hidden = true;
  choose(n - 1); // the last token has seen all others
  asked = n - 1;
  const wanted = fromHash(location.hash);
  wanted && wanted[1] < layers && wanted[2] < heads ? pick(wanted[1], wanted[2]) : pick("", "");
  new ResizeObserver(draw).observe(frame);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
