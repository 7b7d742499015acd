"""MXFP8 in exact integer arithmetic on bits, independent of the quantizer.

A magnitude is a Python integer that counts units of 2^-400, far below every number that occurs, so
that sums, products and comparisons are exact. The one place at which the rule itself rounds on the
way, amax times FP32(1 / largest) in FP32, is rounded here by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

NAN_CODE = 0x7F
POINT = 400


@dataclass(frozen=True)
class Float:
    """A binary format by its field widths."""

    exponent_bits: int
    mantissa_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def least_exponent(self) -> int:
        """Exponent of the last bit of a subnormal."""
        return 1 - self.bias - self.mantissa_bits

    def fields(self, bits: int) -> tuple[int, int, int]:
        """Return sign, exponent field and mantissa field."""
        mantissa = bits & ((1 << self.mantissa_bits) - 1)
        exponent = (bits >> self.mantissa_bits) & ((1 << self.exponent_bits) - 1)
        return bits >> (self.mantissa_bits + self.exponent_bits), exponent, mantissa

    def is_nan(self, bits: int) -> bool:
        _, exponent, mantissa = self.fields(bits)
        return exponent == (1 << self.exponent_bits) - 1 and mantissa != 0

    def is_infinite(self, bits: int) -> bool:
        _, exponent, mantissa = self.fields(bits)
        return exponent == (1 << self.exponent_bits) - 1 and mantissa == 0

    def magnitude(self, bits: int) -> int:
        """Return |x| of a finite number in units of 2^-POINT."""
        _, exponent, mantissa = self.fields(bits)
        significand = mantissa if exponent == 0 else mantissa | (1 << self.mantissa_bits)
        return significand << (POINT + max(exponent, 1) - 1 + self.least_exponent)

    def code(self, magnitude: int) -> int:
        """Round to nearest even; return exponent and mantissa fields as one integer.

        A mantissa that rounds up to a power of two carries into the exponent by itself.
        """
        step = max(self.least_exponent, magnitude.bit_length() - 1 - POINT - self.mantissa_bits)
        significand, rest = divmod(magnitude, 1 << (POINT + step))
        half = 1 << (POINT + step - 1)
        significand += rest > half or (rest == half and significand % 2 == 1)
        return ((step - self.least_exponent) << self.mantissa_bits) + significand


FP32 = Float(8, 23)
BF16 = Float(8, 7)
FP16 = Float(5, 10)
E4M3 = Float(4, 3)
E5M2 = Float(5, 2)
LARGEST = {E4M3: 448, E5M2: 57344}


def scale_byte(source: Float, bits: list[int], target: Float) -> int:
    """Return the E8M0 byte of a block."""
    numbers = [b for b in bits if not source.is_nan(b)]
    if not numbers:
        return 0xFF
    if any(source.is_infinite(b) for b in numbers):
        return 0xFE
    amax = max(source.magnitude(b) for b in numbers)
    reciprocal = FP32.magnitude(FP32.code((1 << POINT) // LARGEST[target]))
    product = FP32.code(amax * reciprocal >> POINT)
    _, exponent, mantissa = FP32.fields(product)
    if exponent == 0:
        return 1 if mantissa > 1 << 22 else 0
    return exponent + (mantissa != 0)


def data_code(source: Float, bits: int, byte: int, target: Float) -> int:
    """Return the FP8 byte of one value under a block's scale."""
    if byte == 0xFF or source.is_nan(bits):
        return NAN_CODE
    sign, _, _ = source.fields(bits)
    magnitude = largest = LARGEST[target] << POINT
    if not source.is_infinite(bits):
        magnitude = min((source.magnitude(bits) << 127) >> byte, largest)
    return sign << 7 | target.code(magnitude)


def quantize_block(source: Float, bits: list[int], target: Float) -> tuple[int, list[int]]:
    """Return the scale's byte and the data's bytes of one block of bit patterns."""
    byte = scale_byte(source, bits, target)
    return byte, [data_code(source, b, byte, target) for b in bits]
