"""Settings are read once, from two sources, and say what is wrong with them (OPS-04)."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from core import masking, settings, settings_sources
from core.errors import ConfigError
from core.settings import Settings, get_setting, load_settings

KEY = "sk-CanaryCanary1234"


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    monkeypatch.setattr(masking, "_literals", set())
    monkeypatch.setattr(settings, "_current", [])


@pytest.fixture
def env_file(tmp_path):
    def write(text: str) -> Path:
        (tmp_path / ".env").write_text(text, encoding="utf-8")
        return tmp_path / ".env"

    return write


@pytest.mark.req("OPS-04")
@pytest.mark.parametrize(
    ("priority", "port"), [("", 1), ("dotenv", 1), ("process", 2), ("none", 2)]
)
def test_priority_of_the_process_decides_which_source_counts(env_file, priority, port):
    path = env_file("PORT=1\n")
    loaded = load_settings(path, {"PORT": "2", "GW_ENV_PRIORITY": priority})
    assert loaded.settings.port == port


@pytest.mark.req("OPS-04")
def test_priority_in_the_file_counts_where_the_process_names_none(env_file):
    path = env_file("PORT=1\nGW_ENV_PRIORITY=process\n")
    assert load_settings(path, {"PORT": "2"}).settings.port == 2


@pytest.mark.req("OPS-04")
def test_value_of_the_other_source_counts_where_the_first_names_none(env_file):
    path = env_file("PORT=1\nOPENAI_MODEL=\n")
    loaded = load_settings(path, {"HOST": "::1", "OPENAI_MODEL": "m"})
    assert (loaded.settings.port, loaded.settings.host, loaded.settings.openai_model) == (
        1,
        "::1",
        "m",
    )
    assert loaded.warnings() == []


@pytest.mark.req("OPS-04")
def test_conflict_is_told_with_masked_values_and_the_winner(env_file):
    path = env_file(f"OPENAI_API_KEY={KEY}\nOPENAI_MODEL=small\nHITL_TOOLS=now\n")
    process = {
        "OPENAI_API_KEY": "sk-OtherOther5678",
        "OPENAI_MODEL": "large",
        "GW_HITL_TOOLS": "calculate",
    }
    loaded = load_settings(path, process)
    assert [conflict.name for conflict in loaded.conflicts] == [
        "OPENAI_API_KEY",
        "OPENAI_MODEL",
        "HITL_TOOLS/GW_HITL_TOOLS",
    ]
    said = "\n".join(loaded.warnings())
    assert "OPENAI_MODEL is small in .env and large in the process; .env counts" in said
    assert KEY not in said
    assert "OtherOther" not in said
    assert loaded.settings.hitl_tools == {"now"}


@pytest.mark.req("OPS-04")
def test_equal_values_are_no_conflict(env_file):
    path = env_file("PORT=1\nCONTEXT_LIMIT=9\n")
    assert load_settings(path, {"PORT": "1", "GW_CONTEXT_LIMIT": "9"}).conflicts == ()


@pytest.mark.req("OPS-04")
def test_unknown_name_of_ours_is_told_with_the_nearest_right_one(env_file):
    path = env_file("GW_DATADIR=x\n")
    loaded = load_settings(path, {"GW_ZZZZ": "1", "HOME": "/root", "gw_titles": "on"})
    assert loaded.warnings() == [
        "GW_DATADIR is not a setting; did you mean GW_DATA_DIR?",
        "GW_ZZZZ is not a setting",
        "gw_titles is not a setting; did you mean GW_TITLES?",
    ]


@pytest.mark.req("OPS-04")
@pytest.mark.parametrize(
    ("name", "value", "field", "meant"),
    [
        ("CONTEXT_LIMIT", "8000", "context_limit", 8000),
        ("HITL_TOOLS", "now, calculate,", "hitl_tools", {"now", "calculate"}),
        ("CTX_COMPACT_ENABLED", "0", "compact_enabled", False),
        ("BILLING_ALLOW_UNPRICED", "1", "billing_allow_unpriced", True),
        ("DEEP_AGENT_ENV_PRIORITY", "process", "env_priority", "process"),
        ("LOG_LEVEL", "debug", "log_level", "DEBUG"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/", "openai_base_url", "http://127.0.0.1:1/v1"),
        ("OPENAI_MODEL", " m\n", "openai_model", "m"),
    ],
)
def test_names_of_others_and_loose_forms_are_understood(name, value, field, meant):
    assert getattr(load_settings(None, {name: value}).settings, field) == meant


@pytest.mark.req("OPS-04")
def test_our_own_name_wins_over_an_alias_of_the_same_source():
    process = {"CONTEXT_LIMIT": "1", "GW_CONTEXT_LIMIT": "2"}
    assert load_settings(None, process).settings.context_limit == 2


@pytest.mark.req("OPS-04")
def test_every_bad_value_is_a_fault_of_its_own_with_name_and_cure():
    process = {"PORT": "x", "GW_DB_POOL_SIZE": "1", "OPENAI_BASE_URL": "ftp://a", "HITL_TOOLS": "a"}
    with pytest.raises(ConfigError) as caught:
        load_settings(None, process)
    assert [fault.where for fault in caught.value.faults] == [
        "PORT",
        "GW_DB_POOL_SIZE",
        "OPENAI_BASE_URL",
    ]
    assert "'x' is not allowed" in caught.value.faults[0].what
    assert "(20)" in caught.value.faults[1].cure


@pytest.mark.req("OPS-04")
def test_bad_priority_and_unreadable_file_stop_the_start(tmp_path):
    with pytest.raises(ConfigError, match="GW_ENV_PRIORITY: 'both' is not one of"):
        load_settings(None, {"GW_ENV_PRIORITY": "both"})
    (tmp_path / ".env").write_bytes(b"PORT=\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path / ".env", {})


@pytest.mark.req("OPS-04")
def test_options_of_the_command_line_win_over_both(env_file):
    path = env_file("PORT=1\n")
    loaded = load_settings(path, {"PORT": "2"}, port=3, host=None)
    assert (loaded.settings.port, loaded.settings.host) == (3, "127.0.0.1")


@pytest.mark.req("OPS-04")
def test_dollar_quote_and_bom_in_the_file_are_taken_as_they_stand(tmp_path):
    path = tmp_path / ".env"
    path.write_text("\ufeffOPENAI_API_KEY='a${HOME}b'\nexport PORT=7 # why\n", encoding="utf-8")
    loaded = load_settings(path, {})
    assert loaded.settings.openai_api_key == SecretStr("a${HOME}b")
    assert loaded.settings.port == 7


@pytest.mark.req("OPS-04")
def test_defaults_look_neither_at_the_process_nor_at_a_file(monkeypatch, tmp_path):
    (tmp_path / ".env").write_text("PORT=1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PORT", "2")
    assert Settings().port == 8000


@pytest.mark.req("OPS-06")
def test_secret_settings_are_masked_everywhere_after_loading():
    load_settings(None, {"OPENAI_API_KEY": "just some words", "DATABASE_URL": "postgresql://h/d"})
    assert masking.mask("tried <just some words>") == "tried <***>"


@pytest.mark.req("OPS-04", "EXT-03")
def test_extension_setting_follows_the_same_priority_and_takes_the_type_of_its_default(env_file):
    path = env_file("AIRFLOW_LIMIT=5\nAIRFLOW_ON=no\n")
    load_settings(path, {"AIRFLOW_LIMIT": "6", "AIRFLOW_NAME": "a"})
    assert get_setting("AIRFLOW_LIMIT") == "5"
    assert get_setting("AIRFLOW_LIMIT", 1) == 5
    assert get_setting("AIRFLOW_ON", True) is False
    assert get_setting("AIRFLOW_NAME", "b") == "a"
    assert get_setting("AIRFLOW_NONE", 2.5) == 2.5
    with pytest.raises(ConfigError, match="AIRFLOW_NAME: its value is no int"):
        get_setting("AIRFLOW_NAME", 1)


@pytest.mark.req("OPS-04")
def test_sources_keep_the_environment_out_of_their_text():
    sources = settings_sources.Sources.read(None, {"OPENAI_API_KEY": KEY})
    assert KEY not in str(sources)
