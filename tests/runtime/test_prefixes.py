"""What stands at the beginning of a message is taken for what it is, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid, NotFound
from runtime.prefixes import Prefixes, split_prefixes

pytestmark = pytest.mark.req("CHAT-03", "SKILL-02")

SESSION = "0199d0ff-7c1f-7d2a-b1c2-2f6c3f0a1b2c"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("hello", Prefixes("hello")),
        ("  keep my space ", Prefixes("  keep my space ")),
        ("#skill:pdf write", Prefixes("write", None, "pdf")),
        ("\n #skill:pdf\n\nwrite\n", Prefixes("write\n", None, "pdf")),
        (f"#session:{SESSION} go", Prefixes("go", SESSION)),
        (f"#session:{SESSION.upper()} go", Prefixes("go", SESSION)),
        (f"#skill:pdf #session:{SESSION} go", Prefixes("go", SESSION, "pdf")),
        (f"#session:{SESSION} #skill:pdf go", Prefixes("go", SESSION, "pdf")),
        ("#skill:pdf", Prefixes("", None, "pdf")),
        ("use #skill:pdf", Prefixes("use #skill:pdf")),
        ("#skills:pdf x", Prefixes("#skills:pdf x")),
        ("#Skill:pdf x", Prefixes("#Skill:pdf x")),
        ("# skill:pdf x", Prefixes("# skill:pdf x")),
    ],
)
def test_prefixes_are_taken_off(message, expected):
    assert split_prefixes(message) == expected


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("#skill:a #skill:b x", Invalid),
        ("#skill:a #skill:a x", Invalid),
        (f"#session:{SESSION} #skill:a #session:{SESSION} x", Invalid),
        ("#skill: x", Invalid),
        ("#session: x", NotFound),
        ("#session:../x y", NotFound),
    ],
)
def test_prefixes_that_make_no_sense_are_refused(message, error):
    with pytest.raises(error):
        split_prefixes(message)


@given(st.text())
def test_a_message_without_prefixes_is_left_as_it_is(text):
    if not text.lstrip().startswith(("#skill:", "#session:")):
        assert split_prefixes(text) == Prefixes(text)
