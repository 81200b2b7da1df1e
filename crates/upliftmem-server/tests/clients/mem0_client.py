"""mem0's own client against the aliases: add, search, get_all, get, update, delete, history, users."""

from started import server

with server(keys=True) as (url, key):
    from mem0 import MemoryClient

    client = MemoryClient(api_key=key, host=url)
    added = client.add("I drink green tea", user_id="alice", metadata={"from": "chat"})["results"]
    assert len(added) == 1 and added[0]["event"] == "ADD", added
    memory_id = added[0]["id"]
    client.add([{"role": "user", "content": "The mug is blue"}, {"role": "assistant", "content": "Noted, a blue mug"}],
               user_id="alice")

    assert client.get(memory_id)["memory"] == "I drink green tea"
    assert client.get(memory_id)["metadata"] == {"from": "chat"}
    everything = client.get_all(filters={"user_id": "alice"})
    assert everything["count"] == 3 and len(everything["results"]) == 3, everything
    page = client.get_all(filters={"AND": [{"user_id": "alice"}]}, page=2, page_size=2)
    assert len(page["results"]) == 1 and page["next"] is None and page["previous"], page

    found = client.search("what does she drink?", filters={"user_id": "alice"}, top_k=3)
    assert found["abstained"] is True and found["results"] == [], "nothing is learned yet, so nothing is promised"
    assert found["retrieval_id"] and found["candidates"] == 3, found

    assert client.update(memory_id, text="I drink black tea")["memory"] == "I drink black tea"
    assert client.get(memory_id)["memory"] == "I drink black tea", "the id stays"
    client.update(memory_id, metadata={"from": "correction"})
    assert client.get(memory_id)["metadata"] == {"from": "correction"}
    ids = {memory["id"] for memory in client.get_all(filters={"user_id": "alice"})["results"]}
    assert memory_id in ids and len(ids) == 3, ids
    history = client.history(memory_id)
    assert [event["event"] for event in history] == ["ADD", "UPDATE"], history
    assert history[1]["old_memory"] == "I drink green tea" and history[1]["new_memory"] == "I drink black tea"

    client.delete(memory_id)
    for call in (client.get, client.delete, client.history):
        try:
            call(memory_id)
            raise AssertionError(f"{call} found a memory that was deleted")
        except Exception as error:
            assert type(error).__name__ == "MemoryNotFoundError", repr(error)
    assert client.users()["results"] == [{"type": "user", "name": "alice", "id": "alice"}]
    client.delete_all(user_id="alice")
    assert client.get_all(filters={"user_id": "alice"})["count"] == 0
    try:
        client.search("x", filters={"user_id": "bob"})
        raise AssertionError("another tenant was searched")
    except Exception as error:
        assert "alice" not in str(error) and type(error).__name__ != "AssertionError", repr(error)
    try:
        MemoryClient(api_key="um_wrong", host=url)
        raise AssertionError("a wrong key was taken")
    except ValueError:
        pass
print("mem0 client: ok")
