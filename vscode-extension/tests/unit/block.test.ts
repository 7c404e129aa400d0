import { expect, test } from 'vitest';
import { commonIndent, dedent, enclosingBlock, indent } from '../../src/edit/block';

const python = `import os

LIMIT = 3
OTHER = 4

@decorated
@other(1)
def first(
    a,
    b,
):
    if a:
        return b

    return a


class Thing:
    def method(self):
        for x in self:
            print(x)

    async def last(self):
        pass

x = 1
`.split('\n');

const block = (lines: string[], line: number): string => {
  const { start, end } = enclosingBlock(lines, line);
  return `${start}-${end}`;
};

test('python: from any line of a function, with decorators and a long signature', () => {
  for (const line of [5, 6, 7, 8, 11, 12, 14]) expect(block(python, line)).toBe('5-14');
});

test('python: the innermost of class and method, the class from its own line', () => {
  for (const line of [18, 19, 20]) expect(block(python, line)).toBe('18-20');
  for (const line of [22, 23]) expect(block(python, line)).toBe('22-23');
  expect(block(python, 17)).toBe('17-23');
});

test('outside of functions: the paragraph', () => {
  expect(block(python, 2)).toBe('2-3');
  expect(block(python, 3)).toBe('2-3');
  expect(block(python, 25)).toBe('25-25');
});

test('braces: TypeScript, Go, Java', () => {
  const code = `export async function load(path: string): Promise<string> {
  if (path) {
    return path;
  }
  return '';
}

func (s *Server) Run(port int) error {
\treturn nil
}

class A {
  private int size(int a) {
    while (true) {
      a++;
    }
  }
}`.split('\n');
  for (const line of [0, 1, 2, 3, 4, 5]) expect(block(code, line)).toBe('0-5');
  for (const line of [7, 8, 9]) expect(block(code, line)).toBe('7-9');
  for (const line of [12, 13, 14, 15, 16]) expect(block(code, line)).toBe('12-16');
});

test('taking indentation away and giving it back changes nothing but blank lines', () => {
  const lines = ['\t\tif x:', '', '\t\t\ty()', '   ', '\t\tz()'];
  expect(commonIndent(lines)).toBe('\t\t');
  expect(indent(dedent(lines, '\t\t'), '\t\t')).toEqual(['\t\tif x:', '', '\t\t\ty()', '', '\t\tz()']);
  expect(commonIndent(['    a', '\tb'])).toBe('');
});
