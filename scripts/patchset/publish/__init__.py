# SPDX-License-Identifier: Apache-2.0
"""From archives to a registry that people pull from: parts, attestations, tags, signature; and back again to be checked."""
