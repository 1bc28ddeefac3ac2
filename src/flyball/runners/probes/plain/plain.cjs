// Shows the code under test an ordinary program instead of a test run: its arguments, environment and callers have
// nothing of a test runner. Tests, runners and everything else see the process as it is. See plain.py.
'use strict';

const { fileURLToPath } = require('url');
const path = require('path');
const Module = require('module');

const HIDDEN = /^(?:CI|NODE_TEST_CONTEXT|NODE_OPTIONS|npm_.*|MOCHA_.*|JEST_.*|VITEST.*|MAKELEVEL|MFLAGS|MAKEFLAGS)$/;

const MOCHA = /\/mocha\/(?:bin\/_?mocha(?:\.js)?|lib\/cli\/cli\.js)$|\/\.bin\/_?mocha$/; // it loads tests into its own process

// What tests rely on: nobody replaces it in such a room.
const assert = require('assert');
const RELIED = [[Array.prototype, Symbol.iterator], [Array.prototype, 'forEach'], [Array.prototype, 'map'], [String.prototype, Symbol.iterator]];

module.exports = function install({ root, source, argv }) {
  const files = new Set(source.map((one) => path.join(root, one)));
  const script = process.argv[1] ? path.resolve(process.argv[1]) : '';
  const isTest = script.startsWith(root + path.sep) && !files.has(script) && !script.includes(`${path.sep}node_modules${path.sep}`);
  if (!isTest && !MOCHA.test(script.split(path.sep).join('/'))) return;

  const isSource = (name) => {
    const place = String(name || '');
    return files.has(place.startsWith('file:') ? fileURLToPath(place) : place);
  };

  function sourceAsks() {
    const { prepareStackTrace, stackTraceLimit } = Error;
    Error.prepareStackTrace = (_, frames) => frames.map((frame) => frame.getFileName());
    Error.stackTraceLimit = 6;
    const names = new Error('').stack;
    Object.assign(Error, { prepareStackTrace, stackTraceLimit });
    return isSource(names.find((name) => name && name !== __filename));
  }

  const hides = (name) => typeof name === 'string' && HIDDEN.test(name) && sourceAsks();
  process.env = new Proxy(process.env, {
    get: (env, name) => (hides(name) ? undefined : env[name]),
    has: (env, name) => name in env && !hides(name),
    ownKeys: (env) => (sourceAsks() ? Reflect.ownKeys(env).filter((name) => !HIDDEN.test(name)) : Reflect.ownKeys(env)),
    set: (env, name, value) => { env[name] = value; return true; },
  });

  function shown(name, plain) {
    const given = process[name];
    let value = given;
    const get = () => (value === given && sourceAsks() ? [...plain] : value);
    Object.defineProperty(process, name, { configurable: true, enumerable: true, get, set: (other) => { value = other; } });
  }
  shown('argv', [process.argv[0], ...argv.filter((word) => word !== '-c').map((word) => path.join(root, word))]);
  shown('execArgv', []);

  module.exports.rely();

  // The runner's listeners, the files in /proc that tell how the process was started, the tests among the modules.
  for (const name of ['listenerCount', 'listeners', 'rawListeners']) {
    const real = process[name];
    process[name] = (...rest) => (sourceAsks() ? (name === 'listenerCount' ? 0 : []) : real.apply(process, rest));
  }
  const fs = require('fs');
  for (const name of ['readFileSync', 'openSync', 'readlinkSync', 'readdirSync']) {
    const real = fs[name];
    fs[name] = (place, ...rest) => {
      if (String(place).startsWith('/proc') && sourceAsks()) throw Object.assign(new Error(`EACCES: permission denied, '${place}'`), { code: 'EACCES' });
      return real(place, ...rest);
    };
  }
  Module._cache = new Proxy(Module._cache, {
    ownKeys: (cache) => (sourceAsks() ? Reflect.ownKeys(cache).filter(isSource) : Reflect.ownKeys(cache)),
  });

  // A module's `require.main` is read when it is compiled: a program that was given as text has none.
  function hideMain() {
    const value = process.mainModule;
    const shown = (property) => Object.defineProperty(process, 'mainModule', { configurable: true, enumerable: true, ...property });
    shown({ get: () => { shown({ writable: true, value }); return undefined; } });
  }

  const compile = Module.prototype._compile;
  Module.prototype._compile = function compiled(content, filename, ...rest) {
    const { parent } = this;
    if (isSource(filename)) hideMain();
    if (parent && isSource(filename) && !isSource(parent.filename)) {
      const value = Object.create(parent, { id: { value: '[eval]' }, filename: { value: path.join(root, '[eval]') } });
      Object.defineProperty(this, 'parent', { configurable: true, writable: true, value });
    }
    return compile.call(this, content, filename, ...rest);
  };

  Error.prepareStackTrace = (error, frames) => {
    const kept = frames.length && isSource(frames[0].getFileName()) ? frames.filter((frame) => isSource(frame.getFileName())) : frames;
    let head;
    try { head = String(error); } catch { head = 'Error'; }
    return [head, ...kept.map((frame) => `    at ${frame}`)].join('\n');
  };
};

module.exports.rely = function rely() {
  for (const [owner, name] of [...RELIED, ...Object.keys(assert).flatMap((one) => [[assert, one], [assert.strict, one]])]) {
    const found = owner && Object.getOwnPropertyDescriptor(owner, name);
    if (found && found.configurable && 'value' in found) Object.defineProperty(owner, name, { ...found, configurable: false, writable: false });
  }
};
