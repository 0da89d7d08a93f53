"""A server made with FastMCP: `board.py [TOKEN]` prints its port and serves until standard input is closed."""

import os
import socket
import sys
import threading

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.server.auth import StaticTokenVerifier
from fastmcp.tools import ToolResult


def end_with_stdin():
    while os.read(0, 4096):
        pass
    os._exit(0)


threading.Thread(target=end_with_stdin, daemon=True).start()
token = sys.argv[1] if len(sys.argv) > 1 else None
auth = StaticTokenVerifier({token: {"client_id": "aish", "scopes": []}}) if token else None
mcp = FastMCP("board", version="1.2.3", auth=auth)
notes: list[str] = []


@mcp.tool(annotations={"readOnlyHint": False, "destructiveHint": False})
def pin(note: str) -> str:
    """Pins a note to the board."""
    notes.append(note)
    return f"{len(notes)} on the board"


@mcp.tool(annotations={"readOnlyHint": True})
def look() -> list[str]:
    """What is on the board."""
    return notes


@mcp.tool
def numbers() -> ToolResult:
    """Structured content without a word of text."""
    return ToolResult(content=[], structured_content={"answer": 42, "unit": None})


@mcp.tool
def tear() -> str:
    """Fails."""
    raise ValueError("the paper is too strong")


@mcp.tool
async def name(ctx: Context) -> str:
    """Asks the person for a name."""
    answer = await ctx.elicit("What is your name?", response_type=str)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@mcp.tool
async def count(to: int, ctx: Context) -> str:
    """Counts aloud."""
    for n in range(1, to + 1):
        await ctx.report_progress(n, to, f"at {n}")
    return "counted"


@mcp.resource("board://all")
def everything() -> str:
    """The whole board."""
    return "\n".join(notes) or "nothing"


@mcp.prompt
def praise(what: str) -> str:
    """Praises a thing."""
    return f"Say something kind about {what}."


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config(mcp.http_app(path="/mcp"), log_level="warning"))
server.run(sockets=[listener])
