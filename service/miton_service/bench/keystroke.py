"""Keystroke to first token: a person types real code into an open file, a completion is asked at each character."""

from __future__ import annotations

import tempfile
from pathlib import Path

from miton_service.bench import packages, repositories
from miton_service.bench.benchmark import Run
from miton_service.bench.hunks import split_lines
from miton_service.bench.prompts import PromptWriter, open_model
from miton_service.bench.result import Bar, Result
from miton_service.bench.running_service import RunningService
from miton_service.bench.statistics import median, percentile

FILE = "httpx/_client.py"
TYPED_FROM = "    def build_request("  # what follows this line is typed
CHARACTERS = 200
REPOSITORY_TOKENS, QUICK_TOKENS = 32_768, 26_000  # both hold FILE and the file it uses most
MAX_TOKENS = 8
WARM_UP = 5
KEYSTROKE_BAR_MS = 300.0


def run(how: Run) -> Result:
    """Type and ask; the debounce of an editor is not part of the figure."""
    count = PromptWriter(open_model(how.model)).count
    number = how.pick(CHARACTERS, 40)
    with tempfile.TemporaryDirectory(prefix="miton-keystroke-") as scratch:
        root = Path(scratch) / "repository"
        size = how.pick(REPOSITORY_TOKENS, QUICK_TOKENS)
        repositories.build(root, (packages.HTTPX,), size, count, (FILE, "httpx/_models.py"))
        before, typed, after = _split((root / FILE).read_text(encoding="utf-8"), WARM_UP + number)
        with RunningService.start(how.model, how.threads) as service:
            with how.steps.stage("keystroke: memorising the repository", size) as report:
                service.open(root, lambda done, total: report(done))
            answers = []
            for index in how.steps.over(range(1, len(typed) + 1), "keystroke: typing"):
                written = before + typed[:index]
                buffer = written + after
                cursor = (written.count("\n"), len(written) - written.rfind("\n") - 1)  # the text is ASCII
                service.put_document(root, FILE, buffer, index)
                answers.append(service.complete_at(root, FILE, buffer, cursor, max_tokens=MAX_TOKENS))
    answers = answers[WARM_UP:]
    ttft = [answer.ttft_ms for answer in answers]
    figures = {
        "characters": len(answers),
        "TTFT p50 ms": median(ttft),
        "TTFT p95 ms": percentile(ttft, 0.95),
        "TTFT largest ms": max(ttft),
        "queue p50 ms": median([answer.timings["queue_ms"] for answer in answers]),
        "recall p50 ms": median([answer.timings["recall_ms"] for answer in answers]),
        "attach p50 ms": median([answer.timings["attach_ms"] for answer in answers]),
        "prefill p50 ms": median([answer.timings["prefill_ms"] for answer in answers]),
        "prefilled tokens p50": median([answer.timings["prefill_tokens"] for answer in answers]),
        "total p50 ms": median([answer.total_ms for answer in answers]),
    }
    bar = Bar("keystroke to first token, p50 ms", figures["TTFT p50 ms"], KEYSTROKE_BAR_MS, "at most")
    return Result("keystroke", how.machine, figures, {}, (bar,), {"TTFT ms": {"Miton": ttft}})


def _split(text: str, characters: int) -> tuple[str, str, str]:
    """Text before, the characters that are typed, text after; the typed ones are cut out of the file."""
    lines = split_lines(text)
    start = next(index for index, line in enumerate(lines) if line.startswith(TYPED_FROM))
    before = "".join(lines[: start + 1])
    rest = text[len(before) :]
    return before, rest[:characters], rest[characters:]
