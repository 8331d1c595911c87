// What both steps share: the inputs, and how the command `hub` is run.
'use strict';

const { spawn } = require('node:child_process');

const input = (name) => (process.env[`INPUT_${name.toUpperCase()}`] || '').trim();

// Print an annotation of the job. Escaped as the runner reads it, so that no text of a hub is a command to the runner.
function annotate(kind, text) {
  const escaped = text.replace(/%/g, '%25').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
  console.log(`::${kind}::${escaped}`);
}

// Run `hub` and return its exit code and what it prints on stdout. A signal to this step, as when the job is cancelled,
// is passed on, so that a borrow which waits gives up its place in the queue.
function hub(...words) {
  const env = { ...process.env, HUB_URL: input('url'), HUB_RUNNER_SECRET: input('secret') };
  return new Promise((resolve) => {
    const child = spawn('hub', words, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
    let out = '';
    child.stdout.on('data', (data) => { out += data; });
    child.on('error', (error) => {
      annotate('error', `The command hub cannot be run (${error.code}); a step before needs: pip install capacity-hub`);
      resolve({ code: 127, out });
    });
    child.on('close', (code, signal) => resolve({ code: signal ? 1 : code, out }));
  });
}

module.exports = { annotate, hub, input };
