# SPDX-License-Identifier: Apache-2.0
"""A release's own server application, with a scripted engine in place of the model.

The configuration, the input side, the renderer and the whole HTTP application are the
release's; only the engine core is missing, and ``generate`` yields the scripted bursts.
So what is judged is everything between the engine and the client.
"""

import asyncio
import contextlib
import contextvars
import importlib
import importlib.util
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from conformance import tokens

MODEL = "scripted"


@dataclass
class Script:
    """What the engine says: one (text, token ids) pair a burst, and how it ends."""

    bursts: tuple[tuple[str, tuple[int, ...]], ...]
    end: str
    #: The stop string, or the id of the request's stop token, that ended it.
    stop: str | int | None = None
    #: The token ids of the prompt that it was said to.
    prompt: list[int] | None = None


SCRIPT: contextvars.ContextVar[Script] = contextvars.ContextVar("script")


class _NoCore:
    """Stands where the engine core's client would; nothing may ask it for work."""

    engine_ranks_managed = (0,)

    def shutdown(self, *_: Any, **__: Any) -> None:
        pass


def end_text(script: Script, skips_special: bool) -> str:
    """Return what ended the output, as the detokenizer writes it when asked for it."""
    if isinstance(script.stop, int):
        return str(tokens.load().decode([script.stop], skips_special))
    end_token = script.end == "stop" and not script.stop and not skips_special
    return tokens.EOS if end_token else script.stop or ""


def use_cpu_platform() -> None:
    """Give a source tree a platform: it has no build, hence none. First of all:
    other modules copy it.
    """
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    vllm.platforms._current_platform = CpuPlatform()
    # Nor has it compiled kernels; v0.17.1 chooses among them by a function that later
    # versions of torch lack.
    CpuPlatform.import_kernels = classmethod(lambda cls: None)


def argument_parser() -> Any:
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    for module in (
        "vllm.entrypoints.openai.cli_args",
        "vllm.entrypoints.common.cli_args",
        "vllm.entrypoints.launchers.cli_args",
        "vllm.entrypoints.launchers.api_server.cli_args",
        "vllm.entrypoints.serve.cli_args",
        "vllm.entrypoints.serve.utils.cli_args",
    ):
        with contextlib.suppress(ModuleNotFoundError):  # of the place's parent
            if importlib.util.find_spec(module):
                break
    else:
        raise ImportError(
            "this tree has no make_arg_parser where any known release has it"
        )
    return importlib.import_module(module).make_arg_parser(FlexibleArgumentParser())


def arguments(folder: str, reasoning: str, extra: list[str]) -> Any:
    line = [
        "--model",
        folder,
        "--served-model-name",
        MODEL,
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "qwen3_coder",
        "--load-format",
        "dummy",
        "--max-model-len",
        "200000",
        "--enforce-eager",
        "--disable-log-stats",
    ]
    if reasoning != "none":
        line += ["--reasoning-parser", reasoning]
    return argument_parser().parse_args(line + extra)


def _engine(args: Any) -> Any:
    """Yield the release's AsyncLLM with no engine core, its ``generate`` scripted."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.outputs import CompletionOutput, RequestOutput
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.core_client import EngineCoreClient

    config = AsyncEngineArgs.from_cli_args(args).create_engine_config()

    class ScriptedLLM(AsyncLLM):
        is_running = property(lambda self: True)
        is_stopped = property(lambda self: False)
        errored = property(lambda self: False)

        async def generate(
            self, prompt: Any, sampling_params: Any, request_id: str, **_: Any
        ) -> AsyncIterator[Any]:
            script = SCRIPT.get()
            # One list for all steps, as the release's own engine has it.
            script.prompt = prompt_token_ids = list(
                prompt["prompt_token_ids"]
                if isinstance(prompt, dict)
                else prompt.prompt_token_ids
            )

            def output(text: str, token_ids: list[int], last: bool) -> Any:
                if last and sampling_params.include_stop_str_in_output:
                    text += end_text(script, sampling_params.skip_special_tokens)
                return RequestOutput(
                    request_id=request_id,
                    prompt=None,
                    prompt_token_ids=prompt_token_ids,
                    prompt_logprobs=None,
                    finished=last,
                    outputs=[
                        CompletionOutput(
                            index=0,
                            text=text,
                            token_ids=token_ids,
                            cumulative_logprob=None,
                            logprobs=None,
                            finish_reason=script.end if last else None,
                            stop_reason=script.stop if last else None,
                        )
                    ],
                )

            if sampling_params.output_kind == RequestOutputKind.DELTA:
                for i, (text, token_ids) in enumerate(script.bursts):
                    yield output(text, list(token_ids), i == len(script.bursts) - 1)
            else:
                text = "".join(t for t, _ in script.bursts)
                yield output(
                    text, [i for _, token_ids in script.bursts for i in token_ids], True
                )

    EngineCoreClient.make_async_mp_client = staticmethod(lambda *_, **__: _NoCore())
    return ScriptedLLM.from_vllm_config(config, disable_log_stats=True)


async def build(
    folder: str,
    reasoning: str,
    extra: list[str],
    make_engine: Callable[[Any], Any] = _engine,
) -> Any:
    use_cpu_platform()
    args = arguments(folder, reasoning, extra)
    # In a thread, because the engine starts its output loop when it is made inside a
    # running event loop.
    llm = await asyncio.to_thread(make_engine, args)
    try:
        from vllm.entrypoints.launchers.api_server.app_state import init_app_state
        from vllm.entrypoints.launchers.app import build_app
    except ImportError:
        from vllm.entrypoints.openai.api_server import build_app, init_app_state
    tasks = ("generate",)
    known = inspect.signature(build_app).parameters
    app = build_app(
        args,
        **{
            k: v
            for k, v in (("supported_tasks", tasks), ("model_config", llm.model_config))
            if k in known
        },
    )
    known = inspect.signature(init_app_state).parameters
    values = {
        "engine_client": llm,
        "vllm_config": llm.vllm_config,
        "state": app.state,
        "args": args,
        "supported_tasks": tasks,
    }
    await init_app_state(**{k: v for k, v in values.items() if k in known})
    logging.getLogger("uvicorn.access").disabled = True
    return app


class Server:
    """A tree's application, whose responses are not streamed."""

    def __init__(
        self, runner: asyncio.Runner, reasoning: str, extra: list[str] | None = None
    ) -> None:
        self.app = runner.run(build(str(tokens.model_folder()), reasoning, extra or []))
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, raise_app_exceptions=False),
            base_url="http://tree",
            timeout=None,
        )
        self._run = runner.run

    def said(self, path: str, body: Any, output: str) -> tuple[httpx.Response, Script]:
        """Return the response to a body, and what the engine said to what prompt."""
        script = Script(((output, tuple(tokens.ended(output))),), "stop")

        async def post() -> httpx.Response:
            SCRIPT.set(script)
            return await self._client.post(path, json=body)

        return self._run(post()), script


def constrains_to_json() -> bool:
    """Return whether the release makes a required call JSON, whatever format the model
    was trained on; after ``build``.
    """
    from vllm.tool_parsers import ToolParserManager

    return bool(
        getattr(
            ToolParserManager.get_tool_parser("qwen3_coder"),
            "supports_required_and_named",
            True,
        )
    )
