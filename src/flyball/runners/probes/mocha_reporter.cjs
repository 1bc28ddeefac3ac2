// A reporter of mocha: prints what `spec` prints and writes one JSON line a test into ../report.
'use strict';

const path = require('path');
const { createRequire } = require('module');

const Mocha = createRequire(path.join(process.cwd(), 'x.js'))('mocha');
const write = require('./seal.cjs')('mocha');

// Older ones have no titlePath.
const titles = (one) => (one && one.title ? [...titles(one.parent), one.title] : one && one.parent ? titles(one.parent) : []);

module.exports = class extends Mocha.reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    let count = 0;
    const test = (outcome) => (one, error) => {
      count += 1;
      write({ kind: 'test', id: titles(one).join(' > '), outcome, file: one.file || '', took: (one.duration || 0) / 1000,
        detail: error ? String(error.message).slice(0, 300) : '' });
    };
    write({ kind: 'begin', runner: 'mocha', root: process.cwd() });
    runner.on('pass', test('passed'));
    runner.on('fail', test('failed'));
    runner.on('pending', test('skipped'));
    runner.on('end', () => write({ kind: 'end', runner: 'mocha', exit: runner.failures ? 1 : 0, collected: count }));
  }
};
