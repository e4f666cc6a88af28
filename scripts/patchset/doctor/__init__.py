# SPDX-License-Identifier: Apache-2.0
"""Doctor: what of the series is live in an environment, and what would keep it from taking effect."""
