// The post step, which runs however the job has ended: give the slot back. A job whose lease was lost before fails.
'use strict';

const { annotate, hub } = require('./hub.js');

async function main() {
  const { STATE_slot: slot, STATE_pool: pool, STATE_token: token } = process.env;
  if (!slot) return; // nothing was lent
  const { code, out } = await hub('return', '--json', '--label', pool, '--token', token, '--', slot);
  if (code !== 0) {
    annotate('warning', `${slot} could not be given back; its lease ends by itself.`);
  } else if (JSON.parse(out).note) {
    annotate('error', `The lease of ${slot} had ended before the job: its last steps had no slot.`);
    process.exit(1);
  }
}

main();
