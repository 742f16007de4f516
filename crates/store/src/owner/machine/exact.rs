//! Numbers of events as they are written down: JSON knows no infinity and nothing that is no number, so their bits
//! stand for them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is written down by the bits of its numbers.
pub(super) trait Exact: Sized {
    type Bits: Serialize + for<'de> Deserialize<'de>;
    fn bits(&self) -> Self::Bits;
    fn of(bits: Self::Bits) -> Self;
}

impl Exact for f64 {
    type Bits = u64;

    fn bits(&self) -> u64 {
        self.to_bits()
    }

    fn of(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

impl Exact for Option<f64> {
    type Bits = Option<u64>;

    fn bits(&self) -> Option<u64> {
        self.map(f64::to_bits)
    }

    fn of(bits: Option<u64>) -> Option<f64> {
        bits.map(f64::from_bits)
    }
}

impl Exact for Vec<(u32, f64)> {
    type Bits = Vec<(u32, u64)>;

    fn bits(&self) -> Vec<(u32, u64)> {
        self.iter().map(|(curve, value)| (*curve, value.to_bits())).collect()
    }

    fn of(bits: Vec<(u32, u64)>) -> Vec<(u32, f64)> {
        bits.into_iter().map(|(curve, value)| (curve, f64::from_bits(value))).collect()
    }
}

pub(super) fn serialize<T: Exact, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.bits().serialize(to)
}

pub(super) fn deserialize<'de, T: Exact, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::Bits::deserialize(from).map(T::of)
}
