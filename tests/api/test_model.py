"""What was assembled, over HTTP: shown without instances, rebuilt, with routes of extensions."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fastapi import APIRouter, WebSocket

from api.ext import faults_of
from core.errors import Invalid
from core.principal import Permission
from core.registry import Registry, RouterDeclaration
from core.settings import Settings, load_settings
from extensions.routing import AgentsReader
from runtime.agents import Agents
from runtime.registry import assemble
from runtime.services import Services
from tests.api.conftest import Guest
from tests.api.test_edge import assert_error
from tests.api.test_routes import operations
from tests.support.app import Served, chat, provider_settings, served_product
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say

SECRET = "postgresql://reader:hunter2hunter2@vault.internal:5432/terms"

ACME = f'''
from contextlib import asynccontextmanager
from fastapi import APIRouter
from extensions import define_tool, get_service
from extensions.routing import AgentsReader, ChatWriter, Input, Output

router = APIRouter(prefix="/words", tags=["words"])

class Word(Input):
    text: str

class Shown(Output):
    text: str
    by: str

@asynccontextmanager
async def connect(services):
    yield {SECRET!r}

@asynccontextmanager
async def count(services):
    yield {{"pool": services["pool"]}}

@define_tool(group="words", requires_approval=True, side_effect="write")
def keep_word(word: str) -> str:
    """Keep a word."""
    return word

@router.get("/{{text}}")
async def show(text: str, who: AgentsReader) -> Shown:
    """Return a word."""
    return Shown(text=f"{{text}} {{len(get_service('pool'))}}", by=who.user_name)

@router.post("")
async def add(word: Word, who: ChatWriter) -> Shown:
    """Keep a word."""
    return Shown(text=word.text, by=who.user_name)

def setup(registry):
    registry.register_service("pool", connect)
    registry.register_service("counter", count, ["pool"])
    registry.register_tool(keep_word, requires=["counter"])
    registry.register_agent("keeper", "Keeps.", "Keep.", tools=["keep_word"])
    registry.register_router(router)
'''


@pytest.fixture
def acme(tmp_path: Path) -> Iterator[Path]:
    """A folder with one extension that has everything."""
    add(tmp_path / "mine", "acme", ACME)
    with forgotten():
        yield tmp_path / "mine"


@pytest.fixture
async def extended(
    database_url: str, tmp_path: Path, scripted: ScriptedServer, acme: Path
) -> AsyncIterator[Served]:
    """A product of the test's own with that extension and `context_demo`."""
    provider = provider_settings(scripted.base_url)
    (tmp_path / ".env").write_text("CONTEXT_DEMO_ENABLED=1\n")
    async with served_product(
        database_url,
        tmp_path / "data",
        env_file=tmp_path / ".env",
        extensions_path=(acme,),
        **provider,
    ) as served:
        yield served
    load_settings(None, {})


@pytest.mark.req("EXT-11")
async def test_the_summary_names_everything_that_was_loaded(house: Served, guest: Guest):
    summary = (await guest.client.get("/api/model")).json()
    assert summary["model"]["demo"] is True
    agent = summary["agent"]
    assert agent["extensions"] == ["core", "demo"]
    assert agent["disabled_extensions"] == ["context_demo"]
    assert agent["default_agent"] == "assistant"
    assert [one["id"] for one in agent["agents"]] == ["assistant", "ventilation"]
    groups = (await guest.client.get("/api/model/tools")).json()["items"]
    assert [group["group"] for group in groups] == sorted(group["group"] for group in groups)
    tools = {tool["name"]: tool for group in groups for tool in group["tools"]}
    assert len(tools) == agent["tools"]
    assert tools["airflow"]["agents"] == ["ventilation"]
    assert tools["calculate"]["agents"] == ["assistant", "ventilation"]
    assert tools["ask_user"]["kind"] == "question"
    assert tools["write_file"]["extension"] == "core"


@pytest.mark.req("EXT-11")
async def test_reading_and_rebuilding_take_different_permissions(house: Served, guest: Guest):
    reader = await house.key_of(guest.name, permissions={Permission.AGENTS_READ})
    async with house.client(reader) as client:
        assert (await client.get("/api/model")).status_code == 200
        assert (await client.get("/api/model/tools")).status_code == 200
        assert_error(await client.post("/api/model/reload"), 403, "forbidden")
    before = (await guest.client.get("/api/model")).json()
    rebuilt = await guest.client.post("/api/model/reload")
    assert rebuilt.status_code == 200
    assert rebuilt.json() == before
    assert (await chat(guest.client, "calculate 6 * 7")).last["status"] == "success"


@pytest.mark.req("EXT-04", "EXT-06", "EXT-11")
async def test_services_and_routes_of_an_extension_work_and_stay_private(extended: Served):
    async with extended.client() as client:
        answer = await client.get("/api/model")
        agent = answer.json()["agent"]
        assert agent["extensions"] == ["acme", "context_demo", "core", "demo"]
        assert agent["disabled_extensions"] == []
        assert agent["services"] == [
            {"name": "glossary", "extension": "context_demo", "requires": []},
            {"name": "pool", "extension": "acme", "requires": []},
            {"name": "counter", "extension": "acme", "requires": ["pool"]},
        ]
        groups = await client.get("/api/model/tools")
        [words] = [one for one in groups.json()["items"] if one["group"] == "words"]
        [tool] = words["tools"]
        assert (tool["requires"], tool["requires_approval"]) == (["counter"], True)
        told = answer.text + groups.text
        for hidden in ("hunter2", "vault.internal", "object at", "sk-test-scripted"):
            assert hidden not in told
        shown = await client.get("/api/ext/acme/words/tea")
        assert shown.json() == {"text": f"tea {len(SECRET)}", "by": "local"}
        added = await client.post("/api/ext/acme/words", json={"text": "x"})
        assert added.json() == {"text": "x", "by": "local"}
        invalid = await client.post("/api/ext/acme/words", json={"text": "x", "more": 1})
        assert_error(invalid, 422, "invalid")
        unknown = await client.get("/api/ext/acme/words/tea", params={"nope": "1"})
        assert_error(unknown, 422, "invalid")
    async with extended.anonymous() as client:
        # Nobody's body is read before it is clear who calls.
        refused = await client.post("/api/ext/acme/words", content=b"{")
        assert_error(refused, 401, "unauthenticated")
    key = await extended.key_of("reader", permissions={Permission.AGENTS_READ})
    async with extended.client(key) as client:
        assert (await client.get("/api/ext/acme/words/tea")).json()["by"] == "reader"
        refused = await client.post("/api/ext/acme/words", json={"text": "x"})
        assert_error(refused, 403, "forbidden")
    described = {f"{method} {path}": one for method, path, one in operations(extended)}
    posted = described["POST /api/ext/acme/words"]
    assert posted["x-permission"] == "chat:write"
    assert {"200", "400", "401", "403", "413", "415", "422", "500"} <= set(posted["responses"])
    assert "404" in described["GET /api/ext/acme/words/{text}"]["responses"]


@pytest.mark.req("EXT-12", "EXT-08")
async def test_one_line_switches_the_glossary_on_and_its_sources_are_cited(
    extended: Served, scripted: ScriptedServer
):
    scripted.play(call("explain_term", {"term": "fan curve"}), say("It is a curve."))
    async with extended.client() as client:
        reply = await chat(client, "What is a fan curve?", agent="glossary")
    [result] = reply.of("tool_result")
    assert result["error"] is None
    assert "Pressure that a fan gives" in result["content"]
    [cited] = reply.of("citations")
    assert [item["title"] for item in cited["items"]] == ["Glossary: fan curve"]
    assert cited["model_only"] is False


@pytest.mark.req("EXT-04", "EXT-05")
def test_routers_that_are_none_or_hold_something_else_are_faults():
    router = APIRouter()

    @router.get("/x")
    async def once(who: AgentsReader) -> None: ...

    @router.get("/x")
    async def again(who: AgentsReader) -> None: ...

    @router.post("/open")
    async def open_to_all() -> None: ...

    @router.websocket("/socket")
    async def socket(socket: WebSocket) -> None: ...

    inner = APIRouter()

    @inner.delete("/deep")
    async def deep() -> None: ...

    router.include_router(inner, prefix="/in")
    declarations = [
        RouterDeclaration(router, "x/extension.py", "x"),
        RouterDeclaration({"no": "router"}, "y/extension.py", "y"),
    ]
    faults = faults_of(declarations)
    assert [(fault.where, fault.what) for fault in faults] == [
        ("x/extension.py: GET /x", "This route is there twice."),
        ("x/extension.py: POST /open", "This route states no permission."),
        ("x/extension.py", "'/socket' is no plain HTTP route."),
        ("x/extension.py: DELETE /in/deep", "This route states no permission."),
        ("y/extension.py", "register_router was given dict, not an APIRouter."),
    ]
    assert all(fault.cure for fault in faults)


@pytest.mark.req("EXT-11")
async def test_a_rebuild_with_faults_keeps_what_there_was():
    registry = Registry(where="x/extension.py")
    registry.register_agent("assistant")
    assembly = assemble(registry)
    agents = Agents(assembly, Services(()))
    registry.register_agent("later")
    await agents.reload()
    assert sorted(assembly.agents) == ["assistant", "later"]
    registry.register_agent("broken", tools=["gone"])
    with pytest.raises(Invalid) as caught:
        await agents.reload()
    assert "'gone'" in json.dumps(caught.value.details)
    assert sorted(assembly.agents) == ["assistant", "later"]


@pytest.mark.req("EXT-01", "OPS-04")
def test_the_setting_of_folders_is_split_like_a_path():
    assert Settings().extensions_path == ()
    given = f" a{os.pathsep}{os.pathsep}b/c "
    settings = load_settings(None, {"GW_EXTENSIONS_PATH": given}).settings
    assert settings.extensions_path == (Path("a"), Path("b/c"))
    load_settings(None, {})
