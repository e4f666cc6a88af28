# SPDX-License-Identifier: Apache-2.0
"""Triton kernels that a series touches: compiled ahead of time, and run against a
reference in Python.

``batches`` and ``worker`` need torch, triton and click alone; the receipt
runs them on a GPU.
"""
