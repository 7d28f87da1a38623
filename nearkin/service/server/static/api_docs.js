// Adds a form to each operation of the page, which sends a request to this server and shows the
// answer. The token is in its field only: in no storage, cookie or URL. Answers are never markup.
const JSON_TYPE = "application/json";
const JSON_TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const BRACES = { opening: ["{", "["], closing: ["}", "]"] };

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// Indents JSON without parsing its numbers, because those of JavaScript have 53 bits.
function indent(json) {
  const pieces = [];
  let depth = 0;
  let previous = "";
  for (const [token] of json.matchAll(JSON_TOKENS)) {
    const closes = BRACES.closing.includes(token);
    const isFirst = BRACES.opening.includes(previous);
    if (closes) depth -= 1;
    if (closes ? !isFirst : isFirst || previous === ",") pieces.push("\n" + "  ".repeat(depth));
    pieces.push(token === ":" ? ": " : token);
    if (BRACES.opening.includes(token)) depth += 1;
    previous = token;
  }
  return pieces.join("");
}

// Escapes the characters with which a document could reorder the text around it.
function escapeDirections(json) {
  const escape = (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0");
  return json.replace(/\p{Bidi_Control}/gu, escape);
}

function addressOf(path, fields) {
  const query = new URLSearchParams();
  let address = path;
  for (const { parameter, input } of fields) {
    if (parameter.in === "path") {
      address = address.replace(`{${parameter.name}}`, () => encodeURIComponent(input.value));
    } else if (input.value !== "") {
      query.append(parameter.name, input.value);
    }
  }
  return `${address}?${query}`.replace(/\?$/, "");
}

async function send(method, address, token, body) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = JSON_TYPE;
  const start = performance.now();
  const response = await fetch(address, { method, headers, body, credentials: "omit" });
  const text = await response.text();
  const milliseconds = Math.round(performance.now() - start);
  const mediaType = response.headers.get("content-type") ?? "";
  const isProblem = mediaType.startsWith("application/problem+json");
  const isJson = isProblem || mediaType.startsWith(JSON_TYPE);
  let status = `Status ${response.status}, ${milliseconds} ms`;
  if (isProblem) {
    const problem = JSON.parse(text);
    status += `. ${problem.title}: ${problem.detail}`;
  }
  return { status, text: isJson ? escapeDirections(indent(text)) : text };
}

// Returns the fields of an operation: one for each parameter in its path and its query.
function fieldsOf(operation) {
  const parameters = operation.parameters ?? [];
  return parameters.map((parameter) => ({
    parameter,
    input: element("input", {
      value: parameter.example ?? "",
      placeholder: parameter.schema.default ?? "",
      required: parameter.required,
      autocomplete: "off",
      spellcheck: false,
    }),
  }));
}

function formOf(method, path, operation, token) {
  const fields = fieldsOf(operation);
  const labels = fields.map(({ parameter, input }) =>
    element("label", {}, element("span", { textContent: parameter.name }), input),
  );
  const example = operation.requestBody?.content[JSON_TYPE]?.example;
  let body;
  if (example !== undefined) {
    body = element("textarea", { rows: 8, spellcheck: false });
    body.value = JSON.stringify(example, null, 2);
    labels.push(element("label", {}, element("span", { textContent: "Body" }), body));
  }
  const button = element("button", { textContent: "Send" });
  const status = element("output");
  const answer = element("pre", { hidden: true, tabIndex: 0 });
  const form = element("form", { className: "try" }, ...labels, button, " ", status, answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    status.textContent = "";
    answer.hidden = true;
    try {
      const address = addressOf(path, fields);
      const result = await send(method.toUpperCase(), address, token.value.trim(), body?.value);
      status.textContent = result.status;
      answer.textContent = result.text;
      answer.hidden = result.text === "";
    } catch (error) {
      status.textContent = `The request failed: ${error.message}`;
    }
    button.disabled = false;
  });
  return element("details", {}, element("summary", { textContent: "Try it" }), form);
}

async function addForms() {
  const description = await (await fetch("/openapi.json", { credentials: "omit" })).json();
  const token = element("input", { type: "password", autocomplete: "off", spellcheck: false });
  const label = element("label", {}, element("span", { textContent: "Token" }), token);
  const form = element("form", { className: "try" }, label);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.querySelector("ul").before(form);
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const heading = document.getElementById(operation.operationId);
      heading.parentElement.append(formOf(method, path, operation, token));
    }
  }
}

addForms();
