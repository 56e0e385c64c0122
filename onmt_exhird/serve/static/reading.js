// The text with its marks and its shading, and in words what the shading shows.

import { endOf, heaviest, percent, pieces } from "./text.js";

const LEVELS = 8;
const at = (id) => document.getElementById(id);

// The weights to show: of the word pointed at, of the phrase, or (in a model without a phrase level) of all its words.
function weightsOf(attention, word) {
  if (word !== null) return attention.words[word].weights;
  if (attention.weights) return attention.weights;
  const sums = attention.words[0].weights.map(() => 0);
  for (const { weights } of attention.words) weights.forEach((weight, i) => (sums[i] += weight / attention.words.length));
  return sums;
}

function attentionAt(shown, pointed) {
  const attention = pointed && shown.phrases[pointed.phrase].attention;
  return attention && attention.words.length ? attention : null;
}

export function drawText(shown, pointed) {
  const { text, result, phrases, units, off } = shown;
  const ranges = [];
  phrases.forEach((phrase, index) => {
    if (off.has(phrase.text)) return;
    for (const [start, end] of phrase.spans) ranges.push({ start: units(start), end: units(end), phrase: index });
  });
  const attention = attentionAt(shown, pointed);
  if (attention) ranges.push(...shades(result.tokens, weightsOf(attention, pointed.word), units));
  if (result.truncated && result.tokens) ranges.push({ start: units(endOf(result.tokens)), end: text.length, unread: true });
  at("marked").classList.toggle("shaded", attention !== null);
  at("marked").replaceChildren(...pieces(text.length, ranges).map((piece) => drawPiece(text, piece, pointed)));
}

function shades(tokens, weights, units) {
  const most = Math.max(...weights.filter((_, i) => tokens[i].span[0] < tokens[i].span[1]), 1e-9);
  const found = [];
  tokens.forEach(({ span }, i) => {
    const level = Math.round((LEVELS * weights[i]) / most);
    if (level > 1) found.push({ start: units(span[0]), end: units(span[1]), level: Math.min(level, LEVELS) });
  });
  return found;
}

function drawPiece(text, { start, end, over }, pointed) {
  const words = text.slice(start, end);
  if (!over.length) return document.createTextNode(words);
  const marks = over.filter(({ phrase }) => phrase !== undefined);
  const piece = document.createElement(marks.length ? "mark" : "span");
  piece.textContent = words;
  if (marks.length) {
    piece.dataset.phrase = marks[marks.length - 1].phrase;
    piece.classList.toggle("twice", marks.length > 1);
    piece.classList.toggle("on", pointed !== null && marks.some(({ phrase }) => phrase === pointed.phrase));
  }
  for (const { level, unread } of over) {
    if (level) piece.classList.add("look", `look-${level}`);
    if (unread) piece.classList.add("unread");
  }
  return piece;
}

// In words and as a table: what the shading shows, which words were copied, what exclusion forbade.
export function drawLook(shown, pointed) {
  const attention = attentionAt(shown, pointed);
  at("look").hidden = !attention;
  if (!attention) return;
  const phrase = shown.phrases[pointed.phrase];
  const word = pointed.word === null ? null : attention.words[pointed.word];
  const top = heaviest(shown.result.tokens, weightsOf(attention, pointed.word), 8);
  at("look-title").textContent = `Where the model looked for “${word ? word.word : phrase.text}”`;
  const most = top.slice(0, 3).map(({ text }) => `“${text}”`).join(", ");
  at("look-says").textContent = `${word ? `For this word of “${phrase.text}”` : "For the phrase as a whole"}, most at ${most}. The stronger the colour, the more.`;
  at("look-words").replaceChildren(...attention.words.map((one, index) => describeWord(one, index === pointed.word)));
  const not = attention.forbidden;
  at("look-not").hidden = !not.length;
  at("look-not").textContent = `Kept apart from phrases before it: it was not allowed to begin with ${not.map((one) => `“${one}”`).join(", ")}.`;
  at("look-table").replaceChildren(...top.map(describeShare));
}

function describeWord({ word, copied }, on) {
  const item = document.createElement("li");
  const own = copied < 0.5;
  item.textContent = `“${word}” ${own ? "is the model's own word" : "was copied from the text"} (${percent(own ? 1 - copied : copied)})`;
  item.classList.toggle("on", on);
  return item;
}

function describeShare({ text, weight }) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = text;
  const cell = document.createElement("td");
  cell.textContent = percent(weight);
  row.append(head, cell);
  return row;
}
