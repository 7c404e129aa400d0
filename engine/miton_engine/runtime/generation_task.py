"""One generation from request to last token, as a task the scheduler runs in turns.

recalled chunks -> attach -> prefill of what is new -> decode (drafts verified in one step) -> events.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence

from torch import Tensor

from miton_engine.errors import EngineError
from miton_engine.models.tokenizer import Tokenizer
from miton_engine.runtime.generation import Generation
from miton_engine.runtime.live_contexts import LiveContexts
from miton_engine.runtime.live_document import TAIL, LiveContext, PromptTokens
from miton_engine.runtime.memoriser import Memoriser
from miton_engine.runtime.model_runner import ModelRunner
from miton_engine.runtime.prompts import PromptEncoder
from miton_engine.runtime.requests import FinishReason, TokenEvent, TokenLogprob
from miton_engine.runtime.sampling import Sampler, top_logprobs
from miton_engine.runtime.scheduler import Task
from miton_engine.runtime.speculation import NgramIndex
from miton_engine.runtime.stopping import StopMatcher

log = logging.getLogger(__name__)

DRAFT_TOKENS = 7  # a step of 8 tokens reads the weights once


class GenerationRunner:
    """Runs generations over the shared model, store and live contexts."""

    def __init__(
        self,
        runner: ModelRunner,
        memoriser: Memoriser,
        contexts: LiveContexts,
        encoder: PromptEncoder,
        *,
        speculation: bool,
    ) -> None:
        self._runner, self._memoriser, self._contexts, self._encoder = runner, memoriser, contexts, encoder
        self._speculation = speculation

    def task(self, generation: Generation) -> Task:
        """The task of one generation; it always ends the generation's stream, also when closed early."""
        submitted = time.perf_counter()
        published = False
        try:
            last = None  # published when the context is given back and the timings are complete
            for event in self._run(generation, submitted):
                if event is not None and event.finish_reason is not None:
                    last = event
                    continue
                if event is not None:
                    generation.publish(event)
                yield
            if last is not None:
                published = True
                generation.publish(last)
        except EngineError as error:
            published = True
            generation.publish(
                TokenEvent("", finish_reason="error", error=str(error), error_type=type(error).__name__)
            )
        except Exception as error:
            log.exception("A generation failed")
            published = True
            message = f"The engine failed on this request ({type(error).__name__}: {error})."
            generation.publish(TokenEvent("", finish_reason="error", error=message))
        finally:
            if not published:
                generation.publish(TokenEvent("", finish_reason="cancelled"))

    def _run(self, generation: Generation, submitted: float) -> Iterator[TokenEvent | None]:
        request, timings = generation.request, generation.timings
        started = time.perf_counter()
        timings.queue_ms = (started - submitted) * 1e3
        prompt = self._encoder.prompt(request.prompt)
        chunks = []
        for step in self._memoriser.require(request.attached):
            if step is not None:
                chunks = step
            elif generation.cancelled:
                return
            else:
                yield None
        context = None
        while context is None:
            if generation.cancelled:
                return
            context = self._contexts.take(request.document, chunks, prompt)
            if context is None:  # a newer keystroke waits until the older one noticed that it was cancelled
                yield None
        try:
            placed = context.attach(chunks)
            timings.attach_ms = (time.perf_counter() - started) * 1e3
            prefill_started = time.perf_counter()
            for _ in context.prefill(prompt, request.sampling.max_tokens + DRAFT_TOKENS):
                if generation.cancelled:
                    return
                yield None
            chooser = _Chooser(
                self._runner,
                context,
                Sampler(request.sampling, [*prompt.prefix, *prompt.suffix, *prompt.tail]),
            )
            first = chooser.step(prompt.tail)[-1]
            timings.prefill_tokens = context.prefilled + len(prompt.tail)
            attached_tokens = sum(len(chunk.tokens) for chunk in chunks)
            timings.cached_tokens = attached_tokens + len(prompt) - timings.prefill_tokens
            timings.prefill_ms = (time.perf_counter() - prefill_started) * 1e3
            timings.ttft_ms = (time.perf_counter() - submitted) * 1e3
            log.debug("attached %d tokens (%d placed)", attached_tokens, placed)
            drafts = NgramIndex() if self._speculation and chooser.speculates else None
            if drafts is not None:
                for chunk in chunks:
                    drafts.extend(chunk.tokens.tolist())
                drafts.extend(prompt.suffix)
                drafts.extend(prompt.prefix)
            yield from self._decode(generation, context, prompt, chooser, first, drafts)
        finally:
            self._contexts.give_back(context)

    def _decode(
        self,
        generation: Generation,
        context: LiveContext,
        prompt: PromptTokens,
        chooser: _Chooser,
        choice: _Choice,
        drafts: NgramIndex | None,
    ) -> Iterator[TokenEvent | None]:
        sampling, timings = generation.request.sampling, generation.timings
        output = _Output(
            generation, self._encoder.tokenizer, self._encoder.stop_ids(generation.request.prompt)
        )
        started = time.perf_counter()
        written: list[int] = []  # generated ids whose KV lies in the tail
        try:
            while True:
                if generation.cancelled:
                    yield output.end("cancelled")
                    return
                event = output.push(*choice)
                yield event
                if event.finish_reason is not None:
                    return
                token = choice[0]
                draft = self._draft(drafts, token, sampling.max_tokens - output.count - 1)
                base = context.cache.regions[TAIL].length
                choices = chooser.step([token, *draft])
                accepted = 0
                while accepted < len(draft) and choices[accepted][0] == draft[accepted]:
                    event = output.push(*choices[accepted])
                    accepted += 1
                    yield event
                    if event.finish_reason is not None:
                        break
                timings.draft_tokens += len(draft)
                timings.accepted_tokens += accepted
                if drafts is not None and accepted:
                    drafts.extend(draft[:accepted])
                context.cache.regions[TAIL].length = base + 1 + accepted
                written += [token, *draft[:accepted]]
                if event.finish_reason is not None:
                    return
                choice = choices[accepted]
        finally:
            timings.decode_tokens = output.count
            timings.decode_ms = (time.perf_counter() - started) * 1e3
            context.adopt_tail(prompt, written)

    @staticmethod
    def _draft(drafts: NgramIndex | None, token: int, room: int) -> list[int]:
        if drafts is None:
            return []
        drafts.extend([token])
        return drafts.draft(min(DRAFT_TOKENS, room)) if room > 0 else []


_Choice = tuple[int, Tensor | None]
"""A chosen token, and the logits [vocab] it came from if anybody asked for them."""


class _Chooser:
    """Appends tokens to the context's tail and chooses what follows."""

    def __init__(self, runner: ModelRunner, context: LiveContext, sampler: Sampler) -> None:
        self._runner, self._context, self._sampler = runner, context, sampler
        self._needs_logits = not sampler.is_plain_greedy or sampler.sampling.logprobs is not None

    @property
    def speculates(self) -> bool:
        """Drafts are verified exactly only where the choice depends on nothing but the model."""
        return self._sampler.sampling.speculation and not self._needs_logits

    def step(self, token_ids: Sequence[int]) -> list[_Choice]:
        """The choice after each token; with logits after the last only, as a sampled choice changes the next."""
        context = self._context
        where = (context.cache, TAIL, token_ids, context.next_position, context.visible)
        if not self._needs_logits:
            return [(token, None) for token in self._runner.greedy(*where)]
        logits = self._runner.step(*where)[-1]
        return [(self._sampler.choose(logits), logits)]


class _Output:
    """Turns chosen tokens into events: whole characters, stop strings cut, special tokens never shown."""

    def __init__(self, generation: Generation, tokenizer: Tokenizer, stop_ids: frozenset[int]) -> None:
        self._sampling = generation.request.sampling
        self._tokenizer, self._stop_ids = tokenizer, stop_ids
        self._text = tokenizer.stream_decoder()
        stop = self._sampling.stop if self._sampling.multi_line else (*self._sampling.stop, "\n")
        self._stop = StopMatcher(stop)
        self.count = 0

    def push(self, token: int, logits: Tensor | None) -> TokenEvent:
        self.count += 1
        if token in self._stop_ids:
            return self.end("stop")
        text = "" if token in self._tokenizer.special_ids else self._text.push(token)
        text = self._stop.push(text)
        reason: FinishReason | None = None
        if self._stop.matched is not None:
            reason = "stop"
        elif self.count >= self._sampling.max_tokens:
            text += self._rest()
            reason = "stop" if self._stop.matched is not None else "length"
        return TokenEvent(text, (token,), self._logprobs(token, logits), reason)

    def end(self, reason: FinishReason) -> TokenEvent:
        return TokenEvent(self._rest(), finish_reason=reason)

    def _rest(self) -> str:
        rest = self._stop.push(self._text.flush())
        return rest if self._stop.matched is not None else rest + self._stop.flush()

    def _logprobs(self, token: int, logits: Tensor | None) -> tuple[TokenLogprob, ...] | None:
        if self._sampling.logprobs is None or logits is None:
            return None
        logprob, top = top_logprobs(logits, token, self._sampling.logprobs)
        text = self._tokenizer.decode([token], skip_special=False)
        alternatives = tuple(
            (other, self._tokenizer.decode([other], skip_special=False), value) for other, value in top
        )
        return (TokenLogprob(token, text, logprob, alternatives),)
