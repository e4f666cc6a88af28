# SPDX-License-Identifier: Apache-2.0
"""What travels with an image: a bill of materials, a statement of provenance, the inputs to make it again."""
