"""Quality with repository context: the arguments of calls whose definition is in another file of the package.

A task takes one call's arguments out of a file (`miton_service.context.evaluation`). Each system sees the same live
window and says how likely the true arguments are: negative log-likelihood (NLL) per token, nats. The first
generation then gives exact match and edit similarity. Differences are paired over tasks, with 95% intervals.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from miton_engine.runtime.requests import ChunkSource, FimPrompt, GenerationRequest, Sampling, TokenPrompt
from miton_lsp.chunking import Chunk, ChunkOptions
from miton_service.bench import packages
from miton_service.bench.benchmark import Run
from miton_service.bench.prompts import PromptWriter
from miton_service.bench.result import Bar, Result
from miton_service.bench.statistics import edit_similarity, mean, paired_difference
from miton_service.context import just_above, live_window, rank
from miton_service.context.evaluation import Task, cross_file_tasks, open_for_evaluation
from miton_service.context.query import query_at
from miton_service.workspace import chunk_source, chunk_sources

if TYPE_CHECKING:
    from miton_engine.runtime.engine import Engine
    from miton_service.workspace import Workspace

PER_PACKAGE = 24
CHUNKS = 12
CONTEXT_TOKENS = 8192
EVERY = 3  # dense attention over 8K tokens takes half a minute a task: every third task has it
EXTRA_TOKENS = 12  # generated beyond the target's length
SEED = 0
SOURCES = (*packages.DEVELOPMENT, *packages.HELD_OUT)
NLL_BAR, RECALL_BAR, TASKS_BAR = 0.02, 0.85, 200

NONE = "no context"
DENSE_12, MEMORY_12 = "dense prompt, 12 chunks", "chunk memory, 12 chunks"
RIGHT = "chunk memory, right chunk last of 12"
ALONE = "chunk memory, right chunk alone"
DENSE_8K, MEMORY_8K = "dense prompt, 8K tokens", "chunk memory, 8K tokens"


@dataclass(frozen=True)
class Prepared:
    """A task with its window and the chunks a completion would attach, most relevant last."""

    package: str
    task: Task
    prompt: FimPrompt
    recalled: tuple[ChunkSource, ...]  # at most 12
    within_8k: tuple[ChunkSource, ...]
    right: ChunkSource
    found: bool  # the definition is among the 12


@dataclass(frozen=True)
class Outcome:
    """How one system did on one task; match and similarity None where nothing was generated."""

    nll: float
    exact_match: float | None = None
    similarity: float | None = None


def run(how: Run) -> Result:
    """Score all tasks with each system."""
    from miton_engine.runtime.engine import Engine, EngineSettings

    engine = Engine.open(how.model, settings=EngineSettings(threads=how.threads))
    try:
        writer = PromptWriter(engine.checkpoint)
        tasks = list(_tasks(how, writer))
        outcomes: dict[str, dict[int, Outcome]] = defaultdict(dict)
        for index, prepared in enumerate(how.steps.over(tasks, "cross-file: tasks")):
            with_8k = index % EVERY == 0 and not how.quick
            for system, outcome in _outcomes(engine, writer, prepared, with_8k):
                outcomes[system][index] = outcome
    finally:
        engine.close()
    return _result(how, tasks, outcomes)


def arguments_in(text: str) -> str:
    """The text up to the parenthesis that closes the call; all of it if none does. Quotes are respected."""
    depth, quote, index = 1, "", 0
    while index < len(text):
        letter = text[index]
        if quote:
            if letter == "\\":
                index += 1
            elif text.startswith(quote, index):
                index += len(quote) - 1
                quote = ""
        elif letter in "\"'":
            quote = letter * 3 if text.startswith(letter * 3, index) else letter
            index += len(quote) - 1
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0:
                return text[: index + 1]
        index += 1
    return text


def _tasks(how: Run, writer: PromptWriter) -> Iterator[Prepared]:
    sources = SOURCES[: how.pick(len(SOURCES), 5)]
    for package in how.steps.over(sources, "cross-file: reading packages"):
        workspace = open_for_evaluation(packages.fetch(package), ChunkOptions(count_tokens=writer.count))
        tasks = cross_file_tasks(workspace)
        random.Random(SEED).shuffle(tasks)
        for task in tasks[: how.pick(PER_PACKAGE, 1)]:
            yield _prepare(package.name, workspace, task, writer)


def _prepare(package: str, workspace: Workspace, task: Task, writer: PromptWriter) -> Prepared:
    workspace.recent.clear()  # tasks know nothing of each other
    workspace.put_document(task.path, task.buffer, 1)
    workspace.selections.clear()
    window = live_window(workspace, task.path, task.buffer, task.cursor)
    above = just_above(workspace, task.path, window)
    ranked = [item.chunk for item in (*above, *rank(workspace, query_at(task.path, window)))]
    workspace.drop_document(task.path)
    within_8k = _within(ranked, CONTEXT_TOKENS, writer)
    recalled = within_8k[:CHUNKS]
    right = next(
        chunk
        for chunk in workspace.files[task.defining_path].chunks
        if chunk.start_line <= task.defining_lines[-1] <= chunk.end_line
    )
    return Prepared(
        package,
        task,
        FimPrompt(task.path, window.prefix, window.suffix),
        chunk_sources(reversed(recalled)),
        chunk_sources(reversed(within_8k)),
        chunk_source(right),
        any(_defines(chunk, task) for chunk in recalled),
    )


def _defines(chunk: Chunk, task: Task) -> bool:
    return chunk.path == task.defining_path and chunk.start_line <= task.defining_lines[0] <= chunk.end_line


def _within(ranked: Sequence[Chunk], budget: int, writer: PromptWriter) -> list[Chunk]:
    kept, used, seen = [], 0, set()
    for chunk in ranked:
        tokens = writer.count(chunk.header + chunk.text) + 8
        if not chunk.text.strip() or chunk.text in seen or used + tokens > budget:
            continue
        seen.add(chunk.text)
        used += tokens
        kept.append(chunk)
    return kept


def _outcomes(
    engine: Engine, writer: PromptWriter, prepared: Prepared, with_8k: bool
) -> Iterator[tuple[str, Outcome]]:
    others = [source for source in prepared.recalled if source != prepared.right]
    with_right = (*others[-(CHUNKS - 1) :], prepared.right)
    yield NONE, _memory(engine, prepared, ())
    yield MEMORY_12, _memory(engine, prepared, prepared.recalled)
    yield RIGHT, _memory(engine, prepared, with_right)
    yield ALONE, _memory(engine, prepared, (prepared.right,))
    yield DENSE_12, _dense(engine, writer, prepared, prepared.recalled, generate=True)
    if with_8k:
        yield MEMORY_8K, _memory(engine, prepared, prepared.within_8k)
        yield DENSE_8K, _dense(engine, writer, prepared, prepared.within_8k, generate=False)


def _memory(engine: Engine, prepared: Prepared, attached: tuple[ChunkSource, ...]) -> Outcome:
    request = GenerationRequest(prepared.prompt, attached, _sampling(engine, prepared))
    logprobs = engine.score(request, prepared.task.target).result()
    return _judge(prepared.task, logprobs, engine.generate(request).result().text)


def _dense(
    engine: Engine,
    writer: PromptWriter,
    prepared: Prepared,
    chunks: tuple[ChunkSource, ...],
    *,
    generate: bool,
) -> Outcome:
    request = GenerationRequest(prepared.prompt, chunks)
    logprobs = engine.score(request, prepared.task.target, dense=True).result()
    if not generate:
        return Outcome(-mean(logprobs))
    prompt = TokenPrompt(tuple(writer.write_after_sink(chunks, prepared.prompt)))
    written = engine.generate(GenerationRequest(prompt, sampling=_sampling(engine, prepared))).result().text
    return _judge(prepared.task, logprobs, written)


def _sampling(engine: Engine, prepared: Prepared) -> Sampling:
    return Sampling(max_tokens=engine.token_count(prepared.task.target) + EXTRA_TOKENS)


def _judge(task: Task, logprobs: Sequence[float], written: str) -> Outcome:
    written, target = arguments_in(written).strip(), task.target.strip()
    return Outcome(-mean(logprobs), float(written == target), edit_similarity(written, target))


def _result(how: Run, tasks: list[Prepared], outcomes: dict[str, dict[int, Outcome]]) -> Result:
    found = mean([float(prepared.found) for prepared in tasks])
    figures: dict[str, float | str] = {
        "tasks": len(tasks),
        "packages": len({prepared.package for prepared in tasks}),
        "recall finds the defining chunk": found,
        "chunks recalled within 8K tokens, mean": mean(
            [float(len(prepared.within_8k)) for prepared in tasks]
        ),
    }
    for system, by in outcomes.items():
        figures[f"{system}: NLL"] = mean([one.nll for one in by.values()])
        matches = [one.exact_match for one in by.values() if one.exact_match is not None]
        similar = [one.similarity for one in by.values() if one.similarity is not None]
        if matches:
            figures[f"{system}: exact match"] = mean(matches)
            figures[f"{system}: edit similarity"] = mean(similar)
    pairs = ((MEMORY_12, DENSE_12), (RIGHT, DENSE_12), (ALONE, DENSE_12), (NONE, DENSE_12), (MEMORY_12, NONE),
             (MEMORY_8K, DENSE_8K))  # fmt: skip
    gap: float | None = None
    for ours, reference in pairs:
        if ours not in outcomes or reference not in outcomes:
            continue
        both = sorted(outcomes[ours].keys() & outcomes[reference].keys())
        difference = paired_difference(
            [outcomes[ours][index].nll for index in both], [outcomes[reference][index].nll for index in both]
        )
        figures[f"NLL of {ours} - {reference}"] = str(difference)
        gap = difference.estimate if (ours, reference) == (MEMORY_12, DENSE_12) else gap
    bars = [
        Bar("chunk memory's NLL over dense, the same 12 chunks", gap, NLL_BAR, "at most"),
        Bar("recall finds the defining chunk among 12", found, RECALL_BAR, "at least"),
    ]
    if not how.quick:
        bars.append(Bar("tasks", len(tasks), TASKS_BAR, "at least"))
    samples = {"NLL": {system: [one.nll for one in by.values()] for system, by in outcomes.items()}}
    return Result("cross-file", how.machine, figures, {}, tuple(bars), samples)
