"""`.env.example` and the settings say the same (OPS-04)."""

import pytest
from pydantic import SecretStr

from core.settings import Settings, load_settings, setting_names
from tests.house.tree import ROOT

EXAMPLE = ROOT / ".env.example"


@pytest.mark.req("OPS-04")
def test_example_file_lists_every_setting_in_order_with_its_default_and_meaning():
    text = EXAMPLE.read_text(encoding="utf-8")
    lines = text.splitlines()
    listed = [line.partition("=")[0] for line in lines if line and not line.startswith("#")]
    names = setting_names()
    assert listed == [all_of[0] for all_of in names.values()]
    assert load_settings(EXAMPLE, {}).settings == Settings()
    for field, all_of in names.items():
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{all_of[0]}="))
        assert lines[at - 1].startswith("# "), f"{all_of[0]} has no meaning written above it"
        if Settings.model_fields[field].default not in ("", SecretStr(""), frozenset(), ()):
            assert lines[at].partition("=")[2], f"{all_of[0]} shows no default"
        for alias in all_of[1:]:
            assert alias in text
