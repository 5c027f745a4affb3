"""One suite for every encoder: the hash encoder of the fault tests passes what the real models pass."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from embeddings.encoder import Encoder, encode_passages
from embeddings.errors import InvalidText
from tests.embeddings.tiny_model import SENTENCES

QUERIES = ("bottom roller", "Which adapter fits SL45?", "a", "Größe der Dichtung", "returns within 30 days")
LONG = " ".join(f"{sentence} {number}" for number in range(12) for sentence in SENTENCES)


def test_queries_give_one_unit_row_each(encoder: Encoder) -> None:
    """C24: queries become float32 unit vectors of the fingerprint's dimension, in order."""
    rows = encoder.encode_queries(QUERIES)
    assert rows.shape == (len(QUERIES), encoder.fingerprint.dimension)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_passages_give_one_unit_row_a_window(encoder: Encoder) -> None:
    """C25: a passage gives as many unit rows as it has windows, and a long one has several where a limit is."""
    texts = [SENTENCES[0], LONG, SENTENCES[1]]
    answer = encode_passages(encoder, texts)
    assert [len(rows) for rows in answer] == [len(encoder.windows(text)) for text in texts]
    assert len(answer[0]) == 1
    assert (len(answer[1]) > 1) == (encoder.fingerprint.token_limit is not None)
    for rows in answer:
        assert rows.shape[1] == encoder.fingerprint.dimension
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_batches_do_not_change_a_vector(encoder: Encoder) -> None:
    """C12: a vector does not depend, to the last bit, on what it is encoded with, nor on the batch's size."""
    texts = [*SENTENCES, LONG, *QUERIES]
    together = encode_passages(encoder, texts, batch_tokens=4096)
    for text, rows in zip(texts, together, strict=True):
        np.testing.assert_array_equal(encode_passages(encoder, [text], batch_tokens=1)[0], rows)
    queries = [*QUERIES, *SENTENCES, LONG]
    for text, row in zip(queries, encoder.encode_queries(queries), strict=True):
        np.testing.assert_array_equal(encoder.encode_queries([text])[0], row)


def test_windows_cover_the_text(encoder: Encoder) -> None:
    """C25: the windows of a text, laid side by side, leave out no character and fit the token limit."""
    for text in (LONG, LONG.replace(" ", ""), "  \n" + LONG + "\n\n ", SENTENCES[3]):
        windows = encoder.windows(text)
        reached = 0
        for window in windows:
            assert window.text == text[window.start : window.end]
            assert window.start <= reached < window.end
            reached = window.end
            limit = encoder.fingerprint.token_limit
            assert limit is None or window.tokens <= limit
        assert reached == len(text)


def test_the_end_of_a_long_text_is_visible(encoder: Encoder) -> None:
    """C25: changing the last word of a long passage changes its last vector."""
    before = encode_passages(encoder, [LONG + " roller"])[0]
    after = encode_passages(encoder, [LONG + " adapter"])[0]
    assert not np.allclose(before[-1], after[-1], atol=1e-4)


def test_nothing_to_read_gives_no_vector(encoder: Encoder) -> None:
    """An empty passage has no windows and an array of no rows; no texts give no answer rows."""
    empty, blank = encode_passages(encoder, ["", " \n\t"])
    assert empty.shape == blank.shape == (0, encoder.fingerprint.dimension)
    assert encode_passages(encoder, []) == []
    assert encoder.encode_queries([]).shape == (0, encoder.fingerprint.dimension)
    assert encoder.encode_windows([]).shape == (0, encoder.fingerprint.dimension)


@pytest.mark.parametrize(
    "text", ["\0", "🙂🙃", "x" * 5000, "防水 等级", '"(AND* OR:', "é" * 3000, "\u200b \ufeff a"]
)
def test_any_text_is_read(encoder: Encoder, text: str) -> None:
    """Text is data: hostile, huge and foreign texts are encoded; only one without a single token is refused."""
    if encoder.windows(text):
        assert np.isfinite(encoder.encode_queries([text])).all()
    else:
        with pytest.raises(InvalidText):
            encoder.encode_queries([text])
    for rows in encode_passages(encoder, [text, text + " roller"]):
        assert np.isfinite(rows).all()


def test_a_lone_surrogate_is_refused(encoder: Encoder) -> None:
    """What is no character is refused by name, for queries and for passages."""
    with pytest.raises(InvalidText):
        encoder.encode_queries(["ok", "\ud800"])
    with pytest.raises(InvalidText):
        encoder.windows("\udfff")


def test_the_fingerprint_is_constant(encoder: Encoder) -> None:
    """C24: an encoder has one fingerprint, whose id is short and safe in names."""
    assert encoder.fingerprint.id == encoder.fingerprint.id
    assert encoder.fingerprint.id.replace("-", "").isalnum()
    assert len(encoder.fingerprint.id) < 70


def test_threads_may_share_an_encoder(encoder: Encoder) -> None:
    """An encoder called from many threads at once gives each the right answer."""
    expected = encoder.encode_queries(QUERIES)

    def work(number: int) -> None:
        text = QUERIES[number % len(QUERIES)]
        np.testing.assert_array_equal(encoder.encode_queries([text])[0], expected[number % len(QUERIES)])
        assert len(encoder.windows(LONG)) == windows

    windows = len(encoder.windows(LONG))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(40)]:
            done.result()
