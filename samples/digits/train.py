#!/usr/bin/env python3
"""Trains the digits network and writes the model and its held-out images next to this file.

    pip install torch==2.13.0 numpy scikit-learn onnx onnxruntime
    python3 samples/digits/train.py

Writes digits.onnx, heldout_images.npy, heldout_labels.npy and example.npy. The results are
committed, so that neither building nor testing needs torch. The seed is fixed; on one thread the
same versions give the same weights.
"""

import pathlib

import numpy as np
import onnx
import onnxruntime
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
SEED = 7
HELD_OUT = 360
EPOCHS = 60
BATCH = 64
MAX_MODEL_BYTES = 300_000


class DigitsNet(nn.Module):
    """Two convolutions and a linear layer; returns a probability for each of the ten digits."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1, bias=False),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1, bias=False),
            nn.BatchNorm2d(48),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(48 * 2 * 2, 10)

    def logits(self, image):
        return self.head(self.dropout(torch.flatten(self.features(image), 1)))

    def forward(self, image):
        return torch.softmax(self.logits(image), dim=1)


def digits():
    """Images as f32 [n, 1, 8, 8] in 0..1, split the same way every time."""
    data = load_digits()
    images = (data.images / 16.0).astype(np.float32)[:, None]
    return train_test_split(
        images,
        data.target.astype(np.int64),
        test_size=HELD_OUT,
        random_state=SEED,
        stratify=data.target,
    )


def shifted(images, generator):
    """Moves each image by at most one pixel; there is no other augmentation."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    moves = torch.randint(0, 3, (len(images), 2), generator=generator)
    return torch.stack([image[:, y : y + 8, x : x + 8] for image, (y, x) in zip(padded, moves)])


def train(images, labels):
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(SEED)
    model = DigitsNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    steps = EPOCHS * (-(-len(images) // BATCH))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images), generator=generator).split(BATCH):
            loss = nn.functional.cross_entropy(
                model.logits(shifted(images[batch], generator)), labels[batch], label_smoothing=0.05
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def main():
    train_images, test_images, train_labels, test_labels = digits()
    model = train(torch.from_numpy(train_images), torch.from_numpy(train_labels))
    path = HERE / "digits.onnx"
    # PRESERVE keeps batch normalization as a node of its own: folding it is the compiler's job.
    torch.onnx.export(
        model,
        (torch.from_numpy(test_images[:1]),),
        str(path),
        opset_version=17,
        input_names=["image"],
        output_names=["digit_scores"],
        dynamic_axes={"image": {0: "batch"}, "digit_scores": {0: "batch"}},
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        dynamo=False,
    )
    onnx.checker.check_model(onnx.load(str(path)), full_check=True)
    assert path.stat().st_size <= MAX_MODEL_BYTES, path.stat().st_size

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    scores = session.run(None, {"image": test_images})[0]
    hits = scores.argmax(1) == test_labels
    right = int(hits.sum())
    assert right >= 0.975 * HELD_OUT, right
    example = int(hits.argmax())  # the first correctly classified one

    np.save(HERE / "heldout_images.npy", test_images)
    np.save(HERE / "heldout_labels.npy", test_labels)
    np.save(HERE / "example.npy", test_images[example : example + 1])
    print(
        f"{right} of {HELD_OUT} held-out images right, {path.stat().st_size} bytes; "
        f"example.npy shows a {test_labels[example]}"
    )


if __name__ == "__main__":
    main()
