"""What a completion at the cursor may show: it ends with its block and repeats nothing that follows.

Pure functions and one streaming filter over them. Text is LF here; `restore_line_ends` gives a CRLF file its
own line ends back. The filter's result does not depend on how the stream was cut (a property test holds it
to that).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}
# A line that goes on with the statement above it, at the same indentation.
CONTINUES = re.compile(r"\s*(?:else|elif|except|finally|catch|case|default|rescue|ensure|elsif|when)\b")
ENDS = re.compile(r"\s*(?:[)\]}]+[;,)\]}]*|end[;,]?|</\w+>)\s*$")
PROSE = frozenset({"md", "markdown", "txt", "rst", "adoc", "tex", "org"})
LONGEST_OVERLAP = 400  # characters; longer repetition is caught line by line


def restore_line_ends(text: str, crlf: bool) -> str:
    """LF to CRLF for a file that has them."""
    return text.replace("\n", "\r\n") if crlf else text


def uses_crlf(text: str) -> bool:
    """Whether most line ends of a text are CRLF."""
    return text.count("\r\n") * 2 > text.count("\n")


def indentation(line: str) -> int:
    """Width of a line's leading white space; a tab goes to the next multiple of 4."""
    width = 0
    for character in line:
        if character == " ":
            width += 1
        elif character == "\t":
            width += 4 - width % 4
        else:
            break
    return width


def rest_of_line(suffix: str) -> str:
    """What stands between the cursor and the end of its line."""
    return suffix.partition("\n")[0]


def wants_multi_line(prefix: str, suffix: str) -> bool:
    """Several lines make sense where nothing but closing brackets follows on the cursor's line."""
    return not rest_of_line(suffix).strip().strip(")]}>;,:\"'`")


def unclosed(text: str) -> str:
    """The closing brackets a text lacks, innermost first; strings and comments are taken as code."""
    lacking: list[str] = []
    for character in text:
        if character in OPENERS:
            lacking.append(OPENERS[character])
        elif character in CLOSERS and lacking and lacking[-1] == character:
            lacking.pop()
    return "".join(reversed(lacking))


def surplus_closers(text: str) -> int:
    """How many closing brackets of a text close nothing that it opened."""
    open_now, surplus = 0, 0
    for character in text:
        if character in OPENERS:
            open_now += 1
        elif character in CLOSERS:
            if open_now:
                open_now -= 1
            else:
                surplus += 1
    return surplus


def overlap(text: str, suffix: str) -> int:
    """Length of the longest end of `text` that the suffix begins with and that should not be shown twice.

    Brackets and quotes that `text` needs for itself stay: `foo(|)` completed with `bar()` is whole.
    """
    longest = min(len(text), len(suffix), LONGEST_OVERLAP)
    for length in range(longest, 0, -1):
        if text.endswith(suffix[:length]) and _is_repetition(text, text[len(text) - length :], suffix):
            return length
    return 0


def _is_repetition(text: str, repeated: str, suffix: str) -> bool:
    bare = repeated.strip()
    if (
        not bare
        or _cuts_word(text, repeated)
        or _cuts_word(suffix[: len(repeated) + 1], suffix[len(repeated) :])
    ):
        return False
    if any(character.isalnum() for character in bare):
        # One or two letters in common are chance; a whole rest of the line is not.
        return len(bare) >= 3 or bare == rest_of_line(suffix).strip()
    closers = sum(character in CLOSERS for character in bare)
    openers = sum(character in OPENERS for character in bare)
    if closers - openers > 0:
        return surplus_closers(text) >= closers - openers
    quotes = [character for character in bare if character in "\"'`"]
    if quotes:
        return text.count(quotes[0]) % 2 == 1
    return True


def _cuts_word(text: str, end: str) -> bool:
    """Whether the end of a text begins in the middle of a word."""
    before = text[: len(text) - len(end)][-1:]
    return _is_word(before) and _is_word(end[:1])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


@dataclass
class CompletionFilter:
    """Follows a stream of generated text and lets through what a person should see of it.

    Give it the text before and after the cursor; `push` returns what can be shown, `done` tells that the rest
    of the stream is not wanted, `flush` returns what was still held back at its end.
    """

    prefix: str
    suffix: str
    multi_line: bool
    prose: bool = False
    done: bool = False
    _text: str = ""  # all that was generated
    _shown: int = 0  # how much of it was let through
    _line_start: int = 0  # where the line in progress begins
    _deeper: bool = False  # a line deeper than the cursor's was kept
    _block: _Block = field(init=False)

    def __post_init__(self) -> None:
        self._block = _Block.at(self.prefix, self.suffix)

    def push(self, text: str) -> str:
        """Take generated text, return what of it may be shown now."""
        if self.done:
            return ""
        if not self._text and self._block.ends_in_space:
            text = text.lstrip(
                " "
            )  # tokens begin with their space: after one typed already it would be doubled
        self._text += text
        while not self.done and (end := self._text.find("\n", self._line_start)) >= 0:
            self._close_line(end)
        return self._rest() if self.done else self._release(self._safe_end())

    def flush(self) -> str:
        """The end of the stream: what was held back, less what repeats the text after the cursor."""
        if self.done:
            return ""
        if self._ends_before(self._text[self._line_start :]):
            self._text = self._text[: self._line_start]
        self.done = True
        return self._rest()

    def _close_line(self, end: int) -> None:
        """A line is complete: decide whether it belongs to the completion, and whether it is its last."""
        line = self._text[self._line_start : end]
        if self._ends_before(line):
            self._stop(self._line_start)
        elif (not self.multi_line and line.strip()) or self._is_last(line):
            self._stop(end)
        else:
            if self._line_start and line.strip() and indentation(line) > self._block.indent:
                self._deeper = True
            self._line_start = end + 1

    def _ends_before(self, line: str) -> bool:
        """Whether the completion ends before this line of it."""
        block = self._block
        if self._line_start == 0:
            return self._repeats(block.cursor_line + line)
        so_far = self._text[: self._line_start]
        is_open = bool(unclosed(block.cursor_line + so_far))
        if not line.strip():
            flat = block.indent == 0 and not self._deeper and not block.opens and not is_open
            return bool(so_far.strip()) and (self.prose or flat)
        if self._repeats(line):
            return True
        width = indentation(line)
        if self.prose or is_open or width > block.indent:
            return False
        if ENDS.match(line):
            return width < block.indent and surplus_closers(line) > len(block.lacking)
        if width < block.indent:
            return True
        if CONTINUES.match(line):
            return False
        return not block.goes_on or (block.indent == 0 and self._deeper)

    def _is_last(self, line: str) -> bool:
        """Whether a line that was kept closes the block."""
        block, width = self._block, indentation(line)
        if self._line_start == 0 or self.prose or not ENDS.match(line) or width > block.indent:
            return False
        inside = block.goes_on and width == block.indent > 0  # closes something within the block
        return not inside and not unclosed(block.cursor_line + self._text[: self._line_start] + line)

    def _repeats(self, line: str) -> bool:
        """Whether a line is the next one that stands after the cursor already."""
        following = self._block.following
        if not following or line.rstrip() != following:
            return False
        if any(character.isalnum() for character in following):
            return len(following.strip()) >= 3
        so_far = self._block.cursor_line + self._text[: self._line_start]
        return len(unclosed(so_far)) < surplus_closers(line)

    def _stop(self, end: int) -> None:
        self._text, self.done = self._text[:end], True

    def _safe_end(self) -> int:
        """How far the text is certain to stay, whatever comes: not a line before it is decided, not what may
        turn out to repeat the text after the cursor, not the white space before either."""
        line = self._text[self._line_start :]
        end = len(self._text) if self._decided(line) else self._line_start
        for length in range(min(end, LONGEST_OVERLAP), 0, -1):
            if self.suffix.startswith(self._text[end - length : end]):
                end -= length
                break
        return len(self._text[:end].rstrip())

    def _decided(self, line: str) -> bool:
        """Whether what is known of an incomplete line is enough to keep it."""
        first = self._line_start == 0
        if self._block.following.startswith(((self._block.cursor_line + line) if first else line).rstrip()):
            return False
        if first:
            return True
        return len(line.lstrip()) > 12 and not ENDS.match(line) and not self._ends_before(line)

    def _rest(self) -> str:
        text = self._text[: len(self._text) - overlap(self._text, self.suffix)]
        if not rest_of_line(self.suffix).strip() or "\n" in text:
            text = text.rstrip()
        return self._release(len(text))

    def _release(self, end: int) -> str:
        shown, self._shown = self._text[self._shown : end], max(self._shown, end)
        return shown


@dataclass(frozen=True, slots=True)
class _Block:
    """Where the cursor stands: its line, that line's indentation, what is open, what follows."""

    cursor_line: str
    indent: int
    goes_on: bool  # lines at its own indentation belong to the block: it is blank, or in a list
    opens: bool
    lacking: str
    following: str
    ends_in_space: bool  # a space stands before the cursor, after other text of its line

    @staticmethod
    def at(prefix: str, suffix: str) -> _Block:
        cursor_line = prefix.rpartition("\n")[2]
        after = suffix.split("\n")[1:]
        return _Block(
            cursor_line=cursor_line,
            indent=indentation(cursor_line),
            goes_on=not cursor_line.strip() or cursor_line.rstrip().endswith(","),
            opens=cursor_line.rstrip().endswith((":", "{", "(", "[", "=>", "->", " do", " then")),
            lacking=unclosed(prefix[-20_000:]),
            following=next((line.rstrip() for line in after if line.strip()), ""),
            ends_in_space=bool(cursor_line.strip()) and cursor_line[-1] in " \t",
        )


def finish(prefix: str, suffix: str, text: str, *, multi_line: bool = True, prose: bool = False) -> str:
    """A whole generated text as a person should see it."""
    completion = CompletionFilter(prefix, suffix, multi_line, prose)
    return completion.push(text) + completion.flush()
