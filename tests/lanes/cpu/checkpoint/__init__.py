# SPDX-License-Identifier: Apache-2.0
"""Makes the model of the cpu lane: tokenizer, weights, and the answers that it knows by heart.

Runs inside the server's environment, because it needs torch and transformers: ``python -m cpu.checkpoint OUT``.
"""
