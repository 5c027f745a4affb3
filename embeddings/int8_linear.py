"""Linear layers with 8-bit weights, in the form that OpenVINO keeps as 8 bits."""

import torch
from torch import Tensor, nn

_LARGEST = 127


class Int8Linear(nn.Module):
    """Symmetric weights, one scale for each output row: `w ≈ q · max|w| / 127`."""

    quantised: Tensor
    scale: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(weight.dtype).tiny) / _LARGEST
        self.register_buffer("quantised", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, states: Tensor) -> Tensor:
        """`(…, in)` to `(…, out)`."""
        return nn.functional.linear(states, self.quantised.to(self.scale.dtype) * self.scale, self.bias)


def to_int8(module: nn.Module) -> None:
    """Exchange every linear layer below `module`, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            to_int8(child)
