"""`torch.compile(net, backend="tenon")`, and what belongs to it.

    import torch
    import tenon.torch               # not needed where the package is installed by pip

    net = torch.compile(net, backend="tenon")

Needs PyTorch, which `tenon` does not install.
"""

from __future__ import annotations

from tenon.torch.capture.backend import backend
from tenon.torch.capture.explain import Explanation, explain
from tenon.torch.capture.export import from_exported
from tenon.torch.capture.register import register

__all__ = ["Explanation", "backend", "explain", "from_exported", "register"]


def _register() -> None:
    from torch._dynamo import list_backends, register_backend

    if "tenon" not in list_backends(exclude_tags=None):
        register_backend(backend, name="tenon")


_register()
