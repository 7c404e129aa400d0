"""HumanEval single-line infilling, greedy: pass@1 of Miton over HTTP and of llama.cpp's /infill, same tasks."""

from __future__ import annotations

from miton_service.bench.benchmark import Run
from miton_service.bench.code_execution import passes
from miton_service.bench.infilling_tasks import InfillingTask, first_line, sample_tasks
from miton_service.bench.peers.llamacpp import LlamaCpp, LlamaCppSettings
from miton_service.bench.result import Bar, Result
from miton_service.bench.running_service import RunningService
from miton_service.bench.statistics import paired_difference, proportion

MAX_TOKENS = 96
CONTEXT_TOKENS = 4096
POINTS_BAR = -1.5
LLAMA = "llama.cpp"


def run(how: Run) -> Result:
    """Complete, execute, compare."""
    tasks = sample_tasks(how.pick(300, 40))
    ours, theirs = [], []
    with RunningService.start(how.model, how.threads) as service:
        for task in how.steps.over(tasks, "infilling: Miton"):
            answer = service.complete(task.prompt, suffix=task.suffix, max_tokens=MAX_TOKENS, stop=["\n"])
            ours.append(_passed(task, answer.text))
    with LlamaCpp.start(LlamaCppSettings(how.model_file(), CONTEXT_TOKENS, how.threads)) as peer:
        for task in how.steps.over(tasks, "infilling: llama.cpp"):
            text = peer.infill(task.prompt, task.suffix, max_tokens=MAX_TOKENS, stop=["\n"]).text
            theirs.append(_passed(task, text))
    points = paired_difference([100.0 * passed for passed in ours], [100.0 * passed for passed in theirs])
    figures: dict[str, float | str] = {
        "tasks": len(tasks),
        "pass@1": sum(ours) / len(tasks),
        "pass@1, 95% interval": _interval(ours),
        "points over llama.cpp, 95% interval": str(points),
    }
    peer_figures: dict[str, float | str] = {
        "pass@1": sum(theirs) / len(tasks),
        "pass@1, 95% interval": _interval(theirs),
    }
    bar = Bar("pass@1 points over llama.cpp", points.estimate, POINTS_BAR, "at least")
    return Result("infilling", how.machine, figures, {LLAMA: peer_figures}, (bar,))


def _passed(task: InfillingTask, text: str) -> bool:
    return passes(task.program(first_line(text)))


def _interval(outcomes: list[bool]) -> str:
    interval = proportion(sum(outcomes), len(outcomes))
    return f"[{interval.low:.3f}, {interval.high:.3f}]"
