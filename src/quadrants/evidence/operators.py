"""Python's operators by the names of the op table, for the values of the oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["InPlace", "Operators"]


class Operators(ABC):
    """Every operator ends in `_operate` or `_compare`, given the operation's name and both operands in order."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves mixed operations to this class

    @abstractmethod
    def _operate(self, name: str, left: Any, right: Any) -> Any:
        """An arithmetic or bit operation; NotImplemented where the other operand decides."""

    @abstractmethod
    def _compare(self, name: str, left: Any, right: Any) -> Any:
        """A comparison; NotImplemented where the other operand decides."""

    def __add__(self, other: Any) -> Any:
        return self._operate("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._operate("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._operate("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._operate("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._operate("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._operate("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._operate("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._operate("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._operate("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._operate("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._operate("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._operate("mod", other, self)

    def __pow__(self, other: Any) -> Any:
        return self._operate("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._operate("pow", other, self)

    def __and__(self, other: Any) -> Any:
        return self._operate("bit_and", self, other)

    def __rand__(self, other: Any) -> Any:
        return self._operate("bit_and", other, self)

    def __or__(self, other: Any) -> Any:
        return self._operate("bit_or", self, other)

    def __ror__(self, other: Any) -> Any:
        return self._operate("bit_or", other, self)

    def __xor__(self, other: Any) -> Any:
        return self._operate("bit_xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._operate("bit_xor", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._operate("shl", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._operate("shl", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._operate("shr", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._operate("shr", other, self)

    def __eq__(self, other: Any) -> Any:
        return self._compare("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return self._compare("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return self._compare("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("ge", self, other)


class InPlace(Operators):
    """Operators of memory: `a += b` changes what `a` is a view of."""

    __slots__ = ()

    @abstractmethod
    def _update(self, name: str, other: Any) -> Any:
        """Applies the operation in place and gives the view itself."""

    def __iadd__(self, other: Any) -> Any:
        return self._update("add", other)

    def __isub__(self, other: Any) -> Any:
        return self._update("sub", other)

    def __imul__(self, other: Any) -> Any:
        return self._update("mul", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._update("div", other)

    def __ifloordiv__(self, other: Any) -> Any:
        return self._update("floordiv", other)

    def __imod__(self, other: Any) -> Any:
        return self._update("mod", other)

    def __ipow__(self, other: Any) -> Any:
        return self._update("pow", other)

    def __iand__(self, other: Any) -> Any:
        return self._update("bit_and", other)

    def __ior__(self, other: Any) -> Any:
        return self._update("bit_or", other)

    def __ixor__(self, other: Any) -> Any:
        return self._update("bit_xor", other)

    def __ilshift__(self, other: Any) -> Any:
        return self._update("shl", other)

    def __irshift__(self, other: Any) -> Any:
        return self._update("shr", other)
