"""Memory as tools of an agent of the OpenAI Agents SDK (`pip install upliftmem[openai-agents]`).

>>> tools = memory_tools(client, user_id="alice")  # doctest: +SKIP
>>> agent = Agent(name="helper", tools=tools)  # doctest: +SKIP
>>> async with gather(client) as run:  # doctest: +SKIP
...     result = await Runner.run(agent, task)
...     await run.report(success=check(result.final_output))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents import FunctionTool, Tool, function_tool

from .async_client import AsyncClient
from .fence import memory_block
from .gather import AsyncGathered, note
from .models import Scope, ScopeParts

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["gather", "memory_tools"]


def gather(client: AsyncClient, *, report_failure: bool = True) -> AsyncGathered:
    """A run of an agent: what is reported at its end reaches every search that the agent made in it."""
    return AsyncGathered(client.outcome, report_failure=report_failure)


def memory_tools(client: AsyncClient, *, write: bool = True, **scope: Unpack[ScopeParts]) -> list[Tool]:
    """The tools `search_memory` and, unless `write` is off, `add_memory`, for one scope.

    The model never chooses the scope. What goes wrong is told to the model, and the run goes on.
    """
    parts = Scope(**scope)
    search = _search_tool(client, parts)
    return [search, _add_tool(client, parts)] if write else [search]


def _search_tool(client: AsyncClient, scope: Scope) -> FunctionTool:
    @function_tool(name_override="search_memory")
    async def search_memory(task: str) -> str:
        """Search notes from earlier work that are expected to help with a task, if any is. Call it once, first.

        Args:
            task: What you are about to do, in full.

        """
        found = await client.search(task, **scope.keywords())
        note(found, scope)
        block = memory_block(memory.memory for memory in found.results)
        return block or "No note is expected to help with this. Go on without."

    return search_memory


def _add_tool(client: AsyncClient, scope: Scope) -> FunctionTool:
    @function_tool(name_override="add_memory")
    async def add_memory(text: str) -> str:
        """Keep a note for later work: one fact or lesson that will hold next time, in a sentence or two.

        Args:
            text: The note.

        """
        added = await client.add(text, **scope.keywords())
        return added.status if added.error is None else f"{added.status}: {added.error}"

    return add_memory
