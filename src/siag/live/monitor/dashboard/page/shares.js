// Who reports and who counts: above what share of all reports is whose, below what share of the objective.

const SINGLE = 40; // workers that are drawn one by one; of more of them tenths are
const TENTHS = ["busiest tenth", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th", "slowest tenth"];

/** Workers by how much they report, the busiest first, in groups: [names, share of reports, share of objective]. */
function sharesOf() {
  const share = reportShares();
  const all = workers().map((worker) => ({ worker, reports: share(worker), counts: worker.share ?? NaN }));
  all.sort((a, b) => b.reports - a.reports || a.worker.row - b.worker.row);
  const pieces = all.length > SINGLE ? TENTHS.length : all.length,
    groups = [];
  for (let k = 0; k < pieces; k++) {
    const part = all.slice(Math.round((k * all.length) / pieces), Math.round(((k + 1) * all.length) / pieces));
    groups.push({
      name: part.length === 1 && pieces === all.length ? part[0].worker.name : TENTHS[k],
      workers: part.map((each) => each.worker),
      reports: part.reduce((sum, each) => sum + (each.reports || 0), 0),
      counts: part.reduce((sum, each) => sum + (each.counts || 0), 0),
    });
  }
  return { all, groups };
}

function drawShares() {
  const paint = begin(byId("shares"));
  if (!paint) return;
  const { draw, width, height, ink, soft } = paint;
  const { all, groups } = sharesOf();
  say(byId("shares-said"), sharesInWords(all));
  const total = groups.reduce((sum, each) => sum + each.reports, 0);
  if (!total) {
    draw.fillStyle = soft;
    draw.textAlign = "center";
    draw.fillText("Waiting for the first reports.", width / 2, height / 2);
    return;
  }
  const bar = 30,
    above = 24,
    below = height - 24 - bar,
    gap = 1.5;
  draw.fillStyle = ink;
  draw.textAlign = "left";
  draw.fillText("who reports: share of all reports", 0, 10);
  draw.fillText("who counts: share of the objective", 0, height - 10);
  const counted = groups.reduce((sum, each) => sum + each.counts, 0) || 1;
  let [upper, lower] = [0, 0];
  groups.forEach((group, k) => {
    const a = (width * group.reports) / total,
      b = (width * group.counts) / counted;
    const colour = between(paint.orange, paint.blue, groups.length > 1 ? k / (groups.length - 1) : 1);
    const chosen = group.workers.some((worker) => worker.row === store.chosen);
    const dim = store.chosen !== null && !chosen;
    const [middle, from, to] = [(above + bar + below) / 2, above + bar, below];
    draw.fillStyle = faded(colour, dim ? 0.1 : chosen ? 0.6 : 0.3);
    draw.beginPath();
    draw.moveTo(upper, from);
    draw.bezierCurveTo(upper, middle, lower, middle, lower, to);
    draw.lineTo(lower + Math.max(b - gap, 0.3), to);
    draw.bezierCurveTo(lower + b - gap, middle, upper + a - gap, middle, upper + Math.max(a - gap, 0.3), from);
    draw.fill();
    draw.fillStyle = faded(colour, dim ? 0.45 : 1);
    draw.fillRect(upper, above, Math.max(a - gap, 0.3), bar);
    draw.fillRect(lower, below, Math.max(b - gap, 0.3), bar);
    label(draw, paint.card, group.name, percent(group.reports), upper, above + bar / 2, a - gap);
    label(draw, paint.card, group.name, percent(group.counts), lower, below + bar / 2, b - gap);
    upper += a;
    lower += b;
  });
}

/** A name and a share on a piece of a bar, as far as they fit. */
function label(draw, colour, name, share, x, y, room) {
  const words = [`${name}  ${share}`, share, name].find((text) => draw.measureText(text).width + 12 <= room);
  if (!words) return;
  draw.fillStyle = colour;
  draw.textAlign = "left";
  draw.fillText(words, x + 6, y);
}

/** The picture in a sentence. */
function sharesInWords(all) {
  const known = all.filter((each) => each.reports > 0);
  if (!known.length) return "Nobody has reported yet.";
  if (all.length === 1) return "There is one worker.";
  const size = all.length < 20 ? 1 : Math.round(all.length / 10);
  const top = all.slice(0, size),
    sum = (name) => top.reduce((total, each) => total + (each[name] || 0), 0);
  const who =
    size === 1
      ? `The busiest worker (${top[0].worker.name})`
      : `The busiest tenth of the workers (${size} of ${all.length})`;
  const sends = `${who} sends ${percent(sum("reports"))} of all reports`;
  if (store.now && !store.now.alike && !store.now.weights) {
    const why = "with this method, who reports more often counts more. SIAG counts all workers the same.";
    return `${sends}, and counts for as much: ${why}`;
  }
  if (all.every((each) => Number.isNaN(each.counts))) return `${sends}.`;
  const gone = all.filter((each) => each.counts === 0).length;
  const rest = gone
    ? ` ${gone === 1 ? "One worker is" : `${gone} workers are`} gone and count${gone === 1 ? "s" : ""} no more.`
    : "";
  const kind = store.now?.weights || (weighed() ? "relays" : "alike");
  const why = {
    given: "workers count for the weights they were given.",
    samples: "each worker counts for the number of its reports so far.",
    relays: "a relay counts for all workers behind it, and its report is the sum of theirs.",
    alike: "a new report replaces the last one of its worker.",
  }[kind];
  const of = store.about.root ? "what this relay sends on" : "the model";
  return `${sends}, and counts for ${percent(sum("counts"))} of ${of}: ${why}${rest}`;
}
