// The extension in the real workbench, against the real service and model, on a small repository.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Service, Workbench, freePort, makeRepository, until } from './harness.mjs';

let bench, service, repository, failed = 0;

before(async () => {
  repository = makeRepository();
  service = new Service(await freePort());
  await service.start();
  bench = await Workbench.open(repository, { 'miton.service.url': service.url, 'miton.service.start': 'never' });
}, { timeout: 240_000 });

after(async () => {
  await bench?.close();
  await service?.stop();
});

afterEach(async (context) => {
  if (context.error ?? context.passed === false) await bench?.shot(`failed-${++failed}`).catch(() => undefined);
});

test('the status bar tells that the repository is indexed', async () => {
  await bench.untilStatus(/ready/, 120_000);
  const { data } = await service.get('/v1/workspaces');
  assert.equal(data[0].root, repository);
});

test('ghost text uses a function of another file, and Tab takes it', async () => {
  await bench.openFile('cart.py', 25, 1);
  await bench.page.keyboard.press('Control+End');
  await bench.page.keyboard.press('Enter');
  await bench.page.keyboard.type('    def loyal_total(self, years: int) -> int:\n        """Total less the loyalty discount, see shop.discounts.loyalty_discount."""\n    total = self.total()\n        return total - ', { delay: 20 });
  const ghost = await bench.ghostText();
  console.log(JSON.stringify(ghost));
  await bench.shot('ghost-text');
  assert.match(ghost, /loyalty_discount\(/);
  await bench.page.keyboard.press('Tab');
  await until(async () => /loyalty_discount\(total, years\)/.test(await bench.text()), 'the accepted text');
});
