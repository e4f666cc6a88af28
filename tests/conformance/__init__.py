"""Conformance suite for Qwen3-Coder tool calls: cases, schedules, adapters and the checker."""
