// Drives the page in a real browser, over its own pipe: no package is needed. Prints one JSON object and exits 0, or says what failed.
//
//   node drive.mjs CHROMIUM PAGE.html [--axe axe.min.js] [--shots FOLDER]
//
// Checks: no script from outside runs, fragments open their folds, the keyboard reaches and opens folds, nothing is wider than a phone.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [chromium, page, ...rest] = process.argv.slice(2);
const option = (name) => (rest.includes(name) ? rest[rest.indexOf(name) + 1] : undefined);
const profile = mkdtempSync(join(tmpdir(), "ledger-page-"));
const browser = spawn(
  chromium,
  [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", `--user-data-dir=${profile}`, "--remote-debugging-pipe", "about:blank",
  ],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
);

let last = 0;
let pending = "";
const waiting = new Map();
const events = [];
browser.stdio[4].on("data", (chunk) => {
  pending += chunk;
  const parts = pending.split("\0");
  pending = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    if (message.id) waiting.get(message.id)?.(message);
    else events.push(message);
  }
});
function send(method, params = {}, sessionId) {
  const id = ++last;
  browser.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
  return new Promise((done, failed) => {
    const timer = setTimeout(() => failed(new Error(`no answer to ${method}`)), 30_000);
    waiting.set(id, (message) => {
      clearTimeout(timer);
      message.error ? failed(new Error(`${method}: ${message.error.message}`)) : done(message.result);
    });
  });
}

async function main() {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const call = (method, params) => send(method, params, sessionId);
  const run = async (expression) => {
    const { result, exceptionDetails } = await call("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  const until = async (expression, what) => {
    for (const deadline = Date.now() + 10_000; Date.now() < deadline; ) if (await run(expression)) return;
    throw new Error(`waited for ${what}`);
  };
  const check = (holds, what) => { if (!holds) throw new Error(what); };
  const size = (width, height) => call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
  const theme = (value) => call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  const url = pathToFileURL(resolve(page)).href;
  const open = async (fragment = "") => {
    await call("Page.navigate", { url: "about:blank" });
    await call("Page.navigate", { url: url + fragment });
    await until("location.protocol === 'file:' && document.readyState === 'complete'", "the page");
  };
  const key = async (name, code) => {
    const text = name === "Enter" ? "\r" : undefined;
    await call("Input.dispatchKeyEvent", { type: "keyDown", key: name, code: name, windowsVirtualKeyCode: code, text });
    await call("Input.dispatchKeyEvent", { type: "keyUp", key: name, code: name, windowsVirtualKeyCode: code });
  };
  const shot = async (name) => {
    const folder = option("--shots");
    if (!folder) return;
    const { cssContentSize } = await call("Page.getLayoutMetrics");
    const step = 2200;
    for (let y = 0, n = 1; y < cssContentSize.height && n <= 6; y += step, n++) {
      const clip = { x: 0, y, width: cssContentSize.width, height: Math.min(step, cssContentSize.height - y), scale: 1 };
      const { data } = await call("Page.captureScreenshot", { captureBeyondViewport: true, clip });
      writeFileSync(join(folder, `${name}-${n}.png`), Buffer.from(data, "base64"));
    }
  };

  for (const domain of ["Page", "Runtime", "Log", "Network"]) await call(`${domain}.enable`);
  await call("Page.addScriptToEvaluateOnNewDocument", { source: "window.alert = () => { window.acted = true; }" });
  await size(1280, 900);
  await open();
  check(!(await run("window.acted === true")), "a script from outside ran");

  // A fragment opens what it points at, also when that is inside a closed fold.
  const legs = await run("[...document.querySelectorAll('details.leg')].map(one => one.id)");
  for (const id of legs) {
    await open(`#${id}`);
    await until(`document.getElementById(${JSON.stringify(id)}).open`, `#${id} to open`);
  }
  const files = await run("[...document.querySelectorAll('tr[id]')].map(one => one.id)");
  if (files.length > 0) {
    const file = files.at(-1);
    await open();
    await run("document.querySelectorAll('details').forEach(one => { one.open = false; })");
    await run(`location.hash = ${JSON.stringify(file)}`);
    await until(`document.getElementById(${JSON.stringify(file)}).closest('details.leg').open`, `#${file} to open its leg`);
  }

  // The keyboard: the first stop skips to the report; a fold opens and closes with Enter.
  await open();
  await key("Tab", 9);
  check((await run("document.activeElement.className")) === "skip", "the first stop of the keyboard is not the skip link");
  if (legs.length > 0) {
    await run("document.querySelector('details.leg > summary').focus()");
    const before = await run("document.querySelector('details.leg').open");
    await key("Enter", 13);
    await until(`document.querySelector('details.leg').open !== ${before}`, "Enter to move the fold");
  }
  const stops = new Set();
  await open();
  for (let n = 0; n < 40; n++) {
    await key("Tab", 9);
    stops.add(await run("document.activeElement.outerHTML.slice(0, 80)"));
  }
  check(stops.size > Math.min(3, legs.length), "the keyboard is caught somewhere");

  const found = { legs: legs.length, files: files.length, stops: stops.size, axe: {} };
  // What sticks out by itself: not what scrolls inside its own box.
  const widest = (width) => run(`(() => {
    const held = (one) => one && one !== document.body && (getComputedStyle(one).overflowX !== "visible" || held(one.parentElement));
    const out = [...document.querySelectorAll("body *")].filter((one) => (one.getBoundingClientRect().right > ${width} + scrollX || one.scrollWidth > ${width}) && !held(one));
    return out.slice(-4).map((one) => "<" + one.tagName.toLowerCase() + " class=" + one.getAttribute("class") + "> " + one.textContent.slice(0, 60)).join("; ");
  })()`);
  for (const [width, height] of [[1280, 900], [390, 844]]) {
    await size(width, height);
    for (const scheme of ["light", "dark"]) {
      await theme(scheme);
      await open();
      const wide = await run("document.documentElement.scrollWidth");
      check(wide <= width, `the page is ${wide} wide in a window of ${width}: ${await widest(width)}`);
      await shot(`${width}-${scheme}`);
      await run("document.querySelectorAll('details').forEach(one => { one.open = true; })");
      const opened = await run("document.documentElement.scrollWidth");
      check(opened <= width, `with all folds open the page is ${opened} wide in a window of ${width}: ${await widest(width)}`);
      await shot(`${width}-${scheme}-open`);
      if (option("--axe")) {
        await call("Runtime.evaluate", { expression: readFileSync(option("--axe"), "utf8") });
        const { violations } = await run("axe.run().then(found => ({ violations: found.violations.map(one => ({ id: one.id, impact: one.impact, nodes: one.nodes.length, first: one.nodes[0].html.slice(0, 200), why: one.nodes[0].failureSummary })) }))");
        found.axe[`${width}-${scheme}`] = violations;
        const serious = violations.filter((one) => one.impact === "serious" || one.impact === "critical");
        check(serious.length === 0, `axe at ${width} ${scheme}: ${JSON.stringify(serious, null, 1)}`);
      }
    }
  }
  const outside = events.filter((event) => event.method === "Network.requestWillBeSent" && !/^(file|about|data):/.test(event.params.request.url));
  check(outside.length === 0, `the page asked for ${outside[0]?.params.request.url}`);
  check(!(await run("window.acted === true")), "a script from outside ran");
  console.log(JSON.stringify(found));
}

let status = 0;
try {
  await main();
} catch (error) {
  console.error(String(error.message ?? error));
  status = 1;
}
browser.kill("SIGKILL");
await new Promise((gone) => (browser.exitCode !== null || browser.signalCode !== null ? gone() : browser.once("exit", gone)));
rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
process.exit(status);
