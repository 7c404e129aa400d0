// Server-sent events as the service sends them (WHATWG HTML, 9.2): only `data:` lines matter here.

/** Takes bytes as they arrive, cut anywhere, and returns the data of the events that are complete. */
export class EventParser {
  private readonly decoder = new TextDecoder();
  private rest = '';
  private data: string[] = [];

  push(bytes: Uint8Array): string[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const events: string[] = [];
    // Lines end with \n or \r\n, and with nothing else: U+0085 or U+2028 inside a JSON string is text.
    const lines = this.rest.split('\n');
    this.rest = lines.pop() ?? '';
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line === '') {
        if (this.data.length > 0) events.push(this.data.join('\n'));
        this.data = [];
      } else if (line.startsWith('data:')) {
        this.data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
      }
    }
    return events;
  }
}
