# SPDX-License-Identifier: Apache-2.0
"""Conformance suite for Qwen3-Coder tool calls: cases, schedules, adapters and the
checker.
"""

#: Raised by hand when a verdict can change.
SUITE_VERSION = 7
