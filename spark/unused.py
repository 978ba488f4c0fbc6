"""Libraries that others load only because they are installed, and that none of our processes uses."""

import sys
from importlib.machinery import ModuleSpec
from typing import Final

UNUSED: Final = ("pandas",)


class _Unused:
    """Answers, as a finder of modules, that the unused ones are not there."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Nothing: the finders after it are asked. ModuleNotFoundError for an unused one."""
        if name in UNUSED:
            raise ModuleNotFoundError(f"{name} is not loaded: nothing of Headrace uses it", name=name)
        return None


def refuse_unused() -> None:
    """Have them not found in this process: where PySpark and pyarrow find pandas it takes half a second."""
    sys.meta_path.insert(0, _Unused())
