"""What the installation says of itself, and the examples of the documentation."""

import doctest
import importlib
import subprocess
import sys

import pytest

import dsstne
from dsstne import cli


def test_doctor_is_readable_and_complete():
    report = dsstne.doctor()
    text = str(report)
    assert report.ok
    for word in ("dsstne", "python", "numpy", "scipy", "library", "instruction_set", "threads", "memory", "cpu"):
        assert word in text
    assert all(len(line.split(None, 1)) == 2 for line in text.split("\n"))


def test_doctor_shows_a_cuda_device_or_says_why_there_is_none():
    report = dsstne.doctor()
    found = [device for device in report.engine["devices"] if device["name"].split(":")[0] == "cuda"]
    assert found
    for device in found:
        reason = f"not available: {device['missing']}" if device.get("missing") else f"kind {device['kind']}, "
        assert f"{device['name']}: {reason}" in str(report)
        assert len(reason.split()) > 3, "a reason is a sentence"


@pytest.mark.parametrize("arguments", [["-m", "dsstne", "doctor"], ["-m", "dsstne", "--version"]])
def test_the_command_works(arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    assert done.stdout.startswith("dsstne ")


def test_a_broken_installation_gives_the_command_a_bad_status(monkeypatch, capsys):
    monkeypatch.setattr(dsstne, "doctor", lambda: dsstne.diagnosis.Report({}, "nowhere", {}, ["it is broken"]))
    assert cli.main(["doctor"]) == 1
    assert "it is broken" in capsys.readouterr().out


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["docter"])
    assert "doctor" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "",
        "._scoring",
        "._weights",
        ".api",
        ".cli",
        ".comparison",
        ".dataset",
        ".diagnosis",
        ".errors",
        ".estimator",
        ".export",
        ".evaluation",
        ".interactions",
        ".metrics",
        ".model",
        ".model_selection",
        ".report",
        ".selection",
        ".solvers",
        ".blending",
        ".decomposition",
        ".trainer",
        ".weighting",
    ],
)
def test_examples_of_the_documentation_hold(name):
    module = importlib.import_module("dsstne" + name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.attempted > 0
    assert result.failed == 0
