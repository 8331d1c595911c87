// The main step: borrow a slot, leave it to a keeper in the background, and tell the steps that follow of it.
'use strict';

const { randomUUID } = require('node:crypto');
const { appendFileSync } = require('node:fs');
const { annotate, hub, input } = require('./hub.js');

// Write a value to a file of the runner. The delimiter cannot be foreseen, so no value ends early and begins another.
function tell(file, name, value) {
  const end = `end-${randomUUID()}`;
  appendFileSync(process.env[file], `${name}<<${end}\n${value}\n${end}\n`);
}

async function main() {
  const times = ['--wait', input('wait') || '0', ...(input('ttl') ? ['--ttl', input('ttl')] : [])];
  const { code, out } = await hub('borrow', '--detach', '--json', ...times, '--', input('label'));
  if (code !== 0) {
    annotate('error', `No slot of ${input('label')} was lent.`);
    process.exit(code);
  }
  const slot = JSON.parse(out);
  console.log(`::add-mask::${slot.lease.token}`);
  for (const [name, value] of [['slot', slot.slotId], ['pool', slot.pool], ['token', slot.lease.token]]) {
    tell('GITHUB_STATE', name, value);
  }
  tell('GITHUB_OUTPUT', 'slot', slot.slotId);
  tell('GITHUB_OUTPUT', 'endpoint', slot.address);
  for (const variable of slot.environment) {
    const [name, ...value] = variable.split('=');
    tell('GITHUB_ENV', name, value.join('='));
  }
  annotate('notice', `${slot.slotId} of ${slot.pool} on ${slot.nodeId} is lent to this job.`);
}

main();
