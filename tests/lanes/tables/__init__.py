# SPDX-License-Identifier: Apache-2.0
"""docs/tables.md and README.md's summary, made from pins, series and results."""
