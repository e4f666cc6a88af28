# SPDX-License-Identifier: Apache-2.0
"""What is shown has no credentials of addresses."""

from urllib.parse import quote

import pytest

from conftest import Project
from patchset import console, errors

#: Characters that end a user's part for one parser or another.
PASSWORDS = ["horse@battery", "horse'battery", 'horse"battery', "horse battery"]


ASKED = "'https://host.example/a.whl?{}' answers 403"
PLAIN = "see https://docs.example/a and write to somebody@localhost"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        *(
            # Up to the last @ of an authority.
            (
                f"GET https://me:{each}@host.example/: 404",
                "GET https://***@host.example/: 404",
            )
            for each in PASSWORDS
        ),
        # What an address asks for.
        (ASKED.format("sig=TOKEN&x=horse"), ASKED.format("***")),
        (PLAIN, PLAIN),
        ("try git+ssh://me:horse@host/x", "try git+ssh://***@host/x"),
    ],
)
def test_credentials_of_an_address_are_masked(said: str, shown: str) -> None:
    assert errors.redact(said) == shown


def test_a_tag_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    console.result("localhost/a:b: done")
    assert capsys.readouterr().out == "localhost/a:b: done\n"


def test_a_cut_text_does_not_bare_a_password() -> None:
    words = f"fatal: https://me:horse@host.example/{'x' * 90}"
    assert "horse" not in errors.tail(words, len(words) - 18)


@pytest.mark.parametrize("password", [*PASSWORDS, "horse/battery", "horse?battery"])
@pytest.mark.parametrize("command", ["apply", "pin", "drift"])
def test_a_configured_password_is_never_shown(
    project: Project, monkeypatch: pytest.MonkeyPatch, password: str, command: str
) -> None:
    """As it stands in pip's configuration, written out or quoted."""
    for file in project.downloads.iterdir():
        file.unlink()
    for written in (password, quote(password, safe="")):
        address = f"http://me:{written}@127.0.0.1:1/simple"
        monkeypatch.setenv("PIP_INDEX_URL", address)
        monkeypatch.setattr("patchset.inputs.fetch.TRIES", 1)
        done = project.run(*(command, "v9.9.9")[: 1 + (command == "pin")], status=1)
        assert "***" in done.stderr
        for part in ("horse", "battery"):
            assert part not in done.stdout + done.stderr
        where = address.replace("http://", "https://") + "/x.git"
    if command == "drift":
        done = project.run("drift", "main", "--remote", where, status=1)
        assert "horse" not in done.stdout + done.stderr
