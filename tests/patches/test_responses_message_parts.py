# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-message-parts: all parts of an assistant's message are in the
prompt, a refusal too.
"""

from typing import Any

import pytest

from application import application

TEXT = {"type": "output_text", "text": "Well.", "annotations": []}
MORE = {"type": "output_text", "text": " More."}
REFUSAL = {"type": "refusal", "refusal": "I will not."}
KNOWN = {"id": "msg_1", "status": "completed"}


@pytest.mark.parametrize("known", [{}, KNOWN])
@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([REFUSAL], "I will not."),
        ([TEXT, REFUSAL], "Well.I will not."),
        ([TEXT, MORE], "Well. More."),
        ([TEXT], "Well."),
        ([], ""),
    ],
)
def test_prompt_has_them(
    parts: list[dict[str, Any]], said: str, known: dict[str, str]
) -> None:
    message = {"type": "message", "role": "assistant", "content": parts, **known}
    user = {"role": "user", "content": "?"}
    status, answer = application().post(
        "/v1/responses", {"input": [user, message, user]}
    )
    assert status == 200, answer
    assert f"<|im_start|>assistant\n{said}<|im_end|>" in application().history
