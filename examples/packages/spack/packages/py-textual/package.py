"""Spack recipe of Textual 8: Spack's own has older versions only."""

from spack.package import *


class PyTextual(PythonPackage):
    """A framework for applications in the terminal."""

    pypi = "textual/textual-8.2.8.tar.gz"
    license("MIT")

    version("8.2.8", sha256="3f106a9fbc73e39dd266c9712432087de78a6d644084c7c241d6a25c3169115b")

    depends_on("py-poetry-core@1.2:", type="build")
    depends_on("py-rich@14.2:", type=("build", "run"))
    depends_on("py-markdown-it-py+linkify@2.1:", type=("build", "run"))
    depends_on("py-mdit-py-plugins", type=("build", "run"))
    depends_on("py-typing-extensions@4.4:4", type=("build", "run"))
    depends_on("py-platformdirs@3.6:4", type=("build", "run"))
    depends_on("py-pygments@2.19.2:", type=("build", "run"))
