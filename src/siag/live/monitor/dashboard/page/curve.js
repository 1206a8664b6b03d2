// What changes over time: the loss overall and of each worker, and one of the other figures.

const QUANTITIES = {
  loss: ["Loss", "How good the model is"],
  rate: ["Updates per second", "Steps of the server per second"],
  age: ["Age of gradients", "How many steps old the workers' gradients are, on average"],
  norm: ["Length of gradients", "‖g‖, the mean over workers"],
  step: ["Step size", "η, as far as it is known"],
};
const ALL = "all workers, new samples";
const LINES = 40; // workers that have a line each; of more of them a band is drawn
const curve = { quantity: "loss", log: null, at: null };

/** The lines: name, colour, points [t, value], and how they are drawn. */
function linesOf(paint) {
  const columns = past(),
    lines = [];
  const add = (name, colour, value, width, own) => {
    const points = columns.map((each) => [each.end, value(each)]).filter(([, y]) => y !== null && y !== undefined);
    if (store.now && own && store.moment === null && store.now[own] !== null && store.now[own] !== undefined) {
      points.push([store.now.seconds, store.now[own]]);
    }
    if (points.length) lines.push({ name, colour, points, width });
  };
  if (curve.quantity !== "loss") {
    add(QUANTITIES[curve.quantity][0], paint.blue, (each) => each[curve.quantity], 2, curve.quantity);
    return { lines, band: null };
  }
  const told = columns.some((each) => each.losses);
  const many = store.workers.length > LINES;
  if (told && !many) {
    for (const worker of workers()) {
      if (worker.row !== store.chosen) add(worker.name, faded(paint.blue, 0.4), (each) => each.losses?.[worker.row], 1);
    }
  }
  add(measureName(), paint.orange, (each) => each.loss, 2, "loss");
  add(ALL, paint.blue, (each) => each.progressive, 2.5, "progressive");
  const chosen = store.workers[store.chosen];
  if (told && chosen) add(chosen.name, paint.purple, (each) => each.losses?.[chosen.row], 2);
  return { lines, band: told && many ? bandOf(columns) : null };
}

/** Between which losses four of five workers are. */
function bandOf(columns) {
  return columns
    .filter((each) => each.losses)
    .map((each) => {
      const sorted = each.losses.filter((loss) => loss !== null).sort((a, b) => a - b);
      const at = (part) => sorted[Math.round(part * (sorted.length - 1))];
      return [each.end, at(0.1), at(0.9)];
    });
}

const measureName = () =>
  store.about.measure ??
  (store.about.problem && store.now?.progressive === null ? "distance from the optimum, squared" : "loss");

function drawCurve() {
  const canvas = byId("curve"),
    paint = begin(canvas);
  if (!paint) return;
  const { draw, width, height, ink, soft, line } = paint;
  const { lines, band } = linesOf(paint);
  const values = lines
    .flatMap((each) => each.points.map(([, y]) => y))
    .concat((band ?? []).flatMap(([, a, b]) => [a, b]));
  describeCurve(paint, lines, band);
  if (!values.length) {
    draw.fillStyle = soft;
    draw.textAlign = "center";
    const why =
      curve.quantity === "loss" ? "No loss is told. Let the gradient return (loss, gradient)." : "Nothing yet.";
    draw.fillText(store.columns.length ? why : "Waiting for the first reports.", width / 2, height / 2);
    return;
  }
  let low = Math.min(...values),
    high = Math.max(...values);
  const log = curve.log ?? (low > 0 && high / low > 15);
  byId("log").setAttribute("aria-pressed", String(log && low > 0));
  const scaled = log && low > 0 ? Math.log10 : (value) => value;
  [low, high] = [scaled(low), scaled(high)];
  if (!log && low > 0 && low < 0.5 * high) low = 0;
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  [low, high] = [low === 0 ? 0 : low - room, high + room];
  const left = 56,
    right = width - 10,
    top = 8,
    bottom = height - 24;
  const from = store.columns[0]?.start ?? 0,
    to = Math.max(store.columns.at(-1)?.end ?? 1, store.now?.seconds ?? 1, from + 0.5);
  const x = (t) => left + ((right - left) * (t - from)) / (to - from);
  const y = (value) => bottom - ((bottom - top) * (scaled(value) - low)) / (high - low);
  curve.frame = { left, right, from, to };
  draw.lineWidth = 1;
  draw.textAlign = "right";
  for (const tick of scaled === Math.log10 ? powers(low, high) : ticks(low, high, (bottom - top) / 45)) {
    const at = y(tick);
    if (at < top - 2 || at > bottom + 2) continue;
    draw.strokeStyle = line;
    draw.beginPath();
    draw.moveTo(left, at);
    draw.lineTo(right, at);
    draw.stroke();
    draw.fillStyle = soft;
    draw.fillText(figure(tick, 2), left - 7, at);
  }
  timeAxis(paint, x, from, to, left, right, bottom);
  if (band) {
    draw.fillStyle = faded(paint.blue, 0.16);
    draw.beginPath();
    band.forEach(([t, , b], k) => draw[k ? "lineTo" : "moveTo"](x(t), y(b)));
    [...band].reverse().forEach(([t, a]) => draw.lineTo(x(t), y(a)));
    draw.fill();
  }
  for (const each of lines) {
    draw.strokeStyle = each.colour;
    draw.lineWidth = each.width;
    draw.lineJoin = "round";
    draw.beginPath();
    each.points.forEach(([t, value], k) => draw[k ? "lineTo" : "moveTo"](x(t), y(value)));
    draw.stroke();
  }
  const at = curve.at ?? store.moment;
  if (at !== null && at !== undefined) {
    draw.strokeStyle = ink;
    draw.lineWidth = 1;
    draw.beginPath();
    draw.moveTo(x(at), top);
    draw.lineTo(x(at), bottom);
    draw.stroke();
  }
}

/** The title, the key, and what is at the cursor, in words. */
function describeCurve(paint, lines, band) {
  const strong = lines.filter((each) => each.width > 1);
  say(byId("curve-title"), QUANTITIES[curve.quantity][0]);
  const entries = strong.map((each) => [each.colour, each.name]);
  if (lines.length > strong.length) entries.push([faded(paint.blue, 0.4), "each worker"]);
  if (band) entries.push([faded(paint.blue, 0.16), "four of five workers"]);
  key(byId("curve-key"), entries);
  const now = curve.at === null ? Infinity : curve.at;
  const words = strong.map((each) => {
    const point = each.points.findLast(([t]) => t <= now + 1e-9) ?? each.points[0];
    return `${each.name} ${figure(point[1], 4)}`;
  });
  const at = curve.at ?? store.moment;
  const when = at === null ? (store.ended ? "at the end" : "now") : `after ${duration(at)}`;
  const told = curve.quantity === "loss" && strong.some((each) => each.name === ALL);
  const what = told
    ? "The loss of new samples, each before the model has learned from it"
    : QUANTITIES[curve.quantity][1];
  say(byId("curve-said"), words.length ? `${what}; ${when}: ${words.join(", ")}.` : `${what}.`);
}

/** The same as a table, of at most thirty moments. */
function fillPoints() {
  if (!byId("curve-more").open) return;
  const columns = past(),
    every = Math.max(1, Math.ceil(columns.length / 30));
  const names = [
    ["end", "time"],
    ["version", "iteration"],
    ["progressive", "loss, new samples"],
    ["loss", "loss"],
    ["rate", "updates/s"],
    ["age", "age"],
    ["norm", "‖g‖"],
    ["step", "η"],
  ];
  const head = element("tr");
  head.append(...names.map(([, words]) => Object.assign(element("th", "", words), { scope: "col" })));
  const rows = columns
    .filter((_, k) => (columns.length - 1 - k) % every === 0)
    .map((each) => {
      const row = element("tr");
      row.append(
        ...names.map(([name]) => element("td", "", name === "end" ? duration(each.end) : figure(each[name], 4))),
      );
      return row;
    });
  const top = element("thead"),
    body = element("tbody");
  top.append(head);
  body.append(...rows.reverse());
  byId("points").replaceChildren(top, body);
}

function setUpCurve(redraw) {
  for (const [name, [words]] of Object.entries(QUANTITIES)) byId("quantity").append(new Option(words, name));
  byId("quantity").addEventListener("change", (event) => {
    curve.quantity = event.target.value;
    curve.log = null;
    redraw();
  });
  byId("log").addEventListener("click", () => {
    curve.log = byId("log").getAttribute("aria-pressed") !== "true";
    redraw();
  });
  byId("curve-more").addEventListener("toggle", redraw);
  const look = (at) => {
    curve.at = at;
    byId("curve-said").setAttribute("aria-live", at === null ? "off" : "polite");
    redraw();
  };
  pointing(
    byId("curve"),
    (x) => {
      const frame = curve.frame;
      if (x === null || !frame) return look(null);
      const part = Math.min(Math.max((x - frame.left) / (frame.right - frame.left), 0), 1);
      return look(frame.from + part * (frame.to - frame.from));
    },
    (way) => {
      const times = store.columns.map((each) => each.end);
      if (!times.length || !way) return;
      const k = curve.at === null ? times.length : times.findIndex((t) => t >= curve.at - 1e-9);
      look(times[Math.min(Math.max((k < 0 ? times.length - 1 : k) + way, 0), times.length - 1)]);
    },
  );
}
