# SPDX-License-Identifier: Apache-2.0
"""The cpu lane: a real vLLM server, a real Qwen3.5-architecture model with MTP, the clients that people use."""
