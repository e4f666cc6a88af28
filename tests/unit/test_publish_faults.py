# SPDX-License-Identifier: Apache-2.0
"""Publishing while the registry fails, lies, or somebody else publishes; and with attestations that are another image's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import registry_server
import small_base
from conftest import Project
from registry_server import Fault, Network, host, network, own_places
from small_base import SITE, base, released
from test_publish import goal
from test_thin import build
from test_wheel import packaged

from patchset import paths
from patchset.errors import PatchsetError, UnavailableError
from patchset.publish import push
from patchset.registry.reference import Reference, parse
from patchset.release import load

__all__ = ["base", "goal", "host", "network", "own_places", "packaged", "released"]

ARCHIVE = "build/images/v1.2.0-cuda-thin.oci.tar"


def through(goal: str, network: Network) -> Reference:
    """The same repository, reached over the faulty network."""
    return parse(goal.replace(goal.split("/")[0], network.host))


def publish(project: Project, goal: Reference) -> push.Published:
    return push.publish(goal, [project.root / ARCHIVE], push.tags(load("v1.2.0"), "cuda"))


@pytest.mark.parametrize("fault", [503, ("cut", 0), ("deaf", 0)])
def test_a_copied_layer_whose_upload_fails_at_its_end_is_closed(
    released: Project, goal: str, network: Network, tmp_path: Path, fault: Fault
) -> None:
    """The registry has every byte: nothing is left to be asked of the base's registry."""
    faults: dict[str, Fault] = {}

    def plan(method: str, path: str) -> Fault:
        address = path.partition("?")[0]
        if method != "PUT" or "/uploads/" not in path or address in faults:
            return None
        return faults.setdefault(address, fault)

    network.plan = plan
    with registry_server.registry(tmp_path) as other:
        build(released, small_base.push(other, "official/vllm"))
        assert publish(released, through(goal, network)).parts == {"sent": 6}
    assert faults and not list((paths.build_dir() / "registry").glob("*.json"))
    (tmp_path / "pulled").mkdir()
    assert (small_base.pulled(f"{goal}:latest", tmp_path / "pulled") / SITE[1:] / "vllm/reader.py").is_file()


@pytest.mark.parametrize(
    "location", ["http://[", "ftp://127.0.0.1/x", "http://127.0.0.1:1/v2/", "\x7f", 5, None]
)
def test_a_stale_upload_of_an_earlier_run_is_thrown_away(
    released: Project, base: str, goal: str, network: Network, location: object
) -> None:
    build(released, base)
    network.plan = lambda method, path: "close" if method == "PATCH" else None
    with pytest.raises(UnavailableError):
        publish(released, through(goal, network))
    (begun,) = (paths.build_dir() / "registry").glob("*.json")
    begun.write_text(json.dumps({"location": location}))
    network.plan = lambda method, path: None
    assert publish(released, through(goal, network)).parts == {"sent": 6}


def test_an_upload_that_the_registry_refuses_is_not_taken_up_again(
    released: Project, base: str, goal: str, network: Network
) -> None:
    build(released, base)
    network.plan = lambda method, path: 400 if method == "PUT" and "/uploads/" in path else None
    with pytest.raises(PatchsetError, match="answers 400"):
        publish(released, through(goal, network))
    assert not list((paths.build_dir() / "registry").glob("*.json"))
    network.plan = lambda method, path: None
    publish(released, through(goal, network))
