// Numbers and times in words, and small helpers for the document.

const byId = (id) => document.getElementById(id);

/** An element with a class and a text; nothing that comes from elsewhere is ever taken for markup. */
function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Set a text only if it is another: what does not change is not read out again. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function figure(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e7 || size < 1e-3) return value.toExponential(Math.max(digits - 2, 1)).replace("e+", "e");
  if (size >= 1000) return whole.format(value);
  return String(Number(value.toPrecision(digits)));
}

const count = (value) =>
  value === null || value === undefined ? "–" : value < 1e7 ? whole.format(value) : figure(value);

const percent = (value) =>
  !Number.isFinite(value)
    ? "–"
    : `${Number((100 * value).toPrecision(value < 0.0995 ? 2 : 3))} %`;

/** 0.3 s, 42 s, 3 min 07 s, 2 h 05 min, 3 d 04 h. */
function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const rounded = Math.round(seconds);
  const pad = (value) => String(value).padStart(2, "0");
  if (rounded < 60) return `${rounded} s`;
  if (rounded < 3600) return `${Math.floor(rounded / 60)} min ${pad(rounded % 60)} s`;
  if (rounded < 86400) return `${Math.floor(rounded / 3600)} h ${pad(Math.floor((rounded % 3600) / 60))} min`;
  return `${Math.floor(rounded / 86400)} d ${pad(Math.floor((rounded % 86400) / 3600))} h`;
}

/** The same, as a clock shows it: 0:42, 12:07, 2:05:00. */
function stopwatch(seconds) {
  const rounded = Math.floor(seconds),
    pad = (value) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(rounded / 3600), Math.floor((rounded % 3600) / 60)];
  return hours ? `${hours}:${pad(minutes)}:${pad(rounded % 60)}` : `${minutes}:${pad(rounded % 60)}`;
}

/** The part of a warning after its last semicolon is what to do about it. */
function remedyOf(text) {
  const at = text.lastIndexOf("; ");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 2)];
}
