"""Compiles the source of one function anew, to take the place of its code in the running process.

Nothing is executed for it: the function is compiled where it stood, by its class and line, and
only its code object is used.
"""

import __future__

import ast
import types
from typing import Final

_FUTURES: Final = sum(
    getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
)


def code_with(source: str, function: types.FunctionType) -> types.CodeType:
    """Return the code that `function` would have if `source` were its source.

    Args:
        source: the definition alone, without indentation; its decorators are left out.

    Raises:
        SyntaxError: it is no definition of that function.
    """
    kept = function.__code__
    tree = ast.parse(source)
    definition = tree.body[0] if len(tree.body) == 1 else None
    if (
        not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
        or definition.name != kept.co_name
    ):
        raise SyntaxError(f"this does not define {kept.co_name}")
    definition.decorator_list = []
    definition.returns = None
    body: ast.stmt = definition
    outer = function.__qualname__.split(".")[:-1]
    for name in reversed(outer):
        if name != "<locals>":
            # So that private names of a class are spelled as there, and super() finds it.
            body = ast.ClassDef(name, [], [], [body], [])
    module = ast.fix_missing_locations(ast.Module([body], []))
    ast.increment_lineno(module, kept.co_firstlineno - 1)
    flags = kept.co_flags & _FUTURES
    compiled = compile(module, kept.co_filename, "exec", flags=flags, dont_inherit=True)
    return _found(compiled, kept.co_name).replace(co_qualname=kept.co_qualname)


def written_code(code: types.CodeType) -> tuple[object, ...]:
    """Return what the code does, without where it stands: equal values do the same."""
    constants = tuple(
        written_code(each) if isinstance(each, types.CodeType) else (type(each), each)
        for each in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _found(code: types.CodeType, name: str) -> types.CodeType:
    """Return the code object of this name, however many classes it lies in."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            return each if each.co_name == name else _found(each, name)
    raise SyntaxError(f"this does not define {name}")
