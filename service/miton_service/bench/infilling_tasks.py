"""HumanEval single-line infilling (openai/human-eval-infilling): the tasks, and what a full program is."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from importlib import resources

SEED = 20220728  # the day "Efficient Training of Language Models to Fill in the Middle" appeared


@dataclass(frozen=True)
class InfillingTask:
    """One missing line between `prompt` and `suffix`; `test` defines check(candidate)."""

    task_id: str
    entry_point: str
    prompt: str
    suffix: str
    canonical_solution: str
    test: str

    def program(self, completion: str) -> str:
        """The completed function with its tests."""
        return f"{self.prompt}{completion}{self.suffix}\n{self.test}\ncheck({self.entry_point})\n"


def all_tasks() -> list[InfillingTask]:
    """The 1,033 tasks in the data set's order."""
    data = resources.files("miton_service.bench") / "data" / "HumanEval-SingleLineInfilling.jsonl.gz"
    with data.open("rb") as raw, gzip.open(raw, "rt", encoding="utf-8") as lines:
        return [InfillingTask(**json.loads(line)) for line in lines if line.strip()]


def sample_tasks(count: int) -> list[InfillingTask]:
    """The same `count` tasks in every run; a smaller sample is the beginning of a larger one."""
    tasks = all_tasks()
    random.Random(SEED).shuffle(tasks)
    return tasks[:count]


def first_line(text: str) -> str:
    """The one line that a task asks for, with its line end."""
    return text.split("\n", 1)[0] + "\n"
