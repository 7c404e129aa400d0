"""BM25 against the formula written out over all chunks, whatever was replaced and removed before."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from miton_lsp.chunking import Chunk, chunk_text
from miton_service.workspace.bm25 import K1, B, BM25Index
from miton_service.workspace.identifiers import identifiers, terms

WORDS = ("parseHeader", "send_request", "Client", "url", "retry", "HTTPError", "größe", "x1")


def terms_of(chunk: Chunk) -> Counter[str]:
    text = f"{chunk.path} {chunk.symbol} {chunk.header} {chunk.text}"
    return Counter(term for name in identifiers(text) for term in terms(name))


def written_out(chunks: list[Chunk], query: dict[str, float]) -> dict[tuple[str, int], float]:
    held = [(chunk, terms_of(chunk)) for chunk in chunks]
    average = sum(counts.total() for _, counts in held) / len(held)
    scores: dict[tuple[str, int], float] = {}
    for chunk, counts in held:
        score = 0.0
        for term, weight in query.items():
            holders = sum(term in other for _, other in held)
            idf = math.log(1 + (len(held) - holders + 0.5) / (holders + 0.5))
            frequency = counts[term]
            score += (
                weight
                * idf
                * frequency
                * (K1 + 1)
                / (frequency + K1 * (1 - B + B * counts.total() / average))
            )
        if score:
            scores[chunk.path, chunk.start_byte] = score
    return scores


texts = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), max_size=3).map(
    lambda lines: "".join(f"def f{i}():\n    {line}\n\n\n" for i, line in enumerate(lines))
)
edits = st.lists(st.tuples(st.sampled_from(("a.py", "b/c.py", "d.py")), texts), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(edits=edits, query=st.dictionaries(st.sampled_from(WORDS), st.floats(0.1, 4), min_size=1))
def test_scores_are_those_of_the_formula_after_any_edits(
    edits: list[tuple[str, str]], query: dict[str, float]
) -> None:
    index, files = BM25Index(), dict[str, list[Chunk]]()
    for path, text in edits:
        files[path] = chunk_text(text, path) if text else []
        index.replace(path, files[path])
    chunks = [chunk for held in files.values() for chunk in held]
    assert len(index) == len(chunks)
    wanted = {term: weight for name, weight in query.items() for term in terms(name)}
    found = index.rank(wanted, 100)
    expected = written_out(chunks, wanted) if chunks else {}
    scores = {(chunk.path, chunk.start_byte): score for chunk, score, _ in found}
    assert set(scores) == set(expected)
    assert all(math.isclose(scores[key], expected[key], rel_tol=1e-3) for key in expected)
    assert [score for _, score, _ in found] == sorted((score for _, score, _ in found), reverse=True)
    assert all(term in wanted for _, _, term in found)


def test_a_chunk_that_only_moved_is_returned_where_it_is_now() -> None:
    index = BM25Index()
    text = "def parse_header():\n    return 1\n"
    index.replace("a.py", chunk_text(text, "a.py"))
    before = index.rank({"parse_header": 1.0}, 1)[0][0]
    index.replace("a.py", chunk_text("import os\n\n\nimport sys\n\n\n" + text, "a.py"))
    after = index.rank({"parse_header": 1.0}, 1)[0][0]
    assert "def parse_header" in after.text
    assert after.end_line == before.end_line + 6


def test_words_inside_names_are_found() -> None:
    assert set(terms("parseHTTPHeader_line2")) >= {"parsehttpheader_line2", "parse", "http", "header", "line"}
