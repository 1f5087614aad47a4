"""What the translations from torchvision and Albumentations share: the transforms so far, the type of
the pixels at this place, notes, and refusals. Pure; imports neither library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from millrace import transforms as T
from millrace._local import Layout, Local
from millrace.errors import ArgumentError, TranslationError


class Refused(Exception):
    """Of one transform: `parameter` ("" for the whole transform), why, and what to do."""

    def __init__(self, parameter: str, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.parameter, self.reason, self.advice = parameter, reason, advice


class Step(NamedTuple):
    """A transform of the other library, and where it is: "2", or "2.0" in a container."""

    position: str
    transform: Any

    @property
    def name(self) -> str:
        return type(self.transform).__name__


class Translation:
    """Collects the transforms of the servers.

    `pixels` is what an image holds at this place in the other library:
      uint8   0 .. 255
      unit    floats of 0 .. 1
      floats  floats of 0 .. 255
      normal  floats after Normalize
    The servers work on uint8 up to normalize, whatever the other library does there.
    """

    def __init__(self, library: Literal["torchvision", "albumentations"], field: str,
                 decode: bool | T.DecodeImage) -> None:
        if not isinstance(field, str) or not field:
            raise ArgumentError(f"field={field!r}: expected the name of the images' field")
        if not isinstance(decode, (bool, T.DecodeImage)):
            raise ArgumentError(f"decode={decode!r}: expected True, False or a "
                                "millrace.transforms.DecodeImage")
        self.library = library
        self.field = field
        # Written into the transforms where it is not the servers' default.
        self.fields = None if field == "image" else field
        self.decode: T.DecodeImage | None = None
        if decode is not False:
            self.decode = T.DecodeImage(field=self.fields) if decode is True else decode
            named = self.decode.values.get("field", "image")
            if named != field:
                raise ArgumentError(f"decode= decodes field {named!r}, and field={field!r}: name the "
                                    f"field in both, DecodeImage(field={field!r})")
        self.pixels: Literal["uint8", "unit", "floats", "normal"] = "uint8"
        self.dtype: str | None = None  # of the floats, where it is not float32
        self.statistics: tuple[list[float], list[float]] | None = None  # of Normalize
        # Conversions that the servers do later, for transforms that follow on the client.
        self.conversions: list[Any] = []
        self.transforms: list[T.Transform] = []
        self.notes: list[str] = []
        self.refused_compose = False  # the container itself: local= does not help
        self._after: list[T.Transform] = []  # normalize and to_dtype
        self._refused: list[dict[str, str]] = []
        self._resamples = False
        self._pixels_changed = False  # by more than geometry

    # ---- For the handlers of single transforms ------------------------------------------------

    @property
    def channels(self) -> int | None:
        """Of the images; None: the dataset says it."""
        if self.decode is None:
            return None
        return 3 if self.decode.values.get("color", "RGB") == "RGB" else 1

    def note(self, step: Step, text: str) -> None:
        self.notes.append(f"{step.name} (position {step.position}): {text}")

    def geometry(self, step: Step, transform: T.Transform, resamples: bool = False,
                 flips: bool = False) -> None:
        """Adds a transform that moves pixels."""
        if not flips:
            self._only_before_normalize(step)
        elif self.pixels == "normal":
            self.note(step, "comes in front of Normalize at the servers; the result is the same")
        if resamples:
            self._resamples = True
            self.rounding(step)
        self.transforms.append(transform)

    def color(self, step: Step, transform: T.Transform) -> None:
        """Adds a transform that changes values."""
        self._only_before_normalize(step)
        self.rounding(step)
        self._pixels_changed = True
        self.transforms.append(transform)

    def rounding(self, step: Step) -> None:
        if self.pixels in ("unit", "floats"):
            self.note(step, "works on bytes at the servers, and on floats in the compose: results are "
                            "rounded to 1/255, draws are the same")

    def erase(self, step: Step, transform: T.Transform) -> None:
        """Adds an erasing, whose values are levels of 0 .. 255 already."""
        self._pixels_changed = True
        self.transforms.append(transform)

    def gray(self, step: Step, parameter: str) -> None:
        """Images of one channel: taken at decoding."""
        if self.channels == 1:
            return
        if self.decode is None or self._pixels_changed:
            raise Refused(parameter, "the servers make images of one channel only when they decode",
                          "put it in front of the transforms that change colours, with decode=True; or "
                          "use 3 channels")
        self.decode = T.DecodeImage(**{**_arguments(self.decode), "color": "gray"})
        self.note(step, "luma is taken when the image is decoded (decode_image { color: GRAY }), in "
                        "front of the transforms before it; levels may differ by 1")

    def normalize(self, step: Step, mean: Sequence[float], std: Sequence[float],
                  name: str) -> None:
        """Adds normalize; `name`: the parameter's."""
        if self.pixels == "normal":
            raise Refused("", "the servers normalise an image once",
                          "combine the two Normalize into one")
        mean, std = [float(value) for value in mean], [float(value) for value in std]
        channels = self.channels or max(len(mean), len(std))
        if len(mean) not in (1, channels) or len(std) not in (1, channels):
            raise Refused(name, f"the images have {channels} channel{'s' * (channels > 1)}, and this "
                          f"has {max(len(mean), len(std))} values", "write one value a channel")
        mean = mean if len(mean) == channels else mean * channels
        std = std if len(std) == channels else std * channels
        self.statistics = mean, std
        self.pixels = "normal"
        self._after.append(T.Normalize(mean, std, fields=self.fields))

    def cast(self, dtype: str) -> None:
        """Another type of floats after Normalize."""
        if dtype != "float32" and self.dtype is None:
            self.dtype = dtype
        elif dtype != (self.dtype or "float32"):
            raise Refused("dtype", "the servers convert an image once", "keep one conversion, at the "
                          "end")

    def levels(self, step: Step, parameter: str, values: Sequence[float]) -> list[int]:
        """Values of the other library's pixels at this place as levels of 0 .. 255."""
        exact = [float(value) for value in values]
        if self.pixels == "unit":
            exact = [255 * value for value in exact]
        elif self.pixels == "normal" and self.statistics is not None:
            mean, std = self.statistics
            if len(exact) not in (1, len(mean)):
                raise Refused(parameter, f"it has {len(exact)} values, and the images have {len(mean)} "
                              "channels", "write one value, or one a channel")
            exact = [255 * (mean[i] + std[i] * (exact[0] if len(exact) == 1 else exact[i]))
                     for i in range(len(mean))]
        levels = [round(value) for value in exact]
        if any(not 0 <= level <= 255 for level in levels):
            raise Refused(parameter, f"this is the level {exact} of 0 .. 255, which uint8 does not "
                          "hold", "choose values of the images' range")
        if any(abs(level - value) > 1e-6 for level, value in zip(levels, exact)):
            self.note(step, f"{parameter} is the levels {levels} of 0 .. 255 at the servers, rounded "
                            f"from {[round(value, 3) for value in exact]}")
        return levels[:1] if len(set(levels)) == 1 else levels

    def _only_before_normalize(self, step: Step) -> None:
        if self.pixels == "normal":
            raise Refused("", "the servers apply nothing but flips, erasing and casts after Normalize",
                          f"put {step.name} in front of Normalize")

    # ---- For the translators ------------------------------------------------------------------

    def local(self, step: Step, count: int, refused: Refused, generator: str, each: bool) -> None:
        """Notes that `count` transforms from this one on run in the loader."""
        behind = f", and {count - 1} behind it" if count > 1 else ""
        draws = "each image has random choices of its own" if each else \
            "all images of a batch have the same random choices"
        self.note(step, f"runs in the loader{behind}, on the client's processor ({refused.reason}); "
                        f"{draws}, from {generator}: neither seed=, resuming nor replay() repeats them")

    def refuse(self, step: Step, refused: Refused) -> None:
        self._refused.append({"position": step.position, "transform": step.name,
                              "parameter": refused.parameter, "reason": refused.reason,
                              "advice": refused.advice})

    def finish(self, steps: Sequence[Any], each: bool, wanted: Layout,
               may_be_local: bool) -> tuple[list[T.Transform], list[str], Local | None]:
        """The pipeline, with `steps` to run on the client.

        Raises:
          TranslationError: something was refused.
        """
        if self._refused:
            raise TranslationError(_report(self.library, self._refused, may_be_local),
                                   {"refused": self._refused})
        if steps and self.pixels in ("unit", "floats"):
            steps = [*self.conversions, *steps]
        elif self.pixels == "unit":
            if self.channels is None:
                raise ArgumentError(
                    "the compose scales pixels to 0 .. 1 without Normalize, and with decode=False the "
                    "number of channels is not known: add Normalize(mean=[0.0], std=[1.0]) with one "
                    "value a channel, which changes no value")
            # (x / 255 - 0) / 1.
            self._after.append(T.Normalize([0.0] * self.channels, [1.0] * self.channels,
                                           fields=self.fields))
        elif self.pixels == "floats":
            self.dtype = self.dtype or "float32"
        cast_here = self.dtype is not None and not (steps and self.pixels in ("unit", "floats"))
        if cast_here:
            self._after.append(T.ToDtype(self.dtype, fields=self.fields))  # type: ignore[arg-type]
        arrives: Layout = "channels_first" if any(isinstance(t, T.Normalize) for t in self._after) \
            else "channels_last"
        if self._resamples:
            self.notes.append(
                "resampling: the servers compute in fixed point, and decode a JPEG at 1/2, 1/4 or 1/8 of "
                "its size where that holds the result; pixels differ slightly, draws do not (docs/"
                "images.md). decode=DecodeImage(mode=\"exact\") decodes at full size")
        local = None
        if steps or arrives != wanted:
            local = Local(self.library, self.field, arrives, wanted, tuple(steps), each)
        head = [self.decode] if self.decode is not None else []
        return [*head, *self.transforms, *self._after], self.notes, local


def _arguments(decode: T.DecodeImage) -> dict[str, Any]:
    """What a DecodeImage was made with."""
    values = decode.values
    return {name: value.lower() if name in ("color", "mode") else value
            for name, value in values.items()}


def _report(library: str, refused: Sequence[dict[str, str]], may_be_local: bool) -> str:
    lines = [f"the servers cannot run this pipeline of {library}:"]
    for item in refused:
        what = item["transform"] + (f"({item['parameter']}=)" if item["parameter"] else "")
        lines.append(f"  position {item['position']}, {what}: {item['reason']}; {item['advice']}")
    if may_be_local:
        lines.append("local=\"sample\" runs the transforms from the first of these on in the loader, "
                     "on the client's processor")
    return "\n".join(lines)
