"""h2spec, which tests a server against the specifications of HTTP/2 and HPACK.

The measure is nghttp2's own server, asked by the same h2spec: what it passes, ours must pass.
"""

import subprocess
import xml.etree.ElementTree

import pytest

import programs


def verdicts(tools, server, folder, *flags) -> dict[str, str]:
    """Every case by its section and text: passed, skipped, or why it failed."""
    report = folder / "report.xml"
    subprocess.run(
        tools.go("h2spec", "-h", server.host, "-p", str(server.port), "-o", "5", "-j", str(report), *flags),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    found = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('package')}: {case.get('classname')}"
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        if problem is not None:
            found[name] = "".join(problem.itertext())
        else:
            found[name] = "skipped" if case.find("skipped") is not None else "passed"
    return found


@pytest.fixture(scope="module")
def reference(tools, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("nghttpd")
    (folder / "index.html").write_text("reference\n" * 10)
    with programs.OtherServer(["nghttpd", "--no-tls", "-d", str(folder), "-a", "127.0.0.1", "0"]) as nghttpd:
        return verdicts(tools, nghttpd, folder)


@pytest.mark.parametrize("kind, flags", [("server", []), ("tls_server", ["-t", "-k"])])
def test_every_case_that_nghttp2_passes(request, tools, kind, flags, reference, tmp_path):
    passed_there = {name for name, verdict in reference.items() if verdict == "passed"}
    assert len(passed_there) >= 140, "h2spec or nghttpd did not work"
    ours = verdicts(tools, request.getfixturevalue(kind), tmp_path, *flags)
    missing = {name: ours.get(name) for name in sorted(passed_there) if ours.get(name) != "passed"}
    assert not missing
