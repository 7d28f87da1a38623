// Sends what a form holds, and puts the answer into the element that the form names.
const newest = new Map();

async function post(address, values, target) {
  const number = (newest.get(target) ?? 0) + 1;
  newest.set(target, number);
  let content;
  try {
    const response = await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(values),
    });
    content = await response.text();
    if (!response.headers.get("content-type").startsWith("text/html")) {
      content = `<p class="warnings" role="alert">The server answered ${response.status}. Load the page again.</p>`;
    }
  } catch {
    content = '<p class="warnings" role="alert">The server cannot be reached.</p>';
  }
  // an answer that comes after a later one is dropped
  if (newest.get(target) === number) target.innerHTML = content;
}

function send(form, submitter) {
  const target = document.getElementById(form.dataset.target);
  return post(form.dataset.post, Object.fromEntries(new FormData(form, submitter)), target);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.post === undefined) return;
  event.preventDefault();
  send(form, event.submitter);
});

// Forms whose changes are sent at once, when the visitor pauses.
let pause;
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (!form || form.dataset.live === undefined) return;
  const label = document.getElementById(`${event.target.id}-value`);
  if (label !== null) label.textContent = event.target.value;
  clearTimeout(pause);
  pause = setTimeout(() => send(form), 150);
});

// Parts of pages that are read again from time to time.
for (const part of document.querySelectorAll("[data-refresh]")) {
  setInterval(() => post(part.dataset.source, {}, part), Number(part.dataset.refresh));
}

// Presses the button that names the pressed key, unless the visitor types or has switched keys off.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  const option = document.querySelector("#review-keys input");
  if (option === null || !option.checked) return;
  const key = CSS.escape(event.key.toLowerCase());
  const button = document.querySelector(`main button[aria-keyshortcuts="${key}"]`);
  if (button !== null) {
    event.preventDefault();
    button.click();
  }
});
