# SPDX-License-Identifier: Apache-2.0
"""Makes the small model, which knows its answers by heart.

Runs in the server's environment, because it needs torch and transformers.
"""

from pathlib import Path

#: The release whose CPU build teaches the model, and serves it.
RELEASE = "v0.32.0"
#: Where the model lies that is shipped.
FOLDER = Path(__file__).parents[1] / "checkpoint"
#: Of a model: what taught it, and the sha256 of its other files.
MADE = "made.json"
