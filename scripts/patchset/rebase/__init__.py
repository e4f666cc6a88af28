# SPDX-License-Identifier: Apache-2.0
"""A series for another release."""
