# SPDX-License-Identifier: Apache-2.0
"""Let a torchvision built for CUDA be imported beside a CPU build of torch.

The package index has CPU builds of neither; where a CPU build of torch is at hand, one
of torchvision often is not. The CUDA build cannot load its operators then, and its
import fails when it registers their fakes. vLLM's Qwen models import it for images
only. So the operators are declared before the import, without an implementation:
calling one is an error, importing torchvision is not. With any other pair of builds
nothing happens here.
"""

import importlib.abc
import importlib.machinery
import importlib.metadata
import sys


class _Finder(importlib.abc.MetaPathFinder):
    """Steps aside for good at the first import of torchvision."""

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            _declare()
        return None


def _declare():
    try:
        builds = {
            importlib.metadata.version(name).rpartition("+")[2]
            for name in ("torch", "torchvision")
        }
    except importlib.metadata.PackageNotFoundError:
        return
    if "cpu" not in builds or builds == {"cpu"}:
        return
    import torch

    if torch.version.cuda is not None:
        return
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _Finder.library = library  # the declaration lasts as long as this object


sys.meta_path.insert(0, _Finder())
