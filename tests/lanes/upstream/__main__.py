# SPDX-License-Identifier: Apache-2.0
"""``python -m upstream RELEASE``: what the release's own tests say about the series."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import click

from conformance import tokens
from patchset import console, paths, release, run_command
from patchset.errors import PatchsetError
from upstream import other_parsers

#: Where releases keep the tests of what the series touches; a release has some of these
#: places. Other models' are not among them.
FILES = (
    "tests/tool_parsers/test_qwen3*.py",
    "tests/tool_parsers/test_structural_tag_registry.py",
    "tests/tool_parsers/test_utils.py",
    "tests/tool_use/test_chat_completion_request_validations.py",
    "tests/tool_use/test_tool_choice_required.py",
    "tests/reasoning/test_qwen3_reasoning_parser.py",
    "tests/parser/test_abstract_parser.py",
    "tests/parser/test_chat_parsing.py",
    "tests/parser/test_include_reasoning.py",
    "tests/parser/test_parse.py",
    "tests/parser/test_streaming.py",
    "tests/parser/engine/test_delegating_replay.py",
    "tests/parser/engine/test_engine.py",
    "tests/parser/engine/test_parser_engine.py",
    "tests/parser/engine/test_qwen3*.py",
    "tests/parser/engine/test_token_id_scanner.py",
    "tests/parser/engine/test_ufffd_reasoning_transition.py",
    "tests/entrypoints/openai/**/test_chat_error.py",
    "tests/entrypoints/openai/**/test_serving_chat.py",
    "tests/entrypoints/openai/**/test_stream_processor.py",
    "tests/entrypoints/openai/**/test_serving_responses.py",
    "tests/entrypoints/openai/responses/test_streaming_events.py",
    "tests/entrypoints/openai/responses/test_function_call*.py",
    "tests/entrypoints/openai/responses/test_errors.py",
    "tests/entrypoints/**/test_anthropic_messages_conversion.py",
    "tests/v1/core/**/test_*.py",
    "tests/v1/structured_output/**/test_*.py",
)
#: Their tokenizers, in place of which they get Qwen's.
TOKENIZERS = ("gpt2", "openai-community--gpt2", "Qwen--Qwen3-0.6B")
#: Seconds for one test; those that wait for a model hub end by it.
TEST_TIMEOUT = 60
TREE_TIMEOUT = 3600


def compare(
    stock: dict[str, str], patched: dict[str, str], exceptions: set[str]
) -> dict[str, list[str]]:
    """Sort the tests of two runs by what the series did to them.

    A test that ran once only counts as failed in the other; one that was skipped counts
    nowhere. Exceptions name functions; *idle* ones need none. *neither* fails without
    as well: a model hub, a kernel, a package is missing.
    """
    differences: dict[str, list[str]] = {
        kind: [] for kind in ("both", "lost", "excepted", "gained", "neither")
    }
    idle = set(exceptions)
    for name in sorted(stock.keys() | patched.keys()):
        function = name.partition("[")[0]
        before, after = (run.get(name) for run in (stock, patched))
        if "skipped" in (before, after):
            continue
        kind = {
            (True, True): "both",
            (True, False): "excepted" if function in exceptions else "lost",
            (False, True): "gained",
            (False, False): "neither",
        }[before == "passed", after == "passed"]
        differences[kind].append(name)
        if kind == "excepted":
            idle.discard(function)
    return differences | {"idle": sorted(idle)}


def exceptions(pinned: release.Release) -> set[str]:
    """Return the tests named in ``upstream-tests.toml``, each with its reason.

    Raises:
        PatchsetError: the file is no such list.
    """
    path = pinned.folder / "upstream-tests.toml"
    try:
        listed = tomllib.loads(path.read_text(encoding="utf-8"))["test"]
        return {entry["name"] for entry in listed if entry["reason"]}
    except FileNotFoundError:
        return set()
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise PatchsetError(
            f"{path} is no list of [[test]] with name and reason: {error!r}"
        ) from error


def hub(folder: Path) -> None:
    """Make a cache of the model hub with what vLLM's own tests of the scheduler and of
    grammars ask of it: the configuration of a model, without weights, and tokenizers.
    """
    from transformers import OPTConfig

    revision = "0" * 40
    for name in ("facebook--opt-125m", *TOKENIZERS):
        model = folder / "hub" / f"models--{name}"
        snapshot = model / "snapshots" / revision
        if name in TOKENIZERS:
            shutil.copytree(tokens.model_folder(), snapshot)
        else:
            OPTConfig(architectures=["OPTForCausalLM"]).save_pretrained(snapshot)
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text(revision)


def outcomes(tree: Path, log: Path) -> dict[str, str]:
    """Run the tree's tests in a process of their own.

    Raises:
        PatchsetError: they did not end, or the tree has none of them.
    """
    found = {file for pattern in FILES for file in tree.glob(pattern)}
    if not found:
        hint = "make the trees with nox -s apply -- RELEASE"
        raise PatchsetError(f"{tree} has none of the tests", hint)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "outcomes.json")
        hub(Path(scratch))
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(
                [str(tree), str(Path(__file__).parent.parent)]
            ),
            "UPSTREAM_OUTCOMES": str(path),
            "VLLM_TARGET_DEVICE": "cpu",
            "HF_HOME": scratch,
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short"),
            *("-p", "upstream.plugin", "-p", "no:cacheprovider"),
            *(f"--timeout={TEST_TIMEOUT}", "--continue-on-collection-errors"),
            *sorted(str(file.relative_to(tree)) for file in found),
        ]
        with log.open("wb") as out:
            try:
                subprocess.run(
                    command,
                    cwd=tree,
                    env=environment,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=TREE_TIMEOUT,
                )
            except subprocess.TimeoutExpired as error:
                raise PatchsetError(
                    f"the tests of {tree} did not end in {TREE_TIMEOUT} s", f"see {log}"
                ) from error
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError) as error:
            raise PatchsetError(
                f"pytest could not run the tests of {tree}", f"see {log}"
            ) from error


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="[RELEASE]...", nargs=-1)
def command(names: tuple[str, ...]) -> None:
    """Run a release's own tests on its stock and its patched tree, and name each that
    the series breaks; then compare what its other parsers read.

    A broken test is an error unless patches/RELEASE/upstream-tests.toml names it with
    the reason. Tests that fail on the stock tree as well, for want of a GPU, a model
    hub or a package, are counted and prove nothing.
    """
    worst = 0
    for pinned in [release.load(name) for name in names or (None,)]:
        trees = paths.trees_dir(pinned.name)
        ran = {}
        for kind in ("stock", "patched"):
            log = paths.build_dir() / f"upstream-{pinned.name}-{kind}.log"
            with console.step(f"{pinned.name}, {kind}: its own tests"):
                ran[kind] = outcomes(trees / kind, log)
        differences = compare(ran["stock"], ran["patched"], exceptions(pinned))
        for kind in ("lost", "idle", "gained"):
            console.result(*(f"  {kind}: {test}" for test in differences[kind]))
        counts = ", ".join(
            f"{kind} {len(tests)}" for kind, tests in differences.items()
        )
        console.result(f"{pinned.name}, tests by what the series did: {counts}")
        others = other_parsers.compare(str(trees / "stock"), str(trees / "patched"))
        worst = max(worst, bool(differences["lost"] or differences["idle"]), others)
    sys.exit(worst)


if __name__ == "__main__":
    run_command.run_lane(lambda: command.main(standalone_mode=False) or 0)
