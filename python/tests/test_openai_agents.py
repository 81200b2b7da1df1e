"""Tools of the real SDK, run by its runner; the model is a script, since tests have no network."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import Agent, FunctionTool, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from test_episode import teach
from upliftmem import AsyncClient, Client, LocalServer
from upliftmem.openai_agents import gather, memory_tools

set_tracing_disabled(True)


class Script(Model):
    """Calls tools in order, then says what the last one answered."""

    def __init__(self, *calls: tuple[str, dict[str, str]]) -> None:
        self.calls = list(calls)
        self.told: list[str] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002, ARG002
        outputs = [
            one["output"] for one in input if isinstance(one, dict) and one.get("type") == "function_call_output"
        ]
        self.told = outputs
        output: Any
        if self.calls:
            name, arguments = self.calls.pop(0)
            output = ResponseFunctionToolCall(
                arguments=json.dumps(arguments), call_id=f"c{len(self.calls)}", name=name, type="function_call"
            )
        else:
            text = ResponseOutputText(annotations=[], text=str(outputs[-1]), type="output_text")
            output = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def test_the_tools_are_what_a_model_is_shown() -> None:
    search, add = memory_tools(AsyncClient("http://127.0.0.1:1"), user_id="a")
    assert isinstance(search, FunctionTool)
    assert isinstance(add, FunctionTool)
    assert (search.name, add.name) == ("search_memory", "add_memory")
    assert list(search.params_json_schema["properties"]) == ["task"]
    assert list(add.params_json_schema["properties"]) == ["text"]
    assert "expected to help" in search.description
    assert [tool.name for tool in memory_tools(AsyncClient("http://127.0.0.1:1"), write=False)] == ["search_memory"]


def test_an_agent_finds_keeps_and_is_judged(client: Client, server: LocalServer, user: str) -> None:
    teach(client, "press the red button")

    async def run() -> None:
        async with AsyncClient(server.url, user_id=user) as asynchronous:
            model = Script(("search_memory", {"task": "open the vault"}), ("add_memory", {"text": "A new note"}))
            agent = Agent(name="helper", model=model, tools=memory_tools(asynchronous))
            async with gather(asynchronous) as ep:
                result = await Runner.run(agent, "open the vault")
                assert result.final_output == "stored"
                assert "press the red button" in model.told[0]
                assert "<memories>" in model.told[0]
                (retrieval,) = ep.retrievals
                await ep.report(success=True)
        outcome = client.explain(retrieval.retrieval_id).outcome
        assert outcome is not None
        assert outcome.performance == 1.0

    asyncio.run(run())
    assert "A new note" in [memory.memory for memory in client.memories()]


def test_a_run_without_help_and_a_run_that_fails(client: Client, server: LocalServer, user: str) -> None:
    async def run() -> None:
        async with AsyncClient(server.url, user_id=user) as asynchronous:
            agent = Agent(
                name="helper", model=Script(("search_memory", {"task": "x"})), tools=memory_tools(asynchronous)
            )
            with pytest.raises(ZeroDivisionError):  # noqa: PT012
                async with gather(asynchronous) as ep:
                    result = await Runner.run(agent, "x")
                    assert "Go on without" in result.final_output
                    raise ZeroDivisionError
            outcome = client.explain(ep.retrievals[0].retrieval_id).outcome
            assert outcome is not None
            assert outcome.performance == 0.0

    asyncio.run(run())


def test_a_missing_server_is_told_to_the_model() -> None:
    async def run() -> None:
        from upliftmem import RetryPolicy

        async with AsyncClient("http://127.0.0.1:9", retry=RetryPolicy(retries=0)) as nowhere:
            agent = Agent(name="helper", model=Script(("search_memory", {"task": "x"})), tools=memory_tools(nowhere))
            result = await Runner.run(agent, "x")
            assert "error" in result.final_output.lower()

    asyncio.run(run())
