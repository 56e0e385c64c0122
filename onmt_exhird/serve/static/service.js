// The service behind the page. What goes wrong becomes a sentence.

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is “exhird serve” still running?");
  }
  let body;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(`The server's answer could not be read (${response.status}).`);
  }
  if (!response.ok) {
    const failure = new Error(body.detail || `The server answered ${response.status}.`);
    failure.wait = [429, 503].includes(response.status) ? Number(response.headers.get("Retry-After")) : 0;
    throw failure;
  }
  return body;
}

export function askModel() {
  return ask("v1/model", {});
}

// The result of one document; `signal` takes the request back.
export async function askKeyphrases(document, options, signal) {
  const body = JSON.stringify({ documents: [document], ...options });
  const headers = { "Content-Type": "application/json" };
  return (await ask("v1/keyphrases", { method: "POST", headers, body, signal })).results[0];
}
