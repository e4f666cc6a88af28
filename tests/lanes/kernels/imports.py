# SPDX-License-Identifier: Apache-2.0
"""Imports the files around a kernel from a vLLM tree, and stands in for all other modules of vLLM.

A tree's own sampler of the V2 model runner needs nothing compiled but its buffers in host memory. Those have a stand-in
over plain tensors here; what the sampler merely names is an object without behaviour.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

#: Packages whose files are the tree's own.
OWN = ("vllm.v1.worker.gpu.sample", "vllm.v1.worker.gpu.states")
#: The file whose kernels are looked at here.
BUDGET = "vllm.v1.worker.gpu.sample.thinking_budget"


class _Anything(type):
    """A class that has every attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


class Nothing(metaclass=_Anything):
    """Can be called, subclassed and asked for attributes, and does nothing."""

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __call__(self, *given: Any, **named: Any) -> Any:
        return Nothing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False


class _Empty(ModuleType):
    """A module that has every name, and is a package."""

    __path__ = []  # noqa: RUF012 - as ModuleType has it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Nothing,), {})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of vLLM: in the tree if it is one of ``OWN``, else an empty one."""

    def __init__(self, tree: Path, made: dict[str, ModuleType]) -> None:
        self._tree = tree
        self._made = made

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] != "vllm":
            return None
        if name not in self._made and name.startswith(OWN):
            place = self._tree.joinpath(*name.split("."))
            if (place / "__init__.py").is_file():
                folder = [str(place)]
                return importlib.util.spec_from_file_location(
                    name, place / "__init__.py", submodule_search_locations=folder
                )
            if place.with_suffix(".py").is_file():
                return importlib.util.spec_from_file_location(
                    name, place.with_suffix(".py")
                )
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return self._made.get(spec.name) or _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


def _buffers(device: torch.device) -> dict[str, Any]:
    """Stand-ins for ``buffer_utils``: what a host writes is copied where a device view of it would be taken."""

    class UvaBackedTensor:
        def __init__(
            self, size: Any, dtype: torch.dtype, max_concurrency: Any = None
        ) -> None:
            self.cpu = torch.zeros(size, dtype=dtype)
            self.np = self.cpu.numpy()
            self.gpu = self.cpu.to(device, copy=True)

        def copy_to_uva(self, n: int | None = None) -> torch.Tensor:
            self.gpu = self.cpu[:n].to(device, copy=True)
            return self.gpu

    class StagedWriteTensor:
        def __init__(
            self, size: Any, dtype: torch.dtype, device: torch.device, **named: Any
        ) -> None:
            self.gpu = torch.zeros(size, dtype=dtype, device=device)
            self._staged: list[tuple[Any, Any]] = []

        def stage_write(self, row: int, start: int, values: Iterable[Any]) -> None:
            written = torch.tensor(list(values), dtype=self.gpu.dtype)
            self._staged.append(((row, slice(start, start + len(written))), written))

        def stage_write_elem(self, row: int, value: Any) -> None:
            self._staged.append((row, torch.tensor(value, dtype=self.gpu.dtype)))

        def apply_write(self) -> None:
            for place, values in self._staged:
                self.gpu[place] = values.to(self.gpu.device)
            self._staged.clear()

    return {"UvaBackedTensor": UvaBackedTensor, "StagedWriteTensor": StagedWriteTensor}


def _sampling_params(tree: Path) -> dict[str, Any]:
    """The constants of ``sampling_params``, and a class with the fields and plain defaults of its own."""
    source = ast.parse((tree / "vllm/sampling_params.py").read_text(encoding="utf-8"))
    found = _constants(source.body)
    defaults: dict[str, Any] = {}
    for node in source.body:
        if isinstance(node, ast.ClassDef) and node.name == "SamplingParams":
            names = [
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            ]
            defaults = dict.fromkeys(names) | _constants(node.body)

    class SamplingParams(SimpleNamespace):
        all_stop_token_ids: frozenset[int] = frozenset()
        bad_words_token_ids = None

        def __init__(self, **given: Any) -> None:
            super().__init__(**{**defaults, **given})

    return {**found, "SamplingParams": SamplingParams}


def _constants(body: list[ast.stmt]) -> dict[str, Any]:
    """Names that a plain value is assigned to."""
    found = {}
    for node in body:
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else getattr(node, "target", None)
        )
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            found[target.id] = value.value
    return found


def _async_tensor_h2d(
    data: Any, dtype: torch.dtype, device: Any, **named: Any
) -> torch.Tensor:
    return torch.tensor(data, dtype=dtype, device=device)


def enter(tree: Path, device: str) -> ModuleType:
    """Make ``vllm`` the tree's files and stand-ins, from here on and in this process; returns the budget's module."""
    import triton
    import triton.language as tl

    if any(name.split(".")[0] == "vllm" for name in sys.modules):
        raise RuntimeError("vllm is imported already; a process enters one tree")
    where = torch.device(device)
    contents: dict[str, dict[str, Any]] = {
        "vllm.triton_utils": {"triton": triton, "tl": tl, "HAS_TRITON": True},
        "vllm.v1.worker.gpu.buffer_utils": _buffers(where),
        "vllm.utils.torch_utils": {"async_tensor_h2d": _async_tensor_h2d},
        "vllm.utils.math_utils": {"cdiv": lambda a, b: -(-a // b)},
        "vllm.sampling_params": _sampling_params(tree),
        "vllm.envs": {
            "VLLM_MAX_NUM_BAD_WORDS": 8,
            "VLLM_MAX_BAD_WORDS_TOTAL_TOKENS": 64,
        },
        "vllm.platforms": {
            "current_platform": SimpleNamespace(
                device_type=where.type,
                is_cuda_alike=lambda: True,
                is_cuda=lambda: True,
                is_xpu=lambda: False,
                is_rocm=lambda: False,
            )
        },
    }
    made: dict[str, ModuleType] = {}
    for name, values in contents.items():
        made[name] = _Empty(name)
        for key, value in values.items():
            setattr(made[name], key, value)
    sys.meta_path.insert(0, _Finder(tree, made))
    return importlib.import_module(BUDGET)


def load(path: Path, name: str) -> ModuleType:
    """Another version of a file of the tree that the process is in, under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
