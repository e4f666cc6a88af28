# SPDX-License-Identifier: Apache-2.0
"""The three API surfaces, asked with the clients that people use; each streamed and not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cpu.surfaces import chat, messages, responses
from cpu.surfaces.common import Ask, Clients, Got

#: Name of a surface to the function that asks it.
SURFACES: dict[str, Callable[[Clients, Ask], Awaitable[Got]]] = {
    "chat": chat.ask,
    "responses": responses.ask,
    "messages": messages.ask,
}

__all__ = ["SURFACES", "Ask", "Clients", "Got"]
