// A program on Playwright for Node that knows no hub: it is given a URL, opens a page and prints what it sees there.
import { chromium } from 'playwright-core';

const browser = await chromium.connectOverCDP(process.argv[2]);
const page = await browser.contexts()[0].newPage();
await page.setContent('<title>through the gate</title><p>hello</p>');
console.log(JSON.stringify({ title: await page.title(), sum: await page.evaluate(() => 6 * 7) }));
await browser.close();
