# SPDX-License-Identifier: Apache-2.0
"""Tables of README.md and docs/results.md, made from pins, series and results."""
