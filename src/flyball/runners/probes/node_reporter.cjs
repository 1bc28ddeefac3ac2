// A reporter of node:test: writes one JSON line a test into ../report and prints nothing.
'use strict';

const path = require('path');

const write = require('./seal.cjs')('node');

module.exports = async function* report(source) {
  const open = new Map(); // file -> names of the tests that enclose the next one
  let count = 0;
  let failed = false;
  write({ kind: 'begin', runner: 'node:test', root: process.cwd() });
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      const names = open.get(data.file) || [];
      names.length = data.nesting;
      names[data.nesting] = data.name;
      open.set(data.file, names);
    } else if (type === 'test:pass' || type === 'test:fail') {
      const details = data.details || {};
      const wrapper = data.file && data.nesting === 0 && path.resolve(data.name) === data.file;
      if (details.type === 'suite' || (wrapper && type === 'test:pass')) continue;
      const names = (open.get(data.file) || []).slice(0, data.nesting);
      const excused = data.skip !== undefined && data.skip !== false ? 'skip' : data.todo !== undefined && data.todo !== false ? 'todo' : '';
      const outcome = excused ? 'skipped' : type === 'test:pass' ? 'passed' : 'failed';
      count += 1;
      failed = failed || outcome === 'failed';
      write({ kind: 'test', id: [...names, data.name].join(' > '), outcome, file: data.file || '',
        took: (details.duration_ms || 0) / 1000, detail: excused || String((details.error && details.error.cause) || '').slice(0, 300) });
    }
  }
  write({ kind: 'end', runner: 'node:test', exit: failed ? 1 : 0, collected: count });
  yield '';
};
