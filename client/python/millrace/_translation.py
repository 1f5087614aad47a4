"""What becomes of a compose: the transforms of the servers so far, the type of the pixels at this place,
notes, and what was refused. Pure; imports neither library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from millrace import transforms as T
from millrace._compose import Library, Refused, Step
from millrace._local import Layout, Local, View
from millrace._translated_fields import TranslatedFields
from millrace._values import shown
from millrace.errors import ArgumentError, InvalidArgumentError, TranslationError
from millrace.pipeline import FieldRole


class Translated(NamedTuple):
    """A pipeline: transforms, roles of fields, what differs, and what a loader does with each batch."""

    transforms: list[T.Transform]
    roles: list[FieldRole]
    notes: list[str]
    local: Local


class Translation:
    """Collects the transforms of the servers.

    `pixels` is what an image holds at this place in the other library:
      uint8   0 .. 255
      unit    floats of 0 .. 1
      floats  floats of 0 .. 255
      normal  floats after Normalize
      other   another type that is stored, which the servers do not transform
    The servers work on uint8 up to normalize, whatever the other library does there.
    """

    def __init__(self, library: Library, compose: Any, fields: TranslatedFields,
                 local: str | None) -> None:
        if local not in (None, *library.local):
            alone = "" if "batch" in library.local else f"{library.compose} works on single images: "
            raise ArgumentError(f"local={shown(local)}: {alone}expected None"
                                + "".join(f" or \"{name}\"" for name in library.local))
        if not library.owns(compose):
            raise ArgumentError(f"compose={shown(compose)}: expected a Compose of {library.compose}")
        self.library = library
        self.local = local
        self.fields = fields
        stored = "uint8" if fields.stored is None else fields.stored.dtype
        self.pixels: Literal["uint8", "unit", "floats", "normal", "other"] = \
            "uint8" if stored == "uint8" else "other"
        self.is_tensor = False  # and no longer what the dataset gives, which may be a PIL image
        self.dtype: str | None = None  # of the floats, where it is not float32
        self.statistics: tuple[list[float], list[float]] | None = None  # of Normalize
        # Conversions that the servers do later, for transforms that follow on the client.
        self.conversions: list[Any] = []
        self.transforms: list[T.Transform] = []
        self.notes: list[str] = []
        self.refused_compose = False  # the container itself: local= does not help
        self._after: list[T.Transform] = []  # normalize and to_dtype
        self._refused: list[dict[str, str]] = []
        # Of images that are decoded: a crop or resize gives them one size.
        self._one_size = fields.image not in fields.decoders
        # Where the first refused transform is, all images have one size: it can run on the client.
        self._may_be_local: bool | None = None
        self._resamples = False
        self._picks_pixels = False  # a resize or crop without antialiasing
        self._pixels_changed = False  # by more than geometry
        self._mask_dtype: str | None = None
        self._outside: tuple[int, Step] | None = None  # the class of pixels outside of masks
        self._black: Step | None = None  # where the other library pads masks with 0

    # ---- For the handlers of single transforms ------------------------------------------------

    @property
    def channels(self) -> int | None:
        """Of the images; None: the dataset says it."""
        return self.fields.channels

    def note(self, step: Step, text: str) -> None:
        self.notes.append(f"{step.name} (position {step.position}): {text}")

    def geometry(self, step: Step, transform: T.Transform, resamples: bool = False,
                 flips: bool = False) -> None:
        """Adds a transform that moves pixels."""
        self._one_size = self._one_size or _fixes_size(transform)
        if not flips:
            self._only_before_normalize(step)
        elif self.pixels == "normal":
            self.note(step, "the servers apply it before Normalize; the result is the same")
        if resamples:
            self._resamples = True
            self._picks_pixels = self._picks_pixels or _picks_pixels(transform)
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
            self.note(step, "the servers compute on bytes, and the compose on floats: results are rounded to "
                            "1/255, the random choices are the same")

    def erase(self, step: Step, transform: T.Transform) -> None:
        """Adds an erasing, whose values are levels of 0 .. 255 already."""
        self._pixels_changed = True
        self.transforms.append(transform)

    def gray(self, step: Step, parameter: str) -> None:
        """Images of one channel: taken at decoding."""
        if self.channels == 1:
            return
        if self.fields.image not in self.fields.decoders:
            raise Refused(parameter, "the servers convert to one channel only when they decode",
                          "store images of one channel, or use 3 channels")
        if self._pixels_changed:
            raise Refused(parameter, "the servers convert to one channel when they decode",
                          f"put {step.name} before the transforms that change colours, or use 3 channels")
        self.fields.decode_gray()
        self.note(step, "the servers convert to grey when they decode (decode_image { color: GRAY }), so "
                        "earlier transforms get grey images; levels may differ by 1")

    def other_type(self) -> Refused:
        """Of a transform that the servers have for uint8 alone."""
        stored = self.fields.stored
        return Refused("", f"the images are {stored and stored.dtype}, and the servers transform only uint8 "
                       "of 0 .. 255", "give images of uint8; convert floats of 0 .. 1 by "
                       "(images * 255).round()")

    def images_alone(self, step: Step) -> None:
        """The transform moves pixels where neither masks nor boxes can follow."""
        if self.fields.masks or self.fields.boxes:
            raise Refused("", f"{step.name} moves the pixels of images, and masks and boxes cannot follow",
                          "use RandomAffine and ColorJitter")

    def outside(self, step: Step, parameter: str, value: Any) -> None:
        """The class of pixels outside of masks in a transform that shows them."""
        if not self.fields.masks:
            return
        if isinstance(value, (list, tuple)) and len(value) == 1:
            value = value[0]
        if not isinstance(value, (int, float)) or value != int(value) or not 0 <= value <= 255:
            raise Refused(parameter, f"the value for masks is {shown(value)}, and pixels outside of a mask "
                          "have one class of 0 .. 255", self._advice_on_fill())
        if self._outside is None:
            self._outside = int(value), step
        elif self._outside[0] != value:
            other, where = self._outside
            raise Refused(parameter, f"pixels outside of masks get class {int(value)} here, and class {other} "
                          f"in {where.name} at position {where.position}; the servers have one class for "
                          "all transforms", self._advice_on_fill())

    def black_outside(self, step: Step) -> None:
        """A transform that gives pixels outside of masks the class 0, if there are any."""
        self._black = self._black or step

    def cast_masks(self, step: Step, dtype: str) -> None:
        """Another type of masks."""
        if not self.fields.masks or dtype == (self._mask_dtype or "uint8"):
            return
        if dtype not in ("int16", "int32", "int64", "float16", "bfloat16", "float32", "float64") or \
                self._mask_dtype is not None:
            raise Refused("dtype", f"the servers do not convert masks of {self._mask_dtype or 'uint8'} to "
                          f"{dtype}", "keep one conversion of masks, to int64 or floats")
        self._mask_dtype = dtype

    def normalize(self, step: Step, mean: Sequence[float], std: Sequence[float],
                  name: str) -> None:
        """Adds normalize; `name`: the parameter's."""
        if self.pixels == "normal":
            raise Refused("", "the servers normalise an image only once",
                          "combine the two Normalize into one")
        mean, std = [float(value) for value in mean], [float(value) for value in std]
        channels = self.channels or max(len(mean), len(std))
        if len(mean) not in (1, channels) or len(std) not in (1, channels):
            raise Refused(name, f"the images have {channels} channel{'s' * (channels > 1)}, and "
                          f"{step.name} has {max(len(mean), len(std))} values",
                          "write one value for each channel")
        mean = mean if len(mean) == channels else mean * channels
        std = std if len(std) == channels else std * channels
        self.statistics = mean, std
        self.pixels = "normal"
        self._after.append(T.Normalize(mean, std, fields=self.fields.colored))

    def cast(self, dtype: str) -> None:
        """Another type of floats after Normalize."""
        if dtype != "float32" and self.dtype is None:
            self.dtype = dtype
        elif dtype != (self.dtype or "float32"):
            raise Refused("dtype", "the servers convert an image only once", "keep one conversion, at "
                          "the end")

    def levels(self, step: Step, parameter: str, values: Sequence[float]) -> list[int]:
        """Values of the other library's pixels at this place as levels of 0 .. 255."""
        exact = [float(value) for value in values]
        if self.pixels == "unit":
            exact = [255 * value for value in exact]
        elif self.pixels == "normal" and self.statistics is not None:
            mean, std = self.statistics
            if len(exact) > 1 and len(mean) == 1 and self.channels is None:
                raise Refused(parameter, f"it has {len(exact)} values, and Normalize in front of it has one for "
                              "all channels, whose number is not known", "write one value a channel in "
                              "Normalize")
            if len(exact) not in (1, len(mean)):
                raise Refused(parameter, f"it has {len(exact)} values, and the images have {len(mean)} "
                              "channels", "write one value, or one for each channel")
            exact = [255 * (mean[i] + std[i] * (exact[0] if len(exact) == 1 else exact[i]))
                     for i in range(len(mean))]
        if not all(-0.5 <= value < 255.5 for value in exact):  # nor NaN
            raise Refused(parameter, f"the value is level {exact} of 0 .. 255, which uint8 cannot hold",
                          "write values in the range of the images")
        levels = [round(value) for value in exact]
        if any(abs(level - value) > 1e-6 for level, value in zip(levels, exact)):
            self.note(step, f"the servers use levels {levels} of 0 .. 255 for {parameter}, rounded "
                            f"from {[round(value, 3) for value in exact]}")
        return levels[:1] if len(set(levels)) == 1 else levels

    def _only_before_normalize(self, step: Step) -> None:
        if self.pixels == "normal":
            raise Refused("", "after Normalize, the servers apply only flips, erasing and casts",
                          f"put {step.name} before Normalize")

    def _advice_on_fill(self) -> str:
        return "write fill={tv_tensors.Mask: CLASS, \"others\": 0}, the same class in all transforms" \
            if self.library.name == "torchvision" else "write the same class as fill_mask= in all transforms"

    # ---- For the translators ------------------------------------------------------------------

    def run(self, steps: Sequence[Step], translate: Callable[[Translation, Step], None],
            nowhere: Callable[[Any], bool] = lambda transform: False) -> list[Step]:
        """Translates the steps. Returns those that run on the client.

        Args:
          translate: adds one step, or raises Refused.
          nowhere: whether a transform can run neither here nor there.
        """
        for i, step in enumerate(steps):
            notes, outside = len(self.notes), self._outside
            try:
                translate(self, step)
                continue
            except Refused as error:
                refused = error
            except (ArgumentError, InvalidArgumentError) as error:  # of a class of millrace.transforms
                refused = Refused("", str(error), "write another value")
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                refused = Refused("", f"a parameter has a value that Millrace cannot convert ({error})",
                                  f"write numbers as {self.library.compose} describes them, or report it, "
                                  f"with the release of {self.library.name}")
            del self.notes[notes:]
            self._outside = outside
            cannot_run = isinstance(step.transform, type) or not callable(step.transform)
            if self.local is None or cannot_run or nowhere(step.transform):
                if self._may_be_local is None:
                    self._may_be_local = self._one_size
                self.refuse(step, refused)
                continue
            rest = list(steps[i:])
            behind = f", with the {len(rest) - 1} after it" if len(rest) > 1 else ""
            draws = "each image has its own random choices" if self.local == "sample" else \
                "all images of a batch have the same random choices"
            self.note(step, f"runs in the loader{behind}, on the client's CPU ({refused.reason}); "
                            f"{draws}, from {self.library.generator}: seed=, resuming and replay() do not "
                            "repeat them")
            return rest
        return []

    def refuse(self, step: Step, refused: Refused) -> None:
        self._refused.append({"position": step.position, "transform": step.name,
                              "parameter": refused.parameter, "reason": refused.reason,
                              "advice": refused.advice})

    def finish(self, steps: Sequence[Any], images: Layout, masks: Layout) -> Translated:
        """The pipeline, with `steps` to run on the client, and the library's layouts.

        Raises:
          TranslationError: something was refused.
        """
        if self._refused:
            raise TranslationError(
                _report(self.library.name, self._refused, self.fields.stored is not None,
                        self._may_be_local if self.local is None and not self.refused_compose else None),
                {"refused": self._refused})
        colored = self.fields.colored
        converted_here = bool(steps) and self.pixels in ("unit", "floats", "other")
        scale: bool | None = None
        if converted_here:
            steps = [*self.conversions, *steps]
        elif self.pixels == "unit" and self.channels is not None:
            # (x / 255 - 0) / 1, because normalised images arrive as [rows, C, H, W].
            self._after.append(T.Normalize([0.0] * self.channels, [1.0] * self.channels, fields=colored))
        elif self.pixels == "unit":
            self.dtype, scale = self.dtype or "float32", True
        elif self.pixels == "floats":
            self.dtype = self.dtype or "float32"
        if self.dtype is not None and not converted_here:
            self._after.append(T.ToDtype(self.dtype, scale, fields=colored))  # type: ignore[arg-type]
        if self._mask_dtype is not None:
            self._after.append(T.ToDtype(self._mask_dtype,  # type: ignore[arg-type]
                                         fields=self.fields.masks))
        self._general_notes()
        arrives: Layout = "channels_first" if any(isinstance(t, T.Normalize) for t in self._after) \
            else "channels_last"
        views = [View(self.fields.image, "image", arrives, images),
                 *(View(name, "mask", "channels_last", masks) for name in self.fields.masks),
                 *(View(name, "boxes", "boxes", "boxes") for name in self.fields.boxes)]
        here = Local(self.library.name, tuple(views), tuple(steps),
                     self.local != "batch")
        transforms = [*self.fields.decoders.values(), *self.transforms, *self._after]
        return Translated(transforms, self._roles(), self.notes, here)

    def _general_notes(self) -> None:
        decoder = self.fields.decoders.get(self.fields.image)
        scaled = decoder is not None and decoder.values.get("mode", "SCALED") != "EXACT"
        exact = "decode=DecodeImage(mode=\"exact\") decodes at full size"
        if self._resamples:
            self.notes.append(
                "resampling: the servers compute in fixed point" +
                (", and decode a JPEG at 1/2, 1/4 or 1/8 of its size where that is large enough for the result"
                 if scaled else "") + "; pixels differ slightly where images are resized with antialiasing, random "
                "choices do not (docs/images.md)" + (f". {exact}" if scaled else ""))
        if self._picks_pixels and scaled:
            self.notes.append(
                "resampling without antialiasing: decoding a JPEG at 1/2, 1/4 or 1/8 of its size smooths it "
                "before its pixels are picked, so the pixels of large JPEGs differ clearly from those of "
                f"{self.library.name}, by some levels on average; {exact}")
        if self.fields.boxes:
            self.notes.append(
                "boxes: the number of boxes is constant, so a box outside of the image gets zero width or "
                "height; a stored box of four zeros is padding and is not moved")
        if self._black is not None and self._outside is not None and self._outside[0] != 0:
            self.note(self._black, f"the servers pad masks of smaller images with class {self._outside[0]}, "
                                   "as the other transforms do; the compose pads them with class 0")

    def _roles(self) -> list[FieldRole]:
        of = self.fields.colored
        fill = self._outside[0] if self._outside is not None else 0
        return [*(FieldRole(name, "mask", of=of, fill=fill or None) for name in self.fields.masks),
                *(FieldRole(name, "boxes_xyxy", of=of) for name in self.fields.boxes)]


def _fixes_size(transform: T.Transform) -> bool:
    """Whether the result has one size, whatever the sizes of the images are."""
    return isinstance(transform, (T.CenterCrop, T.RandomCrop, T.RandomResizedCrop)) or \
        isinstance(transform, T.Resize) and "short_side" not in transform.values


def _picks_pixels(transform: T.Transform) -> bool:
    """Whether most pixels of a larger image have no part in the result."""
    return isinstance(transform, (T.RandomResizedCrop, T.Resize)) and (
        transform.values.get("interpolation") == "INTERPOLATION_NEAREST" or "no_antialias" in transform.values)


def _report(library: str, refused: Sequence[dict[str, str]], of_arrays: bool,
            may_be_local: bool | None) -> str:
    """`may_be_local`: whether local= would help; None: not a word about it."""
    lines = [f"the servers cannot run this pipeline of {library}:"]
    for item in refused:
        what = item["transform"] + (f"({item['parameter']}=)" if item["parameter"] else "")
        lines.append(f"  position {item['position']}, {what}: {item['reason']}; {item['advice']}")
    if may_be_local is False:
        lines.append("local=\"sample\" would run the first of these transforms and all later ones in the loader, "
                     "and needs images of one size there: put a transform before it that gives them one, "
                     f"{'CenterCrop or RandomResizedCrop' if library == 'torchvision' else 'Resize or CenterCrop'}")
    elif may_be_local:
        how = f"millrace.Pipeline.from_{library}(compose, decode=False, local=\"sample\")" if of_arrays else \
            "local=\"sample\""
        lines.append(f"{how} runs the first of these transforms and all later ones in the loader, on the "
                     "client's CPU")
    return "\n".join(lines)
