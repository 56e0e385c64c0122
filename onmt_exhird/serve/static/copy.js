// The phrases for other programs.

const FORMATS = {
  list: (phrases) => phrases.map(({ label }) => label).join("\n"),
  json: (phrases) =>
    JSON.stringify(phrases.map(({ text, surface, present, score, spans }) => ({ text, surface, present, score, spans })), null, 1),
  ris: (phrases) => phrases.map(({ label }) => `KW  - ${label.replace(/\s+/g, " ")}`).join("\n"),
};

export function format(phrases, kind) {
  return `${FORMATS[kind](phrases)}\n`;
}

// Whether the clipboard took it: browsers allow that only to pages of this machine and of https.
export async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
