# SPDX-License-Identifier: Apache-2.0
"""The clients: how each is configured and started, and how its own tools are called."""

from clients.agents import libraries, node, programs
from clients.client import Client

#: By name, in the order of the table.
CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (*programs.CLIENTS, *node.CLIENTS, *libraries.CLIENTS)
}
