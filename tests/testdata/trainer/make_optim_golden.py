#!/usr/bin/env python3
"""Writes optim.txt: what Python's torch does, for tests/trainer/optim.

Made with torch 2.11.0 on the CPU:  python3 make_optim_golden.py > optim.txt
Each line is a key and numbers. Weights: `w` of shape [2, 3, 2, 1] and `b` of
shape [3].
"""

import math

import torch
from torch.optim import swa_utils
from torch.optim.lr_scheduler import (ChainedScheduler, CosineAnnealingLR,
                                      LinearLR, SequentialLR, StepLR)

STEPS = 6


def say(key, values):
    if isinstance(values, torch.Tensor):
        values = values.detach().double().flatten().tolist()
    print(key, " ".join("%.17g" % v for v in values))


def wave(count, start):
    return torch.tensor([math.sin(1.7 * i + start) for i in range(count)],
                        dtype=torch.float32)


def weights():
    return (torch.nn.Parameter(wave(12, 1).reshape(2, 3, 2, 1)),
            torch.nn.Parameter(wave(3, 2)))


def set_gradients(w, b, step):
    w.grad = wave(12, 10 + step).reshape(2, 3, 2, 1) * 0.5
    b.grad = wave(3, 20 + step) * 0.25


def optimizers():
    groups = lambda w, b: [{"params": [w]}, {"params": [b], "weight_decay": 0}]
    yield "sgd", lambda w, b: torch.optim.SGD([w, b], lr=0.1, momentum=0.9)
    yield "sgd_plain", lambda w, b: torch.optim.SGD(
        [w, b], lr=0.1, momentum=0, weight_decay=0.01)
    yield "nesterov", lambda w, b: torch.optim.SGD(
        groups(w, b), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    yield "adam", lambda w, b: torch.optim.Adam([w, b], lr=0.01,
                                                weight_decay=0.1)
    yield "adamw", lambda w, b: torch.optim.AdamW(
        groups(w, b), lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)


def schedules():
    one = lambda: torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    # Four steps an epoch, five epochs; W steps of warm-up.
    ramp = lambda o, steps: LinearLR(o, start_factor=1 / steps,
                                     total_iters=steps - 1)
    yield "constant_warmup", one(), lambda o: ramp(o, 6)
    yield "step", one(), lambda o: StepLR(o, step_size=8, gamma=0.1)
    yield "step_warmup", one(), lambda o: ChainedScheduler(
        [ramp(o, 4), StepLR(o, step_size=8, gamma=0.3)])
    yield "cosine", one(), lambda o: CosineAnnealingLR(o, T_max=20)
    yield "cosine_warmup", one(), lambda o: SequentialLR(
        o, [ramp(o, 6), CosineAnnealingLR(o, T_max=14, eta_min=0.02)], [6])


def main():
    w, b = weights()
    say("w", w)
    say("b", b)
    for step in range(STEPS):
        set_gradients(w, b, step)
        say("grad_w_%d" % step, w.grad)
        say("grad_b_%d" % step, b.grad)

    for name, make in optimizers():
        w, b = weights()
        optimizer = make(w, b)
        for step in range(STEPS):
            set_gradients(w, b, step)
            optimizer.step()
            say("%s_w_%d" % (name, step), w)
            say("%s_b_%d" % (name, step), b)

    w, b = weights()
    model = torch.nn.ParameterList([w, b])
    average = swa_utils.AveragedModel(
        model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD([w, b], lr=0.1, momentum=0.9)
    for step in range(STEPS):
        set_gradients(w, b, step)
        optimizer.step()
        average.update_parameters(model)
    say("ema_w", list(average.parameters())[0])
    say("ema_b", list(average.parameters())[1])

    for limit in (0.5, 100):
        set_gradients(w, b, 0)
        norm = torch.nn.utils.clip_grad_norm_([w, b], limit)
        say("clip_%g" % limit, [norm])
        say("clip_%g_w" % limit, w.grad)
        say("clip_%g_b" % limit, b.grad)

    # Gradients that are no numbers at steps 0 and 5, then a long good time.
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.25)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scales = []
    for step in range(2010):
        scaler.scale(torch.zeros(1))
        weight.grad = torch.tensor([0.5, math.inf if step in (0, 5) else 0.0])
        weight.grad *= scaler.get_scale()
        if step == 7:
            say("scaler_weight", weight)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    say("scaler", [scales[i] for i in (0, 1, 5, 6, 2004, 2005, 2006)])

    logits = wave(20, 3).reshape(4, 5)
    target = torch.tensor([1, -100, 4, 0])
    say("logits", logits)
    say("smooth_hard", [torch.nn.functional.cross_entropy(
        logits, target, reduction="sum", label_smoothing=0.1)])
    shares = torch.softmax(wave(20, 4).reshape(4, 5), 1)
    say("shares", shares)
    say("smooth_soft_first_three", [torch.nn.functional.cross_entropy(
        logits[:3], shares[:3], reduction="sum", label_smoothing=0.1)])

    for name, optimizer, make in schedules():
        scheduler = make(optimizer)
        rates = []
        for _ in range(20):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        say("schedule_" + name, rates)


if __name__ == "__main__":
    main()
