// A lane for each worker: how often it reports, how old its gradient is, and when it stalled, was away or left.

const STATES = { e: "expected", l: "left", a: "away", s: "stalled", r: "refused" };
const TALL = 500; // pixels for all lanes of many workers
const lanes = { colour: "lane", at: null };

/** The lanes in the order of the table; of very many workers several share one. */
function bandsOf() {
  const order = sortedWorkers();
  const each = order.length <= 30 ? 20 : Math.max(TALL / order.length, 2);
  const size = Math.max(1, Math.ceil((order.length * each) / (order.length <= 30 ? 1e9 : TALL) - 1e-9));
  const bands = [];
  for (let k = 0; k < order.length; k += size) bands.push(order.slice(k, k + size));
  return { bands, each: order.length <= 30 ? 20 : TALL / bands.length };
}

function drawLanes() {
  const canvas = byId("lanes");
  const { bands, each } = bandsOf();
  const wanted = `${Math.round(Math.max(bands.length * each, 40) + 26)}px`;
  if (canvas.style.height !== wanted) canvas.style.height = wanted;
  const paint = begin(canvas);
  if (!paint) return;
  const { draw, width, height, soft, ink } = paint;
  const columns = store.columns,
    named = each >= 12;
  const left = named
    ? Math.min(150, Math.max(40, ...bands.map(([worker]) => draw.measureText(worker.name).width + 10)), width / 3)
    : 10;
  const right = width - 10,
    bottom = height - 24;
  lanesKey(paint);
  if (!columns.length || !bands.length) {
    draw.fillStyle = soft;
    draw.textAlign = "center";
    draw.fillText("Waiting for the first reports.", width / 2, height / 2);
    return;
  }
  const from = columns[0].start,
    to = Math.max(columns.at(-1).end, from + 0.5);
  const x = (t) => left + ((right - left) * (t - from)) / (to - from);
  lanes.frame = { left, right, from, to, bands, each };
  const range = lossRange(columns),
    inset = named ? 2 : each > 3 ? 0.5 : 0;
  bands.forEach((band, k) => {
    const top = k * each,
      chosen = band.some((worker) => worker.row === store.chosen);
    if (named) {
      draw.fillStyle = chosen ? ink : soft;
      draw.textAlign = "right";
      draw.fillText(shortened(draw, band[0].name, left - 10), left - 6, top + each / 2);
    }
    for (const column of columns) {
      const [a, b] = [Math.round(x(column.start)), Math.round(x(column.end))];
      cell(paint, column, band, a, top + inset, Math.max(b - a, 1), each - 2 * inset, range);
    }
    if (chosen) {
      draw.strokeStyle = ink;
      draw.lineWidth = 1;
      draw.strokeRect(left - 0.5, top + 0.5, right - left + 1, Math.max(each - 1, 1));
    }
  });
  timeAxis(paint, x, from, to, left, right, bottom);
  if (store.moment !== null) {
    draw.fillStyle = faded(paint.card, 0.7);
    draw.fillRect(x(store.moment), 0, right - x(store.moment) + 1, bottom);
  }
}

/** What a worker did in a column, which may be from before it came. */
const letterOf = (column, worker) => column.lane[worker.row] ?? "e";

/** What some workers did in a column: how much they reported, and over it which part of them stalled or was refused. */
function cell(paint, column, band, x, y, width, height, range) {
  const { draw } = paint,
    marks = { e: 0, l: 0, a: 0, s: 0, r: 0 };
  let working = 0,
    sum = 0;
  for (const worker of band) {
    const letter = letterOf(column, worker);
    if (letter in STATES) marks[letter]++;
    else {
      working++;
      sum += levelOf(column, worker, range);
    }
  }
  if (working) {
    const colour = { lane: paint.blue, age: paint.purple, loss: paint.orange }[lanes.colour],
      level = sum / working;
    draw.fillStyle = faded(colour, (level > 0 ? 0.12 + 0.88 * level : 0.05) * (working / band.length));
    draw.fillRect(x, y, width, height);
  } else if (marks.a) {
    const thin = Math.min(height, 3);
    draw.fillStyle = faded(paint.grey, 0.4);
    draw.fillRect(x, y + (height - thin) / 2, width, thin);
  }
  for (const [mark, colour] of [
    ["s", paint.amber],
    ["r", paint.bad],
  ]) {
    if (!marks[mark]) continue;
    draw.fillStyle = faded(colour, Math.max(0.3, marks[mark] / band.length));
    draw.fillRect(x, y, width, height);
  }
}

/** From 0 to 1. */
function levelOf(column, worker, range) {
  if (lanes.colour === "age") return (VALUE[column.age[worker.row]] ?? 0) / 48;
  if (lanes.colour === "loss") {
    const loss = column.losses?.[worker.row];
    return loss === null || loss === undefined || !range
      ? 0
      : Math.min(Math.max((range.of(loss) - range.low) / range.room, 0.04), 1);
  }
  const letter = letterOf(column, worker);
  return letter in STATES ? 0 : (VALUE[letter] ?? 0) / 9;
}

function lossRange(columns) {
  if (lanes.colour !== "loss") return null;
  const all = columns.flatMap((column) => (column.losses ?? []).filter((loss) => loss !== null));
  if (!all.length) return null;
  let [low, high] = all.reduce(([a, b], loss) => [Math.min(a, loss), Math.max(b, loss)], [Infinity, -Infinity]);
  const of = low > 0 ? Math.log : (loss) => loss;
  [low, high] = [of(low), of(high)];
  return { of, low, room: high - low || 1 };
}

function shortened(draw, text, room) {
  if (draw.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && draw.measureText(`${text.slice(0, length)}…`).width > room) length--;
  return `${text.slice(0, length)}…`;
}

function lanesKey(paint) {
  const words = {
    lane: [
      [faded(paint.blue, 0.2), "few reports"],
      [paint.blue, "as many as the busiest"],
    ],
    age: [
      [faded(paint.purple, 0.15), "fresh gradient"],
      [paint.purple, "old gradient"],
    ],
    loss: [
      [faded(paint.orange, 0.15), "low loss"],
      [paint.orange, "high loss"],
    ],
  }[lanes.colour];
  key(byId("lanes-key"), [
    ...words,
    [paint.amber, "stalled"],
    [paint.bad, "refused"],
    [faded(paint.grey, 0.5), "away"],
    ["transparent", "blank: not there yet, or left"],
  ]);
  if (lanes.at === null) {
    const some = lanes.frame?.bands.some((band) => band.length > 1);
    say(
      byId("lanes-said"),
      `In the order of the table below.${some ? ` A lane here is ${lanes.frame.bands[0].length} workers.` : ""}`,
    );
  }
}

/** The lane and the time under the pointer, in words. */
function lookAtLane(band, time) {
  const found = store.columns.find((each) => each.start <= time && time < each.end) ?? store.columns.at(-1);
  if (!found || !band) return;
  const words = band.slice(0, 3).map((worker) => {
    const letter = letterOf(found, worker);
    const age = VALUE[found.age[worker.row]],
      loss = found.losses?.[worker.row];
    const did =
      letter in STATES
        ? STATES[letter]
        : letter === "0"
          ? "no report"
          : `about ${count(Math.round(found.most / 2 ** (9 - VALUE[letter])))} reports`;
    const old = age === undefined ? "" : `, age ${figure(2 ** (age / 4) - 1, 2)}`;
    return `${worker.name}: ${did}${old}${loss === null || loss === undefined ? "" : `, loss ${figure(loss)}`}`;
  });
  const more = band.length > 3 ? `, and ${band.length - 3} more` : "";
  say(byId("lanes-said"), `${duration(found.start)} to ${duration(found.end)}. ${words.join("; ")}${more}.`);
}

function setUpLanes(redraw) {
  byId("colour").addEventListener("change", (event) => {
    lanes.colour = event.target.value;
    redraw();
  });
  const canvas = byId("lanes"),
    place = { lane: 0, column: Infinity };
  const live = (on) => byId("lanes-said").setAttribute("aria-live", on ? "polite" : "off");
  pointing(
    canvas,
    (x, y) => {
      const frame = lanes.frame;
      lanes.at = x;
      live(x !== null);
      if (x === null || !frame) return redraw();
      const part = Math.min(Math.max((x - frame.left) / (frame.right - frame.left), 0), 0.9999);
      return lookAtLane(frame.bands[Math.floor(y / frame.each)], frame.from + part * (frame.to - frame.from));
    },
    (columns, rows) => {
      const frame = lanes.frame;
      if (!frame) return;
      place.lane = Math.min(Math.max(place.lane + rows, 0), frame.bands.length - 1);
      place.column = Math.min(
        Math.max(Math.min(place.column, store.columns.length - 1) + columns, 0),
        store.columns.length - 1,
      );
      lanes.at = 0;
      live(true);
      const column = store.columns[place.column];
      lookAtLane(frame.bands[place.lane], (column.start + column.end) / 2);
    },
  );
  canvas.addEventListener("click", (event) => {
    const band = lanes.frame?.bands[Math.floor(event.offsetY / lanes.frame.each)];
    if (band) choose(band[0].row);
  });
}
