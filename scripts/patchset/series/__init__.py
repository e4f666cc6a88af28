# SPDX-License-Identifier: Apache-2.0
"""The series: read, lint, apply, export, rebase, each by git."""
