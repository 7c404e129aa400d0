import { expect, test } from 'vitest';
import { codeOf, replacementFor } from '../../src/edit/answer';
import { namesOf, shortened, subjectOf, testPlace } from '../../src/edit/prompts';

test('code is what stands in the fence', () => {
  expect(codeOf('Sure:\n```python\ndef f():\n    pass\n```\nThis does...')).toEqual({ code: 'def f():\n    pass', closed: true });
  expect(codeOf('~~~\nx\n~~~')).toEqual({ code: 'x', closed: true });
  expect(codeOf('````md\n```\ninner\n```\n````')).toEqual({ code: '```\ninner\n```', closed: true });
});

test('a fence in the making is never code', () => {
  const answer = '```python\nx = 1\ny = 2\n```';
  for (let length = 10; length < answer.length; length++) {
    const found = codeOf(answer.slice(0, length));
    expect(found?.closed ?? false).toBe(false);
    expect('x = 1\ny = 2\n'.startsWith(found?.code ?? '')).toBe(true);
  }
});

test('prose is not code', () => {
  expect(codeOf('I am sorry, I cannot do that.')).toBeUndefined();
});

test('a replacement stands where the original stood', () => {
  const original = ['', '    def f(self):', '        return 1', ''];
  const expected = ['', '    def f(self):', '        return 2', ''];
  for (const code of ['def f(self):\n    return 2', '    def f(self):\n        return 2\n\n', '\r\ndef f(self):\r\n    return 2']) {
    expect(replacementFor(original, code)).toEqual(expected);
  }
});

test('names: identifiers, each once, never the old one', () => {
  expect(namesOf('1. `totalPrice`\n2) total_price - better\n- totalPrice\nold\n\n* r\u00e9sum\u00e9', 'old')).toEqual(['totalPrice', 'total_price', 'r\u00e9sum\u00e9']);
});

test('a commit message is one clean line', () => {
  expect(subjectOf('```\n"Add loyalty discount."\n```')).toBe('Add loyalty discount');
  expect(subjectOf('Commit message: Fix rounding\n\nMore')).toBe('Fix rounding');
  expect(subjectOf('\n')).toBe('');
});

test('a long diff keeps whole files first and names all', () => {
  const file = (name: string, size: number): string => `diff --git a/${name} b/${name}\n${'+x\n'.repeat(size)}`;
  const short = file('a', 3) + file('b', 3);
  expect(shortened(short, 1000)).toBe(short);
  const cut = shortened(file('a', 10) + file('b', 5000) + file('c', 10), 1000);
  expect(cut.length).toBeLessThan(1200);
  for (const name of ['a', 'b', 'c']) expect(cut).toContain(`diff --git a/${name} b/${name}`);
  expect(cut.startsWith(file('a', 10))).toBe(true);
});

test('tests go where a project of the language keeps them', () => {
  expect(testPlace('shop/prices.py', 'python')).toEqual({ framework: 'pytest', path: 'tests/test_prices.py' });
  expect(testPlace('pkg/run.go', 'go').path).toBe('pkg/run_test.go');
  expect(testPlace('src/a.b.ts', 'typescript').path).toBe('src/a.b.test.ts');
  expect(testPlace('src/main/java/A.java', 'java').path).toBe('src/test/java/ATest.java');
});
