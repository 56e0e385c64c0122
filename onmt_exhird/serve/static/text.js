// Texts and places in them. Nothing here touches the page.

// The server counts characters (code points), JavaScript counts UTF-16 units: a table from one to the other.
export function unitsOf(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (place) => place;
  const units = [0];
  for (const character of text) units.push(units[units.length - 1] + character.length);
  return (place) => units[Math.min(place, units.length - 1)];
}

// The text in a file's bytes: UTF-8, or what is no UTF-8 as Windows writes it in the West.
export function decode(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return new TextDecoder("windows-1252").decode(data);
  }
}

export function countWords(text) {
  return (text.match(/\S+/g) || []).length;
}

// Where the last of some tokens ends.
export function endOf(tokens) {
  return tokens.reduce((end, { span }) => Math.max(end, span[1]), 0);
}

const SHORT = 40; // words of a first line that can be a title

// A short first line is the title. Title and text are joined by a line break again, so that places stay the same.
export function asDocument(text) {
  const end = text.indexOf("\n");
  const [title, rest] = [text.slice(0, Math.max(end, 0)), text.slice(end + 1)];
  const real = /[\p{L}\p{N}]/u;
  return real.test(title) && real.test(rest) && countWords(title) <= SHORT ? { title, text: rest } : text;
}

// Split [0, length) at every start and end of the ranges {start, end, ...}; each piece knows the ranges over it.
export function pieces(length, ranges) {
  const real = ranges.filter(({ start, end }) => start < end);
  const cuts = [...new Set([0, length, ...real.flatMap(({ start, end }) => [start, end])])].sort((a, b) => a - b);
  const opening = [...real].sort((a, b) => a.start - b.start);
  const found = [];
  let open = [];
  let next = 0;
  for (let i = 0; i + 1 < cuts.length; i++) {
    const [start, end] = [cuts[i], cuts[i + 1]];
    open = open.filter((range) => range.end > start);
    while (next < opening.length && opening[next].start <= start) open.push(opening[next++]);
    found.push({ start, end, over: [...open] });
  }
  return found;
}

// `label` cut into these words, or as many in another form ("maps" for "map"), and what stands between them,
// [{text, word}]; null if there are more or fewer.
export function cutIntoWords(label, words) {
  const own = label.trim().split(/[\s-]+/);
  return cut(label, words) ?? (own.length === words.length ? cut(label, own) : null);
}

function cut(label, words) {
  const lower = label.toLowerCase();
  if (lower.length !== label.length) return null;
  const parts = [];
  let at = 0;
  for (const [index, word] of words.entries()) {
    const start = lower.indexOf(word.toLowerCase(), at);
    if (start < 0 || !/^[\s-]*$/.test(label.slice(at, start))) return null;
    if (start > at) parts.push({ text: label.slice(at, start), word: null });
    at = start + word.length;
    parts.push({ text: label.slice(start, at), word: index });
  }
  return at === label.length ? parts : null;
}

// The words of the text with the most weight in one place, as the shading shows them: [{text, weight}]. (Summed over
// its places, "a" would nearly always be among them.)
export function heaviest(tokens, weights, most) {
  const words = new Map();
  tokens.forEach(({ text, span }, i) => {
    if (span[0] < span[1]) words.set(text, Math.max(weights[i], words.get(text) ?? 0));
  });
  const found = [...words].map(([text, weight]) => ({ text, weight }));
  return found.sort((a, b) => b.weight - a.weight).slice(0, most);
}

export function percent(share) {
  return share > 0 && share < 0.01 ? "under 1 %" : `${Math.round(100 * share)} %`;
}
