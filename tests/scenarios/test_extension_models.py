"""A model provider of an extension, named in the settings, answers in the served product."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.scenarios.conftest import Opener
from tests.support.app import chat
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, error, say

GATEWAY = '''
"""Our gateway, by LangChain's own class."""

import httpx
from langchain_openai import ChatOpenAI

http = httpx.AsyncClient(trust_env=False)


def gateway(connection):
    return ChatOpenAI(
        model=connection.model,
        base_url=connection.base_url,
        api_key=connection.api_key,
        http_async_client=http,
        max_retries=0,
        stream_usage=True,
        use_responses_api=False,
    )


def setup(registry):
    registry.register_model_provider("gateway", gateway)
'''


@pytest.mark.req("EXT-04")
async def test_the_gateway_streams_calls_tools_and_counts(
    open_served: Opener, scripted: ScriptedServer, tmp_path: Path
):
    add(tmp_path / "mine", "house_gateway", GATEWAY)
    settings = {
        "model_provider": "gateway",
        "extensions_path": (tmp_path / "mine",),
        "openai_max_retries": 1,
        "hitl_tools": "",
    }
    scripted.play(
        call("calculate", {"expression": "2+3"}, text="Let me see."),
        error(503, "busy"),
        say("It is five.", pause=0.01),
    )
    with forgotten():
        async with open_served(**settings) as talk:
            reply = await chat(talk.client, "what is 2+3?")
            assert reply.last["type"] == "done", reply.last
            assert reply.last["usage"]["output_tokens"] > 0
            assert reply.last["usage"]["usage_source"] == "provider"
            assert len([one for one in reply.frames if one.type == "token"]) > 2
            scripted.play(error(401, "bad key sk-abcdefghijklmnopqrstuvwx"))
            failed = await chat(talk.client, "again", session_id=reply.session_id)
            assert failed.last["code"] == "provider_auth"
            assert "gateway answered 401" in failed.last["message"]
            assert "sk-abcdefghijklmnop" not in str([one.data for one in failed.frames])
            shown = (await talk.client.get("/api/model")).json()
            assert shown["model"]["provider"] == "gateway"
            providers = shown["agent"]["model_providers"]
            assert providers == [{"name": "gateway", "extension": "house_gateway"}]
            health = (await talk.client.get("/health")).json()
            [part] = [one for one in health["parts"] if one["id"] == "model"]
            assert part["facts"]["provider"] == "gateway"
        await sys.modules["extensions.house_gateway.extension"].http.aclose()
    assert scripted.refused == []
