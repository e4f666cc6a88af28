# SPDX-License-Identifier: Apache-2.0
"""A tree's own server application with a scripted engine: requests go in by path, and the prompt can be read.

The application is the conformance suite's; here it gets Qwen's chat templates.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "lanes"))

from conformance import tokens
from conformance.host.engine import MODEL, SCRIPT, Script, build

TREE = Path(os.environ["VLLM_TREE"])

#: Qwen3.5's template, which the application has; Qwen3-Coder's is an example of every release.
QWEN35 = Path(__file__).parent / "templates" / "qwen35.jinja"
QWEN3_CODER = TREE / "examples" / "tool_chat_template_qwen3coder.jinja"


class Application:
    """The tree's application; ``prompt`` is the last request's, as the engine got it."""

    def __init__(self) -> None:
        self.tokenizer = tokens.load()
        self.prompt = ""
        self._loop = asyncio.new_event_loop()
        options = ["--chat-template", str(QWEN35), "--trust-request-chat-template"]
        app = self._loop.run_until_complete(
            build(str(tokens.model_folder()), "qwen3", options)
        )
        self._paths = {getattr(route, "path", "") for route in app.routes}
        # What the application raises it has answered by then.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://tree", timeout=60
        )
        engine = app.state.engine_client
        generate = engine.generate

        def recorded(prompt: Any, *args: Any, **kwargs: Any) -> Any:
            ids = (
                prompt["prompt_token_ids"]
                if isinstance(prompt, dict)
                else prompt.prompt_token_ids
            )
            self.prompt = self.tokenizer.decode(list(ids), skip_special_tokens=False)
            return generate(prompt, *args, **kwargs)

        engine.generate = recorded

    def serves(self, path: str) -> bool:
        """Whether the release has this endpoint."""
        return path in self._paths

    def post(self, path: str, body: dict[str, Any], *steps: str) -> tuple[int, str]:
        """Status and body of the answer; the model says ``steps``."""
        said = [
            (text, tuple(tokens.encode(self.tokenizer, text)))
            for text in steps or ("yes",)
        ]
        SCRIPT.set(
            Script((*said, ("", (self.tokenizer.token_to_id(tokens.EOS),))), "stop")
        )
        self.prompt = ""
        answer = self._loop.run_until_complete(
            self._client.post(path, json={"model": MODEL, **body})
        )
        return answer.status_code, answer.content.decode()

    def json(self, path: str, body: dict[str, Any], *steps: str) -> dict[str, Any]:
        """The document of an answer that must be one."""
        status, answer = self.post(path, body, *steps)
        assert status == 200, f"{status}: {answer}"
        document: dict[str, Any] = json.loads(answer)
        return document

    def rendered(self, messages: list[dict[str, Any]], **fields: Any) -> str:
        """The prompt of a chat request, up to the answer's turn."""
        self.json("/v1/chat/completions", {"messages": messages, **fields})
        return self.history

    @property
    def history(self) -> str:
        """The last prompt, up to the answer's turn."""
        return self.prompt.rpartition("<|im_start|>assistant\n")[0]


@functools.cache
def application() -> Application:
    """The application, made once."""
    return Application()
