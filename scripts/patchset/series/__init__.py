# SPDX-License-Identifier: Apache-2.0
"""The series: read, lint, apply (git am), export (git format-patch), rebase (git am -3), drift."""
