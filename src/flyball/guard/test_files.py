"""Which files are tests, which only help tests, and in which language they are written."""

import re
from typing import Literal

Language = Literal[
    "python", "js", "go", "rust", "jvm", "ruby", "php", "dotnet", "cpp", "swift", "elixir", "other"
]

_LANGUAGES: dict[str, Language] = {
    **dict.fromkeys(("py", "pyi"), "python"),
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"), "js"),
    **dict.fromkeys(("java", "kt", "kts", "scala", "groovy"), "jvm"),
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "h", "hpp"), "cpp"),
    **dict.fromkeys(("cs", "fs", "vb"), "dotnet"),
    **dict.fromkeys(("ex", "exs"), "elixir"),
    "go": "go",
    "rs": "rust",
    "rb": "ruby",
    "php": "php",
    "swift": "swift",
}

_NAMED = re.compile(
    r"(?:^|/)(?:test_[^/]*\.py|[^/]*_test\.(?:py|go|rs|rb|exs?|cc|cpp|c|dart|js|ts)|[^/]*[._-](?:test|"
    r"spec|tests|cy|e2e)\.[cm]?[jt]sx?|"
    r"[^/]*_spec\.(?:rb|lua)|[^/]*(?:tests?|spec|it)\.(?:java|kt|scala|groovy|cs|fs|vb|php|swift)|"
    r"test[A-Z][^/]*\.(?:java|php)|[^/]*\.feature|[^/]*\.bats|[^/]*\.snap|test-[^/]*\.(?:py|[cm]?[jt]sx?)|"
    r"tests?\.(?:py|rs|js|ts)|"
    r"[^/]*unittest[^/]*\.(?:cc|cpp))$",
    re.IGNORECASE,
)
_FOLDER = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing|e2e|integration[-_]tests?|unit[-_]tests?|t)/", re.IGNORECASE
)
_HELPER = re.compile(
    r"(?:^|/)(?:__init__|helpers?|utils?|fixtures?|factor(?:y|ies)|mocks?|stubs?|fakes?|support|data|"
    r"setup|common|"
    r"constants?|types|shared|base|[^/]*_?(?:helpers?|utils?|fixtures?|factor(?:y|ies)|mocks?))\.\w+$|"
    r"(?:^|/)(?:fixtures?|helpers?|__mocks__|mocks?|support|data|testdata|resources|golden)/",
    re.IGNORECASE,
)


def language(path: str) -> Language:
    return _LANGUAGES.get(path.rpartition(".")[2].lower(), "other")


def is_test(path: str) -> bool:
    """A file that a test runner collects, by its name or by its folder."""
    if _NAMED.search(path):
        return not path.endswith("/testing.py")
    return (
        bool(_FOLDER.search(path))
        and language(path) != "other"
        and not _HELPER.search(path)
        and not is_conftest(path)
    )


def is_named(path: str) -> bool:
    """A test by its name, whatever its folder."""
    return _NAMED.search(path) is not None


def is_near_test(path: str) -> bool:
    """A test, or code that tests use: either can be weakened."""
    return is_test(path) or is_conftest(path) or (bool(_FOLDER.search(path)) and language(path) != "other")


def is_conftest(path: str) -> bool:
    return path.rpartition("/")[2].lower() == "conftest.py"
