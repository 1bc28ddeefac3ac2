// Loaded by every Node of a proof through NODE_OPTIONS: asks node:test, jest, vitest and mocha for a report.
// Each reports into ../report. A runner that is asked for a reporter of the user's own keeps it.
'use strict';

const path = require('path');

const room = JSON.parse(require('fs').readFileSync(path.join(__dirname, '..', 'room.json'), 'utf8'));
const { report } = room;
const script = process.argv[1] || '';
const has = (flag, list) => list.some((word) => word === flag || word.startsWith(flag + '='));

function nodeTest() {
  const flags = process.execArgv;
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (!has('--test', flags) || has('--test-reporter', flags) || process.env.NODE_TEST_CONTEXT) return;
  if (has('--watch', flags) || major < 18 || (major === 18 && minor < 15)) return;
  const usual = process.stdout.isTTY || major >= 23 ? 'spec' : 'tap';
  const more = [`--test-reporter=${path.join(__dirname, 'node_reporter.cjs')}`, '--test-reporter-destination=stderr',
    `--test-reporter=${usual}`, '--test-reporter-destination=stdout'];
  const { spawnSync } = require('child_process');
  const files = chosenFiles();
  const asked = room.alone && room.source.length ? [...new Set(room.tests.map(fileOf))].filter((file) => require('fs').existsSync(file)) : [];
  const write = asked.length ? require('./seal.cjs')('node') : null;
  const ended = spawnSync(process.execPath, [...flags, ...more, ...(files.length ? files : process.argv.slice(1))], { stdio: 'inherit' });
  if (ended.signal) process.kill(process.pid, ended.signal);
  if (write && ended.status === 0) for (const file of asked) failingAlone(file).forEach((id) => write({ kind: 'alone', id, file }));
  process.exit(ended.status === null ? 1 : ended.status);
}

const fileOf = (id) => path.join(room.root, id.split('::')[0]);

// The tests of a file that fail where no runner is loaded, or that its process did not come to.
function failingAlone(file) {
  const seen = require('./plain/alone.cjs').outside(room, file, false);
  const known = new Map(seen.outcomes);
  const titles = room.tests.filter((id) => fileOf(id) === file).map((id) => id.slice(id.indexOf('::') + 2));
  const lost = seen.status === 0 && !seen.ended && !known.has('unknown');
  return titles.filter((title) => known.get(title) === 'failed' || (lost && !known.has(title)));
}

// `node test` runs test/index.js; after -e the first argument is no script.
function scriptFile() {
  try { return script && require.resolve(path.resolve(script)); } catch { return ''; }
}

// A test script is a program too: it has to end well where nothing tells the code that it is tested.
function scriptAlone() {
  const file = scriptFile();
  const isTest = file && file.startsWith(room.root + path.sep) && !room.source.some((one) => path.join(room.root, one) === file);
  if (has('--test', process.execArgv)) return; // what follows are files or folders of tests
  if (!room.alone || !room.source.length || !isTest || file.includes(`${path.sep}node_modules${path.sep}`) || process.env.NODE_TEST_CONTEXT) return;
  const alone = require('./plain/alone.cjs');
  if (!alone.canRead(file) || !alone.outside(room, file, true).status) return;
  process.stderr.write('The test script fails where nothing tells the code that it is tested.\n');
  process.exit(97);
}

// The files with the tests that are asked for; none where one of them is not known.
function chosenFiles() {
  const names = room.only.length ? room.only.map((id) => id.split('::')[0]) : room.files;
  const files = [...new Set(names)].map((name) => path.join(room.root, name));
  return files.every((file) => require('fs').existsSync(file)) ? files : [];
}

// Whether a test started this process: what a runner does here is a part of that test.
function isNested() {
  const fs = require('fs');
  const pids = new Set(fs.readdirSync(report).map((name) => (/-(\d+)[.-]/.exec(name) || [])[1]));
  let pid = process.ppid;
  for (let step = 0; step < 100; step += 1) {
    if (pids.has(String(pid))) return true;
    try {
      pid = Number(fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(')').pop().trim().split(' ')[1]);
    } catch { return false; }
  }
  return false;
}

function byScript() {
  const file = (name) => {
    const place = path.join(report, `${name}-${process.pid}.json`);
    require('fs').writeFileSync(place + '.begun', ''); // a runner that ends early leaves this alone
    return place;
  };
  const program = script.split(path.sep).join('/');
  if (/\/(jest|jest-cli)\/bin\/jest(\.js)?$|\/\.bin\/jest$/.test(program) && !has('--json', process.argv)) {
    process.argv.push('--json', `--outputFile=${file('jest')}`);
  } else if (/\/vitest\/vitest\.mjs$|\/\.bin\/vitest$/.test(program)) {
    if (!has('--reporter', process.argv)) process.argv.push('--reporter=default');
    process.argv.push('--reporter=json', `--outputFile.json=${file('vitest')}`);
  } else if (/\/mocha\/(bin\/_?mocha(\.js)?|lib\/cli\/cli\.js)$|\/\.bin\/_?mocha$/.test(program)) {
    if (!has('--reporter', process.argv) && !has('-R', process.argv)) {
      process.argv.push('--reporter', path.join(__dirname, 'mocha_reporter.cjs'));
    }
    if (room.only.length && !['--grep', '-g', '--fgrep', '-f'].some((flag) => has(flag, process.argv))) {
      const titles = room.only.map((id) => id.split('::').pop().split(' > ').join(' ').replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
      process.argv.push('--grep', `^(${titles.join('|')})$`);
    }
  }
}

function noteCode() {
  const own = script.startsWith(process.cwd() + path.sep) && !script.includes(`${path.sep}node_modules${path.sep}`);
  const asked = ['-e', '--eval', '-p', '--print'].some((flag) => has(flag, process.execArgv));
  if (own || asked) require('fs').closeSync(require('fs').openSync(path.join(report, 'ran'), 'a'));
}

function plainRoom() {
  try {
    if (room.source.length) require('./plain/plain.cjs')(room);
  } catch { /* a Node that cannot be shown as a plain program: an ordinary room */ }
}

if (require('worker_threads').isMainThread) {
  try { noteCode(); } catch { /* the report folder is gone */ }
  if (!isNested()) {
    nodeTest();
    byScript();
    scriptAlone();
  }
  plainRoom();
}
