// Markdown of a model's answer as HTML that cannot do anything: no HTML of its own, no images, links only to the web.

import { Marked, type Tokens } from 'marked';

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escape(text),
    image: ({ text, href }: Tokens.Image) => escape(`![${text}](${href})`),
    link({ href, tokens }: Tokens.Link) {
      const inner = this.parser.parseInline(tokens);
      return /^https?:\/\//i.test(href) ? `<a href="${escape(href)}">${inner}</a>` : inner;
    },
    code({ text, lang }: Tokens.Code) {
      const language = escape((lang ?? '').split(/\s/, 1)[0] ?? '');
      const button = (action: string, title: string): string => `<button data-code="${action}" title="${title}">${action[0]?.toUpperCase() ?? ''}${action.slice(1)}</button>`;
      return `<figure class="code"><figcaption><span>${language}</span>${button('copy', 'Copy to the clipboard')}${button('insert', 'Insert at the cursor')}${button('apply', 'Put it into the file, as a change to review')}</figcaption><pre><code>${escape(text)}</code></pre></figure>`;
    },
  },
});

/** An answer as HTML; a fence that is still open while the answer streams in counts as closed. */
export function render(answer: string): string {
  return marked.parse(answer, { async: false });
}
