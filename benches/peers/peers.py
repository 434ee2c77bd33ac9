"""The Python peers of the bench suite: the same work on the same content, as JSON.

The figures of each round of each work:
  session  SQLiteSession of the OpenAI Agents SDK: synced appends a second one at a time and of 32
           writers, milliseconds to reach a message a quarter of the way back, bytes on disk per
           byte of content
  saver    SqliteSaver of LangGraph, one `update_state` a message: the same without writers
  trim     trim_messages of langchain-core: microseconds a call
"""

import argparse
import asyncio
import json
import os
import pathlib
import sqlite3
import statistics
import sys
import tempfile
import time

WRITERS = 32
KEEP = 20  # what our strategy keeps, and what trimming keeps
TRIMS = 50


def allocated(directory):
    """The bytes that the disk holds for a folder."""
    return sum(f.stat().st_blocks * 512 for f in pathlib.Path(directory).rglob("*"))


def content_bytes(lines):
    return sum(len(line.encode()) for line in lines)


def session(lines, options, directory):
    from agents import SQLiteSession

    items = [json.loads(line) for line in lines]
    one = os.path.join(directory, "one")
    many = os.path.join(directory, "many")
    os.mkdir(one)
    os.mkdir(many)

    async def append(of, items):
        for item in items:
            await of.add_items([item])

    async def synced():
        of = SQLiteSession("one", os.path.join(one, "base.db"))
        began = time.perf_counter()
        await append(of, items)
        took = time.perf_counter() - began
        of.close()
        return len(items) / took

    async def reach():
        of = SQLiteSession("one", os.path.join(one, "base.db"))
        began = time.perf_counter()
        found = await of.get_items(limit=len(items) // 4)
        took = time.perf_counter() - began
        assert found, "nothing was reached"
        of.close()
        return took * 1e3

    async def writers():
        share = items[: options.writer]
        base = os.path.join(many, "base.db")
        sessions = [SQLiteSession(f"writer {n}", base) for n in range(WRITERS)]
        began = time.perf_counter()
        await asyncio.gather(*(append(of, share) for of in sessions))
        took = time.perf_counter() - began
        for of in sessions:
            of.close()
        return WRITERS * len(share) / took

    return {
        "messages": len(items),
        "synced": asyncio.run(synced()),
        "bytes": allocated(one) / content_bytes(lines),
        "reach_ms": asyncio.run(reach()),
        "writers": asyncio.run(writers()),
    }


def message(line):
    """A message of chat completions as langchain has it; one it does not take, by its text."""
    from langchain_core.messages import HumanMessage, convert_to_messages

    try:
        return convert_to_messages([json.loads(line)])[0]
    except (ValueError, TypeError, KeyError):
        return HumanMessage(content=line)


def saver(lines, options, directory):
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import MessagesState, StateGraph

    messages = [message(line) for line in lines]
    connection = sqlite3.connect(os.path.join(directory, "base.db"), check_same_thread=False)
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda state: {})
    builder.set_entry_point("agent")
    builder.set_finish_point("agent")
    graph = builder.compile(checkpointer=SqliteSaver(connection))
    config = {"configurable": {"thread_id": "one"}}

    began = time.perf_counter()
    for one in messages:
        graph.update_state(config, {"messages": [one]}, as_node="agent")
    appended = time.perf_counter() - began

    wanted = len(messages) * 3 // 4
    began = time.perf_counter()
    for state in graph.get_state_history(config):
        if len(state.values["messages"]) <= wanted:
            break
    else:
        raise RuntimeError("the wanted state was not reached")
    reached = time.perf_counter() - began

    connection.close()
    return {
        "messages": len(messages),
        "synced": len(messages) / appended,
        "bytes": allocated(directory) / content_bytes(lines),
        "reach_ms": reached * 1e3,
    }


def trim(lines, options, directory):
    from langchain_core.messages import trim_messages

    messages = [message(line) for line in lines]
    took = []
    for _ in range(TRIMS):
        began = time.perf_counter()
        left = trim_messages(messages, strategy="last", token_counter=len, max_tokens=KEEP)
        took.append(time.perf_counter() - began)
        assert 0 < len(left) <= KEEP, "nothing was trimmed"
    return {"messages": len(messages), "us": statistics.median(took) * 1e6}


WORKS = {"session": session, "saver": saver, "trim": trim}


def main():
    parser = argparse.ArgumentParser(
        prog="run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--content", required=True, help="messages, one JSON object a line")
    parser.add_argument("--dir", help="where databases are made; on the disk that is measured")
    parser.add_argument("--work", choices=WORKS, action="append", help="default: all of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=1500, help="of session and trim")
    parser.add_argument("--saver-messages", type=int, default=300, help="time grows by the square")
    parser.add_argument("--writer", type=int, default=60, help="appends of each of 32 writers")
    options = parser.parse_args()

    with open(options.content, encoding="utf-8") as file:
        lines = file.read().splitlines()
    figures = {work: [] for work in options.work or WORKS}
    for _ in range(options.rounds):
        for work, rounds in figures.items():
            count = options.saver_messages if work == "saver" else options.messages
            repeated = lines * (-(-count // len(lines)))
            with tempfile.TemporaryDirectory(dir=options.dir) as directory:
                rounds.append(WORKS[work](repeated[:count], options, directory))
    json.dump(figures, sys.stdout)
    print()


if __name__ == "__main__":
    main()
