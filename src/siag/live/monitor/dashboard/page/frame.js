// Drawing on a canvas: sharp on any screen, in the colours of the theme, with axes.

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** The canvas cleared, with its size and the theme's colours; null while it cannot be seen. */
function begin(canvas) {
  const width = canvas.clientWidth,
    height = canvas.clientHeight,
    scale = window.devicePixelRatio || 1;
  if (!width || !height) return null;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const draw = canvas.getContext("2d");
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.clearRect(0, 0, width, height);
  draw.font = FONT;
  draw.textBaseline = "middle";
  return { draw, width, height, ...colours() };
}

let themed = null;

function colours() {
  if (themed) return themed;
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "line", "field", "card", "blue", "orange", "purple", "amber", "grey", "bad", "good"];
  themed = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  return themed;
}

function themeChanged() {
  themed = null;
}

/** "#rrggbb" with an opacity. */
function faded(colour, opacity) {
  return `${colour}${Math.round(255 * Math.min(Math.max(opacity, 0), 1))
    .toString(16)
    .padStart(2, "0")}`;
}

/** A colour between two, "#rrggbb" each. */
function between(from, to, part) {
  const mix = (k) => {
    const [a, b] = [from, to].map((colour) => parseInt(colour.slice(1 + 2 * k, 3 + 2 * k), 16));
    return Math.round(a + (b - a) * part)
      .toString(16)
      .padStart(2, "0");
  };
  return `#${mix(0)}${mix(1)}${mix(2)}`;
}

/** Round numbers from low to high, about as many as asked for. */
function ticks(low, high, about) {
  const rough = (high - low) / Math.max(about, 1);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

/** The same for a logarithmic axis, given in powers of ten. */
function powers(low, high) {
  const every = Math.max(1, Math.ceil((high - low) / 6)), found = [];
  const parts = high - low < 2 ? [1, 2, 5] : [1];
  for (let k = Math.floor(low); k <= high; k += every) {
    for (const part of parts) {
      const value = part * 10 ** k, at = Math.log10(value);
      if (at >= low - 1e-9 && at <= high + 1e-9) found.push(value);
    }
  }
  return found.length ? found : [10 ** ((low + high) / 2)];
}

/** Times in units people use. */
function timeTicks(low, high, about) {
  const rough = (high - low) / Math.max(about, 1);
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400];
  const step = steps.find((each) => each >= rough) ?? 86400 * Math.ceil(rough / 86400);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9; k++) found.push(k * step);
  return found;
}

const clock = (seconds) =>
  seconds < 120
    ? `${Number(seconds.toFixed(1))} s`
    : seconds < 7200
      ? stopwatch(seconds)
      : seconds < 172800
        ? `${Number((seconds / 3600).toFixed(1))} h`
        : `${Number((seconds / 86400).toFixed(1))} d`;

/** The time axis below a plot. */
function timeAxis({ draw, soft, line }, x, from, to, left, right, bottom) {
  draw.fillStyle = soft;
  draw.strokeStyle = line;
  draw.textAlign = "center";
  for (const value of timeTicks(from, to, (right - left) / 90)) {
    const at = x(value);
    if (at < left - 1 || at > right + 1) continue;
    draw.beginPath();
    draw.moveTo(at, bottom);
    draw.lineTo(at, bottom + 4);
    draw.stroke();
    draw.fillText(clock(value), Math.min(Math.max(at, left + 10), right - 12), bottom + 13);
  }
}

/** The key above a picture: coloured patches with words. */
function key(node, entries) {
  const wanted = JSON.stringify(entries);
  if (node.dataset.shown === wanted) return;
  node.dataset.shown = wanted;
  node.replaceChildren(
    ...entries.map(([colour, words]) => {
      const entry = element("span"),
        patch = element("i");
      patch.style.background = colour;
      entry.append(patch, words);
      return entry;
    }),
  );
}

/** Where the pointer or the arrow keys are on a canvas: calls `moved(x, y)`, or with null when they leave. */
function pointing(canvas, moved, step) {
  canvas.addEventListener("pointermove", (event) => moved(event.offsetX, event.offsetY));
  canvas.addEventListener("pointerleave", () => moved(null, null));
  canvas.addEventListener("keydown", (event) => {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!(event.key in ways)) return;
    event.preventDefault();
    step(...ways[event.key]);
  });
  canvas.addEventListener("blur", () => moved(null, null));
}
