"""Requests to an ASGI application, without a server: what it answers, and how it goes on."""

import asyncio


def asked(app, path="/", method="GET", **headers):
    """The answer to a request: status, headers, body."""
    return asyncio.run(asking(app, path, method, **headers))


async def asking(app, path="/", method="GET", gone=None, **headers):
    scope, sent = scope_of(path, method, headers), []

    async def receive():
        if gone is None:
            await asyncio.Event().wait()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await asyncio.wait_for(app(scope, receive, send), 30)  # what should be refused at once may be a stream
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(each.get("body", b"") for each in sent[1:])


def scope_of(path, method, headers):
    path, _, query = path.partition("?")
    told = {"host": "127.0.0.1:7461"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in told.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 7461),
    }
