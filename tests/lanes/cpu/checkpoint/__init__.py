# SPDX-License-Identifier: Apache-2.0
"""Makes the model of the cpu lane, which knows its answers by heart.

Runs in the server's environment, because it needs torch and transformers.
"""
