//! What the values of an array come to: the least and the greatest one, their mean, and how many are not numbers. They are
//! counted while the checksum is taken, piece by piece, and joined.
//!
//! ```text
//!  {"min": -3, "max": 7, "sum": 12}                          integers: exact
//!  {"min": -0.5, "max": 2.0, "sum": 12.25, "nans": 1}        real numbers; of complex ones the absolute values
//! ```
//!
//! The sum of real numbers is pairwise: its error grows with the logarithm of their number.

use crate::{DType, ElementKind, Error, Result, description::real};
use bytemuck::Pod;
use half::f16;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Least and greatest value, sum, and what is not a number, which counts for none of these.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub enum Stats {
    /// Of integers.
    Ints {
        /// The least and the greatest one; none of none.
        range: Option<(i128, i128)>,
        /// Their sum.
        sum: i128,
    },
    /// Of real numbers, and of the absolute values of complex ones.
    Reals {
        /// The least and the greatest one; none of none.
        range: Option<(f64, f64)>,
        /// Their sum.
        sum: f64,
        /// How many are not a number.
        nans: u64,
    },
}

impl Stats {
    /// Those of nothing; truth values, texts and bytes have none.
    pub fn none(dtype: DType) -> Option<Stats> {
        match dtype.kind() {
            ElementKind::Signed | ElementKind::Unsigned => Some(Stats::Ints { range: None, sum: 0 }),
            ElementKind::Float | ElementKind::Complex => {
                Some(Stats::Reals { range: None, sum: 0.0, nans: 0 })
            }
            ElementKind::Bool | ElementKind::Text | ElementKind::Bytes => None,
        }
    }

    /// Of both together; none where they are of two kinds.
    pub fn joined(self, other: Stats) -> Option<Stats> {
        match (self, other) {
            (Stats::Ints { range: a, sum: s }, Stats::Ints { range: b, sum: t }) => Some(Stats::Ints {
                range: wider(a, b, |a, b| (a.0.min(b.0), a.1.max(b.1))),
                sum: s.saturating_add(t),
            }),
            (Stats::Reals { range: a, sum: s, nans: m }, Stats::Reals { range: b, sum: t, nans: n }) => {
                let range = wider(a, b, |a, b| (a.0.min(b.0), a.1.max(b.1)));
                Some(Stats::Reals { range, sum: s + t, nans: m.saturating_add(n) })
            }
            _ => None,
        }
    }

    /// The mean of so many elements, those that are not numbers among them; none of none.
    pub fn mean(&self, elements: u64) -> Option<f64> {
        let (sum, nans) = match self {
            Stats::Ints { sum, .. } => (*sum as f64, 0),
            Stats::Reals { sum, nans, .. } => (*sum, *nans),
        };
        let counted = elements.saturating_sub(nans);
        (counted > 0).then(|| sum / counted as f64)
    }

    /// How many are not a number.
    pub fn nans(&self) -> u64 {
        match self {
            Stats::Ints { .. } => 0,
            Stats::Reals { nans, .. } => *nans,
        }
    }
}

fn wider<T: Copy>(a: Option<T>, b: Option<T>, both: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(both(a, b)),
        (a, b) => a.or(b),
    }
}

/// Their JSON.
#[derive(Clone, Serialize, Deserialize)]
struct Plain {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<Value>,
    sum: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nans: Option<u64>,
}

impl From<Stats> for Plain {
    fn from(stats: Stats) -> Plain {
        fn plain<T: Copy>(range: Option<(T, T)>, sum: T, nans: Option<u64>, of: fn(T) -> Value) -> Plain {
            Plain { min: range.map(|r| of(r.0)), max: range.map(|r| of(r.1)), sum: of(sum), nans }
        }
        match stats {
            Stats::Ints { range, sum } => plain(range, sum, None, whole),
            Stats::Reals { range, sum, nans } => plain(range, sum, Some(nans), number),
        }
    }
}

impl TryFrom<Plain> for Stats {
    type Error = Error;

    fn try_from(p: Plain) -> Result<Stats> {
        let wrong = || Error::new(crate::Code::Corrupt, "these are no sums of an array");
        let pair = p.min.as_ref().zip(p.max.as_ref());
        match p.nans {
            Some(nans) => {
                let of = |v: &Value| real(v).ok_or_else(wrong);
                let range = pair.map(|(a, b)| Ok::<_, Error>((of(a)?, of(b)?))).transpose()?;
                Ok(Stats::Reals { range, sum: of(&p.sum)?, nans })
            }
            None => {
                let of = |v: &Value| integer(v).ok_or_else(wrong);
                let range = pair.map(|(a, b)| Ok::<_, Error>((of(a)?, of(b)?))).transpose()?;
                Ok(Stats::Ints { range, sum: of(&p.sum)? })
            }
        }
    }
}

/// As attributes are written.
fn number(v: f64) -> Value {
    match v {
        v if v.is_nan() => json!({"$": "nan"}),
        f64::INFINITY => json!({"$": "inf"}),
        f64::NEG_INFINITY => json!({"$": "-inf"}),
        v => json!(v),
    }
}

fn whole(v: i128) -> Value {
    match (i64::try_from(v), u64::try_from(v)) {
        (Ok(v), _) => json!(v),
        (_, Ok(v)) => json!(v),
        _ => json!({"$int": v.to_string()}),
    }
}

fn integer(v: &Value) -> Option<i128> {
    let text = || v.as_object()?.get("$int")?.as_str()?.parse().ok();
    v.as_i64().map(i128::from).or_else(|| v.as_u64().map(i128::from)).or_else(text)
}

/// Numbers that are added up side by side, which the processor does at once.
const LANES: usize = 8;
/// Bytes whose sum is one term of the pairwise sum.
const BLOCK: usize = 16 << 10;

/// Counts the values of an array whose bytes come in parts, in their order.
#[derive(Clone, Debug)]
pub struct Tally {
    dtype: DType,
    stats: Stats,
    /// Bytes of an element whose rest has not come.
    cut: Vec<u8>,
    /// Sums of 1, 2, 4, ... blocks that wait for another one of as many.
    sums: Vec<Option<f64>>,
}

impl Tally {
    /// Of nothing so far; none for what has no numbers.
    pub fn new(dtype: DType) -> Option<Tally> {
        Some(Tally { dtype, stats: Stats::none(dtype)?, cut: Vec::new(), sums: Vec::new() })
    }

    /// Takes the bytes that come next.
    pub fn take(&mut self, mut bytes: &[u8]) {
        let size = self.dtype.size();
        if !self.cut.is_empty() {
            let (rest, behind) = bytes.split_at((size - self.cut.len()).min(bytes.len()));
            self.cut.extend_from_slice(rest);
            bytes = behind;
            if self.cut.len() < size {
                return;
            }
            let element = std::mem::take(&mut self.cut);
            self.block(&element);
        }
        let (elements, cut) = bytes.split_at(bytes.len() / size * size);
        elements.chunks(BLOCK).for_each(|block| self.block(block));
        self.cut.extend_from_slice(cut);
    }

    /// What they come to.
    pub fn stats(&self) -> Stats {
        match self.stats {
            Stats::Reals { range, nans, .. } => {
                let sum = self.sums.iter().flatten().fold(0.0, |all, sum| all + sum);
                Stats::Reals { range, sum, nans }
            }
            ints => ints,
        }
    }

    /// Whole elements.
    fn block(&mut self, bytes: &[u8]) {
        let found = match self.dtype {
            DType::I8 => i8::count(bytes),
            DType::I16 => i16::count(bytes),
            DType::I32 => i32::count(bytes),
            DType::I64 => i64::count(bytes),
            DType::U8 => u8::count(bytes),
            DType::U16 => u16::count(bytes),
            DType::U32 => u32::count(bytes),
            DType::U64 => u64::count(bytes),
            DType::F16 => reals(bytes, |e: f16| e.to_f64()),
            DType::F32 => reals(bytes, |e: f32| f64::from(e)),
            DType::F64 => reals(bytes, |e: f64| e),
            DType::C64 => reals(bytes, |[re, im]: [f32; 2]| {
                let (re, im) = (f64::from(re), f64::from(im));
                (re * re + im * im).sqrt()
            }),
            DType::C128 => reals(bytes, |[re, im]: [f64; 2]| re.hypot(im)),
            DType::Bool | DType::Str | DType::Bytes => return,
        };
        if let Stats::Reals { sum, .. } = found {
            self.add(sum);
        }
        self.stats = self.stats.joined(found).unwrap_or(self.stats);
    }

    /// Adds the sum of a block: two of as many blocks become one.
    fn add(&mut self, mut sum: f64) {
        for waiting in &mut self.sums {
            match waiting.take() {
                Some(other) => sum += other,
                None => {
                    *waiting = Some(sum);
                    return;
                }
            }
        }
        self.sums.push(Some(sum));
    }
}

trait Whole: Pod {
    fn count(bytes: &[u8]) -> Stats;
}

macro_rules! whole {
    // A block of narrow ones is summed up in 64 bits.
    ($($int:ty: $wide:ty),*) => {$(
        impl Whole for $int {
            fn count(bytes: &[u8]) -> Stats {
                let (mut least, mut greatest, mut sum) = (<$int>::MAX, <$int>::MIN, 0 as $wide);
                for element in bytes.chunks_exact(size_of::<$int>()) {
                    let v: $int = bytemuck::pod_read_unaligned(element);
                    least = least.min(v);
                    greatest = greatest.max(v);
                    sum += <$wide>::from(v);
                }
                let range = (!bytes.is_empty()).then_some((least.into(), greatest.into()));
                Stats::Ints { range, sum: sum.into() }
            }
        }
    )*};
}

whole!(i8: i64, i16: i64, i32: i64, i64: i128, u8: i64, u16: i64, u32: i64, u64: i128);

fn reals<T: Pod>(bytes: &[u8], of: impl Fn(T) -> f64) -> Stats {
    let size = size_of::<T>();
    let (mut least, mut greatest) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    let (mut sum, mut nans) = ([0.0; LANES], [0u64; LANES]);
    let mut take = |lane: usize, element: &[u8]| {
        let v = of(bytemuck::pod_read_unaligned(element));
        let is_nan = v.is_nan();
        // What is not a number is not less and not greater.
        least[lane] = if v < least[lane] { v } else { least[lane] };
        greatest[lane] = if v > greatest[lane] { v } else { greatest[lane] };
        sum[lane] += if is_nan { 0.0 } else { v };
        nans[lane] += u64::from(is_nan);
    };
    let groups = bytes.chunks_exact(size * LANES);
    let rest = groups.remainder();
    for group in groups {
        for lane in 0..LANES {
            take(lane, &group[lane * size..(lane + 1) * size]);
        }
    }
    rest.chunks_exact(size).for_each(|element| take(0, element));
    let least = least.into_iter().fold(f64::INFINITY, f64::min);
    let greatest = greatest.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let pair = |i: usize| sum[i] + sum[i + 4];
    Stats::Reals {
        range: (least <= greatest).then_some((least, greatest)),
        sum: (pair(0) + pair(2)) + (pair(1) + pair(3)),
        nans: nans.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(dtype: DType, bytes: &[u8], part: usize) -> Stats {
        let mut tally = Tally::new(dtype).unwrap();
        bytes.chunks(part).for_each(|part| tally.take(part));
        tally.stats()
    }

    fn bytes_of(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn integers_are_exact_where_real_numbers_would_not_be() {
        let all: Vec<u8> = [u64::MAX, u64::MAX, 1].iter().flat_map(|v| v.to_le_bytes()).collect();
        let stats = tally(DType::U64, &all, 5);
        assert_eq!(
            stats,
            Stats::Ints { range: Some((1, u64::MAX.into())), sum: 2 * i128::from(u64::MAX) + 1 }
        );
        let text = serde_json::to_string(&stats).unwrap();
        assert_eq!(text, r#"{"min":1,"max":18446744073709551615,"sum":{"$int":"36893488147419103231"}}"#);
        assert_eq!(serde_json::from_str::<Stats>(&text).unwrap(), stats);
        assert_eq!(tally(DType::I8, &[0x80, 0x7f], 1), Stats::Ints { range: Some((-128, 127)), sum: -1 });
    }

    #[test]
    fn what_is_not_a_number_is_counted_and_counts_for_nothing() {
        let stats = tally(DType::F64, &bytes_of(&[f64::NAN, -1.5, 4.0, f64::NAN]), 32);
        assert_eq!(stats, Stats::Reals { range: Some((-1.5, 4.0)), sum: 2.5, nans: 2 });
        assert_eq!(stats.mean(4), Some(1.25));
        let none = tally(DType::F64, &bytes_of(&[f64::NAN]), 32);
        assert_eq!((none, none.mean(1)), (Stats::Reals { range: None, sum: 0.0, nans: 1 }, None));
        assert_eq!(serde_json::to_string(&none).unwrap(), r#"{"sum":0.0,"nans":1}"#);
        let endless = tally(DType::F64, &bytes_of(&[f64::INFINITY, 1.0]), 16);
        let back: Stats = serde_json::from_str(&serde_json::to_string(&endless).unwrap()).unwrap();
        assert_eq!(back, endless);
        let z: Vec<u8> = [3f32, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(tally(DType::C64, &z, 8), Stats::Reals { range: Some((5.0, 5.0)), sum: 5.0, nans: 0 });
        assert!(Tally::new(DType::Bool).is_none() && Tally::new(DType::Str).is_none());
    }

    #[test]
    fn the_sum_of_many_numbers_is_a_hundred_times_nearer_than_that_of_one_after_the_other() {
        let all = bytes_of(&vec![0.1; 3_000_000]);
        let Stats::Reals { sum, .. } = tally(DType::F64, &all, 1 << 20) else { panic!() };
        let naive: f64 = (0..3_000_000).fold(0.0, |sum, _| sum + 0.1);
        assert!((sum - 300_000.0).abs() < 1e-8 && (naive - 300_000.0).abs() > 1e-6, "{sum} {naive}");
    }

    proptest! {
        #[test]
        fn parts_of_any_length_come_to_what_the_whole_comes_to(
            values in proptest::collection::vec(-1000i32..1000, 1..200), part in 1usize..50, cut: prop::sample::Index
        ) {
            let all: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let least = i128::from(*values.iter().min().unwrap());
            let greatest = i128::from(*values.iter().max().unwrap());
            let sum = values.iter().map(|v| i128::from(*v)).sum();
            let whole = Stats::Ints { range: Some((least, greatest)), sum };
            prop_assert_eq!(tally(DType::I32, &all, part), whole);
            let (a, b) = all.split_at(cut.index(values.len()) * 4);
            let joined = tally(DType::I32, a, 64).joined(tally(DType::I32, b, 64));
            prop_assert_eq!(joined, Some(whole));
            let reals = bytes_of(&values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
            let Stats::Reals { range, sum, nans } = tally(DType::F64, &reals, part) else { panic!() };
            prop_assert_eq!((range, nans), (Some((least as f64, greatest as f64)), 0));
            prop_assert!((sum - values.iter().sum::<i32>() as f64).abs() < 1e-9);
        }
    }
}
