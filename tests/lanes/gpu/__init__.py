# SPDX-License-Identifier: Apache-2.0
"""The gpu lane: one file that serves a release stock and patched, and writes a receipt.

``host``, ``overlay``, ``pace``, ``real``, ``receipt`` and ``report`` run from
that file, with what the official image holds; ``build`` and ``__main__`` make it.
"""
