//! How the work of a call grows with what it is given, so that whoever distributes calls knows long ones before they ran.
//!
//! ```text
//! cost    = product { "+" product }
//! product = term { "*" term }          # as an extent: 2*n*m
//! term    = number | name | term "**" number
//! ```
//!
//! A name is an integer that the caller passes, or an extent of an array. The unit is the service's own: only
//! proportions count.
//!
//! ```
//! use forebay_types::Signature;
//! let lu = Signature::parse("lu(inout a:f64[n,n], out p:i32[n]) cost n**3 + 2*n").unwrap();
//! assert_eq!(lu.cost().unwrap().to_string(), "n*n*n + 2*n");
//! ```

use std::fmt;

use crate::signature::{Extent, Param, read_extent};
use crate::{Error, Given, Result};

/// Most products of a cost.
const PRODUCTS: usize = 16;
/// Longest text of a cost, in bytes.
const COST_BYTES: usize = 1_024;
/// What a cost is at most: what is more counts as this.
pub const MOST_COST: u64 = i64::MAX as u64;

/// What a call costs, in units of its service: a sum of products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost(Vec<Extent>);

impl Cost {
    /// Reads `2*n*m + n**3`; the names are those of these parameters.
    pub(crate) fn parse(text: &str, params: &[Param]) -> Result<Cost> {
        let text = text.trim();
        let within = |e: Error| {
            Error::bad(format!("the cost {text:?} is no sum of products such as n*n*n + 2*m: {}", e.text()))
        };
        let products: Vec<Extent> =
            text.split('+').map(read_extent).collect::<Result<_>>().map_err(within)?;
        let cost = Cost(products);
        if cost.0.len() > PRODUCTS || cost.to_string().len() > COST_BYTES {
            return Err(Error::bad(format!(
                "a cost has at most {PRODUCTS} products and {COST_BYTES} bytes; leave the small ones out"
            )));
        }
        if let Some(name) = cost.names().find(|name| !params.iter().any(|p| p.tells(name))) {
            let mut known: Vec<String> = Vec::new();
            for told in params.iter().flat_map(told_by) {
                if !known.contains(&told) {
                    known.push(told);
                }
            }
            return Err(Error::bad(format!(
                "the cost {text:?} names {name:?}, which is neither an integer that the caller passes nor an extent that \
                 stands alone; there is {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            )));
        }
        if cost.names().next().is_none() {
            return Err(Error::bad(format!(
                "the cost {text:?} is the same for all calls; name what it grows with, or leave it out"
            )));
        }
        Ok(cost)
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(|product| &product.names)
    }

    /// What a call costs, from the values of names: from 1 to [`MOST_COST`], whatever they are.
    fn value(&self, of: impl Fn(&str) -> i64) -> u64 {
        let product = |e: &Extent| {
            let names = e.names.iter().map(|name| i128::from(of(name)));
            names.fold(i128::from(e.factor), i128::saturating_mul)
        };
        let sum = self.0.iter().map(product).fold(0, i128::saturating_add);
        sum.clamp(1, MOST_COST.into()) as u64
    }

    /// What a call costs that is given this for those parameters, once that was checked.
    pub(crate) fn of<'p>(&self, passed: impl Iterator<Item = &'p Param> + Clone, given: &[Given]) -> u64 {
        self.value(|name| passed.clone().zip(given).find_map(|(p, given)| told(p, given, name)).unwrap_or(1))
    }
}

impl Param {
    /// Whether an argument for it tells the value of that name.
    fn tells(&self, name: &str) -> bool {
        told_by(self).any(|told| told == name)
    }
}

/// The names of which an argument for that parameter tells the values.
fn told_by(param: &Param) -> impl Iterator<Item = String> {
    let scalar = (param.is_integer_scalar() && param.way.goes()).then(|| param.name.clone());
    let alone = param.extents.iter().flatten().filter(|e| e.names.len() == 1).map(|e| e.names[0].clone());
    scalar.into_iter().chain(alone)
}

fn told(param: &Param, given: &Given, name: &str) -> Option<i64> {
    match given {
        Given::Scalar(scalar) if param.name == name => scalar.as_i64(),
        Given::Array { meta, .. } => {
            let mut axes = param.extents.iter().flatten().zip(meta.shape.extents());
            let axis = axes.find(|(e, _)| e.names.len() == 1 && e.names[0] == name);
            axis.map(|(e, got)| (got / e.factor.max(1)).min(MOST_COST) as i64)
        }
        _ => None,
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let products: Vec<String> = self.0.iter().map(Extent::to_string).collect();
        f.write_str(&products.join(" + "))
    }
}

#[cfg(test)]
mod tests {
    use crate::{ArrayMeta, DType, Given, MOST_COST, Scalar, Shape, Signature};
    use proptest::prelude::*;

    fn scalar(v: i64) -> Given {
        Given::Scalar(Scalar::from(v))
    }

    fn array(shape: &[u64]) -> Given {
        Given::Array { meta: ArrayMeta::new(DType::F64, Shape::new(shape).unwrap()), writable: true }
    }

    fn cost(text: &str, given: &[Given]) -> u64 {
        Signature::parse(text).unwrap().cost_of(given).unwrap()
    }

    #[test]
    fn a_cost_follows_from_what_the_caller_passes() {
        assert_eq!(cost("f(in n:i64) cost n*n*n", &[scalar(10)]), 1_000);
        assert_eq!(cost("f(in k:i32, in a:f64[2*n,m]) cost 2*n*m*k + m", &[scalar(3), array(&[8, 5])]), 125);
        assert_eq!(cost("f(out x:f64[n], in s:str) effects cost n", &[array(&[7]), Given::Str]), 7);
        assert!(Signature::parse("f(in n:i64)").unwrap().cost_of(&[scalar(10)]).is_none());
    }

    #[test]
    fn a_cost_that_leaves_its_bounds_is_the_nearest_one_within() {
        assert_eq!(cost("f(in n:i64) cost n", &[scalar(-3)]), 1);
        assert_eq!(cost("f(in n:i64) cost n", &[scalar(0)]), 1);
        assert_eq!(cost("f(in n:i64) cost n**8 + 9*n**8", &[scalar(i64::MAX)]), MOST_COST);
        assert_eq!(cost("f(in n:i64) cost n**7", &[scalar(i64::MIN)]), 1);
    }

    #[test]
    fn a_cost_that_cannot_be_is_refused() {
        for (text, says) in [
            ("f(in n:i64) cost", "sum of products"),
            ("f(in n:i64) cost n-1", "sum of products"),
            ("f(in n:i64) cost n/2", "sum of products"),
            ("f(in n:i64) cost n**0.5", "from 1 to 8"),
            ("f(in n:i64) cost n**9", "from 1 to 8"),
            ("f(in n:i64) cost 7", "the same for all calls"),
            ("f(in n:i64) cost k*n", "names \"k\""),
            ("f(in n:i64, in m:i64, in x:f64[n]) cost n*q", "there is n, m"),
            ("f(in x:f64) cost x", "there is none"),
            ("f(out n:i64) cost n", "names \"n\""),
            ("f(in n:i64, in x:f64[m]) cost x", "there is n, m"),
            ("f(in n:i64) costs n", "other than"),
            (
                "f(in n:i64) cost n + n + n + n + n + n + n + n + n + n + n + n + n + n + n + n + n",
                "16 products",
            ),
        ] {
            let e = Signature::parse(text).unwrap_err();
            assert!(e.text().contains(says), "{text}: {e}");
        }
    }

    proptest! {
        #[test]
        fn any_text_of_a_cost_is_read_or_refused_and_any_value_is_within_bounds(
            text in "[ 0-9nmk*+-]{0,40}", n in any::<i64>(), m in any::<i64>()
        ) {
            let Ok(s) = Signature::parse(&format!("f(in n:i64, in m:i64) cost {text}")) else { return Ok(()) };
            prop_assert_eq!(&Signature::parse(&s.to_string()).unwrap(), &s);
            let cost = s.cost_of(&[scalar(n), scalar(m)]).unwrap();
            prop_assert!((1..=MOST_COST).contains(&cost));
        }
    }
}
