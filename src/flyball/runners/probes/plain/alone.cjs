// Runs the tests of one file, or a test script, in a fresh Node without a test runner: see alone.py.
// `outside` is called in the process of the runner; a fresh Node requires this file as its program.
'use strict';

const fs = require('fs');
const path = require('path');
const Module = require('module');

const SHOWN = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'LC_ALL', 'TZ', 'TERM', 'USER', 'SHELL'];
const LIMIT_MS = 20000;

// What a fresh Node saw: {outcomes: [[title, outcome]], ended, status}.
exports.outside = function outside(room, file, script) {
  const env = Object.fromEntries(SHOWN.filter((name) => name in process.env).map((name) => [name, process.env[name]]));
  const { spawnSync } = require('child_process');
  const flags = script ? process.execArgv : []; // modules that the test is started with
  const ended = spawnSync(process.execPath, [...flags, '-e', `require(${JSON.stringify(__filename)}).inside()`], {
    env, cwd: process.cwd(), timeout: LIMIT_MS, stdio: ['pipe', 'ignore', 'ignore', 'pipe'],
    input: JSON.stringify({ root: room.root, source: room.source, file, script, words: process.argv.slice(2) }) });
  const rows = String(ended.output[3] || '').split('\n').filter(Boolean).map((line) => JSON.parse(line));
  return { outcomes: rows.filter((row) => row.length), ended: rows.some((row) => !row.length), status: ended.status };
};

// Whether Node reads the file as it is: what a loader translates first cannot be shown without it.
exports.canRead = function canRead(file) {
  if (/\.[mc]?tsx?$/.test(file)) return false;
  if (file.endsWith('.mjs') || isModule(file, fs.readFileSync)) return true;
  try {
    return Boolean(new (require('vm').Script)(Module.wrap(fs.readFileSync(file, 'utf8').replace(/^#!.*/, ''))));
  } catch { return false; }
};

exports.inside = function inside() {
  const { root, source, file, script, words } = JSON.parse(fs.readFileSync(0, 'utf8'));
  const files = new Set(source.map((one) => path.join(root, one)));
  const { writeSync, readFileSync } = fs;
  const say = (row) => writeSync(3, `${JSON.stringify(row)}\n`);
  require('./plain.cjs').rely();
  delete Module._cache[require.resolve('./plain.cjs')];
  delete Module._cache[__filename];
  for (const key of Object.keys(Module._pathCache)) delete Module._pathCache[key];
  process.execArgv = [];
  delete process._eval;
  const ordinary = ['console', 'crypto', 'process']; // the other globals are there only after `node -e`
  for (const name of Module.builtinModules) if (!ordinary.includes(name)) delete globalThis[name];

  const runner = standIn();
  const load = Module._load;
  Module._load = (name, ...rest) => (name === 'node:test' || name === 'test' ? runner.test : load(name, ...rest));
  const compile = Module.prototype._compile;
  const isTest = (name) => name.startsWith(root + path.sep) && !files.has(name) && !name.includes(`${path.sep}node_modules${path.sep}`);
  const asking = () => { // the file of the project that called, if any did
    const { prepareStackTrace, stackTraceLimit } = Error;
    Error.prepareStackTrace = (_, frames) => frames.map((frame) => frame.getFileName());
    Error.stackTraceLimit = 8;
    const names = new Error('').stack;
    Object.assign(Error, { prepareStackTrace, stackTraceLimit });
    return String(names.find((name) => name && name.startsWith(root + path.sep)) || '');
  };
  const asks = () => files.has(asking());
  let looked = false; // the source has read a test file
  for (const name of ['readFileSync', 'openSync', 'readFile', 'open']) {
    const real = fs[name];
    fs[name] = (place, ...rest) => {
      looked = looked || (typeof place === 'string' && isTest(path.resolve(place)) && /\.[cm]?[jt]s$/.test(place) && asks());
      return real(place, ...rest);
    };
  }
  Module.prototype._compile = function compiled(content, name, ...rest) {
    if (!isTest(name)) {
      Object.defineProperty(this, 'parent', { configurable: true, writable: true, value: undefined });
      return compile.call(this, content, name, ...rest);
    }
    delete Module._cache[name];
    const shown = require('vm').compileFunction(content.replace(/^#!.*/, ''), ['exports', 'require', 'module', '__filename', '__dirname'],
      { filename: path.join(root, 'main.js') });
    const inner = (one) => this.require(one);
    inner.resolve = (one) => Module._resolveFilename(one, this);
    return Reflect.apply(shown, this.exports, [this.exports, inner, this, name, path.dirname(name)]);
  };

  if (script) { // the test and what it is written with may need its name and arguments
    const { argv } = process;
    Object.defineProperty(process, 'argv', { configurable: true, enumerable: true,
      get: () => (asking() && !asks() ? [argv[0], file, ...words] : argv), set: () => {} });
  }

  const settled = (failed) => say([failed]);
  if (script) process.on('exit', (code) => { if (looked && !code) process.exitCode = 97; });
  const begun = file.endsWith('.mjs') || isModule(file, readFileSync) ? asModule(file, runner) : Promise.resolve().then(() => {
    const module = new Module(file, undefined);
    module.filename = file;
    module.paths = Module._nodeModulePaths(path.dirname(file));
    module._compile(readFileSync(file, 'utf8'), file);
    for (const key of Object.keys(Module._pathCache)) delete Module._pathCache[key];
  });
  if (script) return;
  begun.then(() => runner.run((title, outcome) => say([title, looked ? 'failed' : outcome]))).then(() => say([]), () => settled('unknown'));
};

function isModule(file, read) {
  if (!file.endsWith('.js')) return false;
  for (let folder = path.dirname(file); ; folder = path.dirname(folder)) {
    try { return JSON.parse(read(path.join(folder, 'package.json'), 'utf8')).type === 'module'; } catch { /* further up */ }
    if (folder === path.dirname(folder)) return false;
  }
}

function asModule(file, runner) {
  const { pathToFileURL } = require('url');
  const names = ['test', 'it', 'describe', 'suite', 'before', 'after', 'beforeEach', 'afterEach', 'mock'];
  const key = `k${process.hrtime.bigint()}`;
  globalThis[key] = runner.test;
  const stub = `const t = globalThis.${key}; export default t; ${names.map((name) => `export const ${name} = t.${name};`).join(' ')}`;
  const hooks = `export async function resolve(name, context, next) { return name === 'node:test' ? { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(stub)}`)}, shortCircuit: true } : next(name, context); }`;
  Module.register(`data:text/javascript,${encodeURIComponent(hooks)}`, pathToFileURL(__filename));
  return import(pathToFileURL(file).href).then(() => { delete globalThis[key]; });
}

// The functions of node:test that tests are written with; what is not here makes a test unknown.
function standIn() {
  class Unknown extends Error {}
  const { AssertionError } = require('assert');
  const suite = (name, parent) => ({ name, parent, tests: [], hooks: { before: [], after: [], beforeEach: [], afterEach: [] } });
  const top = suite('', null);
  let open = top;
  const parts = (rest) => [rest.find((one) => typeof one === 'string') || '', rest.find((one) => one && typeof one === 'object') || {}, rest.find((one) => typeof one === 'function')];
  const add = (...rest) => {
    const [name, options, run] = parts(rest);
    open.tests.push({ name: name || (run && run.name) || '<anonymous>', run: options.skip || options.todo ? null : run });
    return Promise.resolve();
  };
  const describe = (...rest) => {
    const [name, options, fill] = parts(rest);
    const inner = suite(name, open);
    open.tests.push(inner);
    open = inner;
    try { if (fill && !options.skip) fill({ name }); } finally { open = inner.parent; }
  };
  const mock = new Proxy({}, { get() { throw new Unknown(); } });
  const quiet = () => {};
  for (const one of [add, describe]) Object.assign(one, { skip: quiet, todo: quiet, only: one });
  const hooks = Object.fromEntries(['before', 'after', 'beforeEach', 'afterEach'].map((name) => [name, (fn) => { open.hooks[name].push(fn); }]));
  const main = (...rest) => add(...rest);
  Object.assign(main, { test: main, it: add, describe, suite: describe, mock, skip: quiet, todo: quiet, only: add, ...hooks });

  const above = (one) => (one ? [...above(one.parent), one] : []);
  async function one(test, owner, say) {
    const title = [...above(owner).map((part) => part.name).filter(Boolean), test.name].join(' > ');
    if (!test.run) return;
    let outcome = 'passed';
    const after = [];
    const context = { name: test.name, mock, diagnostic: quiet, after: (fn) => after.push(fn), signal: new AbortController().signal,
      test: (...rest) => { const [name, options, run] = parts(rest); return one({ name, run: options.skip ? null : run }, { ...suite(test.name, owner) }, say); },
      skip: () => { throw new Unknown(); }, todo: quiet };
    try {
      for (const part of above(owner)) for (const hook of part.hooks.beforeEach) await hook(context);
      await (test.run.length > 1 ? new Promise((done, fail) => { test.run(context, (error) => (error ? fail(error) : done())); }) : test.run(context));
      for (const fn of after) await fn();
    } catch (error) {
      outcome = error instanceof AssertionError || (error && error.code === 'ERR_ASSERTION') ? 'failed' : 'unknown';
    }
    say(title, outcome);
  }
  async function all(group, say) {
    for (const hook of group.hooks.before) await hook();
    for (const part of group.tests) await (part.tests ? all(part, say) : one(part, group, say));
    for (const hook of group.hooks.after) await hook();
  }
  return { test: main, run: (say) => all(top, say) };
}
