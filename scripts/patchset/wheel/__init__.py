# SPDX-License-Identifier: Apache-2.0
"""Wheels: building one from an official wheel and the series, and proving what is in one."""
