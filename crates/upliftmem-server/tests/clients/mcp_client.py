"""The official MCP SDK as a client, over standard input and output and over streamable HTTP."""

import asyncio
import json

import httpx2
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from started import BINARY, environment, server, store


def answer(result):
    assert not result.is_error, result
    return json.loads(result.content[0].text)


async def use(session, names):
    hello = await session.initialize()
    assert hello.server_info.name == "upliftmem" and "report_outcome" in hello.instructions
    tools = (await session.list_tools()).tools
    assert {tool.name for tool in tools} == names, tools
    hints = {tool.name: tool.annotations for tool in tools}
    assert hints["search_memory"].read_only_hint and not hints["add_memory"].read_only_hint
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools)

    added = answer(await session.call_tool("add_memory", {"text": "the mug is in the second drawer"}))
    assert added["results"][0]["status"] in ("stored", "duplicate"), added
    found = answer(await session.call_tool("search_memory", {"query": "find the mug"}))
    assert found["abstained"] is True and found["memories"] == [] and found["block"] == ""
    learned = answer(await session.call_tool(
        "report_outcome", {"retrieval_id": found["retrieval_id"], "success": True, "cost": 3}))
    assert learned["reference"] == "self", learned
    if "get_memory" in names:
        memory_id = added["results"][0]["id"]
        changed = answer(await session.call_tool("update_memory", {"memory_id": memory_id, "text": "the mug is gone"}))
        assert answer(await session.call_tool("get_memory", {"memory_id": changed["id"]}))["memory"] == "the mug is gone"
        assert answer(await session.call_tool("delete_memory", {"memory_id": changed["id"]}))["deleted"] is True

    for name, arguments in [
        ("add_memory", {"text": " "}),
        ("search_memory", {}),
        ("report_outcome", {"retrieval_id": "nonsense", "success": True}),
        ("report_outcome", {"retrieval_id": "00000000-0000-0000-0000-000000000001", "success": True}),
    ]:
        refused = await session.call_tool(name, arguments)
        assert refused.is_error and refused.content[0].text, (name, arguments, refused)


async def over_stdio():
    with store() as directory:
        for flags, extra in [([], set()), (["--tools", "all"], {"get_memory", "update_memory", "delete_memory"})]:
            process = StdioServerParameters(command=BINARY, args=["mcp", *flags], cwd=directory,
                                            env=environment(directory))
            async with stdio_client(process) as (read, write), ClientSession(read, write) as session:
                await use(session, {"search_memory", "add_memory", "report_outcome"} | extra)


async def over_http():
    with server("server.mcp_tools=all", keys=True) as (url, key):
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as client:
            async with streamable_http_client(f"{url}/mcp", http_client=client) as (read, write):
                async with ClientSession(read, write) as session:
                    await use(session, {"search_memory", "add_memory", "report_outcome", "get_memory", "update_memory",
                                        "delete_memory"})


asyncio.run(over_stdio())
asyncio.run(over_http())
print("MCP client: ok")
