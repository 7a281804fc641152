"""JSON is read as the module json reads it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.inside.entry.quickjson import loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_a_value_comes_back_as_it_was(value, indent, ascii_only) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert loads(f"{text}\n") == value


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "1 2", "[1,]", "nul", '{"a" 1}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text)
