// Draws media/icon.svg as media/icon.png (256 x 256), with the browser of the workbench tests.
import fs from 'node:fs';
import path from 'node:path';
import os from 'node:os';
import { createRequire } from 'node:module';

const editors = process.env.MITON_EDITORS ?? path.join(os.homedir(), '.cache/miton-editors');
const { chromium } = createRequire(path.join(editors, 'package.json'))('playwright-core');
const media = path.join(import.meta.dirname, '../../media');
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 256, height: 256 } });
const svg = fs.readFileSync(path.join(media, 'icon.svg'), 'utf8').replace('width="128" height="128"', 'width="256" height="256"');
await page.setContent(`<body style="margin:0;background:transparent">${svg}`);
await page.screenshot({ path: path.join(media, 'icon.png'), omitBackground: true });
await browser.close();
