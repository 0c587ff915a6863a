"""Literals of the IR's text form, any of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrants.ir.nodes import Location
from quadrants.ir.text.literals import TOKEN, TokenStream, format_literal
from quadrants.ir.types import array_type, f16, f32, matrix_type

from .examples import EXAMPLES

pytestmark = pytest.mark.slow

literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([f16, matrix_type(f32, (3, 3)), array_type(f32, 2, (3,), "L"), Location("a b.py", 1, 2)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


@EXAMPLES
@given(literals)
def test_every_literal_makes_the_round_trip(value: object) -> None:
    text = format_literal(value)
    assert "\n" not in text
    stream = TokenStream(TOKEN.findall(text))
    found = stream.literal()
    assert stream.next == ""
    assert repr(found) == repr(value)
