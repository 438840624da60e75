"""Generates the gRPC stubs before the package is built; everything else is in pyproject.toml."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import millrace_build  # noqa: E402

# Setuptools looks for the packages before any command runs.
millrace_build.generate()


class BuildPy(build_py):
    def run(self):
        millrace_build.generate()
        super().run()


class Sdist(sdist):
    def run(self):
        millrace_build.generate()
        super().run()


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
