"""`torch.compile(net, backend="tenon")`, and what belongs to it.

    import torch
    import tenon.torch               # not needed where the package is installed by pip

    net = torch.compile(net, backend="tenon")

Needs PyTorch, which `tenon` does not install.
"""

from __future__ import annotations

from tenon.torch._backend import backend

__all__ = ["backend"]


def _register() -> None:
    from torch._dynamo import list_backends, register_backend

    if "tenon" not in list_backends(exclude_tags=None):
        register_backend(backend, name="tenon")


_register()
