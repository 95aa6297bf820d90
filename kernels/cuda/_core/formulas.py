"""Render the formulas of metrics (``kernels/shared/metric_formulas.py``) as C++."""

import ast
from functools import cache
from importlib.resources import files

from cmfast.kernels.loading import lock_loading
from cmfast.kernels.shared import metric_formulas


class _Names(ast.NodeTransformer):
    """Write codes as the macros of the sources, and what a table derives from its entries as calls."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.Name:
        """Return the name in C++ of ``Value.<code>`` or ``m.<entry>``."""
        if ast.unparse(node.value) == "Value":
            return ast.Name(f"CM_VALUE_{node.attr}")
        return ast.Name(f"m.{node.attr}" + "()" * (node.attr in metric_formulas.DERIVED))


@cache
def render() -> str:
    """Return the formulas as C++ function templates of the type of the table; expressions are as in Python."""
    parts: list[str] = []
    text = files("cmfast.kernels.shared").joinpath("metric_formulas.py").read_text()
    with lock_loading():  # Python 3.11 counts the recursion of parsers in all threads together, and raises SystemError
        tree = ast.parse(text)
    for node in _Names().visit(tree).body:
        if isinstance(node, ast.FunctionDef) and node.name in metric_formulas.FORMULAS:
            types = {"code": "int ", "square": "double ", "m": "const M& "}
            args = ", ".join(types[arg.arg] + arg.arg for arg in node.args.args)
            parts += ["template <typename M>", f"__device__ __forceinline__ typename M::Real {node.name}({args}) {{"]
            parts += [*_render_statements(node.body), "}"]
    return "\n".join(parts) + "\n"


def _render_statements(body: list[ast.stmt]) -> list[str]:
    """Return the lines of C++ for ``if``s, assignments and returns."""
    lines: list[str] = []
    for node in body:
        if isinstance(node, ast.If):
            lines += [f"if ({ast.unparse(node.test)}) {{", *_render_statements(node.body), "}"]
        elif isinstance(node, ast.Assign):
            lines.append(f"const auto {ast.unparse(node)};")
        elif isinstance(node, ast.Return):
            lines.append(f"{ast.unparse(node)};")
    return lines
