//! Checks arguments against a signature before anything is sent.
//!
//! The caller says what it has ([`Given`], one for each passed parameter); what comes back is
//! the scalars in the dtypes of the signature. Every error names the parameter, what was
//! expected and what was given.

use crate::signature::{Extent, Param, Signature, Way};
use crate::{ArrayMeta, DType, Error, Result, Scalar, Shape, counted};

/// What a caller has for a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    /// A scalar.
    Scalar(Scalar),
    /// Text.
    Str,
    /// Bytes.
    Bytes,
    /// An array.
    Array {
        /// What it is.
        meta: ArrayMeta,
        /// Whether it may be written.
        writable: bool,
    },
}

impl Given {
    fn describe(&self) -> String {
        match self {
            Given::Scalar(s) => format!("the scalar {s} of dtype {}", s.dtype()),
            Given::Str => "text".to_owned(),
            Given::Bytes => "bytes".to_owned(),
            Given::Array { meta, .. } => format!("an array {meta}"),
        }
    }
}

impl Signature {
    /// Checks what a caller passes. `given` is in the order of [`Signature::passed`]; each scalar
    /// is converted in place to the dtype of its parameter.
    pub fn check(&self, given: &mut [Given]) -> Result<()> {
        let expected = self.passed().count();
        if given.len() != expected {
            return Err(Error::bad(format!(
                "{} takes {expected} arguments and got {}; its signature is {self}",
                self.name(),
                given.len()
            )));
        }
        for (param, given) in self.passed().zip(given.iter_mut()) {
            check_kind(param, given).map_err(|e| self.at(param, e))?;
        }
        self.check_extents(given)
    }

    /// The parameters whose values go to the server, in order, and the paths of files that come.
    pub fn sent(&self) -> impl Iterator<Item = &Param> {
        self.params().iter().filter(|p| p.is_sent())
    }

    /// Checks that what goes says how large each array is that only comes: for calls whose results are made anew.
    pub fn check_result_sizes(&self) -> Result<()> {
        let lone = |name: &String| {
            self.sent().any(|p| {
                p.name == *name || p.extents.iter().flatten().any(|e| e.names.as_slice() == [name.clone()])
            })
        };
        for param in self.params().iter().filter(|p| !p.way.goes()) {
            let names = param.extents.iter().flatten().flat_map(|e| &e.names);
            if let Some(name) = names.into_iter().find(|name| !lone(name)) {
                return Err(Error::bad(format!(
                    "{}: nothing that is passed says how long {name} of the result `{param}` is; have the service take it: \
                     in {name}:i64",
                    self.name()
                )));
            }
        }
        Ok(())
    }

    /// Checks what goes, one value for each parameter of [`Signature::sent`], and adds the arrays that only come, as large
    /// as the others say: what [`Signature::check`] takes, and has taken.
    pub fn complete(&self, sent: &[Given]) -> Result<Vec<Given>> {
        let expected = self.sent().count();
        if sent.len() != expected {
            return Err(Error::bad(format!(
                "{} takes {expected} arguments and got {}; its signature is {self}",
                self.name(),
                sent.len()
            )));
        }
        let mut known = Extents::default();
        for (param, given) in self.sent().zip(sent) {
            match given {
                Given::Scalar(s) => {
                    if let Some(v) = s.as_i64() {
                        known.add(&param.name, v, &param.name);
                    }
                }
                Given::Array { meta, .. } => {
                    let extents = param.extents.iter().flatten().zip(meta.shape.extents());
                    for (extent, got) in extents.filter(|(e, _)| e.names.len() == 1) {
                        // What does not agree is found below.
                        let _ = known.agree(extent, *got, &param.name);
                    }
                }
                Given::Str | Given::Bytes => {}
            }
        }
        for (param, given) in self.sent().zip(sent) {
            check_kind(param, &mut { *given }).map_err(|e| self.at(param, e))?;
        }
        let mut sent = sent.iter();
        let mut given = Vec::with_capacity(expected);
        for param in self.passed() {
            given.push(match (param.way.goes(), &param.extents) {
                (false, Some(extents)) => {
                    let lengths: Result<Vec<u64>> =
                        extents.iter().map(|e| known.length(e).map_err(|e| self.at(param, e))).collect();
                    let meta = ArrayMeta {
                        dtype: param.dtype,
                        shape: Shape::new(&lengths?)?,
                        order: param.order.unwrap_or_default(),
                    };
                    Given::Array { meta, writable: true }
                }
                _ => *sent.next().ok_or_else(|| Error::internal("an argument is missing"))?,
            });
        }
        self.check(&mut given)?;
        Ok(given)
    }

    fn at(&self, param: &Param, e: Error) -> Error {
        e.within(format_args!("{}: parameter {} is {}", self.name(), param.name, param.kind()))
    }

    fn check_extents(&self, given: &[Given]) -> Result<()> {
        if given.iter().all(|g| !matches!(g, Given::Array { .. })) {
            return Ok(());
        }
        let mut known = Extents::default();
        for (param, given) in self.passed().zip(given) {
            if let Given::Scalar(s) = given
                && let Some(v) = s.as_i64()
            {
                known.add(&param.name, v, &param.name);
            }
        }
        // Two rounds: extents of one name determine it, products then only agree or not.
        for alone in [true, false] {
            for (param, given) in self.passed().zip(given) {
                let (Some(extents), Given::Array { meta, .. }) = (&param.extents, given) else { continue };
                for (axis, (extent, got)) in extents.iter().zip(meta.shape.extents()).enumerate() {
                    if (extent.names.len() == 1) == alone {
                        known
                            .agree(extent, *got, &param.name)
                            .map_err(|why| self.at(param, extent_error(meta, axis, extent, &why)))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn extent_error(meta: &ArrayMeta, axis: usize, extent: &Extent, why: &str) -> Error {
    let got = meta.shape.extents().get(axis).copied().unwrap_or_default();
    let elements = counted(got, "element");
    Error::bad(format!(
        "got {meta}: axis {axis} has {elements} where {extent} are wanted{why}; pass arrays that agree"
    ))
}

fn check_kind(param: &Param, given: &mut Given) -> Result<()> {
    match (&param.extents, &mut *given) {
        (None, Given::Str) if param.dtype == DType::Str => Ok(()),
        (None, Given::Bytes) if param.dtype == DType::Bytes => Ok(()),
        (None, Given::Scalar(s)) if !param.dtype.is_text() => {
            *s = s.convert(param.dtype)?;
            Ok(())
        }
        (Some(extents), Given::Array { meta, writable }) => {
            let (meta, writable) = (*meta, *writable);
            if meta.dtype != param.dtype {
                return Err(Error::bad(format!("got {meta}; convert its elements to {}", param.dtype)));
            }
            if meta.shape.rank() != extents.len() {
                return Err(Error::bad(format!(
                    "got {meta} with {} instead of {} dimensions; reshape it",
                    meta.shape.rank(),
                    extents.len()
                )));
            }
            if let Some(order) = param.order
                && order != meta.order
                && meta.shape.extents().iter().filter(|n| **n > 1).count() > 1
            {
                return Err(Error::bad(format!("got {meta}, which lies in the other order; copy it")));
            }
            if param.way.comes() && !writable {
                return Err(Error::bad(format!(
                    "got {meta}, which cannot be written, for a result ({}); pass a writable array",
                    param.way.word()
                )));
            }
            meta.bytes().map(drop)
        }
        (_, other) if param.is_file => Err(Error::bad(format!(
            "got {}; give the path of {}",
            other.describe(),
            if param.way == Way::In { "the file" } else { "the file that is to be written" }
        ))),
        (_, other) => Err(Error::bad(format!("got {}", other.describe()))),
    }
}

/// Extent names with their values and the parameter that gave them.
#[derive(Default)]
struct Extents<'a>(Vec<(&'a str, i64, &'a str)>);

impl<'a> Extents<'a> {
    fn add(&mut self, name: &'a str, value: i64, from: &'a str) {
        self.0.push((name, value, from));
    }

    fn find(&self, name: &str) -> Option<(i64, &'a str)> {
        self.0.iter().find(|k| k.0 == name).map(|k| (k.1, k.2))
    }

    /// How long it is.
    fn length(&self, extent: &Extent) -> Result<u64> {
        let mut product = i128::from(extent.factor);
        for name in &extent.names {
            let (value, _) =
                self.find(name).ok_or_else(|| Error::bad(format!("nothing determines {name}")))?;
            product = product.saturating_mul(value.into());
        }
        u64::try_from(product)
            .map_err(|_| Error::bad(format!("its extent {extent} is {product}; it cannot be")))
    }

    /// Makes an extent agree with what an array has, learning the value of a lone free name.
    fn agree(&mut self, extent: &'a Extent, got: u64, from: &'a str) -> Result<(), String> {
        // What most extents are costs no wide arithmetic.
        if let ([name], 1) = (extent.names.as_slice(), extent.factor) {
            return match self.find(name) {
                None => {
                    self.add(name, got as i64, from);
                    Ok(())
                }
                Some((value, _)) if u64::try_from(value) == Ok(got) => Ok(()),
                Some(_) => Err(self.disagreement(extent)),
            };
        }
        let mut product = i128::from(extent.factor);
        for name in &extent.names {
            match self.find(name) {
                Some((value, _)) => product = product.saturating_mul(value.into()),
                None if extent.names.len() == 1 => {
                    if !got.is_multiple_of(extent.factor) {
                        return Err(format!(", and {got} is no multiple of {}", extent.factor));
                    }
                    self.add(name, (got / extent.factor) as i64, from);
                    return Ok(());
                }
                None => return Err(format!(", and nothing determines {name}")),
            }
        }
        match product == i128::from(got) {
            true => Ok(()),
            false => Err(self.disagreement(extent)),
        }
    }

    #[cold]
    fn disagreement(&self, extent: &Extent) -> String {
        let known = extent.names.iter().filter_map(|name| self.find(name).map(|k| (name, k)));
        let said: Vec<String> =
            known.map(|(name, (value, by))| format!("{name} is {value} by {by}")).collect();
        match said.as_slice() {
            [] => String::new(),
            said => format!(", and {}", said.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;
    use proptest::prelude::*;

    fn array(dtype: DType, shape: &[u64]) -> Given {
        Given::Array { meta: ArrayMeta::new(dtype, Shape::new(shape).unwrap()), writable: true }
    }

    fn refusal(signature: &str, mut given: Vec<Given>) -> String {
        Signature::parse(signature).unwrap().check(&mut given).unwrap_err().text().to_owned()
    }

    const DGEMM: &str = "dgemm(in m:i32, in n:i32, in k:i32, in a:f64[m,k], in b:f64[k,n], inout c:f64[m,n])";

    #[test]
    fn arguments_that_fit_are_taken_and_scalars_converted() {
        let s = Signature::parse(DGEMM).unwrap();
        let int = |v: i64| Given::Scalar(Scalar::from(v));
        let f = |shape| array(DType::F64, shape);
        let mut given = vec![int(2), int(3), int(4), f(&[2, 4]), f(&[4, 3]), f(&[2, 3])];
        s.check(&mut given).unwrap();
        assert_eq!(given[0], Given::Scalar(Scalar::from(2i32)));
        let s = Signature::parse("f(in x:f64[n], in y:f64[2*n,3], out s:f64, in t:str)").unwrap();
        s.check(&mut [f(&[5]), f(&[10, 3]), Given::Str]).unwrap();
        s.check(&mut [f(&[0]), f(&[0, 3]), Given::Str]).unwrap();
    }

    #[test]
    fn arrays_that_only_come_are_as_large_as_what_goes_says() {
        let s = Signature::parse("f(in n:i32, in x:f64[m], out y:f32[2*n,m], inout z:f64[3], out s:f64)")
            .unwrap();
        s.check_result_sizes().unwrap();
        assert_eq!(s.sent().count(), 3);
        let given = s
            .complete(&[Given::Scalar(Scalar::from(4i64)), array(DType::F64, &[5]), array(DType::F64, &[3])])
            .unwrap();
        assert_eq!(given.len(), 4);
        assert_eq!(given[0], Given::Scalar(Scalar::from(4i32)));
        assert_eq!(given[2], array(DType::F32, &[8, 5]));
        let two = s.complete(&[Given::Scalar(Scalar::from(4i64)), array(DType::F64, &[5])]).unwrap_err();
        assert!(two.text().contains("takes 3 arguments and got 2"), "{two}");
        let less = [Given::Scalar(Scalar::from(-4i64)), array(DType::F64, &[5]), array(DType::F64, &[3])];
        assert!(s.complete(&less).unwrap_err().text().contains("is -8"));
        let wrong = [Given::Scalar(Scalar::from(4i64)), array(DType::F32, &[5]), array(DType::F64, &[3])];
        assert!(s.complete(&wrong).unwrap_err().text().contains("convert its elements"));
        let free = Signature::parse("g(in x:f64[n], out y:f64[k])").unwrap();
        let say = free.check_result_sizes().unwrap_err();
        assert!(say.text().contains("says how long k of the result `out y:f64[k]` is"), "{say}");
    }

    #[test]
    fn an_error_names_the_parameter_and_both_sides() {
        let f = |shape| array(DType::F64, shape);
        let say = refusal("axpy(in a:f64, in x:f64[n], inout y:f64[n])", vec![f(&[3]), f(&[3]), f(&[3])]);
        assert_eq!(say, "axpy: parameter a is f64: got an array f64(3,)");
        let axpy = "axpy(in x:f64[n], inout y:f64[n])";
        let say = refusal(axpy, vec![array(DType::F32, &[3]), f(&[3])]);
        assert_eq!(say, "axpy: parameter x is f64[n]: got f32(3,); convert its elements to f64");
        let say = refusal(axpy, vec![f(&[3]), f(&[4])]);
        let says = "axpy: parameter y is f64[n]: got f64(4,): axis 0 has 4 elements where n are wanted, and n is 3 by x; pass arrays that agree";
        assert_eq!(say, says);
        let say = refusal(axpy, vec![f(&[3]), f(&[3, 1])]);
        assert!(say.contains("2 instead of 1 dimensions"), "{say}");
        let say = refusal(axpy, vec![f(&[3])]);
        assert!(say.contains("takes 2 arguments and got 1"), "{say}");
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[3]).unwrap());
        let say = refusal(axpy, vec![f(&[3]), Given::Array { meta, writable: false }]);
        assert!(say.contains("cannot be written"), "{say}");
        let say = refusal("f(in n:i8)", vec![Given::Scalar(Scalar::from(300i64))]);
        assert!(say.contains("parameter n is i8: 300") && say.contains("out of range"), "{say}");
        let say = refusal("f(in n:i32, in x:f64[n])", vec![Given::Scalar(Scalar::from(-1i64)), f(&[1])]);
        assert!(say.contains("n is -1 by n"), "{say}");
        let say = refusal("f(in x:f64[2*n])", vec![f(&[3])]);
        assert!(say.contains("no multiple of 2"), "{say}");
    }

    proptest! {
        #[test]
        fn no_arguments_make_the_check_panic(
            factor in 0u64..5, extents in proptest::collection::vec(0u64..1 << 20, 0..3), n in any::<i64>(),
        ) {
            let s = Signature::of("f", &format!("in n:i64, in x:f64[{factor}], in y:f64[3*n*n*n,m], in z:f64[7*m]")).unwrap();
            let x = array(DType::F64, &extents);
            let _ = s.check(&mut [Given::Scalar(Scalar::from(n)), array(DType::F64, &[factor]), x, array(DType::F64, &[7])]);
        }
    }
}
