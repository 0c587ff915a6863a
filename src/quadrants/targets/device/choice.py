"""The driver that kernels of this process run by: the machine's, made when it is first asked for, or one that was given."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from quadrants.errors import QuadrantsRuntimeError, QuadrantsUnsupportedError

__all__ = ["Choice"]

D = TypeVar("D")


class Choice(Generic[D]):
    """`name`: what users call the GPUs; `absent`: what a driver of the machine's lacks, '' for nothing; `make`: makes it;
    `unfit`: why code is not made for a driver's GPU, '' where it is. See `of_module`."""

    def __init__(self, name: str, absent: Callable[[], str], make: Callable[[], D], unfit: Callable[[D], str]) -> None:
        self._name = name
        self._absent, self._make, self._unfit = absent, make, unfit
        self._given: D | None = None
        self._found: D | None = None

    @classmethod
    def of_module(cls, name: str, module: str) -> Choice[D]:
        """The choice between drivers that the functions `missing`, `open_driver` and `unfit` of a module tell of: it is imported
        when they are asked."""

        def asked() -> Any:
            return importlib.import_module(module)

        return cls(name, lambda: asked().missing(), lambda: asked().open_driver(), lambda driver: asked().unfit(driver))

    def use(self, driver: D | None) -> None:
        """From now on kernels run by that driver; None: by the machine's again."""
        self._given = driver

    @contextmanager
    def using(self, driver: D) -> Iterator[D]:
        """While it is open, kernels run by that driver."""
        before, self._given = self._given, driver
        try:
            yield driver
        finally:
            self._given = before

    def missing(self) -> str:
        """What there is not that it takes to run on such a GPU, and the way out; '' where nothing is missing."""
        try:
            return self._lacks() or self._unfit(self._driver())
        except (QuadrantsRuntimeError, MemoryError) as error:
            return str(error)

    def current(self) -> D:
        """The driver to run on. QuadrantsUnsupportedError where there is none, QuadrantsRuntimeError where it does not work."""
        if reason := self._lacks():
            raise QuadrantsUnsupportedError(f"{self._name} cannot be used: {reason}")
        return self._driver()

    def _lacks(self) -> str:
        return self._absent() if self._given is None and self._found is None else ""

    def _driver(self) -> D:
        if self._given is not None:
            return self._given
        if self._found is None:
            self._found = self._make()
        return self._found
