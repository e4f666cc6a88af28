# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""What an agent is told when the context does not hold its prompt.

Agents shorten a session and go on, if the error is one that they know: by OpenAI's
code, or by Anthropic's words.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, field_serializer

from vllm.exceptions import VLLMValidationError

#: What such an error of vLLM names as its parameter, and no other does.
_PARAMETERS = ("input_tokens", "input_text")


class ErrorCode(BaseModel):
    """A base of ``ErrorInfo``, whose ``code`` is the HTTP status everywhere else."""

    @field_serializer("code", check_fields=False)
    def _said_code(self, code: int) -> int | str:
        return "context_length_exceeded" if self._is_length() else code

    @field_serializer("type", check_fields=False)
    def _said_type(self, type_: str) -> str:
        return "invalid_request_error" if self._is_length() else type_

    def _is_length(self) -> bool:
        return getattr(self, "param", None) in _PARAMETERS


class PromptTooLong:
    """A base of the handler of ``/v1/messages``."""

    model_config: Any

    def create_error_response(self, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Say it as Anthropic does, who names the tokens."""
        make = super().create_error_response  # type: ignore[misc]
        if not _is_too_long(message):
            return make(message, *args, **kwargs)
        limit = self.model_config.max_model_len
        # Nobody counted the tokens of a text that is far too long: it is taken to have
        # one each four characters. A prompt that just fills the context lacks one more.
        is_text = message.parameter == "input_text"
        tokens = max(limit + 1, message.value // 4 if is_text else message.value)
        words = f"prompt is too long: {tokens} tokens > {limit} maximum"
        return make(words, err_type="invalid_request_error")

    async def render_chat_request(self, *args: Any, **kwargs: Any) -> Any:
        """Return the error, which raised would be one of the server's."""
        try:
            return await super().render_chat_request(*args, **kwargs)  # type: ignore[misc]
        except VLLMValidationError as error:
            return self._error(error)

    async def create_chat_completion(self, *args: Any, **kwargs: Any) -> Any:
        """The same."""
        try:
            return await super().create_chat_completion(*args, **kwargs)  # type: ignore[misc]
        except VLLMValidationError as error:
            return self._error(error)

    def _error(self, error: VLLMValidationError) -> Any:
        if not _is_too_long(error):
            raise error
        return self.create_error_response(error)


def _is_too_long(error: Any) -> bool:
    return isinstance(error, VLLMValidationError) and error.parameter in _PARAMETERS
